//! Taking back what a backup records: fields are put back while the object still has them as they were left; deleted
//! objects are made again unless a controller has replaced them. What cannot come back is said.

use serde_json::{Value, json};

use super::backup::Saved;
use super::{Action, Change, Fact, Operation, Plan, Reversibility};
use crate::resource::ObjectRef;

/// What `undo` can do with a backup.
#[derive(Clone, Debug, PartialEq)]
pub struct Undo {
    /// The plan, if there is anything to put back.
    pub plan: Option<Plan>,
    /// What stays as it is, and why, one sentence each.
    pub left: Vec<String>,
}

/// Plans the way back, last action first. Pure: what the objects are like now is checked by the preflight.
#[must_use]
pub fn plan(saved: &Saved) -> Undo {
    let mut undo = Undo { plan: None, left: Vec::new() };
    let mut actions = Vec::new();
    // Deleted objects come back as they were before the first action; what was patched on them comes back with them.
    let deleted: Vec<&ObjectRef> = saved
        .applied()
        .iter()
        .filter_map(|number| saved.plan.actions.get(number - 1))
        .filter(|action| matches!(action.operation, Operation::Delete { .. }))
        .map(|action| &action.object)
        .collect();
    for number in saved.applied().into_iter().rev() {
        let Some(action) = saved.plan.actions.get(number - 1) else { continue };
        if action.reversibility == Reversibility::Irreversible {
            // An object made again would have another identity, and nobody would know what it was for.
            undo.left.push(format!(
                "{}: cannot be brought back; as it was it is in {}",
                action.object,
                saved.directory.join("objects").display()
            ));
            continue;
        }
        let before =
            saved.objects.iter().find(|object| object["metadata"]["uid"].as_str() == action.object.uid.as_deref());
        match (&action.operation, before) {
            (Operation::Delete { .. }, Some(before)) => match controller(before) {
                Some(owner) => undo.left.push(format!("{}: {owner} has replaced it", action.object)),
                None => actions.push(recreate(action, before)),
            },
            (Operation::Patch { .. }, Some(_)) if deleted.contains(&&action.object) => {}
            (Operation::Patch { operations }, Some(before)) => actions.push(put_back(action, operations, before)),
            (Operation::Create { .. }, _) => undo.left.push(format!("{}: was made, and stays", action.object)),
            (_, None) => undo.left.push(format!("{}: is not in the backup", action.object)),
        }
    }
    if !actions.is_empty() {
        undo.plan = Some(Plan {
            tool: saved.plan.tool.clone(),
            cluster_uid: saved.plan.cluster_uid.clone(),
            repairs: Vec::new(),
            actions,
            then: format!("the state before {} is back", saved.id),
        });
    }
    undo
}

/// The controller that makes an object again when it is deleted.
fn controller(object: &Value) -> Option<String> {
    object["metadata"]["ownerReferences"].as_array()?.iter().find(|owner| owner["controller"] == true).map(|owner| {
        format!("{} {}", owner["kind"].as_str().unwrap_or("its owner"), owner["name"].as_str().unwrap_or_default())
    })
}

fn recreate(action: &Action, before: &Value) -> Action {
    let mut object = before.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "generation",
            "managedFields",
            "selfLink",
        ] {
            metadata.remove(field);
        }
    }
    Action {
        operation: Operation::Create { object },
        object: ObjectRef { uid: None, ..action.object.clone() },
        why: "it was deleted by the repair".to_owned(),
        changes: Vec::new(),
        facts: Vec::new(),
        wait: None,
        dependents: Vec::new(),
        reversibility: Reversibility::FieldsOnly,
        leaves: vec![
            "it gets a new UID; status and owner references of others to the old one do not come back".to_owned(),
            "this brings back the state that was repaired".to_owned(),
        ],
        resource: action.resource.clone(),
    }
}

fn put_back(action: &Action, operations: &[Value], before: &Value) -> Action {
    let mut back = Vec::new();
    let mut facts = Vec::new();
    let mut changes = Vec::new();
    for operation in operations.iter().rev().filter(|operation| operation["op"] != "test") {
        let Some(path) = operation["path"].as_str() else { continue };
        let value = before.pointer(path);
        let after = operation.get("value").cloned().unwrap_or(Value::Null);
        back.push(match (operation["op"].as_str(), value) {
            (Some("remove"), Some(value)) => json!({"op": "add", "path": path, "value": value}),
            (_, Some(value)) => json!({"op": "replace", "path": path, "value": value}),
            (_, None) => json!({"op": "remove", "path": path}),
        });
        if operation["op"] != "remove" {
            facts.push(Fact { pointer: path.to_owned(), value: after.clone() });
        }
        changes.push(Change {
            field: path.trim_start_matches('/').replace('/', "."),
            before: after.to_string(),
            after: value.map(Value::to_string).unwrap_or_default(),
        });
    }
    Action {
        operation: Operation::Patch { operations: back },
        why: "it was changed by the repair".to_owned(),
        changes,
        facts,
        wait: None,
        dependents: Vec::new(),
        reversibility: Reversibility::Reversible,
        leaves: vec!["this brings back the state that was repaired".to_owned()],
        resource: action.resource.clone(),
        object: action.object.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::action::tests_support::delete_lease_plan;
    use crate::plan::backup::Entry;
    use std::path::PathBuf;

    fn saved(plan: Plan, objects: Vec<Value>, events: &[(usize, &str)]) -> Saved {
        Saved {
            id: "20260822T095502Z-x".into(),
            directory: PathBuf::new(),
            plan,
            objects,
            journal: events
                .iter()
                .map(|(action, event)| Entry {
                    at: jiff::Timestamp::UNIX_EPOCH,
                    action: *action,
                    event: (*event).into(),
                    detail: String::new(),
                })
                .collect(),
        }
    }

    fn lease() -> Value {
        json!({"kind": "Lease", "metadata": {"name": "l", "namespace": "n", "uid": "u1", "resourceVersion": "7"}, "spec": {"holderIdentity": "a"}})
    }

    #[test]
    fn a_deleted_object_is_made_again_without_its_identity() {
        let undo = plan(&saved(delete_lease_plan(), vec![lease()], &[(1, "applied")]));
        let action = &undo.plan.expect("a plan").actions[0];
        let Operation::Create { object } = &action.operation else { panic!("{action:?}") };
        assert_eq!(
            *object,
            json!({"kind": "Lease", "metadata": {"name": "l", "namespace": "n"}, "spec": {"holderIdentity": "a"}})
        );
        assert_eq!(action.reversibility, Reversibility::FieldsOnly);
    }

    #[test]
    fn what_was_not_applied_or_is_replaced_stays() {
        assert_eq!(plan(&saved(delete_lease_plan(), vec![lease()], &[(1, "failed")])).plan, None);
        let mut owned = lease();
        owned["metadata"]["ownerReferences"] = json!([{"kind": "ReplicaSet", "name": "r", "controller": true}]);
        let undo = plan(&saved(delete_lease_plan(), vec![owned], &[(1, "applied")]));
        assert_eq!((undo.plan, undo.left.len()), (None, 1));
    }

    #[test]
    fn what_was_patched_on_a_deleted_object_comes_back_with_it() {
        let mut both = delete_lease_plan();
        let mut patch = both.actions[0].clone();
        patch.operation =
            Operation::Patch { operations: vec![json!({"op": "remove", "path": "/metadata/finalizers/0"})] };
        both.actions.push(patch);
        let undo = plan(&saved(both, vec![lease()], &[(1, "applied"), (2, "applied")]));
        let verbs: Vec<&str> = undo.plan.iter().flat_map(|plan| &plan.actions).map(Action::verb).collect();
        assert_eq!((verbs, undo.left), (vec!["create"], vec![]));
    }

    #[test]
    fn patched_fields_are_put_back_in_reverse_if_they_are_as_left() {
        let mut patched = delete_lease_plan();
        patched.actions[0].operation = Operation::Patch {
            operations: vec![
                json!({"op": "replace", "path": "/spec/holderIdentity", "value": ""}),
                json!({"op": "add", "path": "/spec/new", "value": 1}),
            ],
        };
        let undo = plan(&saved(patched, vec![lease()], &[(1, "applied")]));
        let action = &undo.plan.expect("a plan").actions[0];
        let Operation::Patch { operations } = &action.operation else { panic!("{action:?}") };
        assert_eq!(operations[0], json!({"op": "remove", "path": "/spec/new"}));
        assert_eq!(operations[1], json!({"op": "replace", "path": "/spec/holderIdentity", "value": "a"}));
        assert_eq!(action.facts[1], Fact { pointer: "/spec/holderIdentity".into(), value: json!("") });
    }
}
