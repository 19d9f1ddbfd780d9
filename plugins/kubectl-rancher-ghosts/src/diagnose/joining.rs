//! RG101: machines without a Node that never will have one.
//!
//! A machine that has just been registered looks the same for minutes. What tells a ghost is that its agent, which has
//! been given a plan, has never written a word into the plan Secret (rancher/system-agent pkg/k8splan/watcher.go).

use rancher_common::finding::{Evidence, Finding};
use rancher_common::time::human;

use super::{Judged, Scene, age, plans};
use crate::findings;
use crate::model::fleet::{Cluster, Picture};
use crate::model::machine::Machine;
use crate::model::objects::Node;
use crate::plan::target_of;

pub(crate) fn judge(scene: &Scene<'_>, cluster: &Cluster, picture: &Picture, machine: &Machine) -> Judged {
    let waited = age(scene.snapshot, machine).unwrap_or_default();
    let registered = format!("registered {} ago", human(waited));
    let told = machine
        .condition("Reconciled")
        .filter(|reconciled| !reconciled.is("True"))
        .map(|reconciled| reconciled.message().to_owned())
        .filter(|text| !text.is_empty());
    let plan = match &picture.plan {
        Err(why) => {
            return Judged {
                undecided: true,
                ..Judged::state("unknown", format!("its plan Secret was not read ({why})"))
            };
        }
        Ok(plan) => plan.as_ref(),
    };
    if let Some(secret) = plan.filter(|secret| secret.plan.agent_has_answered()) {
        // Somebody is there: what is wrong stands in the plan.
        let judged = plans::judge(scene, cluster, picture, machine, secret);
        return if judged.findings.is_empty() {
            Judged::state("joining", told.unwrap_or_else(|| "its agent answers; no Node yet".to_owned()))
        } else {
            judged
        };
    }
    if waited < scene.question.grace {
        return Judged::state(
            "joining",
            format!("{registered}; {}", told.as_deref().unwrap_or("no word from its agent yet")),
        );
    }
    if let Some(secret) = plan
        && (secret.plan.plan.is_none() || secret.plan.instructions == Some(0))
    {
        // An agent that was told nothing has nothing to answer (R67 of the reports: DATA 0 for many minutes).
        return Judged::state(
            "not planned",
            told.unwrap_or_else(|| "the planner has not given it a plan yet".to_owned()),
        );
    }
    match host_seen(cluster, picture, machine) {
        HostSeen::Yes(why) => return Judged { undecided: true, ..Judged::state("unknown", why) },
        HostSeen::No => {}
    }
    let mut evidence = vec![
        Evidence::new("registered", format!("{} ago", human(waited))).from("Machine .metadata.creationTimestamp"),
        Evidence::new("node", "none").from("Machine .status.nodeRef"),
    ];
    match plan {
        None => evidence.push(Evidence::new("plan Secret", "does not exist: its agent has nothing to answer into")),
        Some(secret) => evidence.push(
            Evidence::new("agent", "no applied-checksum, failed-checksum, probe-statuses or last-apply-time")
                .from(secret.reference().to_string()),
        ),
    }
    if let Some(told) = &told {
        evidence.push(Evidence::new("planner", told.clone()).from("Machine condition Reconciled"));
    }
    let infra = picture.infra.as_ref().ok().and_then(Option::as_ref);
    if let Some(failure) = infra.and_then(|infra| infra.failure.clone()).or_else(|| machine.failure.clone()) {
        evidence.push(Evidence::new("infra", failure).from("infra machine .status.failureMessage"));
    }
    if let Some(pool) = machine.pool() {
        evidence.push(Evidence::new("pool", format!("MachineSet {pool} replaces it unless the pool is made smaller")));
    }
    let why = format!("its agent never checked in ({})", human(waited));
    let finding = Finding::new(
        &findings::NEVER_JOINED,
        "machine",
        picture.reference(),
        format!(
            "{} never joined cluster {}: its agent has not checked in since it was registered {} ago",
            machine.name(),
            cluster.title(),
            human(waited)
        ),
    )
    .evidence(evidence);
    Judged::found("never joined", why, target_of(scene, cluster, picture, finding))
}

enum HostSeen {
    Yes(String),
    No,
}

/// Whether something says that the host is there after all. A Machine with a provider id gets its Node looked up when it
/// is deleted, and that Node drained and removed (kubernetes-sigs/cluster-api 1.10 and later, reconcileDelete).
fn host_seen(cluster: &Cluster, picture: &Picture, machine: &Machine) -> HostSeen {
    if let Ok(nodes) = &cluster.nodes {
        if let Some(node) = cluster.node_of(machine) {
            return HostSeen::Yes(format!("Node {} carries its UID, though its agent has not answered", node.name()));
        }
        let of_provider =
            |node: &&Node| node.provider_id.is_some() && node.provider_id.as_deref() == picture.provider_id();
        if let Some(node) = nodes.iter().find(of_provider) {
            return HostSeen::Yes(format!(
                "Node {} has its provider id: a deletion would drain and delete that Node",
                node.name()
            ));
        }
        return HostSeen::No;
    }
    match picture.provider_id() {
        Some(id) => HostSeen::Yes(format!(
            "it has the provider id {id}, so a Node may be there: only a downstream connection tells"
        )),
        None => HostSeen::No,
    }
}
