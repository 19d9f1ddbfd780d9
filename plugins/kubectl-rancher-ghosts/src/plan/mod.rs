//! What to do about a machine: an ordinary deletion, the one thing a step of a deletion needs, or a refusal.

pub(crate) mod credentials;
pub(crate) mod guards;
pub(crate) mod management_nodes;
pub(crate) mod orphans;
pub(crate) mod picture;
pub(crate) mod registration;
pub(crate) mod removal;
pub(crate) mod reused;
pub(crate) mod unblock;

use rancher_common::doctor::Prescription;
use rancher_common::finding::{Diagnosis, Finding, Rule, access, shared};
use rancher_common::plan::{Action, Plan};
use rancher_common::snapshot::Snapshot;

use crate::Question;
use crate::diagnose::Scene;
use crate::findings;
use crate::model::fleet::{Cluster, Fleet, Picture};

/// Why nothing is done, and what to do instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub why: String,
    pub instead: Vec<String>,
}

impl Refusal {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), instead: Vec::new() }
    }

    pub(crate) fn instead(mut self, line: impl Into<String>) -> Self {
        self.instead.push(line.into());
        self
    }
}

/// What is done, in order, and what is waited for afterwards.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Remedy {
    pub actions: Vec<Action>,
    pub then: String,
}

/// The remedy for one finding about a machine; `None` for those that `fix` has none for.
fn remedy(scene: &Scene<'_>, cluster: &Cluster, picture: &Picture, rule: &Rule) -> Option<Result<Remedy, Refusal>> {
    if rule == &findings::NEVER_JOINED || rule == &findings::NODE_VANISHED {
        Some(removal::remedy(scene, cluster, picture, rule))
    } else if rule == &findings::STUCK_DELETING {
        Some(unblock::remedy(scene, cluster, picture))
    } else if rule == &findings::NODE_CLAIMED_TWICE {
        Some(reused::remedy(scene, cluster, picture))
    } else {
        None
    }
}

/// Completes a finding about a machine: either `fix` can repair it, or why not and what to do.
pub(crate) fn target_of(scene: &Scene<'_>, cluster: &Cluster, picture: &Picture, finding: Finding) -> Finding {
    // In a fleet only the suspects were read, and the guards need the whole cluster: the plan itself will tell.
    let whole = cluster.machines.iter().all(|other| other.whole().is_some());
    let command = ["SELF".to_owned(), "fix".to_owned(), format!("{}/{}", cluster.name, picture.row.name)];
    match remedy(scene, cluster, picture, finding.rule) {
        Some(Ok(_)) => finding.fixable().next_command(command),
        Some(Err(_)) if !whole || scene.question.target.is_none() => {
            let look = ["SELF".to_owned(), "check".to_owned(), format!("{}/{}", cluster.name, picture.row.name)];
            finding
                .advice("Look at it alone: only then everything is read that its removal depends on.")
                .next_command(look)
        }
        Some(Err(refusal)) => {
            let instead = if refusal.instead.is_empty() {
                String::new()
            } else {
                format!(". Instead: {}", refusal.instead.join("; "))
            };
            finding.advice(format!("fix refuses: {}{instead}.", refusal.why))
        }
        None => finding,
    }
}

/// Plans.
pub(crate) fn plan(question: &Question, snapshot: &Snapshot, diagnosis: &Diagnosis) -> Prescription {
    let fleet = Fleet::of(question, snapshot);
    let scene = Scene { question, snapshot, fleet: &fleet };
    let refused = |refusal: Refusal| Prescription::Refused { why: refusal.why, instead: refusal.instead };
    let targets = fleet.targets(question);
    let (Some(target), Some(name)) = (&question.target, question.machine()) else {
        return refused(name_one(question, diagnosis));
    };
    if targets.len() > 1 {
        return refused(name_one(question, diagnosis));
    }
    if let Some(unread) = diagnosis.findings.iter().find(|finding| finding.rule == &shared::CANNOT_READ) {
        return refused(Refusal::new(format!("not all that was needed could be read: {}", unread.message)));
    }
    let Some(cluster_uid) = access::cluster_uid(snapshot) else {
        return refused(Refusal::new("the UID of namespace kube-system was not read, under which backups are kept"));
    };
    let finish = |remedy: Remedy, rule: &Rule| {
        Prescription::Plan(Plan {
            tool: "rancher-ghosts".to_owned(),
            cluster_uid: cluster_uid.clone(),
            repairs: vec![rule.code.to_owned()],
            actions: remedy.actions,
            then: remedy.then,
        })
    };
    let machine = targets.first().and_then(|cluster| Some((*cluster, cluster.machine(name)?)));
    let Some((cluster, picture)) = machine else {
        let copy = || management_nodes::remedy(&scene, &target.cluster, name);
        return match orphans::remedy(&scene, name).or_else(|| credentials::remedy(&scene)).or_else(copy) {
            Some(Ok((remedy, rule))) => finish(remedy, rule),
            Some(Err(refusal)) => refused(refusal),
            None => Prescription::NothingToDo(format!("there is no {name} of cluster {} any more", target.cluster)),
        };
    };
    let about = |finding: &&Finding| finding.subject.name == name && finding.subject.kind == "Machine";
    let mut first = None;
    for finding in diagnosis.findings.iter().filter(about) {
        match remedy(&scene, cluster, picture, finding.rule) {
            Some(Ok(remedy)) => return finish(remedy, finding.rule),
            Some(Err(refusal)) => {
                first.get_or_insert(refusal);
            }
            None => {
                first.get_or_insert(Refusal::new(format!(
                    "{} is no ghost, and what is wrong with it is repaired elsewhere ({}: {})",
                    name, finding.rule.code, finding.message
                )));
            }
        }
    }
    match first {
        Some(refusal) => refused(refusal),
        None => well(question, &scene, cluster, picture),
    }
}

/// A machine without a finding: well, or too young to judge.
fn well(question: &Question, scene: &Scene<'_>, cluster: &Cluster, picture: &Picture) -> Prescription {
    let name = &picture.row.name;
    match picture.whole() {
        Some(machine) if machine.deleting() => {
            if let Some(refusal) = unblock::paused(cluster, machine) {
                return Prescription::Refused { why: refusal.why, instead: refusal.instead };
            }
            Prescription::Refused {
                why: format!("{name} is being deleted and has not stood still for long enough"),
                instead: vec![format!(
                    "wait, or call it stuck earlier: --grace (now {})",
                    rancher_common::time::human(question.grace)
                )],
            }
        }
        Some(machine) if machine.node.is_none() => Prescription::Refused {
            why: format!(
                "{name} may still join: {}",
                crate::diagnose::age(scene.snapshot, machine).map_or_else(
                    || "its age is not known".to_owned(),
                    |age| format!(
                        "it was registered {} ago, or its agent answers, or it has no plan yet",
                        rancher_common::time::human(age)
                    )
                )
            ),
            instead: vec![format!(
                "wait, or call it a ghost earlier: --grace (now {})",
                rancher_common::time::human(question.grace)
            )],
        },
        _ => Prescription::NothingToDo(format!("{name} has a node and is as it should be")),
    }
}

/// A plan is for one machine. A ghost cluster is taken away by its machines, one after the other, which are named; what is
/// left then is said.
fn name_one(question: &Question, diagnosis: &Diagnosis) -> Refusal {
    let ghost =
        diagnosis.findings.iter().find(|finding| finding.rule == &findings::GHOST_CLUSTER && question.target.is_some());
    let mut refusal = Refusal::new(ghost.map_or_else(
        || "fix works on one machine: name it as CLUSTER/MACHINE".to_owned(),
        |ghost| format!("{}; fix takes machines away one by one, and no cluster", ghost.message),
    ));
    for finding in &diagnosis.findings {
        if let Some(remediation) = finding.remediation.as_ref().filter(|r| r.argv.first().is_some_and(|w| w == "SELF"))
        {
            let target = remediation.argv.get(2).map(String::as_str).unwrap_or_default();
            refusal = refusal.instead(format!("{}: {target}", finding.rule.code));
        }
    }
    match ghost.and_then(|ghost| ghost.remediation.as_ref()) {
        Some(then) => refusal.instead(then.text.clone()),
        None => refusal,
    }
}
