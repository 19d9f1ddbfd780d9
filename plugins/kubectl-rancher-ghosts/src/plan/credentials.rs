//! RG106: plan Secrets and ServiceAccounts that an RKEBootstrap left behind.

use rancher_common::finding::{Finding, Rule};
use rancher_common::kinds::SECRETS;
use rancher_common::plan::{Action, Fact, Operation, Reversibility};
use serde_json::Value;

use super::{Refusal, Remedy, guards, orphans};
use crate::diagnose::Scene;
use crate::diagnose::credentials::{Credential, left};
use crate::findings;
use crate::model::objects::reference;

fn action(credential: &Credential) -> Action {
    let mut leaves = Vec::new();
    if credential.resource == SECRETS {
        leaves.push(format!(
            "an agent that still uses {} loses its plan and must be registered again: ask the hosts first (whois {})",
            credential.metadata.name, credential.metadata.name
        ));
    }
    Action {
        resource: credential.resource.clone(),
        object: reference(&credential.resource, &credential.metadata),
        operation: Operation::Delete { grace_period_seconds: None },
        why: format!("RKEBootstrap {} does not exist any more", credential.bootstrap),
        changes: Vec::new(),
        facts: vec![Fact { pointer: "/metadata/deletionTimestamp".to_owned(), value: Value::Null }],
        wait: None,
        dependents: Vec::new(),
        reversibility: Reversibility::Irreversible,
        leaves,
    }
}

/// Completes the finding about what one machine left.
pub(crate) fn target_of(scene: &Scene<'_>, first: &Credential, finding: Finding) -> Finding {
    match guards::controllers(scene) {
        Ok(()) => finding.fixable().next_command(orphans::command(scene, &first.metadata, &first.machine)),
        Err(refusal) => finding.advice(refusal.why),
    }
}

/// The remedy for all that a machine of this name left; `None` if it left nothing.
pub(crate) fn remedy(scene: &Scene<'_>) -> Option<Result<(Remedy, &'static Rule), Refusal>> {
    let actions: Vec<Action> = left(scene).iter().map(action).collect();
    if actions.is_empty() {
        return None;
    }
    Some(guards::controllers(scene).map(|()| {
        let then = "what it may do goes with it: nothing else refers to it".to_owned();
        (Remedy { actions, then }, &findings::BOOTSTRAP_ORPHAN)
    }))
}
