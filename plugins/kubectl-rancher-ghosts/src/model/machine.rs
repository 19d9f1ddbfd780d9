//! A Cluster API Machine of either version, read into one shape.
//!
//! v1beta1 (Rancher before 2.14) and v1beta2 differ in references, conditions and readiness
//! (kubernetes-sigs/cluster-api api/core/v1beta1 and v1beta2 `machine_types.go`). A v1beta2 Machine carries the old
//! conditions under `status.deprecated.v1beta1.conditions`.

use std::collections::BTreeSet;
use std::fmt;

use rancher_common::rancher::Metadata;
use rancher_common::time::Timestamp;
use serde::Deserialize;
use serde_json::Value;

/// Annotation that keeps Cluster API from touching an object.
pub(crate) const PAUSED: &str = "cluster.x-k8s.io/paused";
/// Annotation that skips the drain of a machine that is deleted.
pub(crate) const EXCLUDE_DRAIN: &str = "machine.cluster.x-k8s.io/exclude-node-draining";
/// Annotation that skips waiting for volumes of a machine that is deleted.
pub(crate) const EXCLUDE_VOLUMES: &str = "machine.cluster.x-k8s.io/exclude-wait-for-node-volume-detach";
/// Finalizer of Cluster API's machine controller.
pub(crate) const MACHINE_FINALIZER: &str = "machine.cluster.x-k8s.io";
/// Rancher's hook on etcd machines: its leader takes the member out before the machine goes
/// (rancher/rancher pkg/controllers/capr/bootstrap/controller.go).
pub(crate) const ETCD_HOOK: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/rke-bootstrap-cleanup";
/// Label of the cluster that an object belongs to.
pub(crate) const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";

/// What a machine does in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Role {
    Etcd,
    ControlPlane,
    Worker,
}

impl Role {
    pub(crate) const ALL: [Self; 3] = [Self::Etcd, Self::ControlPlane, Self::Worker];

    /// Rancher's label on Machines, bootstraps and plan Secrets (rancher/rancher pkg/capr/common.go).
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Etcd => "rke.cattle.io/etcd-role",
            Self::ControlPlane => "rke.cattle.io/control-plane-role",
            Self::Worker => "rke.cattle.io/worker-role",
        }
    }

    /// The flag of the registration command (rancher/system-agent install.sh).
    pub(crate) fn flag(self) -> &'static str {
        match self {
            Self::Etcd => "--etcd",
            Self::ControlPlane => "--controlplane",
            Self::Worker => "--worker",
        }
    }
}

impl fmt::Display for Role {
    /// As the planner writes tiers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Etcd => "etcd",
            Self::ControlPlane => "control plane",
            Self::Worker => "worker",
        })
    }
}

/// The roles in an object's labels.
pub(crate) fn roles(metadata: &Metadata) -> BTreeSet<Role> {
    let on = |role: &Role| metadata.labels.get(role.label()).is_some_and(|value| value == "true");
    Role::ALL.into_iter().filter(on).collect()
}

/// A condition of either style.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    pub reason: Option<String>,
    pub message: Option<String>,
    pub last_transition_time: Option<String>,
}

impl Condition {
    pub(crate) fn is(&self, status: &str) -> bool {
        self.status == status
    }

    pub(crate) fn reason(&self) -> &str {
        self.reason.as_deref().unwrap_or_default()
    }

    pub(crate) fn message(&self) -> &str {
        self.message.as_deref().unwrap_or_default()
    }

    /// When it became what it is, where that can be read.
    pub(crate) fn since(&self) -> Option<Timestamp> {
        self.last_transition_time.as_deref()?.parse().ok()
    }
}

/// Reads a list of conditions; what is no condition is left out.
pub(crate) fn conditions(list: &Value) -> Vec<Condition> {
    conditions_of(list, |_| true)
}

/// The same of those types only that are asked for.
pub(crate) fn conditions_of(list: &Value, wanted: impl Fn(&str) -> bool) -> Vec<Condition> {
    let all = list.as_array().into_iter().flatten();
    all.filter(|condition| condition["type"].as_str().is_some_and(&wanted))
        .filter_map(|condition| Condition::deserialize(condition).ok())
        .collect()
}

/// A reference to the bootstrap or infra object of a Machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reference {
    pub group: String,
    pub kind: String,
    pub name: String,
}

impl Reference {
    /// v1beta2 names the group, v1beta1 group and version.
    fn of(reference: &Value) -> Option<Self> {
        let text = |key: &str| reference[key].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let group = text("apiGroup")
            .or_else(|| text("apiVersion").and_then(|version| Some(version.split_once('/')?.0.to_owned())))
            .unwrap_or_default();
        Some(Self { group, kind: text("kind")?, name: text("name")? })
    }
}

/// A Machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Machine {
    pub metadata: Metadata,
    /// Name of the Cluster API Cluster, which is that of the provisioning Cluster.
    pub cluster: String,
    pub bootstrap: Option<Reference>,
    pub infra: Option<Reference>,
    pub provider_id: Option<String>,
    /// `status.nodeRef.name`.
    pub node: Option<String>,
    pub phase: String,
    pub addresses: Vec<String>,
    /// Whether `spec.deletion.nodeDeletionTimeoutSeconds` (v1beta1: `spec.nodeDeletionTimeout`) is set: without it the
    /// deletion of the Node is tried for ever.
    pub node_deletion_timeout: bool,
    /// Whether there is a `spec.deletion` at all (v1beta2).
    pub has_deletion_spec: bool,
    /// `status.failureMessage` of v1beta1, also where v1beta2 keeps it.
    pub failure: Option<String>,
    new: Vec<Condition>,
    old: Vec<Condition>,
}

impl Machine {
    /// Reads a Machine. `None` if it has no metadata or spec to speak of.
    pub(crate) fn read(object: &Value) -> Option<Self> {
        let metadata = Metadata::deserialize(object.get("metadata")?).ok()?;
        let (spec, status) = (&object["spec"], &object["status"]);
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let deprecated = &status["deprecated"]["v1beta1"];
        let listed = conditions(&status["conditions"]);
        // Conditions of v1beta1 have a severity; the list is of v1beta2 if it has one of that version's own types, or if
        // the old ones are kept aside.
        let is_new = !deprecated.is_null()
            || listed
                .iter()
                .any(|c| ["Available", "BootstrapConfigReady", "Deleting", "Paused"].contains(&c.kind.as_str()));
        let (new, old) = if is_new { (listed, conditions(&deprecated["conditions"])) } else { (Vec::new(), listed) };
        Some(Self {
            cluster: text(&spec["clusterName"])?,
            bootstrap: Reference::of(&spec["bootstrap"]["configRef"]),
            infra: Reference::of(&spec["infrastructureRef"]),
            provider_id: text(&spec["providerID"]),
            node: text(&status["nodeRef"]["name"]),
            phase: text(&status["phase"]).unwrap_or_default(),
            addresses: status["addresses"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|address| text(&address["address"]))
                .collect(),
            node_deletion_timeout: !spec["deletion"]["nodeDeletionTimeoutSeconds"].is_null()
                || !spec["nodeDeletionTimeout"].is_null(),
            has_deletion_spec: spec["deletion"].is_object(),
            failure: text(&status["failureMessage"]).or_else(|| text(&deprecated["failureMessage"])),
            metadata,
            new,
            old,
        })
    }

    /// A condition of v1beta2, or one of v1beta1 where there is no such.
    pub(crate) fn condition(&self, kind: &str) -> Option<&Condition> {
        self.new.iter().chain(&self.old).find(|condition| condition.kind == kind)
    }

    /// A condition of v1beta1.
    fn old_condition(&self, kind: &str) -> Option<&Condition> {
        self.old.iter().find(|condition| condition.kind == kind)
    }

    pub(crate) fn name(&self) -> &str {
        &self.metadata.name
    }

    pub(crate) fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    pub(crate) fn roles(&self) -> BTreeSet<Role> {
        roles(&self.metadata)
    }

    pub(crate) fn is(&self, role: Role) -> bool {
        self.roles().contains(&role)
    }

    pub(crate) fn deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    pub(crate) fn paused(&self) -> bool {
        self.metadata.annotations.contains_key(PAUSED)
    }

    pub(crate) fn annotated(&self, annotation: &str) -> bool {
        self.metadata.annotations.contains_key(annotation)
    }

    /// The MachineSet that would make another one in its place.
    pub(crate) fn pool(&self) -> Option<&str> {
        self.metadata.owner("MachineSet").map(|owner| owner.name.as_str())
    }

    /// Hooks of this kind (`pre-drain`, `pre-terminate`) that are still set.
    pub(crate) fn hooks(&self, kind: &str) -> Vec<&str> {
        let prefix = format!("{kind}.delete.hook.machine.cluster.x-k8s.io/");
        self.metadata.annotations.keys().filter(|key| key.starts_with(&prefix)).map(String::as_str).collect()
    }

    /// Where Cluster API says that the Node is gone although the Machine refers to it.
    pub(crate) fn node_gone(&self) -> Option<&Condition> {
        let gone = |c: &&Condition| c.is("False") && ["NodeDeleted", "NodeNotFound"].contains(&c.reason());
        self.condition("NodeHealthy").filter(gone).or_else(|| self.old_condition("NodeHealthy").filter(gone))
    }

    /// Where Cluster API stands with the deletion.
    pub(crate) fn step(&self) -> Option<Step> {
        if !self.deleting() {
            return None;
        }
        if self.paused() {
            return Some(Step::Paused);
        }
        if let Some(deleting) = self.new.iter().find(|c| c.kind == "Deleting")
            && let Some(step) = Step::from_reason(deleting.reason())
        {
            return Some(step);
        }
        // v1beta1 has a condition per step that can hold it up, and none for what follows (machine_controller.go).
        let open = |kind: &str| self.old_condition(kind).is_some_and(|c| !c.is("True"));
        [
            ("PreDrainDeleteHookSucceeded", Step::PreDrainHook),
            ("DrainingSucceeded", Step::Drain),
            ("VolumeDetachSucceeded", Step::Volumes),
            ("PreTerminateDeleteHookSucceeded", Step::PreTerminateHook),
        ]
        .into_iter()
        .find(|(kind, _)| open(kind))
        .map(|(_, step)| step)
        .or(Some(Step::Unknown))
    }

    /// What Cluster API says about the step.
    pub(crate) fn step_text(&self) -> Option<&str> {
        let deleting = self.new.iter().find(|c| c.kind == "Deleting");
        deleting.or_else(|| self.old_step()).map(Condition::message)
    }

    /// Since when it has been at the step, where its conditions tell: those of v1beta1 are of one step each, while the one
    /// condition Deleting of v1beta2 keeps its time from step to step (kubernetes-sigs/cluster-api
    /// util/conditions/setter.go).
    pub(crate) fn step_began(&self) -> Option<Timestamp> {
        if self.new.iter().any(|c| c.kind == "Deleting") {
            return None;
        }
        self.old_step()?.since()
    }

    fn old_step(&self) -> Option<&Condition> {
        ["PreDrainDeleteHookSucceeded", "DrainingSucceeded", "VolumeDetachSucceeded", "PreTerminateDeleteHookSucceeded"]
            .into_iter()
            .find_map(|kind| self.old_condition(kind).filter(|c| !c.is("True")))
    }
}

/// The steps of Cluster API's `reconcileDelete`, in their order
/// (kubernetes-sigs/cluster-api internal/controllers/machine/machine_controller.go).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    Paused,
    PreDrainHook,
    Drain,
    Volumes,
    PreTerminateHook,
    Infra,
    Bootstrap,
    NodeDeletion,
    /// No condition says where it stands: which objects are left tells more.
    Unknown,
}

impl Step {
    /// Reasons of the condition Deleting (api/core/v1beta2 `machine_types.go`).
    fn from_reason(reason: &str) -> Option<Self> {
        Some(match reason {
            "WaitingForPreDrainHook" => Self::PreDrainHook,
            "DrainingNode" => Self::Drain,
            "WaitingForVolumeDetach" => Self::Volumes,
            "WaitingForPreTerminateHook" => Self::PreTerminateHook,
            "WaitingForInfrastructureDeletion" => Self::Infra,
            "WaitingForBootstrapDeletion" => Self::Bootstrap,
            "DeletingNode" => Self::NodeDeletion,
            _ => return None,
        })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Paused => "paused",
            Self::PreDrainHook => "pre-drain hook",
            Self::Drain => "drain",
            Self::Volumes => "volume detach",
            Self::PreTerminateHook => "pre-terminate hook",
            Self::Infra => "infra deletion",
            Self::Bootstrap => "bootstrap deletion",
            Self::NodeDeletion => "Node deletion",
            Self::Unknown => "unknown step",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn both_versions_read_alike() {
        let old = Machine::read(&json!({
            "metadata": {"name": "m", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z",
                         "labels": {"rke.cattle.io/etcd-role": "true", "rke.cattle.io/worker-role": "false"}},
            "spec": {"clusterName": "c", "nodeDeletionTimeout": "10s",
                     "bootstrap": {"configRef": {"apiVersion": "rke.cattle.io/v1", "kind": "RKEBootstrap", "name": "b"}},
                     "infrastructureRef": {"apiVersion": "rke.cattle.io/v1", "kind": "CustomMachine", "name": "i"}},
            "status": {"nodeRef": {"name": "n"}, "phase": "Deleting", "conditions": [
                {"type": "DrainingSucceeded", "status": "True"},
                {"type": "VolumeDetachSucceeded", "status": "False", "severity": "Info", "message": "waiting"}]},
        }))
        .expect("a machine");
        let new = Machine::read(&json!({
            "metadata": {"name": "m", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z",
                         "labels": {"rke.cattle.io/etcd-role": "true", "rke.cattle.io/worker-role": "false"}},
            "spec": {"clusterName": "c", "deletion": {"nodeDeletionTimeoutSeconds": 10},
                     "bootstrap": {"configRef": {"apiGroup": "rke.cattle.io", "kind": "RKEBootstrap", "name": "b"}},
                     "infrastructureRef": {"apiGroup": "rke.cattle.io", "kind": "CustomMachine", "name": "i"}},
            "status": {"nodeRef": {"name": "n"}, "phase": "Deleting",
                       "conditions": [{"type": "Deleting", "status": "True", "reason": "WaitingForVolumeDetach", "message": "waiting"}],
                       "deprecated": {"v1beta1": {"conditions": [{"type": "InfrastructureReady", "status": "True"}]}}},
        }))
        .expect("a machine");
        assert_eq!(
            (old.bootstrap.clone(), old.infra.clone(), old.roles()),
            (new.bootstrap.clone(), new.infra.clone(), new.roles())
        );
        assert_eq!((old.step(), new.step()), (Some(Step::Volumes), Some(Step::Volumes)));
        assert_eq!(old.step_text(), new.step_text());
        assert!(old.node_deletion_timeout && new.node_deletion_timeout && old.is(Role::Etcd) && !old.is(Role::Worker));
        assert!(new.condition("InfrastructureReady").is_some_and(|c| c.is("True")));
    }
}
