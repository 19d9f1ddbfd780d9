//! RG101 and RG102: an ordinary deletion of the Machine. Cluster API and Rancher's leader take the rest away, in their
//! order: infra machine, RKEBootstrap with its Secrets, Machine.

use rancher_common::finding::Rule;
use rancher_common::plan::{Action, Operation, Reversibility};
use rancher_common::rancher::MACHINES;
use rancher_common::text::some_of;

use super::{Refusal, Remedy, guards, picture};
use crate::diagnose::{Scene, deleting, identity};
use crate::findings;
use crate::model::fleet::{Cluster, Picture};
use crate::model::machine::{ETCD_HOOK, Role};
use crate::model::objects::PlanSecret;

pub(crate) fn remedy(scene: &Scene<'_>, cluster: &Cluster, picture: &Picture, rule: &Rule) -> Result<Remedy, Refusal> {
    let Some(machine) = picture.whole() else { return Err(Refusal::new("the Machine was not read whole")) };
    if rule == &findings::NODE_VANISHED
        && !matches!(cluster.node(machine.node.as_deref().unwrap_or_default()), Ok(None))
    {
        return Err(Refusal::new("that its Node is gone was not seen in the downstream cluster itself")
            .instead("give a connection to it: --downstream-context or --downstream-kubeconfig"));
    }
    guards::all(scene, cluster, picture, machine)?;
    let name = machine.name();
    let mut leaves = vec![
        "the host itself is not touched: if it still exists, its rancher-system-agent goes on trying".to_owned(),
        "a registration afterwards is a new machine with a new identity: undo cannot bring this one back".to_owned(),
    ];
    if let Some(pool) = machine.pool() {
        leaves.insert(
            0,
            format!("MachineSet {pool} makes a replacement at once: make the pool smaller first if none is wanted"),
        );
    }
    let joined: Vec<&str> = deleting::joined_to(cluster, picture).into_iter().map(|secret| secret.machine()).collect();
    if !joined.is_empty() {
        leaves.push(format!("the planner first joins {} to another machine", some_of(&joined, 3)));
    }
    let snapshots = identity::snapshots(scene, cluster, picture);
    if !snapshots.is_empty() {
        leaves.push(format!("these go with it: {}", snapshots.join(", ")));
    }
    if picture.secret().is_some_and(PlanSecret::is_init_node) {
        leaves.push(
            "it is the init node: the planner makes another etcd machine the one that the others join".to_owned(),
        );
    }
    if machine.is(Role::Etcd) {
        leaves.push(if machine.node.is_some() {
            "its etcd member may stay listed (the quorum was counted with it): take an etcd snapshot before, look at the member list afterwards, and take it out there if so"
                .to_owned()
        } else if machine.annotated(ETCD_HOOK) {
            "it never ran etcd, so Rancher's leader takes its etcd hook off by itself".to_owned()
        } else {
            "it never ran etcd: no member is listed for it".to_owned()
        });
    }
    let why = if rule == &findings::NEVER_JOINED {
        format!("{name} never joined; while it exists the planner waits for it")
    } else {
        format!("the Node of {name} does not exist any more")
    };
    Ok(Remedy {
        actions: vec![Action {
            resource: MACHINES,
            object: picture.reference(),
            operation: Operation::Delete { grace_period_seconds: None },
            why,
            changes: Vec::new(),
            facts: picture::facts(machine),
            wait: None,
            dependents: picture::dependents(scene, cluster, picture),
            reversibility: Reversibility::Irreversible,
            leaves,
        }],
        then: "Cluster API takes the machine away step by step, and the planner stops waiting for it".to_owned(),
    })
}
