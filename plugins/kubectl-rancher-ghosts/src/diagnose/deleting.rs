//! RG103: deletions that stand still, at one of Cluster API's steps.

use rancher_common::finding::{Evidence, Finding};
use rancher_common::rancher::MACHINES;
use rancher_common::snapshot::{Content, Snapshot, Want};
use rancher_common::time::{Timestamp, between, human};

use super::{Judged, Scene};
use crate::Question;
use crate::findings;
use crate::model::fleet::{Cluster, Picture};
use crate::model::machine::{Machine, Role, Step};
use crate::model::objects::{Part, PlanSecret};
use crate::model::reading::Seen;
use crate::plan::target_of;

/// Where a deletion stands: what Cluster API says, or, where it does not say, which objects are left.
pub(crate) fn step(picture: &Picture, machine: &Machine) -> Step {
    match machine.step() {
        Some(Step::Unknown) | None => match (&picture.infra, &picture.bootstrap) {
            (Ok(Some(_)), _) => Step::Infra,
            (Ok(None), Ok(Some(_))) => Step::Bootstrap,
            (Ok(None), Ok(None)) => Step::NodeDeletion,
            _ => Step::Unknown,
        },
        Some(step) => step,
    }
}

/// Since when it stands there, where that is known: Cluster API asks for the deletion of infra machine and RKEBootstrap as
/// their steps begin.
pub(crate) fn step_since(picture: &Picture, machine: &Machine, step: Step) -> Option<Timestamp> {
    let asked = |part: &Seen<Box<Part>>| part.as_ref().ok()?.as_ref()?.metadata.deletion_timestamp;
    match step {
        Step::Infra => asked(&picture.infra),
        Step::Bootstrap => asked(&picture.bootstrap),
        _ => None,
    }
    .or_else(|| machine.step_began())
}

/// Whether only a second look tells if this deletion moves.
pub(crate) fn may_be_slow(question: &Question, snapshot: &Snapshot, machine: &Machine) -> bool {
    machine.metadata.deletion_timestamp.is_some_and(|since| between(since, snapshot.as_of) >= question.grace)
        && matches!(machine.step(), Some(Step::Drain | Step::Volumes))
}

/// What two looks at a drain or a detach told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Looks {
    /// What Cluster API says about it changed: pods go one after the other.
    Moves,
    Stands,
    /// The second look was not taken, or failed.
    Once,
}

/// Compares the looks at a deletion.
pub(crate) fn looks(snapshot: &Snapshot, machine: &Machine) -> Looks {
    let want = Want::get(MACHINES, machine.metadata.namespace.as_deref(), machine.name());
    let said: Vec<(Option<Step>, String)> = snapshot
        .readings_of(&want)
        .filter_map(|reading| match &reading.content {
            Content::Objects(objects) => objects.first().and_then(Machine::read),
            _ => None,
        })
        .filter(|look| look.uid() == machine.uid())
        .map(|look| (look.step(), look.step_text().unwrap_or_default().to_owned()))
        .collect();
    match &said[..] {
        [] | [_] => Looks::Once,
        [first, .., last] if first != last => Looks::Moves,
        _ => Looks::Stands,
    }
}

/// A machine that is being deleted.
pub(crate) fn judge(scene: &Scene<'_>, cluster: &Cluster, picture: &Picture, machine: &Machine) -> Judged {
    let since = machine.metadata.deletion_timestamp.unwrap_or(scene.snapshot.as_of);
    let waited = between(since, scene.snapshot.as_of);
    let step = step(picture, machine);
    let state = format!("deleting: {step}");
    let text = machine.step_text().unwrap_or_default();
    let at_step_since = step_since(picture, machine, step);
    if step == Step::Paused || waited < scene.question.grace {
        return Judged::state(state, format!("for {}", human(waited)));
    }
    if matches!(step, Step::Drain | Step::Volumes) && looks(scene.snapshot, machine) == Looks::Moves {
        return Judged::state(state, format!("slow, but moving: {}", text.lines().next().unwrap_or_default()));
    }
    let mut evidence = vec![
        Evidence::new("deleted", format!("{} ago", human(waited))).from("Machine .metadata.deletionTimestamp"),
        Evidence::new("step", step.to_string()).from("Machine condition Deleting, or its v1beta1 counterpart"),
    ];
    if let Some(since) = at_step_since {
        evidence.push(Evidence::new("since", human(between(since, scene.snapshot.as_of))));
    }
    if !text.is_empty() {
        evidence.extend(text.lines().take(4).map(|line| Evidence::new("capi", line.to_owned())));
    }
    evidence.extend(waits_for(step, picture, machine));
    let mut finding = Finding::new(
        &findings::STUCK_DELETING,
        "machine",
        picture.reference(),
        match at_step_since {
            Some(since) => format!(
                "the deletion of {} in cluster {} has stood at «{step}» for {}",
                machine.name(),
                cluster.title(),
                human(between(since, scene.snapshot.as_of))
            ),
            None => format!(
                "the deletion of {} in cluster {} stands at «{step}», {} after it began",
                machine.name(),
                cluster.title(),
                human(waited)
            ),
        },
    )
    .evidence(evidence);
    if step == Step::PreTerminateHook && !joined_to(cluster, picture).is_empty() {
        finding = finding.caused_by(&findings::JOINED_TO_DELETING);
    }
    let why = match text.lines().next() {
        Some(line) if !line.is_empty() => line.to_owned(),
        _ => format!("for {}", human(waited)),
    };
    Judged::found(state, why, target_of(scene, cluster, picture, finding))
}

/// What the step waits for, in a line or two.
fn waits_for(step: Step, picture: &Picture, machine: &Machine) -> Vec<Evidence> {
    let finalizers = |part: &Part| {
        Evidence::new(
            "waits for",
            format!("{} to go; its finalizers: {}", part.reference(), part.metadata.finalizers.join(", ")),
        )
    };
    let part = |seen: &Seen<Box<Part>>| {
        seen.as_ref().ok().and_then(Option::as_deref).map(finalizers).into_iter().collect::<Vec<_>>()
    };
    match step {
        Step::PreDrainHook => {
            vec![Evidence::new("waits for", format!("hooks: {}", machine.hooks("pre-drain").join(", ")))]
        }
        Step::PreTerminateHook => {
            vec![Evidence::new("waits for", format!("hooks: {}", machine.hooks("pre-terminate").join(", ")))]
        }
        Step::Drain => {
            vec![Evidence::new("waits for", format!("Node {} to be drained", machine.node.as_deref().unwrap_or("?")))]
        }
        Step::Volumes => vec![Evidence::new(
            "waits for",
            format!("volumes to be detached from Node {}", machine.node.as_deref().unwrap_or("?")),
        )],
        Step::Infra => part(&picture.infra),
        Step::Bootstrap => part(&picture.bootstrap),
        Step::NodeDeletion if !machine.node_deletion_timeout => vec![Evidence::new(
            "waits for",
            "Node to be deleted downstream, without a limit: nodeDeletionTimeoutSeconds is not set",
        )],
        Step::NodeDeletion => vec![Evidence::new("waits for", "Cluster API's controller to drop its finalizer")],
        Step::Paused | Step::Unknown => Vec::new(),
    }
}

/// Plan Secrets that count as joined to this machine. While there is one, Rancher's leader keeps the hook of an etcd
/// machine that has a node (rancher/rancher pkg/controllers/capr/bootstrap/controller.go). It compares two annotations,
/// of which an absent one counts as empty; the Secret of a machine that is gone counts too.
pub(crate) fn joined_to<'c>(cluster: &'c Cluster, picture: &Picture) -> Vec<&'c PlanSecret> {
    let Some(secret) = picture.secret() else { return Vec::new() };
    let hooked = picture.whole().is_some_and(|machine| machine.is(Role::Etcd) && machine.node.is_some());
    let url = secret.join_url().unwrap_or_default();
    if url.is_empty() && !hooked {
        return Vec::new();
    }
    let mut joined: Vec<&PlanSecret> = cluster
        .secrets
        .iter()
        .filter(|other| other.metadata.name != secret.metadata.name)
        .filter(|other| other.joined_to().unwrap_or_default() == url)
        .collect();
    joined.sort_by_key(|secret| secret.machine());
    joined
}

/// RG205, for every etcd machine whose deletion has taken longer than the planner needs to join its siblings elsewhere.
pub(crate) fn joined(scene: &Scene<'_>, cluster: &Cluster) -> Vec<Finding> {
    let held = |picture: &&Picture| {
        let Some(machine) = picture.whole() else { return false };
        let since = machine.metadata.deletion_timestamp;
        let waited = since.is_some_and(|since| between(since, scene.snapshot.as_of) >= scene.question.grace);
        waited && machine.is(Role::Etcd) && machine.node.is_some()
    };
    cluster.machines.iter().filter(held).filter_map(|picture| held_by_siblings(cluster, picture)).collect()
}

fn held_by_siblings(cluster: &Cluster, picture: &Picture) -> Option<Finding> {
    let joined = joined_to(cluster, picture);
    let first = joined.first()?;
    let secret = picture.secret()?;
    let names: Vec<&str> = joined.iter().map(|sibling| sibling.machine()).collect();
    let same = match secret.join_url() {
        Some(_) => "joined-to is that url",
        None => "it has no joined-to, which Rancher takes for the same",
    };
    let mut evidence =
        vec![Evidence::new("join-url", secret.join_url().unwrap_or("none")).from(secret.reference().to_string())];
    evidence.extend(joined.iter().map(|sibling| {
        let state = match cluster.machine(sibling.machine()) {
            None => "its Machine does not exist (RG106)",
            Some(_) if sibling.plan.applied_checksum == sibling.plan.plan => "its plan is applied",
            Some(_) => "its plan is not applied",
        };
        Evidence::new("sibling", format!("{}: {same}; {state}", sibling.machine()))
            .from(sibling.reference().to_string())
    }));
    let subject = cluster.machine(first.machine()).map_or_else(|| first.reference(), Picture::reference);
    Some(
        Finding::new(
            &findings::JOINED_TO_DELETING,
            "etcd",
            subject,
            format!(
                "{} still joined to etcd machine {}, which is being deleted: it stays until they join another one",
                names.join(", "),
                picture.row.name
            ),
        )
        .evidence(evidence)
        .advice("Repair the sibling first: its agent must apply the plan that joins it elsewhere. Do not move the init-node label by hand."),
    )
}
