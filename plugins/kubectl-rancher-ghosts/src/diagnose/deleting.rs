//! RG103: deletions that stand still, at one of Cluster API's steps.

use rancher_common::finding::{Evidence, Finding};
use rancher_common::rancher::MACHINES;
use rancher_common::snapshot::{Content, Snapshot, Want};
use rancher_common::time::{between, human};

use super::{Judged, Scene};
use crate::Question;
use crate::findings;
use crate::model::fleet::{Cluster, Picture};
use crate::model::machine::{Machine, Role, Step};
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
        .map(|look| (look.step(), look.step_text().map(|(text, _)| text.to_owned()).unwrap_or_default()))
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
    let (text, at_step_since) = machine.step_text().unwrap_or_default();
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
        format!(
            "the deletion of {} in cluster {} has stood at «{step}» for {}",
            machine.name(),
            cluster.title(),
            human(at_step_since.map_or(waited, |since| between(since, scene.snapshot.as_of)))
        ),
    )
    .evidence(evidence);
    if step == Step::PreTerminateHook && !siblings_joined_to(cluster, picture).is_empty() {
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
    let finalizers = |part: &crate::model::objects::Part| {
        Evidence::new(
            "waits for",
            format!("{} to go; its finalizers: {}", part.reference(), part.metadata.finalizers.join(", ")),
        )
    };
    let part = |seen: &crate::model::reading::Seen<crate::model::objects::Part>| {
        seen.as_ref().ok().and_then(Option::as_ref).map(finalizers).into_iter().collect::<Vec<_>>()
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

/// Machines of the cluster whose plan is still joined to this etcd machine. While there is one, Rancher's leader keeps
/// the hook (rancher/rancher pkg/controllers/capr/bootstrap/controller.go). An absent join-url compares as empty there.
pub(crate) fn siblings_joined_to<'c>(cluster: &'c Cluster, picture: &Picture) -> Vec<&'c Picture> {
    let Some(url) = picture.secret().and_then(|secret| secret.join_url()) else { return Vec::new() };
    cluster
        .machines
        .iter()
        .filter(|other| other.row.name != picture.row.name)
        .filter(|other| other.secret().is_some_and(|secret| secret.joined_to() == Some(url)))
        .collect()
}

/// RG205, for every etcd machine that is being deleted.
pub(crate) fn joined(cluster: &Cluster) -> Vec<Finding> {
    cluster
        .machines
        .iter()
        .filter(|picture| picture.whole().is_some_and(|machine| machine.deleting() && machine.is(Role::Etcd)))
        .filter_map(|picture| {
            let siblings = siblings_joined_to(cluster, picture);
            let first = siblings.first()?;
            let url = picture.secret()?.join_url()?;
            let names: Vec<&str> = siblings.iter().map(|sibling| sibling.row.name.as_str()).collect();
            let mut evidence = vec![Evidence::new("join-url", url.to_owned()).from(picture.secret()?.reference().to_string())];
            evidence.extend(siblings.iter().filter_map(|sibling| {
                let secret = sibling.secret()?;
                let applied = secret.plan.applied_checksum == secret.plan.plan;
                Some(
                    Evidence::new(
                        "sibling",
                        format!("{}: joined-to is that url; its plan is {}", sibling.row.name, if applied { "applied" } else { "not applied" }),
                    )
                    .from(secret.reference().to_string()),
                )
            }));
            Some(
                Finding::new(
                    &findings::JOINED_TO_DELETING,
                    "etcd",
                    first.reference(),
                    format!(
                        "{} still joined to etcd machine {}, which is being deleted: it stays until they join another one",
                        names.join(", "),
                        picture.row.name
                    ),
                )
                .evidence(evidence)
                .advice("Repair the sibling first: its agent must apply the plan that joins it elsewhere. Do not move the init-node label by hand."),
            )
        })
        .collect()
}
