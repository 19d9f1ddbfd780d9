//! What the plugin makes of each incident of the catalogue.

use std::collections::BTreeSet;
use std::path::Path;

use kubectl_rancher_ghosts::GhostsDoctor;
use rancher_common::doctor::{Doctor as _, Prescription};
use rancher_common::finding::Diagnosis;
use rancher_common::report::{FailOn, judge};
use rancher_common::snapshot::{Snapshot, save};
use rancher_testkit::Plugin;

use crate::catalogue::{self, Incident, Role, Treatment};
use crate::world::World;

/// The codes of a diagnosis, sorted, each once.
pub(crate) fn codes(diagnosis: &Diagnosis) -> BTreeSet<&'static str> {
    diagnosis.findings.iter().map(|finding| finding.rule.code).collect()
}

/// What a world's question finds in a snapshot, and what is prescribed.
pub(crate) fn look(world: &World, snapshot: &Snapshot) -> (Diagnosis, Prescription) {
    let diagnosis = GhostsDoctor.diagnose(&world.question, snapshot);
    let plan = GhostsDoctor.plan(&world.question, snapshot, &diagnosis);
    (diagnosis, plan)
}

/// How what the plugin makes of an incident differs from what is expected.
fn differences(incident: &Incident, snapshot: &Snapshot) -> Vec<String> {
    let (diagnosis, plan) = look(&incident.world, snapshot);
    let mut differences = Vec::new();
    let found: Vec<&str> = codes(&diagnosis).into_iter().collect();
    if found != incident.codes {
        let messages: Vec<String> =
            diagnosis.findings.iter().map(|f| format!("  {} {}", f.rule.code, f.message)).collect();
        differences.push(format!("codes {found:?}, expected {:?}:\n{}", incident.codes, messages.join("\n")));
    }
    let exit = judge(&diagnosis, FailOn::Error).1.code();
    if exit != incident.exit_code {
        differences.push(format!("exit code {exit}, expected {}", incident.exit_code));
    }
    differences.extend(incident.treatment.differs(&plan));
    let named = incident.world.question.machine().is_some();
    let fixable = diagnosis.findings.iter().any(|finding| finding.fixable);
    if named && matches!(plan, Prescription::Plan(_)) != fixable {
        differences.push(format!("fixable is {fixable}, but fix says {plan:?}"));
    }
    differences
}

/// What a snapshot that was saved must find too, and what is found by looking at as little as possible.
#[test]
fn diagnoses_are_as_expected() {
    // All of them at once, so that one run shows what a change of the rules does.
    let mut problems = Vec::new();
    for incident in catalogue::all() {
        for (way, snapshot) in [("", incident.world.snapshot()), (" (saved)", incident.world.thorough_snapshot())] {
            let found = differences(incident, &snapshot);
            problems.extend(found.into_iter().map(|text| format!("{}{way}: {} {text}", incident.name, incident.story)));
        }
    }
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n\n"));
}

#[test]
fn the_catalogue_is_consistent() {
    let mut names = BTreeSet::new();
    for incident in catalogue::all() {
        assert!(names.insert(incident.name), "{} is there twice", incident.name);
        assert!(incident.codes.is_sorted(), "{}", incident.name);
        let reported = incident.codes.contains(&incident.code().as_str());
        assert_eq!(reported, incident.role == Role::Triggers, "{}", incident.name);
    }
}

/// A command that a finding offers leads to a plan.
#[test]
fn what_is_offered_can_be_done() {
    let mut offered = 0;
    for incident in catalogue::all() {
        let (diagnosis, _) = look(&incident.world, &incident.world.snapshot());
        for finding in diagnosis.findings.iter().filter(|finding| finding.fixable) {
            let command = &finding.remediation.as_ref().expect("a command").argv;
            assert_eq!(command[..2], ["SELF", "fix"], "{}", incident.name);
            let mut world = incident.world.clone();
            world.ask(&command[2]);
            if let [flag, namespace] = &command[3..] {
                assert_eq!(flag, "--namespace", "{}", incident.name);
                world.question.namespace = Some(namespace.clone());
            }
            let (_, plan) = look(&world, &world.snapshot());
            assert!(matches!(plan, Prescription::Plan(_)), "{}: {command:?} {plan:?}", incident.name);
            offered += 1;
        }
    }
    assert!(offered > 20, "{offered}");
}

/// `cargo test --workspace --test worlds -- --ignored record` writes the files anew; the reports beside them are
/// those of the suite `cli`.
#[test]
#[ignore = "writes tests/incidents/ghosts-*"]
fn record() {
    for incident in catalogue::all().iter().filter(|incident| incident.recorded) {
        let path = path_of(incident);
        if path.exists() {
            std::fs::remove_dir_all(&path).expect("removed");
        }
        save(&incident.world.thorough_snapshot(), "rancher-ghosts", &path).expect("saved");
        let (diagnosis, _) = look(&incident.world, &incident.world.thorough_snapshot());
        let mut codes: Vec<&str> = diagnosis.findings.iter().map(|finding| finding.rule.code).collect();
        codes.sort_unstable();
        std::fs::write(path.join("expected-codes"), codes.join("\n") + "\n").expect("written");
        std::fs::write(path.join("arguments"), arguments(&incident.world).join("\n") + "\n").expect("written");
    }
}

fn path_of(incident: &Incident) -> std::path::PathBuf {
    Plugin::incidents_directory().join(format!("ghosts-{}", incident.name))
}

/// The question of a world as words of the command line.
fn arguments(world: &World) -> Vec<String> {
    let mut words = vec!["check".to_owned()];
    words.extend(world.question.target.as_ref().map(ToString::to_string));
    words.extend(world.question.namespace.iter().flat_map(|namespace| ["-n".to_owned(), namespace.clone()]));
    words
}

/// What is recorded is what the catalogue says now.
#[test]
fn recordings_are_of_the_catalogue() {
    let recorded: BTreeSet<std::path::PathBuf> =
        catalogue::all().iter().filter(|incident| incident.recorded).map(path_of).collect();
    for incident in catalogue::all().iter().filter(|incident| incident.recorded) {
        let saved = rancher_common::snapshot::load(&path_of(incident))
            .unwrap_or_else(|error| panic!("{error}: run the test `record`"));
        assert_eq!(saved, incident.world.thorough_snapshot(), "{}: run the test `record`", incident.name);
    }
    let ours = |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ghosts-"));
    let there: BTreeSet<std::path::PathBuf> = std::fs::read_dir(Plugin::incidents_directory())
        .expect("incidents")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| ours(path))
        .collect();
    assert_eq!(there, recorded);
}

/// Every guard that refuses is there for a reason that is told.
#[test]
fn refusals_say_what_to_do_instead() {
    for incident in catalogue::all() {
        if let (Treatment::Refused(_), Prescription::Refused { why, .. }) =
            (incident.treatment, look(&incident.world, &incident.world.snapshot()).1)
        {
            assert!(!why.is_empty(), "{}", incident.name);
        }
    }
}
