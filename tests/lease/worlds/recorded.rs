//! What the plugin makes of each incident of the catalogue.

use std::collections::BTreeSet;

use kubectl_rancher_lease::LeaseDoctor;
use rancher_common::doctor::{Doctor as _, Prescription};
use rancher_common::finding::Diagnosis;
use rancher_common::report::{FailOn, judge};

use crate::catalogue::{self, Incident, Role, Treatment};

/// The codes of a diagnosis, sorted, each once.
pub(crate) fn codes(diagnosis: &Diagnosis) -> BTreeSet<&'static str> {
    diagnosis.findings.iter().map(|finding| finding.rule.code).collect()
}

fn treatment(prescription: &Prescription) -> Treatment {
    match prescription {
        Prescription::Plan(_) => Treatment::Plan,
        Prescription::NothingToDo(_) => Treatment::Nothing,
        Prescription::Refused { .. } => Treatment::Refused,
        Prescription::Wait(_) => Treatment::Wait,
    }
}

/// How what the plugin makes of an incident differs from what is expected.
fn differences(incident: &Incident) -> Vec<String> {
    let (question, snapshot) = (&incident.world.question, incident.world.snapshot());
    let diagnosis = LeaseDoctor.diagnose(question, &snapshot);
    let plan = LeaseDoctor.plan(question, &snapshot, &diagnosis);
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
    if treatment(&plan) != incident.treatment {
        differences.push(format!("{plan:?}, expected {:?}", incident.treatment));
    }
    let fixable = diagnosis.findings.iter().any(|finding| finding.fixable);
    if matches!(plan, Prescription::Plan(_)) != fixable {
        differences.push(format!("fixable is {fixable}, but fix says {plan:?}"));
    }
    differences
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

#[test]
fn diagnoses_are_as_expected() {
    // All of them at once, so that one run shows what a change of the rules does.
    let problems: Vec<String> = catalogue::all()
        .iter()
        .flat_map(|incident| {
            differences(incident).into_iter().map(|text| format!("{}: {} {text}", incident.name, incident.story))
        })
        .collect();
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n\n"));
}
