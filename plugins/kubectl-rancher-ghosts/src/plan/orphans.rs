//! RG105 and RG106: the parts that a machine left behind, infra machine before RKEBootstrap.

use rancher_common::finding::{Finding, Rule};
use rancher_common::kinds::SECRETS;
use rancher_common::plan::{Action, Dependent, Operation, Reversibility};
use rancher_common::rancher::{Metadata, RKE_BOOTSTRAPS};
use rancher_common::resource::ObjectRef;

use super::{Refusal, Remedy, guards, unblock};
use crate::diagnose::Scene;
use crate::diagnose::orphans::{Orphan, cluster_of, is_custom, orphans};
use crate::findings;
use crate::model::fleet::Cluster;
use crate::model::machine::Role;
use crate::model::objects::{Node, PlanSecret};

/// Finalizer of a node driver's machine; its handler runs the deletion of the VM, and looks for the Machine first
/// (rancher/rancher pkg/controllers/capr/machineprovision/args.go).
const PROVISION: &str = "wrangler.cattle.io/machine-provision-remove";
/// See [`unblock`].
const UNMANAGED: &str = "wrangler.cattle.io/unmanaged-machine";
const BOOTSTRAP: &str = "wrangler.cattle.io/rke-bootstrap-etcd-removal";

/// What to do about one orphan.
fn action(scene: &Scene<'_>, orphan: &Orphan) -> Result<Action, Refusal> {
    let part = &orphan.part;
    guards::controllers(scene)?;
    if part.resource == RKE_BOOTSTRAPS {
        nobody_lives(scene, orphan)?;
    }
    if part.metadata.deletion_timestamp.is_none() {
        // Its controllers get the chance to do their part first.
        return Ok(Action {
            resource: part.resource.clone(),
            object: part.reference(),
            operation: Operation::Delete { grace_period_seconds: None },
            why: "its Machine does not exist any more".to_owned(),
            changes: Vec::new(),
            facts: vec![rancher_common::plan::Fact {
                pointer: "/metadata/deletionTimestamp".to_owned(),
                value: serde_json::Value::Null,
            }],
            wait: None,
            dependents: goes_with(scene, orphan),
            reversibility: Reversibility::Irreversible,
            leaves: vm(orphan),
        });
    }
    // Some are let go without their Machine after all: a VM that was never made, a machine of a MachineSet.
    unblock::patient(scene, "its deletion", part.metadata.deletion_timestamp)?;
    let etcd = part.roles().contains(&Role::Etcd);
    if part.resource == RKE_BOOTSTRAPS {
        // Without its Machine the handler has nothing to take out and lets go at once (pkg/controllers/capr/bootstrap).
        return unblock::free(
            &part.resource,
            &part.metadata,
            BOOTSTRAP,
            if etcd {
                "its Machine is gone, so its handler takes no etcd member out any more: look at the member list yourself"
            } else {
                "its Machine is gone; its handler has nothing to do"
            },
        );
    }
    if is_custom(part) {
        return unblock::free(
            &part.resource,
            &part.metadata,
            UNMANAGED,
            "its Machine is gone; its handler does nothing else",
        );
    }
    let free = unblock::free(
        &part.resource,
        &part.metadata,
        PROVISION,
        "its handler asks for a Machine that does not exist, for ever; with it goes the only one who deletes the VM",
    )?;
    Ok(Action { leaves: vm(orphan), dependents: goes_with(scene, orphan), ..free })
}

/// The agent of a host that lives works with what goes with the RKEBootstrap: its plan Secret and its ServiceAccounts.
fn nobody_lives(scene: &Scene<'_>, orphan: &Orphan) -> Result<(), Refusal> {
    // In a fleet neither is read of clusters whose machines look well; fix asks again.
    let asked = cluster_named(scene, &orphan.part.metadata).filter(|_| scene.question.target.is_some());
    let Some(cluster) = asked else { return Ok(()) };
    let machine = owner(orphan);
    let register = "register that host again first: its agent then works with a new plan Secret";
    let claims = |node: &&Node| node.claimed_by() == Some((&cluster.namespace, &cluster.name, machine));
    if let Some(node) = cluster.nodes.as_ref().ok().and_then(|nodes| nodes.iter().find(claims)) {
        return Err(Refusal::new(format!(
            "Node {} says that it is {machine}'s: its agent may be running",
            node.name()
        ))
        .instead(register));
    }
    match secret_of(cluster, machine) {
        Some(secret) if secret.plan.agent_has_answered() => Err(Refusal::new(format!(
            "the agent of {machine} has answered into {}, and no Node proves that it is gone",
            secret.metadata.name
        ))
        .instead(register)),
        _ => Ok(()),
    }
}

fn owner(orphan: &Orphan) -> &str {
    orphan.machine.as_deref().unwrap_or(&orphan.part.metadata.name)
}

fn cluster_named<'f>(scene: &Scene<'f>, metadata: &Metadata) -> Option<&'f Cluster> {
    let (namespace, name) = (metadata.namespace.as_deref()?, cluster_of(metadata)?);
    scene.fleet.clusters.iter().find(|cluster| cluster.namespace == namespace && cluster.name == name)
}

fn secret_of<'c>(cluster: &'c Cluster, machine: &str) -> Option<&'c PlanSecret> {
    cluster.secrets.iter().find(|secret| secret.machine() == machine)
}

/// What is saved besides: the plan Secret that goes with an RKEBootstrap; the store of the driver, without which nobody
/// deletes the VM later (rancher/rancher pkg/controllers/capr/machineprovision).
fn goes_with(scene: &Scene<'_>, orphan: &Orphan) -> Vec<Dependent> {
    let metadata = &orphan.part.metadata;
    if orphan.part.has_vm() {
        let state = format!("{}-machine-state", metadata.name);
        let object = ObjectRef::new(&SECRETS, metadata.namespace.as_deref(), &state);
        return vec![Dependent { resource: SECRETS, object, goes: false }];
    }
    let of_bootstrap = cluster_named(scene, metadata).filter(|_| orphan.part.resource == RKE_BOOTSTRAPS);
    let secret = of_bootstrap.and_then(|cluster| secret_of(cluster, owner(orphan)));
    secret.map(|secret| Dependent { resource: SECRETS, object: secret.reference(), goes: true }).into_iter().collect()
}

/// What may be left at the provider.
fn vm(orphan: &Orphan) -> Vec<String> {
    if !orphan.part.has_vm() {
        return Vec::new();
    }
    let id = orphan.part.provider_id.clone().unwrap_or_else(|| orphan.part.metadata.name.clone());
    vec![format!("VM {id} may go on running, and be billed: look at the provider, and delete it there")]
}

/// Completes a finding about a leftover.
pub(crate) fn target_of(scene: &Scene<'_>, orphan: &Orphan, finding: Finding) -> Finding {
    if let Err(refusal) = action(scene, orphan) {
        return finding.advice(refusal.why);
    }
    // What is left of a cluster that is gone is found by its own name, which the Machine's need not be.
    let part = &orphan.part.metadata;
    let own = orphan.machine.as_deref().filter(|_| !cluster_is_gone(scene, part)).unwrap_or(&part.name);
    finding.fixable().next_command(command(scene, part, own))
}

fn cluster_is_gone(scene: &Scene<'_>, metadata: &Metadata) -> bool {
    cluster_named(scene, metadata).is_none()
}

/// The command for what is left of a machine, by this name.
pub(crate) fn command(scene: &Scene<'_>, metadata: &Metadata, name: &str) -> Vec<String> {
    let cluster = cluster_of(metadata).unwrap_or_default();
    let elsewhere = scene.fleet.clusters.iter().any(|known| known.name == cluster);
    let mut command = vec!["SELF".to_owned(), "fix".to_owned(), format!("{cluster}/{name}")];
    if elsewhere && cluster_is_gone(scene, metadata) && scene.question.namespace.is_none() {
        command.extend(["--namespace".to_owned(), metadata.namespace.clone().unwrap_or_default()]);
    }
    command
}

/// The remedy for what a machine of this name left behind.
pub(crate) fn remedy(scene: &Scene<'_>, machine: &str) -> Option<Result<(Remedy, &'static Rule), Refusal>> {
    let mut left: Vec<Orphan> = orphans(scene)
        .into_iter()
        .filter(|orphan| orphan.machine.as_deref() == Some(machine) || orphan.part.metadata.name == machine)
        .collect();
    // Infra before bootstrap: the driver's handler still reads what the bootstrap left.
    left.sort_by_key(|orphan| orphan.part.resource == RKE_BOOTSTRAPS);
    let first = left.first()?;
    let rule =
        if first.part.resource == RKE_BOOTSTRAPS { &findings::BOOTSTRAP_ORPHAN } else { &findings::INFRA_ORPHAN };
    // One at a time: the next one is another round.
    Some(
        action(scene, first)
            .map(|action| (Remedy { actions: vec![action], then: format!("{} goes", first.part.reference()) }, rule)),
    )
}
