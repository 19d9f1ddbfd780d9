//! A plan as data: what will be written, under which precondition, and what it rests on.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::resource::{ObjectRef, ResourceType};
use crate::snapshot::Right;

/// Whether an action can be taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Reversibility {
    /// `undo` brings everything back, or a controller replaces what was removed.
    Reversible,
    /// `undo` brings fields back, but not the identity of the object (UID, owner references, status).
    FieldsOnly,
    /// Nothing brings it back.
    Irreversible,
}

impl Reversibility {
    /// For people.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Reversible => "reversible",
            Self::FieldsOnly => "fields only",
            Self::Irreversible => "irreversible",
        }
    }
}

/// A fact of an object that an action rests on: it must still hold just before the write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// JSON pointer into the object, for instance `/spec/holderIdentity`.
    pub pointer: String,
    /// The value it had; null when the field was absent.
    pub value: Value,
}

/// One field before and after, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Field path, for instance `spec.holderIdentity`.
    pub field: String,
    /// Value now.
    pub before: String,
    /// Value then.
    pub after: String,
}

/// The write itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Operation {
    /// Delete the object, with UID and resourceVersion (the one read just before the write) as preconditions.
    Delete {
        /// Seconds of grace for a pod; none leaves it to the object.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grace_period_seconds: Option<u32>,
    },
    /// A JSON patch; `test` operations on UID and resourceVersion are put in front of it.
    Patch {
        /// The operations, RFC 6902.
        operations: Vec<Value>,
    },
    /// Create the object (only `undo` does).
    Create {
        /// The object.
        object: Value,
    },
}

/// Another object that is backed up with the one an action writes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dependent {
    /// Its kind.
    pub resource: ResourceType,
    /// The object.
    pub object: ObjectRef,
    /// Whether it goes when the other one is deleted; if not, it is saved to have the whole picture.
    #[serde(default = "goes", skip_serializing_if = "Clone::clone")]
    pub goes: bool,
}

/// Without a word about it, a dependent goes.
fn goes() -> bool {
    true
}

/// What must come true before an action is taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Await {
    /// What is waited for, to follow «until»: `the machine is drained`.
    pub text: String,
    /// Kind of the object that shows it.
    pub resource: ResourceType,
    /// The object that shows it. With a UID, another object of the same name never fulfils it, except for [`Until::Gone`].
    pub object: ObjectRef,
    /// How it shows.
    pub until: Until,
    /// Seconds after which it is given up and nothing more is written.
    pub seconds: u32,
}

/// How an object shows that something has come true.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Until {
    /// A condition has this status. It is looked up in `/status/conditions` and, for objects that Cluster API serves in
    /// v1beta2, in `/status/deprecated/v1beta1/conditions` too.
    Condition {
        /// Type of the condition.
        kind: String,
        /// `True`, `False` or `Unknown`.
        status: String,
    },
    /// A field has this value; null stands for an absent field.
    Field {
        /// JSON pointer.
        pointer: String,
        /// The value.
        value: Value,
    },
    /// A field is there and not null.
    Present {
        /// JSON pointer.
        pointer: String,
    },
    /// The object is gone, or another one has taken its name.
    Gone,
}

/// One write.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Action {
    /// The kind of the object.
    pub resource: ResourceType,
    /// The object, UID included unless it is to be created.
    pub object: ObjectRef,
    /// The write.
    pub operation: Operation,
    /// Why, in one sentence.
    pub why: String,
    /// Fields before and after, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// What must still hold just before the write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<Fact>,
    /// What must come true before this action is taken, after the one before it. Such an action rests on a state that
    /// does not exist yet: see [`super::apply::preflight`] for what is checked when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<Await>,
    /// Objects that are backed up too: those that garbage collection will take along, and those that belong to the
    /// picture.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependents: Vec<Dependent>,
    /// Whether it can be taken back.
    pub reversibility: Reversibility,
    /// What stays behind or cannot be brought back, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leaves: Vec<String>,
}

impl Await {
    /// Whether it has come true, judged from the object as it is now; `Err` says why it never will.
    ///
    /// # Errors
    /// When the object that was to show it is gone or has been replaced.
    pub fn came_true(&self, now: Option<&Value>) -> Result<bool, String> {
        let theirs = now.filter(|object| {
            self.object.uid.is_none() || object["metadata"]["uid"].as_str() == self.object.uid.as_deref()
        });
        let object = match (theirs, &self.until) {
            (None, Until::Gone) => return Ok(true),
            (Some(_), Until::Gone) => return Ok(false),
            // Without a UID the object may still have to be made.
            (None, _) if self.object.uid.is_none() => return Ok(false),
            (None, _) if now.is_some() => return Err(format!("another {} has taken its name", self.object)),
            (None, _) => return Err(format!("{} is gone", self.object)),
            (Some(object), _) => object,
        };
        Ok(match &self.until {
            Until::Condition { kind, status } => condition(object, kind).is_some_and(|found| found == status),
            Until::Field { pointer, value } => object.pointer(pointer).unwrap_or(&Value::Null) == value,
            Until::Present { pointer } => object.pointer(pointer).is_some_and(|value| !value.is_null()),
            Until::Gone => false,
        })
    }
}

/// The status of a condition. The object's own list decides where it names the type: in v1beta2 of Cluster API a type may
/// mean something else than under the same name in the list kept for v1beta1.
fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    ["/status/conditions", "/status/deprecated/v1beta1/conditions"]
        .iter()
        .filter_map(|pointer| object.pointer(pointer)?.as_array())
        .flatten()
        .find(|condition| condition["type"] == kind)
        .and_then(|condition| condition["status"].as_str())
}

impl Action {
    /// `delete`, `patch` or `create`.
    #[must_use]
    pub fn verb(&self) -> &'static str {
        match self.operation {
            Operation::Delete { .. } => "delete",
            Operation::Patch { .. } => "patch",
            Operation::Create { .. } => "create",
        }
    }

    /// `deleted`, `patched` or `created`, as kubectl reports it.
    #[must_use]
    pub fn past(&self) -> &'static str {
        match self.operation {
            Operation::Delete { .. } => "deleted",
            Operation::Patch { .. } => "patched",
            Operation::Create { .. } => "created",
        }
    }

    /// The permission it takes.
    #[must_use]
    pub fn right(&self) -> Right {
        Right {
            verb: self.verb().to_owned(),
            group: self.resource.group.clone().into_owned(),
            resource: self.resource.plural.clone().into_owned(),
            namespace: self.object.namespace.clone(),
            // RBAC cannot limit `create` by name.
            name: (self.verb() != "create").then(|| self.object.name.clone()),
        }
    }

    /// The facts that no longer hold for this reading of the object, as `pointer: before => now`. A changed UID counts
    /// even where no fact names it.
    #[must_use]
    pub fn broken_facts(&self, object: &Value) -> Vec<String> {
        let uid = self
            .object
            .uid
            .as_ref()
            .map(|uid| Fact { pointer: "/metadata/uid".to_owned(), value: Value::String(uid.clone()) });
        uid.iter()
            .chain(&self.facts)
            .filter_map(|fact| {
                let now = object.pointer(&fact.pointer).unwrap_or(&Value::Null);
                (*now != fact.value).then(|| format!("{}: {} => {}", fact.pointer, plain(&fact.value), plain(now)))
            })
            .collect()
    }
}

/// A JSON value as people read it: strings without quotes, null as `<none>`.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<none>".to_owned(),
        Value::String(text) if text.is_empty() => "\"\"".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A repair.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Plugin that made it: `rancher-lease`.
    pub tool: String,
    /// UID of the namespace kube-system: the identity of the cluster.
    pub cluster_uid: String,
    /// Codes of the findings it repairs.
    pub repairs: Vec<String>,
    /// Writes, in order.
    pub actions: Vec<Action>,
    /// What is waited for afterwards, in one sentence.
    pub then: String,
}

impl Plan {
    /// The least reversible of its actions.
    #[must_use]
    pub fn reversibility(&self) -> Reversibility {
        self.actions.iter().map(|action| action.reversibility).max().unwrap_or(Reversibility::Reversible)
    }

    /// 12 hex digits that stand for exactly this plan: target cluster, actions, object UIDs and the facts they rest on.
    /// Not the resourceVersion, which changes with every status update, so that nobody could ever confirm.
    #[must_use]
    pub fn digest(&self) -> String {
        // Field order is that of the structs and maps keep the server's order, so equal plans have equal text.
        let text = serde_json::to_string(self).unwrap_or_default();
        Sha256::digest(text.as_bytes()).iter().take(6).map(|byte| format!("{byte:02x}")).collect()
    }

    /// The word to type for an irreversible plan: the name of the first object that cannot be brought back.
    #[must_use]
    pub fn typed_word(&self) -> Option<&str> {
        self.actions
            .iter()
            .find(|action| action.reversibility == Reversibility::Irreversible)
            .map(|action| action.object.name.as_str())
    }
}

#[cfg(test)]
pub(crate) mod tests_support {
    use super::*;
    use crate::kinds::LEASES;
    use serde_json::json;

    /// A plan that deletes one Lease.
    pub(crate) fn delete_lease_plan() -> Plan {
        let lease = json!({"metadata": {"name": "l", "namespace": "n", "uid": "u1"}, "spec": {"holderIdentity": "a"}});
        Plan {
            tool: "rancher-lease".into(),
            cluster_uid: "c".into(),
            repairs: vec!["RL101".into()],
            actions: vec![Action {
                resource: LEASES,
                object: ObjectRef::of(&LEASES, &lease),
                operation: Operation::Delete { grace_period_seconds: None },
                why: "w".into(),
                changes: vec![],
                wait: None,
                dependents: vec![],
                facts: vec![Fact { pointer: "/spec/holderIdentity".into(), value: json!("a") }],
                reversibility: Reversibility::Reversible,
                leaves: vec![],
            }],
            then: "t".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::tests_support::delete_lease_plan;
    use super::*;
    use crate::kinds::LEASES;
    use serde_json::json;

    #[test]
    fn facts_break_when_the_object_changes() {
        let action = &delete_lease_plan().actions[0];
        let now = |uid: &str, holder: &str| json!({"metadata": {"uid": uid, "resourceVersion": "9"}, "spec": {"holderIdentity": holder}});
        assert!(action.broken_facts(&now("u1", "a")).is_empty());
        assert_eq!(action.broken_facts(&now("u1", "b")), ["/spec/holderIdentity: a => b"]);
        assert_eq!(action.broken_facts(&now("u2", "a")), ["/metadata/uid: u1 => u2"]);
        assert_eq!(action.broken_facts(&json!({})).len(), 2);
    }

    #[test]
    fn the_digest_covers_target_actions_and_facts() {
        let base = delete_lease_plan().digest();
        assert_eq!(base.len(), 12);
        assert_eq!(base, delete_lease_plan().digest());
        let changed: [fn(&mut Plan); 4] = [
            |p| p.cluster_uid = "d".into(),
            |p| p.actions[0].object.uid = Some("u2".into()),
            |p| p.actions[0].facts[0].value = json!("b"),
            |p| p.actions[0].operation = Operation::Delete { grace_period_seconds: Some(0) },
        ];
        for change in changed {
            let mut other = delete_lease_plan();
            change(&mut other);
            assert_ne!(other.digest(), base);
        }
    }

    #[test]
    fn what_is_waited_for_is_part_of_the_plan_and_what_is_not_there_leaves_it_as_it_was() {
        let base = delete_lease_plan();
        let mut waits = base.clone();
        waits.actions[0].wait = Some(wait(Until::Gone));
        let mut longer = waits.clone();
        longer.actions[0].wait.as_mut().expect("a wait").seconds += 1;
        let mut whole = base.clone();
        let dependent = |goes| Dependent { resource: LEASES, object: base.actions[0].object.clone(), goes };
        whole.actions[0].dependents = vec![dependent(true)];
        let mut kept = base.clone();
        kept.actions[0].dependents = vec![dependent(false)];
        let digests: std::collections::BTreeSet<String> =
            [&base, &waits, &longer, &whole, &kept].iter().map(|plan| plan.digest()).collect();
        assert_eq!(digests.len(), 5);
        // Backups of earlier versions know neither; they read back as they were meant, and nothing new is written.
        let text = serde_json::to_value(&whole).expect("JSON");
        assert!(text["actions"][0].get("wait").is_none());
        assert!(text["actions"][0]["dependents"][0].get("goes").is_none());
        for plan in [whole, kept, waits] {
            let text = serde_json::to_string(&plan).expect("JSON");
            assert_eq!(serde_json::from_str::<Plan>(&text).expect("a plan"), plan);
        }
    }

    fn wait(until: Until) -> Await {
        let object = ObjectRef::of(&LEASES, &json!({"metadata": {"name": "l", "namespace": "n", "uid": "u1"}}));
        Await { text: "x".into(), resource: LEASES, object, until, seconds: 1 }
    }

    #[test]
    fn what_is_waited_for_is_read_off_the_object() {
        let drained = || Until::Condition { kind: "Drained".into(), status: "True".into() };
        let with = |status: Value| json!({"metadata": {"uid": "u1"}, "status": status});
        let conditions =
            |status: &str| json!([{"type": "Other", "status": "True"}, {"type": "Drained", "status": status}]);
        let old = |status: &str| json!({"conditions": conditions(status)});
        let mirrored =
            |status: &str| json!({"conditions": [], "deprecated": {"v1beta1": {"conditions": conditions(status)}}});
        let both =
            json!({"conditions": conditions("False"), "deprecated": {"v1beta1": {"conditions": conditions("True")}}});
        let field = |value: Value| Until::Field { pointer: "/status/phase".into(), value };
        let present = || Until::Present { pointer: "/status/phase".into() };
        let cases = [
            (drained(), with(old("True")), true),
            (drained(), with(old("False")), false),
            (drained(), with(mirrored("True")), true),
            (drained(), with(both), false),
            (drained(), with(json!({})), false),
            (field(json!("Gone")), with(json!({"phase": "Gone"})), true),
            (field(json!("Gone")), with(json!({"phase": "Going"})), false),
            (field(Value::Null), with(json!({})), true),
            (present(), with(json!({"phase": ""})), true),
            (present(), with(json!({"phase": null})), false),
            (Until::Gone, with(json!({})), false),
            (Until::Gone, json!({"metadata": {"uid": "u2"}}), true),
        ];
        for (until, object, expected) in cases {
            assert_eq!(wait(until.clone()).came_true(Some(&object)), Ok(expected), "{until:?} {object}");
        }
        assert_eq!(wait(Until::Gone).came_true(None), Ok(true));
        assert_eq!(wait(present()).came_true(None), Err("Lease n/l is gone".to_owned()));
        let other = json!({"metadata": {"uid": "u2"}, "status": {"phase": "x"}});
        assert_eq!(wait(present()).came_true(Some(&other)), Err("another Lease n/l has taken its name".to_owned()));
        let mut to_come = wait(present());
        to_come.object.uid = None;
        assert_eq!(to_come.came_true(None), Ok(false));
        assert_eq!(to_come.came_true(Some(&other)), Ok(true));
    }

    #[test]
    fn only_irreversible_plans_ask_for_a_word() {
        let mut plan = delete_lease_plan();
        assert_eq!(plan.typed_word(), None);
        plan.actions[0].reversibility = Reversibility::Irreversible;
        assert_eq!(plan.typed_word(), Some("l"));
        assert_eq!(plan.reversibility(), Reversibility::Irreversible);
    }
}
