//! RG108: Rancher's copy of a Node, where its cluster is gone.

use rancher_common::finding::{Finding, Rule};
use rancher_common::plan::{Action, Fact, Operation, Reversibility};
use rancher_common::rancher::{MANAGEMENT_NODES, Metadata};
use rancher_common::time::{between, human};
use serde_json::Value;

use super::{Refusal, Remedy, guards, unblock};
use crate::diagnose::management_nodes::{Existence, copies, existence, has_namespace};
use crate::diagnose::{Scene, controllers, version};
use crate::findings;
use crate::model::objects::reference;

/// Finalizer of Rancher 2.11 and older; 2.12 neither sets nor removes it
/// (rancher/rancher pkg/controllers/management/node; issue 51878).
const NODE_CONTROLLER: &str = "controller.cattle.io/node-controller";
/// Beginning of a finalizer of Rancher 2.5 and older, of which the cluster's own controllers took care
/// (rancher/rancher issue 36055).
const USER_NODE_REMOVE: &str = "clusterscoped.controller.cattle.io/user-node-remove_";

/// What to do about one copy.
fn action(scene: &Scene<'_>, id: &str, node: &Metadata) -> Result<Action, Refusal> {
    match existence(scene, id) {
        Existence::Gone => {}
        Existence::Half => {
            return Err(Refusal::new(format!(
                "a provisioning Cluster still names {id}: with it the cluster may live (RG109)"
            ))
            .instead("settle which half of the cluster is right first"));
        }
        Existence::Exists => {
            return Err(Refusal::new(format!(
                "cluster {id} exists: the finalizer of such a copy can delete the real Node"
            )));
        }
        Existence::Unknown => return Err(Refusal::new(format!("whether cluster {id} exists was not read"))),
    }
    match has_namespace(scene, id) {
        Some(true) => {}
        Some(false) => return Err(Refusal::new(format!("namespace {id} does not exist (RG110): make it again first"))),
        None => return Err(Refusal::new(format!("whether namespace {id} exists was not read"))),
    }
    guards::leader(scene)?;
    let leaves =
        vec![format!("if a node driver made the host of {}, its VM may go on running, and be billed", node.name)];
    let Some(since) = node.deletion_timestamp else {
        // Its controllers get the chance to do their part first.
        return Ok(Action {
            resource: MANAGEMENT_NODES,
            object: reference(&MANAGEMENT_NODES, node),
            operation: Operation::Delete { grace_period_seconds: None },
            why: format!("cluster {id} does not exist any more"),
            changes: Vec::new(),
            facts: vec![Fact { pointer: "/metadata/deletionTimestamp".to_owned(), value: Value::Null }],
            wait: None,
            dependents: Vec::new(),
            reversibility: Reversibility::Irreversible,
            leaves,
        });
    };
    let (waited, patience) = (between(since, scene.snapshot.as_of), scene.question.patience);
    if waited < patience {
        return Err(Refusal::new(format!("its deletion began {} ago", human(waited)))
            .instead(format!("wait, or call it stuck earlier: --patience (now {})", human(patience))));
    }
    let known = |finalizer: &&String| *finalizer == NODE_CONTROLLER || finalizer.starts_with(USER_NODE_REMOVE);
    let Some(finalizer) = node.finalizers.iter().find(known) else {
        return Err(Refusal::new(format!("it is held by {}, which is not known here", node.finalizers.join(", ")))
            .instead("ask whoever sets that finalizer"));
    };
    let newer =
        version(scene.snapshot).as_deref().and_then(controllers::minor).is_some_and(|version| version >= (2, 12));
    if finalizer == NODE_CONTROLLER && !newer {
        return Err(Refusal::new(format!(
            "Rancher before 2.12, or of a version that was not read, removes {finalizer} itself"
        ))
        .instead("look at the log of Rancher's leader: it says why it does not"));
    }
    let why = if finalizer == NODE_CONTROLLER {
        "Rancher does not remove it any more since 2.12"
    } else {
        "the controllers that removed it went with the cluster"
    };
    Ok(Action { leaves, ..unblock::free(&MANAGEMENT_NODES, node, finalizer, why)? })
}

/// Completes the finding about the copies of one cluster: the first of them is the next to go.
pub(crate) fn target_of(scene: &Scene<'_>, id: &str, first: &Metadata, finding: Finding) -> Finding {
    match action(scene, id, first) {
        Ok(_) => finding.fixable().next_command(["SELF".to_owned(), "fix".to_owned(), format!("{id}/{}", first.name)]),
        Err(refusal) => finding.advice(format!("fix refuses: {}.", refusal.why)),
    }
}

/// The remedy for a copy of this name; `None` if there is none.
pub(crate) fn remedy(scene: &Scene<'_>, id: &str, name: &str) -> Option<Result<(Remedy, &'static Rule), Refusal>> {
    let node = copies(scene).remove(id)?.into_iter().find(|node| node.name == name)?;
    Some(action(scene, id, &node).map(|action| {
        let then = format!("{} goes, and namespace {id} after the last of them", reference(&MANAGEMENT_NODES, &node));
        (Remedy { actions: vec![action], then }, &findings::MANAGEMENT_NODE_ORPHAN)
    }))
}
