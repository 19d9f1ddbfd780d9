//! The objects around a Machine, as far as they are looked at.

use std::collections::BTreeSet;

use rancher_common::rancher::Metadata;
use rancher_common::resource::{ObjectRef, ResourceType};
use rancher_common::snapshot::MachinePlan;
use serde::Deserialize;
use serde_json::Value;

use super::machine::{Condition, Machine, PAUSED, Role, conditions, roles};

/// Annotation of a plan Secret: the address others join by (rancher/rancher pkg/capr/planner/planner.go).
const JOIN_URL: &str = "rke.cattle.io/join-url";
/// Annotation of a plan Secret: the join-url this machine was joined to.
const JOINED_TO: &str = "rke.cattle.io/joined-to";
/// Mark of an RKEControlPlane: the id of the host that is to be the init node (pkg/capr/planner/initnode.go).
const INIT_NODE_ID: &str = "rke.cattle.io/init-node-machine-id";
/// Label of the plan Secret of the machine that the others join first (pkg/capr/planner/planentry.go).
const INIT_NODE: &str = "rke.cattle.io/init-node";
/// Annotation of a plan Secret: when Rancher wrote the plan.
const PLAN_LAST_UPDATED: &str = "rke.cattle.io/plan-last-updated";
/// Label with the name of the Machine an object belongs to.
pub(crate) const MACHINE_NAME: &str = "rke.cattle.io/machine-name";
/// Label of an infra machine with the name of its Machine (pkg/controllers/capr/machineprovision).
pub(crate) const CAPI_MACHINE_NAME: &str = "rke.cattle.io/capi-machine-name";
/// Label of a Node with the UID of the Machine whose plan set it up (pkg/capr/planner/config.go). Of all marks on a
/// Node only this one is the machine's own: the rest follows the node's name.
pub(crate) const NODE_MACHINE_UID: &str = "rke.cattle.io/machine";
/// Label of Machines: the name the host gave when it registered (pkg/capr/configserver/custom.go).
pub(crate) const NODE_NAME: &str = "rke.cattle.io/node-name";
/// Label of Machines: the host's cattle-id.
pub(crate) const MACHINE_ID: &str = "rke.cattle.io/machine-id";

/// A plan Secret.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PlanSecret {
    pub metadata: Metadata,
    pub plan: MachinePlan,
}

impl PlanSecret {
    pub(crate) fn read(object: &Value) -> Option<Self> {
        Some(Self { metadata: Metadata::deserialize(object.get("metadata")?).ok()?, plan: MachinePlan::of(object)? })
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        self.metadata.annotations.get(name).map(String::as_str).filter(|text| !text.is_empty())
    }

    pub(crate) fn join_url(&self) -> Option<&str> {
        self.annotation(JOIN_URL)
    }

    pub(crate) fn joined_to(&self) -> Option<&str> {
        self.annotation(JOINED_TO)
    }

    pub(crate) fn is_init_node(&self) -> bool {
        self.metadata.labels.get(INIT_NODE).is_some_and(|value| value == "true")
    }

    /// Name of the Machine it belongs to, or its own where it does not say.
    pub(crate) fn machine(&self) -> &str {
        self.metadata.labels.get(MACHINE_NAME).unwrap_or(&self.metadata.name)
    }

    /// Whether the agent has applied the plan that stands in it.
    pub(crate) fn is_applied(&self) -> bool {
        self.plan.plan.is_some() && self.plan.applied_checksum == self.plan.plan
    }

    /// When Rancher wrote the plan that stands in it.
    pub(crate) fn planned_at(&self) -> Option<rancher_common::time::Timestamp> {
        self.annotation(PLAN_LAST_UPDATED)?.parse().ok()
    }

    pub(crate) fn reference(&self) -> ObjectRef {
        reference(&rancher_common::kinds::SECRETS, &self.metadata)
    }
}

/// An RKEBootstrap or an infra machine.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part {
    pub resource: ResourceType,
    pub metadata: Metadata,
    pub provider_id: Option<String>,
    pub conditions: Vec<Condition>,
    /// `status.failureMessage` of an infra machine, else its `failureReason`.
    pub failure: Option<String>,
    /// Whether that is about its deletion: `failureReason` `DeleteError`
    /// (rancher/rancher pkg/controllers/capr/machineprovision/controller.go).
    pub delete_failed: bool,
}

impl Part {
    pub(crate) fn read(resource: &ResourceType, object: &Value) -> Option<Self> {
        let status = &object["status"];
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        Some(Self {
            resource: resource.clone(),
            metadata: Metadata::deserialize(object.get("metadata")?).ok()?,
            provider_id: text(&object["spec"]["providerID"]),
            conditions: conditions(&status["conditions"]),
            failure: text(&status["failureMessage"]).or_else(|| text(&status["failureReason"])),
            delete_failed: status["failureReason"] == "DeleteError",
        })
    }

    pub(crate) fn reference(&self) -> ObjectRef {
        reference(&self.resource, &self.metadata)
    }

    /// Name of the Machine it says it belongs to: by owner, or by Rancher's label.
    pub(crate) fn machine(&self) -> Option<&str> {
        self.metadata
            .owner("Machine")
            .map(|owner| owner.name.as_str())
            .or_else(|| self.metadata.labels.get(CAPI_MACHINE_NAME).map(String::as_str))
            .or_else(|| self.metadata.labels.get(MACHINE_NAME).map(String::as_str))
    }

    pub(crate) fn roles(&self) -> BTreeSet<Role> {
        roles(&self.metadata)
    }

    /// Whether a node driver runs a VM for it.
    pub(crate) fn has_vm(&self) -> bool {
        self.resource.group == rancher_common::rancher::DRIVER_MACHINES.0
    }
}

/// Names an object that was read, UID included.
pub(crate) fn reference(resource: &ResourceType, metadata: &Metadata) -> ObjectRef {
    let mut reference = ObjectRef::new(resource, metadata.namespace.as_deref(), &metadata.name);
    reference.uid.clone_from(&metadata.uid);
    reference
}

/// RKEControlPlane, as far as the planner's state goes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ControlPlane {
    pub metadata: Metadata,
    pub conditions: Vec<Condition>,
    /// `status.etcdSnapshotRestorePhase`.
    pub restore_phase: Option<String>,
    /// Whether a certificate rotation was asked for that is not done (`spec.rotateCertificates.generation` against
    /// `status.certificateRotationGeneration`).
    pub rotating: bool,
    pub kubernetes_version: Option<String>,
}

impl ControlPlane {
    pub(crate) fn read(object: &Value) -> Option<Self> {
        let (spec, status) = (&object["spec"], &object["status"]);
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let wanted = spec["rotateCertificates"]["generation"].as_i64();
        Some(Self {
            metadata: Metadata::deserialize(object.get("metadata")?).ok()?,
            conditions: conditions(&status["conditions"]),
            restore_phase: text(&status["etcdSnapshotRestorePhase"]),
            rotating: wanted.is_some_and(|wanted| status["certificateRotationGeneration"].as_i64() != Some(wanted)),
            kubernetes_version: text(&spec["kubernetesVersion"]),
        })
    }

    pub(crate) fn paused(&self) -> bool {
        self.metadata.annotations.contains_key(PAUSED)
    }

    /// Whether it names this machine as the init node.
    pub(crate) fn designates(&self, machine: &Machine) -> bool {
        let named = self.metadata.labels.get(INIT_NODE_ID).or_else(|| self.metadata.annotations.get(INIT_NODE_ID));
        named.is_some() && named == machine.metadata.labels.get(MACHINE_ID)
    }

    /// The phase of a restore that is under way (rancher/rancher pkg/apis/rke.cattle.io/v1: `Finished` and `Failed` end it).
    pub(crate) fn restoring(&self) -> Option<&str> {
        self.restore_phase.as_deref().filter(|phase| !["Finished", "Failed"].contains(phase))
    }

    /// What the planner says.
    pub(crate) fn message(&self) -> Option<&str> {
        self.conditions
            .iter()
            .find(|condition| condition.kind == "Ready")
            .map(Condition::message)
            .filter(|text| !text.is_empty())
    }
}

/// A downstream Node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Node {
    pub metadata: Metadata,
    pub ready: Option<bool>,
    pub unschedulable: bool,
    pub addresses: Vec<String>,
    pub etcd: bool,
    pub provider_id: Option<String>,
}

impl Node {
    pub(crate) fn read(object: &Value) -> Option<Self> {
        let metadata = Metadata::deserialize(object.get("metadata")?).ok()?;
        let ready = conditions(&object["status"]["conditions"]);
        Some(Self {
            ready: ready.iter().find(|c| c.kind == "Ready").map(|c| c.is("True")),
            unschedulable: object["spec"]["unschedulable"] == true,
            provider_id: object["spec"]["providerID"].as_str().filter(|id| !id.is_empty()).map(str::to_owned),
            addresses: object["status"]["addresses"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|address| Some(address["address"].as_str()?.to_owned()))
                .collect(),
            etcd: metadata.labels.get("node-role.kubernetes.io/etcd").is_some_and(|value| value == "true"),
            metadata,
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.metadata.name
    }

    /// UID of the Machine whose plan set this node up.
    pub(crate) fn machine_uid(&self) -> Option<&str> {
        self.metadata.labels.get(NODE_MACHINE_UID).map(String::as_str)
    }

    /// Namespace and name of the cluster that Cluster API counts it to, and name of the Machine.
    pub(crate) fn claimed_by(&self) -> Option<(&str, &str, &str)> {
        let annotation = |name: &str| self.metadata.annotations.get(name).map(String::as_str);
        Some((
            annotation("cluster.x-k8s.io/cluster-namespace")?,
            annotation("cluster.x-k8s.io/cluster-name")?,
            annotation("cluster.x-k8s.io/machine")?,
        ))
    }
}
