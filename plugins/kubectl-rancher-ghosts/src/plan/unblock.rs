//! RG103: the one thing that a deletion needs which stands still, where it is provably pointless to wait.
//!
//! Annotations that Cluster API or Rancher provide come before finalizers; a finalizer is taken off only where the
//! handler behind it would do nothing else. The word that is typed says what cannot be seen from here: that the host is
//! gone for good.

use rancher_common::plan::{Action, Change, Operation, Reversibility};
use rancher_common::rancher::{MACHINES, Metadata, RKE_BOOTSTRAPS};
use rancher_common::resource::{ObjectRef, ResourceType};
use rancher_common::time::{Timestamp, between, human};
use serde_json::{Value, json};

use super::{Refusal, Remedy, guards, picture};
use crate::diagnose::Scene;
use crate::diagnose::deleting::{self, Looks};
use crate::model::fleet::{Cluster, Picture};
use crate::model::machine::{EXCLUDE_DRAIN, EXCLUDE_VOLUMES, Machine, Role, Step};
use crate::model::objects::{Part, reference};

/// Finalizer of a CustomMachine; its handler does nothing but take it off
/// (rancher/rancher pkg/controllers/capr/unmanaged/controller.go).
const UNMANAGED: &str = "wrangler.cattle.io/unmanaged-machine";
/// Finalizer of an RKEBootstrap; its handler takes an etcd member out
/// (pkg/controllers/capr/bootstrap/controller.go).
const BOOTSTRAP: &str = "wrangler.cattle.io/rke-bootstrap-etcd-removal";
/// Rancher's own way to let go of an infra machine whose deletion failed
/// (pkg/controllers/capr/machineprovision/controller.go; the UI's Force Delete).
const FORCE: &str = "provisioning.cattle.io/force-machine-remove";

/// A refusal if something is paused.
pub(crate) fn paused(cluster: &Cluster, machine: &Machine) -> Option<Refusal> {
    if machine.paused() {
        return Some(Refusal::new(format!("{} is paused (RG206): nothing happens to it", machine.name())));
    }
    guards::moving(cluster).err()
}

pub(crate) fn remedy(scene: &Scene<'_>, cluster: &Cluster, picture: &Picture) -> Result<Remedy, Refusal> {
    let Some(machine) = picture.whole() else { return Err(Refusal::new("the Machine was not read whole")) };
    guards::controllers(scene)?;
    if let Some(refusal) = paused(cluster, machine) {
        return Err(refusal);
    }
    let step = deleting::step(picture, machine);
    match deleting::step_since(picture, machine, step) {
        Some(since) => patient(scene, "this step", Some(since))?,
        None => patient(scene, "the deletion", machine.metadata.deletion_timestamp)?,
    }
    nobody_else(cluster, picture, machine)?;
    if matches!(step, Step::Drain | Step::Volumes) && deleting::looks(scene.snapshot, machine) == Looks::Once {
        return Err(Refusal::new("whether it moves, however slowly, is not known: the second look failed")
            .instead("run it again"));
    }
    let text = machine.step_text().unwrap_or_default();
    match step {
        Step::Drain => host_gone(cluster, machine, text).and_then(|()| {
            annotate(
                scene,
                cluster,
                picture,
                machine,
                EXCLUDE_DRAIN,
                "the drain reaches no kubelet any more: the host is gone for good",
            )
        }),
        Step::Volumes => host_gone(cluster, machine, text).and_then(|()| {
            annotate(
                scene,
                cluster,
                picture,
                machine,
                EXCLUDE_VOLUMES,
                "nothing detaches volumes of a host that is gone for good",
            )
        }),
        Step::PreDrainHook | Step::PreTerminateHook => Err(hook(cluster, picture, machine, step)),
        Step::Infra => infra(scene, cluster, picture),
        Step::Bootstrap => bootstrap(scene, cluster, picture, machine),
        Step::NodeDeletion if !machine.node_deletion_timeout => {
            host_gone(cluster, machine, text)?;
            limit_node_deletion(scene, cluster, picture, machine)
        }
        Step::NodeDeletion => Err(Refusal::new("only Cluster API's controller itself is left to finish")
            .instead("look at its log: what it says about this machine names the reason")),
        Step::Paused | Step::Unknown => Err(Refusal::new("at which step the deletion stands could not be read")),
    }
}

/// What has just begun is not stuck: those whose turn it is get their time.
pub(crate) fn patient(scene: &Scene<'_>, what: &str, since: Option<Timestamp>) -> Result<(), Refusal> {
    let patience = scene.question.patience;
    let waited = since.map(|since| between(since, scene.snapshot.as_of)).unwrap_or_default();
    if waited < patience {
        return Err(Refusal::new(format!("{what} began {} ago", human(waited)))
            .instead(format!("wait, or call it stuck earlier: --patience (now {})", human(patience))));
    }
    Ok(())
}

/// Whether the deletion, once it goes on, would reach another machine's Node: Cluster API addresses Nodes by name
/// (internal/controllers/machine reconcileDelete, deleteNode).
fn nobody_else(cluster: &Cluster, picture: &Picture, machine: &Machine) -> Result<(), Refusal> {
    let Some(name) = machine.node.as_deref() else { return Ok(()) };
    match cluster.node(name) {
        Ok(None) => return guards::name_not_reused(cluster, picture, machine),
        Ok(Some(node)) if node.machine_uid() == Some(machine.uid()) => return Ok(()),
        _ => {}
    }
    match cluster.rivals(picture, name).next() {
        Some(rival) => Err(Refusal::new(format!(
            "{} refers to the same Node {name}, which the deletion takes along as soon as it goes on (RG104)",
            rival.row.name
        ))
        .instead(
            "give a connection to the downstream cluster (--downstream-context): the Node's label tells whose it is",
        )),
        None => Ok(()),
    }
}

/// Whether the host may be gone: never if its Node is Ready, and never for etcd or the control plane, whose members
/// nobody else takes out.
fn host_gone(cluster: &Cluster, machine: &Machine, text: &str) -> Result<(), Refusal> {
    let node = machine.node.as_deref().unwrap_or_default();
    if machine.is(Role::Etcd) || machine.is(Role::ControlPlane) {
        return Err(Refusal::new(format!(
            "{} is no pure worker: its etcd member or control plane must go in good order",
            machine.name()
        ))
        .instead(
            "take a snapshot, prove the other members healthy and take its member out by hand; see explain RG103",
        ));
    }
    match cluster.node(node) {
        Ok(Some(found)) if found.ready == Some(true) => Err(Refusal::new(format!(
            "Node {node} is Ready, so its host is there: {}",
            text.lines().next().unwrap_or_default()
        ))
        .instead("look at the pods and PodDisruptionBudgets that hold the drain up, or at the volumes")),
        Ok(_) => Ok(()),
        // Unreachable looks the same as gone for good: only a person can know.
        Err(_) if cluster.connected() == Some(false) => Ok(()),
        Err(why) => Err(Refusal::new(format!(
            "cluster {} is connected, but whether Node {node} is alive was not seen: {why}",
            cluster.title()
        ))
        .instead("give a connection to the downstream cluster: --downstream-context")),
    }
}

fn hook(cluster: &Cluster, picture: &Picture, machine: &Machine, step: Step) -> Refusal {
    let kind = if step == Step::PreDrainHook { "pre-drain" } else { "pre-terminate" };
    let hooks = machine.hooks(kind).join(", ");
    let refusal = Refusal::new(format!("its {kind} hook is somebody's safeguard: {hooks}"));
    if let Some(sibling) = deleting::joined_to(cluster, picture).first() {
        return refusal.instead(format!(
            "{} is still joined to it: repair that machine's agent, then the hook goes by itself (RG205)",
            sibling.machine()
        ));
    }
    if machine.is(Role::Etcd) {
        return refusal.instead("Rancher's leader takes it off when the etcd member is out: the downstream cluster must be reachable and have quorum");
    }
    refusal.instead("ask its owner; the value of the annotation names it")
}

/// One annotation on the Machine.
fn annotate(
    scene: &Scene<'_>,
    cluster: &Cluster,
    picture: &Picture,
    machine: &Machine,
    annotation: &str,
    why: &str,
) -> Result<Remedy, Refusal> {
    if machine.annotated(annotation) {
        return Err(Refusal::new(format!("{annotation} is set already, and the step stands still all the same"))
            .instead("look at the log of Cluster API's controller"));
    }
    let metadata = &machine.metadata.annotations;
    let action = patch(
        MACHINES,
        picture.reference(),
        annotation_operations(metadata.is_empty(), annotation, "true"),
        why,
        Change {
            field: format!("metadata.annotations.{annotation}"),
            before: "<none>".to_owned(),
            after: "true".to_owned(),
        },
    );
    Ok(finish(
        scene,
        cluster,
        picture,
        Action {
            leaves: vec![format!(
                "typing the name says that the host of {} is gone for good: if it comes back, its pods run beside their replacements",
                machine.name()
            )],
            ..action
        },
    ))
}

fn annotation_operations(none_yet: bool, annotation: &str, value: &str) -> Vec<Value> {
    if none_yet {
        return vec![json!({"op": "add", "path": "/metadata/annotations", "value": {annotation: value}})];
    }
    let pointer = format!("/metadata/annotations/{}", annotation.replace('~', "~0").replace('/', "~1"));
    vec![json!({"op": "add", "path": pointer, "value": value})]
}

fn patch(resource: ResourceType, object: ObjectRef, operations: Vec<Value>, why: &str, change: Change) -> Action {
    Action {
        resource,
        object,
        operation: Operation::Patch { operations },
        why: why.to_owned(),
        changes: vec![change],
        facts: Vec::new(),
        wait: None,
        dependents: Vec::new(),
        reversibility: Reversibility::Irreversible,
        leaves: Vec::new(),
    }
}

fn finish(scene: &Scene<'_>, cluster: &Cluster, picture: &Picture, mut action: Action) -> Remedy {
    let own = action.object.clone();
    action.dependents = picture::dependents(scene, cluster, picture);
    action.dependents.retain(|dependent| dependent.object != own);
    Remedy { actions: vec![action], then: "Cluster API goes on with the deletion".to_owned() }
}

/// Takes one named finalizer off an object that is being deleted.
pub(crate) fn free(
    resource: &ResourceType,
    metadata: &Metadata,
    finalizer: &str,
    why: &str,
) -> Result<Action, Refusal> {
    let object = reference(resource, metadata);
    let Some(at) = metadata.finalizers.iter().position(|known| known == finalizer) else {
        return Err(Refusal::new(format!(
            "{object} has no finalizer {finalizer}; it is held by {}",
            if metadata.finalizers.is_empty() { "none".to_owned() } else { metadata.finalizers.join(", ") }
        )));
    };
    if metadata.deletion_timestamp.is_none() {
        return Err(Refusal::new(format!("{object} is not being deleted")));
    }
    let pointer = format!("/metadata/finalizers/{at}");
    Ok(patch(
        resource.clone(),
        object,
        vec![json!({"op": "test", "path": pointer, "value": finalizer}), json!({"op": "remove", "path": pointer})],
        why,
        Change { field: "metadata.finalizers".to_owned(), before: finalizer.to_owned(), after: "<none>".to_owned() },
    ))
}

/// Rancher's way to give up a VM whose deletion failed.
pub(crate) fn force(part: &Part) -> Result<Action, Refusal> {
    let failed = part.metadata.deletion_timestamp.is_some()
        && (part.delete_failed || part.conditions.iter().any(|c| c.kind == "DeleteJob" && c.is("False")));
    if !failed {
        return Err(Refusal::new(format!("the provider has not said that it cannot delete {}", part.reference()))
            .instead("look at its delete Job and at the cloud credential"));
    }
    if part.metadata.annotations.contains_key(FORCE) {
        return Err(Refusal::new(format!("{FORCE} is set already on {}", part.reference())));
    }
    let vm = part.provider_id.clone().unwrap_or_else(|| part.metadata.name.clone());
    Ok(Action {
        leaves: vec![format!("VM {vm} may go on running, and be billed: delete it at the provider")],
        ..patch(
            part.resource.clone(),
            part.reference(),
            annotation_operations(part.metadata.annotations.is_empty(), FORCE, "true"),
            "the provider could not delete the VM; Rancher then lets go of it",
            Change {
                field: format!("metadata.annotations.{FORCE}"),
                before: "<none>".to_owned(),
                after: "true".to_owned(),
            },
        )
    })
}

fn infra(scene: &Scene<'_>, cluster: &Cluster, picture: &Picture) -> Result<Remedy, Refusal> {
    match &picture.infra {
        Err(why) => Err(Refusal::new(format!("its infra machine was not read: {why}"))),
        Ok(None) => Err(Refusal::new("its infra machine is gone: Cluster API is about to go on")),
        Ok(Some(part)) if part.has_vm() => Ok(finish(scene, cluster, picture, force(part)?)),
        Ok(Some(part)) => {
            let action = free(
                &part.resource,
                &part.metadata,
                UNMANAGED,
                "Rancher's leader works, but has not taken it off; its handler does nothing else",
            )?;
            Ok(finish(scene, cluster, picture, action))
        }
    }
}

fn bootstrap(scene: &Scene<'_>, cluster: &Cluster, picture: &Picture, machine: &Machine) -> Result<Remedy, Refusal> {
    let part = match &picture.bootstrap {
        Err(why) => return Err(Refusal::new(format!("its RKEBootstrap was not read: {why}"))),
        Ok(None) => return Err(Refusal::new("its RKEBootstrap is gone: Cluster API is about to go on")),
        Ok(Some(part)) => part,
    };
    let etcd = machine.is(Role::Etcd) || part.roles().contains(&Role::Etcd);
    if etcd && !guards::never_ran(picture, machine) {
        return Err(Refusal::new(format!(
            "{} is an etcd machine, and nothing proves that its member is out",
            machine.name()
        ))
        .instead("prove the other members healthy, take its member out by hand, take a snapshot; see explain RG103"));
    }
    let action = free(
        &RKE_BOOTSTRAPS,
        &part.metadata,
        BOOTSTRAP,
        "Rancher's leader works, but has not taken it off; there is no etcd member to take out",
    )?;
    Ok(finish(scene, cluster, picture, action))
}

/// Gives the deletion of the Node an end. The defaulting webhook sets 10 s; without it the field stays empty and the
/// deletion is tried for ever.
fn limit_node_deletion(
    scene: &Scene<'_>,
    cluster: &Cluster,
    picture: &Picture,
    machine: &Machine,
) -> Result<Remedy, Refusal> {
    if machine.condition("Paused").is_none() {
        return Err(Refusal::new(
            "the field that ends this step is another one in this version of Cluster API, and was not tried",
        ));
    }
    let action = patch(
        MACHINES,
        picture.reference(),
        // A patch adds nothing below a parent that is not there.
        vec![if machine.has_deletion_spec {
            json!({"op": "add", "path": "/spec/deletion/nodeDeletionTimeoutSeconds", "value": 10})
        } else {
            json!({"op": "add", "path": "/spec/deletion", "value": {"nodeDeletionTimeoutSeconds": 10}})
        }],
        "without a limit Cluster API tries for ever to delete the Node of a cluster that it cannot reach",
        Change {
            field: "spec.deletion.nodeDeletionTimeoutSeconds".to_owned(),
            before: "<none>".to_owned(),
            after: "10".to_owned(),
        },
    );
    Ok(finish(
        scene,
        cluster,
        picture,
        Action {
            leaves: vec![format!(
                "Node {} stays in the downstream cluster, if that ever comes back",
                machine.node.as_deref().unwrap_or("?")
            )],
            ..action
        },
    ))
}
