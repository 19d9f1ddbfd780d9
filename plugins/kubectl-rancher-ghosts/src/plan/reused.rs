//! RG104: the old Machine of a host that was installed anew under its name.
//!
//! An ordinary deletion would drain and delete the live Node, which both machines refer to by name. A paused Machine is
//! not reconciled at all: it is paused, deleted, and only its own finalizer is taken off; garbage collection then takes
//! what belongs to it, and the Node stays (tried with Cluster API 1.13.6 and 1.14.2; older ones have no condition
//! Paused on Machines, so there it is refused).

use rancher_common::plan::{Action, Await, Change, Fact, Operation, Reversibility, Until};
use rancher_common::rancher::{CUSTOM_MACHINES, MACHINES};
use serde_json::json;

use super::{Refusal, Remedy, guards, picture};
use crate::diagnose::{Scene, nodes};
use crate::model::fleet::{Cluster, Picture};
use crate::model::machine::{MACHINE_FINALIZER, PAUSED, Role};

/// How long Cluster API has to say that it has noticed the pause.
const NOTICE_SECONDS: u32 = 60;

pub(crate) fn remedy(scene: &Scene<'_>, cluster: &Cluster, picture: &Picture) -> Result<Remedy, Refusal> {
    let Some(machine) = picture.whole() else { return Err(Refusal::new("the Machine was not read whole")) };
    let name = machine.name();
    let node_name = machine.node.as_deref().unwrap_or_default();
    let node = match cluster.node(node_name) {
        Ok(Some(node)) => node,
        Ok(None) => return Err(Refusal::new(format!("Node {node_name} does not exist"))),
        Err(why) => {
            return Err(Refusal::new(format!("whose Node {node_name} is was not seen: {why}"))
                .instead("give a connection to the downstream cluster: --downstream-context"));
        }
    };
    let Some(live) = nodes::owner(cluster, machine, node_name) else {
        return Err(Refusal::new(format!("Node {node_name} does not say that another machine owns it")));
    };
    // By the Node's own mark too: the label on the ghost is what it was given, not what runs.
    let roles = machine.roles();
    if roles.iter().any(|role| *role != Role::Worker) || roles.is_empty() || node.etcd {
        return Err(Refusal::new(format!(
            "{name} is no pure worker: what its removal does to etcd or the control plane of the live Node {node_name} was never tried"
        ))
        .instead("clean the host and register it again under another name; then both old machines can be removed in the ordinary way"));
    }
    if machine.pool().is_some()
        || picture.infra.as_ref().ok().and_then(Option::as_ref).is_none_or(|i| i.resource != CUSTOM_MACHINES)
    {
        return Err(Refusal::new(format!(
            "{name} is of a pool, or its infra machine is no CustomMachine: its VM would be left behind"
        )));
    }
    guards::controllers(scene)?;
    guards::moving(cluster)?;
    if machine.condition("Paused").is_none() {
        return Err(Refusal::new(
            "this version of Cluster API has no condition Paused on Machines: whether a pause is heeded could not be seen",
        )
        .instead("upgrade Rancher to 2.14 or later, or give the host another name and register it again"));
    }
    let Some(at) = machine.metadata.finalizers.iter().position(|finalizer| finalizer == MACHINE_FINALIZER) else {
        return Err(Refusal::new(format!("{name} has no finalizer {MACHINE_FINALIZER}: a deletion would be at once")));
    };
    if machine.metadata.finalizers.len() != 1 {
        return Err(Refusal::new(format!(
            "{name} has further finalizers ({}), whose owners would not be asked",
            machine.metadata.finalizers.join(", ")
        )));
    }
    let patch = |operations, why: &str, wait, changes| Action {
        resource: MACHINES,
        object: picture.reference(),
        operation: Operation::Patch { operations },
        why: why.to_owned(),
        changes,
        facts: Vec::new(),
        wait,
        dependents: Vec::new(),
        reversibility: Reversibility::Irreversible,
        leaves: Vec::new(),
    };
    let pointer = format!("/metadata/annotations/{}", PAUSED.replace('/', "~1"));
    let mut pause = patch(
        if machine.metadata.annotations.is_empty() {
            vec![json!({"op": "add", "path": "/metadata/annotations", "value": {PAUSED: "true"}})]
        } else {
            vec![json!({"op": "add", "path": pointer, "value": "true"})]
        },
        "so that Cluster API neither drains nor deletes the live Node",
        None,
        vec![Change {
            field: format!("metadata.annotations.{PAUSED}"),
            before: "<none>".to_owned(),
            after: "true".to_owned(),
        }],
    );
    pause.facts = picture::facts(machine);
    pause.reversibility = Reversibility::Reversible;
    let until = |text: &str, until| {
        Some(Await {
            text: text.to_owned(),
            resource: MACHINES,
            object: picture.reference(),
            until,
            seconds: NOTICE_SECONDS,
        })
    };
    let paused = || {
        let condition = Until::Condition { kind: "Paused".to_owned(), status: "True".to_owned() };
        until("Cluster API says that the machine is paused", condition)
    };
    // By then it is paused, and nobody may have taken that back.
    let stays_paused =
        Fact { pointer: "/metadata/annotations/cluster.x-k8s.io~1paused".to_owned(), value: json!("true") };
    let delete = Action {
        operation: Operation::Delete { grace_period_seconds: None },
        wait: paused(),
        facts: vec![stays_paused.clone(), Fact { pointer: "/status/nodeRef/name".to_owned(), value: json!(node_name) }],
        leaves: vec![
            format!("Node {node_name} and machine {} stay as they are", live.row.name),
            "this machine's identity cannot be brought back".to_owned(),
        ],
        ..patch(
            Vec::new(),
            &format!("{name} has no host any more: Node {node_name} is {}'s", live.row.name),
            None,
            Vec::new(),
        )
    };
    let marked = || {
        let present = Until::Present { pointer: "/metadata/deletionTimestamp".to_owned() };
        until("the machine is marked for deletion", present)
    };
    let mut free = patch(
        vec![
            json!({"op": "test", "path": format!("/metadata/finalizers/{at}"), "value": MACHINE_FINALIZER}),
            json!({"op": "remove", "path": format!("/metadata/finalizers/{at}")}),
        ],
        "Cluster API does not take it off a paused machine; nothing is left for it to do",
        if machine.deleting() { paused() } else { marked() },
        vec![Change {
            field: "metadata.finalizers".to_owned(),
            before: MACHINE_FINALIZER.to_owned(),
            after: "<none>".to_owned(),
        }],
    );
    free.facts = vec![stays_paused];
    free.dependents = picture::dependents(scene, cluster, picture);
    // A run that was interrupted is gone on with from where it stopped.
    let steps = [(machine.paused(), pause), (machine.deleting(), delete), (false, free)];
    Ok(Remedy {
        actions: steps.into_iter().filter(|(done, _)| !done).map(|(_, action)| action).collect(),
        then: format!("garbage collection takes what belongs to {name}, and Node {node_name} stays"),
    })
}
