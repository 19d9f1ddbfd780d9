//! The lease plugin's judgement, without a cluster: incidents and their look-alikes, in memory and as files under
//! `tests/incidents/` of the repository, and properties that hold for every snapshot.
//!
//! The files are made by `cargo test -p kubectl-rancher-lease --test incidents -- --ignored regenerate`.

mod build;
mod cases;
mod properties;
mod verifying;

use std::path::PathBuf;

use cases::{Case, Expect};
use kubectl_rancher_lease::{LeaseDoctor, Question};
use rancher_common::doctor::{Doctor as _, Prescription};
use rancher_common::finding::{Diagnosis, Severity};
use rancher_common::kinds::{LEASES, PODS};
use rancher_common::snapshot::{self, Right, Snapshot};

fn diagnose(snapshot: &Snapshot) -> Diagnosis {
    LeaseDoctor.diagnose(&Question::default(), snapshot)
}

fn prescribe(snapshot: &Snapshot) -> Prescription {
    LeaseDoctor.plan(&Question::default(), snapshot, &diagnose(snapshot))
}

fn codes(diagnosis: &Diagnosis) -> Vec<&'static str> {
    let mut codes: Vec<&str> = diagnosis.findings.iter().map(|finding| finding.rule.code).collect();
    codes.sort_unstable();
    codes
}

fn kind(prescription: &Prescription) -> Expect {
    match prescription {
        Prescription::Plan(plan) if plan.actions.iter().any(|a| a.resource == LEASES) => Expect::DeleteLease,
        Prescription::Plan(plan) => {
            assert!(plan.actions.iter().all(|action| action.resource == PODS), "{plan:?}");
            Expect::DeletePod
        }
        Prescription::NothingToDo(_) => Expect::NothingToDo,
        Prescription::Refused { .. } => Expect::Refused,
        Prescription::Wait(_) => Expect::Wait,
    }
}

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/incidents")
}

#[test]
fn every_incident_has_its_codes_and_its_plan() {
    let mut wrong = Vec::new();
    for case in cases::all() {
        let diagnosis = diagnose(&case.snapshot);
        let found = codes(&diagnosis);
        let plan = LeaseDoctor.plan(&Question::default(), &case.snapshot, &diagnosis);
        if found != case.codes || kind(&plan) != case.plan {
            wrong.push(format!(
                "{}: {found:?} for {:?}, {:?} for {:?}\n{:#?}\n{plan:#?}",
                case.name,
                case.codes,
                kind(&plan),
                case.plan,
                diagnosis.findings.iter().map(|f| (f.rule.code, &f.message)).collect::<Vec<_>>()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn every_code_has_an_incident_and_each_incident_its_own_name() {
    let cases = cases::all();
    let mut names: Vec<&str> = cases.iter().map(|case| case.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), cases.len());
    // This plugin is asked for no object by name, so it never misses one.
    let shared = rancher_common::finding::shared::ALL.into_iter().filter(|rule| rule.code != "RX006");
    for rule in kubectl_rancher_lease::RULES.into_iter().chain(shared) {
        assert!(cases.iter().any(|case| case.codes.contains(&rule.code)), "{} has no incident", rule.code);
    }
}

#[test]
fn incidents_on_file_are_judged_as_they_say() {
    let mut seen = 0;
    for entry in std::fs::read_dir(directory()).expect("tests/incidents") {
        let path = entry.expect("an entry").path();
        let Ok(expected) = std::fs::read_to_string(path.join("expected-codes")) else {
            continue;
        };
        // Incidents of the other plugins lie beside ours.
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if !["rl", "rx", "healthy"].iter().any(|start| name.starts_with(start)) {
            continue;
        }
        let snapshot = snapshot::load(&path).expect("a snapshot");
        let found = codes(&diagnose(&snapshot));
        assert_eq!(found, expected.split_whitespace().collect::<Vec<_>>(), "{}", path.display());
        seen += 1;
    }
    assert_eq!(seen, cases::all().len(), "run the test `regenerate`");
}

#[test]
#[ignore = "writes the incidents' files"]
fn regenerate() {
    for Case { name, codes, snapshot, .. } in cases::all() {
        let path = directory().join(name);
        if path.exists() {
            std::fs::remove_dir_all(&path).expect("a directory to be removed");
        }
        snapshot::save(&snapshot, "rancher-lease", &path).expect("a snapshot");
        let text: String = codes.iter().map(|code| format!("{code}\n")).collect();
        std::fs::write(path.join("expected-codes"), text).expect("the codes");
    }
}

/// Whether a right that was given covers one that is needed.
fn covers(given: &Right, needed: &Right) -> bool {
    given.verb == needed.verb
        && given.group == needed.group
        && given.resource == needed.resource
        && (given.namespace.is_none() || given.namespace == needed.namespace)
        && (given.name.is_none() || given.name == needed.name)
}

#[test]
fn everything_that_is_read_or_written_is_named_as_a_right() {
    let question = Question::default();
    let rights = LeaseDoctor.rights(&question);
    let repairs = LeaseDoctor.repair_rights(&question);
    for case in cases::all() {
        // There the namespace comes from the cluster; with --rancher-namespace it is in the rights.
        if case.name == "rx005-lookalike-another-namespace" {
            continue;
        }
        for need in LeaseDoctor.needs(&question, &case.snapshot) {
            let right = need.want.right();
            let found = rights.iter().find(|(given, ..)| covers(given, &right));
            assert!(found.is_some(), "{}: {right}", case.name);
            assert!(
                !need.required || rights.iter().any(|(given, _, required)| *required && covers(given, &right)),
                "{right}"
            );
        }
        if let Prescription::Plan(plan) = prescribe(&case.snapshot) {
            for action in &plan.actions {
                assert!(repairs.iter().any(|(given, _)| covers(given, &action.right())), "{}", action.right());
            }
        }
    }
}

#[test]
fn a_healthy_rancher_takes_one_round_of_few_readings() {
    let healthy = build::World::healthy().edit(|w| w.other_leases = Some((vec![], None))).snapshot();
    let question = Question::default();
    let first = LeaseDoctor.needs(&question, &Snapshot::new(healthy.origin.clone(), healthy.as_of));
    assert!(first.len() <= 7, "{first:#?}");
    let open: Vec<_> =
        LeaseDoctor.needs(&question, &healthy).into_iter().filter(|need| !healthy.answers(need)).collect();
    assert!(open.is_empty(), "{open:#?}");
}

#[test]
fn nothing_is_open_in_an_incident_that_the_verdict_depends_on() {
    for case in cases::all() {
        let open: Vec<_> = LeaseDoctor
            .needs(&Question::default(), &case.snapshot)
            .into_iter()
            .filter(|need| need.required && !case.snapshot.answers(need))
            .collect();
        assert!(open.is_empty(), "{}: {open:#?}", case.name);
    }
}

#[test]
fn plans_name_their_facts() {
    for case in cases::all() {
        if let Prescription::Plan(plan) = prescribe(&case.snapshot) {
            let [action] = plan.actions.as_slice() else { panic!("{}: one action", case.name) };
            assert!(action.object.uid.is_some(), "{}", case.name);
            let has = |pointer: &str| action.facts.iter().any(|fact| fact.pointer == pointer && !fact.value.is_null());
            if case.plan == Expect::DeleteLease {
                for pointer in
                    ["/metadata/uid", "/spec/holderIdentity", "/spec/renewTime", "/spec/leaseDurationSeconds"]
                {
                    assert!(has(pointer), "{}: {pointer}", case.name);
                }
            } else {
                assert!(has("/metadata/uid") && has("/status/containerStatuses/0/containerID"), "{}", case.name);
            }
        }
    }
}

#[test]
fn wrong_targets_are_marked() {
    for case in cases::all() {
        let wrong = matches!(case.name, "rx002-downstream" | "rx005-no-rancher");
        assert_eq!(diagnose(&case.snapshot).wrong_target, wrong, "{}", case.name);
    }
}

#[test]
fn causes_stand_before_consequences() {
    for case in cases::all() {
        let diagnosis = diagnose(&case.snapshot);
        let order: Vec<&str> = diagnosis.findings.iter().map(|finding| finding.rule.code).collect();
        for (index, finding) in diagnosis.findings.iter().enumerate() {
            for cause in &finding.caused_by {
                assert!(order[..index].contains(cause), "{}: {cause} before {}", case.name, finding.rule.code);
            }
        }
    }
}

#[test]
fn a_required_reading_that_fails_is_never_green() {
    let base = build::World::healthy().snapshot();
    for reading in base.readings.iter().filter(|reading| reading.required) {
        let forbidden = build::World::healthy().edit(|w| w.forbidden = vec![reading.want.clone()]).snapshot();
        let mut missing = base.clone();
        missing.readings.retain(|other| other.want != reading.want);
        for snapshot in [forbidden, missing] {
            let diagnosis = diagnose(&snapshot);
            assert!(diagnosis.findings.iter().any(|f| f.severity == Severity::Unknown), "{}", reading.want);
            assert!(!matches!(prescribe(&snapshot), Prescription::Plan(_) | Prescription::NothingToDo(_)));
        }
    }
}
