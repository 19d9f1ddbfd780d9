//! What must hold before anything is removed. Each guard can refuse, and what could not be read refuses too.

use std::collections::BTreeSet;

use rancher_common::text::some_of;

use super::Refusal;
use crate::diagnose::controllers::{Capi, capi};
use crate::diagnose::leader::Leader;
use crate::diagnose::{self, Scene, deleting};
use crate::model::fleet::{Cluster, Picture};
use crate::model::machine::{Machine, Role};
use crate::model::objects::{NODE_NAME, Node, PlanSecret};

/// Rancher's leader must do its part of the removing.
pub(crate) fn leader(scene: &Scene<'_>) -> Result<(), Refusal> {
    match diagnose::leader::leader(scene.snapshot) {
        Leader::Works(_) => Ok(()),
        Leader::Missing(why) => Err(Refusal::new(format!("no working Rancher leader, which does the removing: {why}"))
            .instead("kubectl rancher-lease")),
        Leader::Unknown(why) => {
            Err(Refusal::new(format!("whether Rancher's leader works, which does the removing, was not read: {why}"))
                .instead("kubectl rancher-lease"))
        }
    }
}

/// Somebody must do the removing: Rancher's leader and Cluster API's controller.
pub(crate) fn controllers(scene: &Scene<'_>) -> Result<(), Refusal> {
    leader(scene)?;
    match capi(scene.snapshot) {
        Capi::Down { message, .. } => {
            Err(Refusal::new(message).instead("bring Cluster API's controller and webhook back first (RG208)"))
        }
        Capi::Unread(why) => Err(Refusal::new(format!(
            "whether Cluster API's controller works, which does the removing, was not read: {why}"
        ))),
        Capi::Works(_) | Capi::Unknown(_) => Ok(()),
    }
}

/// Nothing may be paused, no restore under way.
pub(crate) fn moving(cluster: &Cluster) -> Result<(), Refusal> {
    match &cluster.capi_paused {
        Ok(Some(false)) => {}
        Ok(Some(true)) => {
            return Err(Refusal::new(format!("cluster {} is paused (RG206)", cluster.title()))
                .instead("find out why: a failed restore leaves this behind, and wants to be done again"));
        }
        Ok(None) => return Err(Refusal::new(format!("cluster {} has no Cluster of Cluster API", cluster.title()))),
        Err(why) => {
            return Err(Refusal::new(format!("whether cluster {} is paused was not read: {why}", cluster.title())));
        }
    }
    match &cluster.control_plane {
        Err(why) => Err(Refusal::new(format!(
            "whether a restore of cluster {} is under way was not read: {why}",
            cluster.title()
        ))),
        Ok(None) => Err(Refusal::new(format!("cluster {} has no RKEControlPlane", cluster.title()))),
        Ok(Some(plane)) => {
            if plane.paused() {
                return Err(Refusal::new(format!(
                    "the control plane of cluster {} is paused (RG206)",
                    cluster.title()
                )));
            }
            if let Some(phase) = plane.restoring() {
                return Err(Refusal::new(format!(
                    "an etcd restore of cluster {} is under way ({phase})",
                    cluster.title()
                ))
                .instead("wait for it, or do it again from its start"));
            }
            Ok(())
        }
    }
}

/// Another machine must have each of its roles: without any machine of a role Rancher lets go of all etcd machines that
/// are being deleted, safe or not (rancher/rancher pkg/capr/planner/etcdrestore.go, forceDeleteAllDeletingEtcdMachines),
/// and starts the control plane anew. Beside a machine that ever ran, the other one must have a node; one that never ran
/// may go while others have yet to join, as when the first host of a cluster does not come.
pub(crate) fn not_the_last(cluster: &Cluster, picture: &Picture, machine: &Machine) -> Result<(), Refusal> {
    if machine.roles().is_empty() {
        return Err(Refusal::new(format!(
            "{} has no role labels: what it would take with it is not known",
            machine.name()
        )));
    }
    let never_ran = never_ran(picture, machine);
    for role in machine.roles() {
        let others = cluster
            .of_role(role)
            .filter(|(other, whole)| other.row.name != picture.row.name && (never_ran || whole.node.is_some()))
            .count();
        if others == 0 {
            let or = if never_ran { "" } else { ", or the only one besides machines without a node" };
            return Err(Refusal::new(format!(
                "{} is the last {role} machine of cluster {}{or}",
                machine.name(),
                cluster.title()
            ))
            .instead(format!("add another {role} machine first: without one Rancher drops its etcd safeguards")));
        }
    }
    Ok(())
}

/// Whether its plan is proven never to have been run, so that nothing was ever started there.
pub(crate) fn never_ran(picture: &Picture, machine: &Machine) -> bool {
    let answered =
        |secret: &Option<Box<PlanSecret>>| secret.as_ref().is_some_and(|secret| secret.plan.agent_has_answered());
    machine.node.is_none() && picture.plan.as_ref().is_ok_and(|secret| !answered(secret))
}

/// Whether a sibling would lose the server it joined. The planner gives each another one as soon as this machine is being
/// deleted, if the agent there follows; otherwise the deletion would stand still (RG205).
pub(crate) fn siblings_follow(cluster: &Cluster, picture: &Picture) -> Result<(), Refusal> {
    let joined = deleting::joined_to(cluster, picture);
    let Some(first) = joined.first() else { return Ok(()) };
    if picture.secret().is_some_and(|secret| secret.join_url().is_none()) {
        return Err(Refusal::new(format!(
            "{} has no join-url, so that {}, which has joined nobody, counts as joined to it: its deletion would not end",
            picture.row.name,
            first.machine()
        ))
        .instead("see explain RG205"));
    }
    let follows = |secret: &&&PlanSecret| {
        let node = cluster.machine(secret.machine()).and_then(|sibling| sibling.row.node.as_deref());
        let ready = node.is_some_and(|node| matches!(cluster.node(node), Ok(Some(found)) if found.ready == Some(true)));
        ready && secret.is_applied()
    };
    let stay: Vec<&str> = joined.iter().filter(|secret| !follows(secret)).map(|secret| secret.machine()).collect();
    if stay.is_empty() {
        return Ok(());
    }
    Err(Refusal::new(format!(
        "{} joined to {}, without a Ready node or with a plan that is not applied",
        some_of(&stay, 3),
        picture.row.name
    ))
    .instead("repair their agents, so that the planner can join them to another machine"))
}

/// What an etcd machine needs besides: that it is not the init node somebody named, and, if it ever had a node, a quorum
/// that does not need it, though its own member still counts.
pub(crate) fn etcd(cluster: &Cluster, picture: &Picture, machine: &Machine) -> Result<(), Refusal> {
    if !machine.is(Role::Etcd) {
        return Ok(());
    }
    let name = machine.name();
    let secret = match &picture.plan {
        Err(why) => {
            return Err(Refusal::new(format!("{name} is an etcd machine, and its plan Secret was not read: {why}")));
        }
        Ok(secret) => secret.as_deref(),
    };
    // Once the deletion of an init node has begun the planner elects another one (rancher/rancher
    // pkg/capr/planner/initnode.go, electInitNode), unless it is told which one to take.
    if secret.is_some_and(PlanSecret::is_init_node) && cluster.plane().is_some_and(|plane| plane.designates(machine)) {
        return Err(Refusal::new(format!("{name} is the init node that RKEControlPlane {} names", cluster.name))
            .instead("find out who named it (a restore does); without it the planner finds no init node at all"));
    }
    if never_ran(picture, machine) {
        return Ok(());
    }
    let nodes = cluster.nodes.as_ref().map_err(|why| {
        Refusal::new(format!("{name} is an etcd machine, and the downstream Nodes are not known: {why}"))
            .instead("give a connection to the downstream cluster: --downstream-context")
    })?;
    // The lost member counts until it is taken out, and so do those that are being removed and those of Nodes that no
    // machine claims.
    let others = cluster.machines.iter().filter(|other| other.row.name != picture.row.name);
    let siblings: Vec<(&Picture, &str)> = others
        .filter_map(|other| Some((other, other.whole().filter(|whole| whole.is(Role::Etcd))?.node.as_deref()?)))
        .collect();
    let mut members: BTreeSet<&str> = siblings.iter().map(|(_, node)| *node).collect();
    members.extend(nodes.iter().filter(|node| node.etcd).map(Node::name));
    members.remove(machine.node.as_deref().unwrap_or_default());
    let members = members.len() + 1;
    let healthy = siblings
        .iter()
        .filter(|(other, name)| {
            let node = nodes.iter().find(|node| node.name() == *name);
            // One that is being removed is about to leave the quorum.
            let stays = other.whole().is_some_and(|whole| !whole.deleting());
            let probe = other.secret().and_then(|secret| secret.plan.probes.as_ref()?.get("etcd"));
            stays && node.is_some_and(|node| node.ready == Some(true)) && probe.is_some_and(|probe| probe.healthy)
        })
        .count();
    let quorum = members / 2 + 1;
    if healthy < quorum {
        return Err(Refusal::new(format!(
            "etcd of cluster {} has {members} members with the one of {name}, {healthy} of the others are proven healthy, and {quorum} are needed",
            cluster.title()
        ))
        .instead("make the other etcd machines healthy first (Node Ready, probe etcd), and take a snapshot"));
    }
    Ok(())
}

/// Nobody else may use the name of the Node: Cluster API addresses Nodes by name, and a host that registers under it
/// while the deletion goes on would be drained and deleted (kubernetes-sigs/cluster-api
/// internal/controllers/machine/machine_controller.go, deleteNode).
pub(crate) fn name_not_reused(cluster: &Cluster, picture: &Picture, machine: &Machine) -> Result<(), Refusal> {
    let Some(name) = machine.node.as_deref() else { return Ok(()) };
    let uses = |other: &&Picture| {
        let label = other.whole().and_then(|whole| whole.metadata.labels.get(NODE_NAME));
        other.row.name != picture.row.name
            && (other.row.node.as_deref() == Some(name) || label.is_some_and(|label| label == name))
    };
    match cluster.machines.iter().find(uses) {
        Some(other) => Err(Refusal::new(format!(
            "{} uses the name of Node {name} too, and the deletion would take that Node along (RG104)",
            other.row.name
        ))
        .instead(format!("wait until {} has joined, or remove it first if it is a ghost itself", other.row.name))),
        None => Ok(()),
    }
}

/// All of them.
pub(crate) fn all(scene: &Scene<'_>, cluster: &Cluster, picture: &Picture, machine: &Machine) -> Result<(), Refusal> {
    if cluster.machines.iter().any(|other| other.whole().is_none() && other.machine != Ok(None)) {
        return Err(Refusal::new("not all machines of the cluster were read"));
    }
    controllers(scene)?;
    moving(cluster)?;
    if machine.paused() {
        return Err(Refusal::new(format!("{} is paused (RG206): nothing would happen to it", machine.name())));
    }
    not_the_last(cluster, picture, machine)?;
    name_not_reused(cluster, picture, machine)?;
    etcd(cluster, picture, machine)?;
    siblings_follow(cluster, picture)
}
