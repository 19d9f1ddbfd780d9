//! Rancher's own kinds, as minimal structs: every field optional, nothing ever written back from them.

use serde::Deserialize;

use crate::resource::ResourceType;
use crate::snapshot::Kind;

/// `clusters.management.cattle.io`: what Rancher knows of a cluster. The CRD is schemaless
/// (rancher/rancher pkg/apis/management.cattle.io/v3/cluster_types.go).
pub const MANAGEMENT_CLUSTERS: ResourceType =
    ResourceType::cluster_wide("management.cattle.io", "v3", "Cluster", "clusters");
/// `settings.management.cattle.io`: value, default, customized and source stand at the top level.
pub const SETTINGS: ResourceType = ResourceType::cluster_wide("management.cattle.io", "v3", "Setting", "settings");
/// `features.management.cattle.io`
pub const FEATURES: ResourceType = ResourceType::cluster_wide("management.cattle.io", "v3", "Feature", "features");
/// `nodes.management.cattle.io`: Rancher's copy of a downstream Node, in the namespace named like the cluster.
pub const MANAGEMENT_NODES: ResourceType = ResourceType::namespaced("management.cattle.io", "v3", "Node", "nodes");
/// `clusterregistrationtokens.management.cattle.io`, in the namespace named like the cluster.
pub const CLUSTER_REGISTRATION_TOKENS: ResourceType =
    ResourceType::namespaced("management.cattle.io", "v3", "ClusterRegistrationToken", "clusterregistrationtokens");
/// `clusters.provisioning.cattle.io`: what users make; in a workspace namespace such as `fleet-default`.
pub const PROVISIONING_CLUSTERS: ResourceType =
    ResourceType::namespaced("provisioning.cattle.io", "v1", "Cluster", "clusters");
/// `rkecontrolplanes.rke.cattle.io`: what Rancher's planner works on; named like the provisioning Cluster.
pub const RKE_CONTROL_PLANES: ResourceType =
    ResourceType::namespaced("rke.cattle.io", "v1", "RKEControlPlane", "rkecontrolplanes");
/// `rkebootstraps.rke.cattle.io`, one per Machine.
pub const RKE_BOOTSTRAPS: ResourceType =
    ResourceType::namespaced("rke.cattle.io", "v1", "RKEBootstrap", "rkebootstraps");
/// `custommachines.rke.cattle.io`: the infra machine of a host that a person registered.
pub const CUSTOM_MACHINES: ResourceType =
    ResourceType::namespaced("rke.cattle.io", "v1", "CustomMachine", "custommachines");
/// `etcdsnapshots.rke.cattle.io`.
pub const ETCD_SNAPSHOTS: ResourceType =
    ResourceType::namespaced("rke.cattle.io", "v1", "ETCDSnapshot", "etcdsnapshots");
/// Group and version of the infra machines of node drivers; the kinds are made as drivers are switched on.
pub const DRIVER_MACHINES: (&str, &str) = ("rke-machine.cattle.io", "v1");

/// Cluster API's Machines: v1beta2 from Rancher 2.14 on, v1beta1 before.
pub const MACHINES: ResourceType =
    ResourceType::namespaced("cluster.x-k8s.io", "v1beta2,v1beta1", "Machine", "machines");
/// Cluster API's Clusters; named like the provisioning Cluster.
pub const CAPI_CLUSTERS: ResourceType =
    ResourceType::namespaced("cluster.x-k8s.io", "v1beta2,v1beta1", "Cluster", "clusters");
/// Cluster API's MachineSets: one per pool and generation.
pub const MACHINE_SETS: ResourceType =
    ResourceType::namespaced("cluster.x-k8s.io", "v1beta2,v1beta1", "MachineSet", "machinesets");

/// The part of `metadata` the plugins look at.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Metadata {
    /// Name.
    pub name: String,
    /// Namespace, if the kind has one.
    pub namespace: Option<String>,
    /// UID.
    pub uid: Option<String>,
    /// When deletion was asked for.
    pub deletion_timestamp: Option<crate::time::Timestamp>,
    /// When it was created.
    pub creation_timestamp: Option<crate::time::Timestamp>,
    /// Annotations.
    pub annotations: std::collections::BTreeMap<String, String>,
    /// Labels.
    pub labels: std::collections::BTreeMap<String, String>,
    /// Finalizers.
    pub finalizers: Vec<String>,
    /// Owners.
    pub owner_references: Vec<Owner>,
}

impl Metadata {
    /// The owner of this kind, if there is one.
    #[must_use]
    pub fn owner(&self, kind: &str) -> Option<&Owner> {
        self.owner_references.iter().find(|owner| owner.kind == kind)
    }
}

/// An owner reference.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Owner {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
}

/// A condition in Norman's style: all times are strings and may be empty
/// (rancher/rancher pkg/apis/management.cattle.io/v3/cluster_types.go).
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Condition {
    /// Type, for instance `Connected`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Reason in one word.
    pub reason: Option<String>,
    /// Message.
    pub message: Option<String>,
    /// RFC 3339, or empty.
    pub last_update_time: Option<String>,
}

/// One cluster that Rancher manages.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ManagementCluster {
    /// Metadata.
    pub metadata: Metadata,
    /// Specification.
    pub spec: ManagementClusterSpec,
    /// Status.
    pub status: ManagementClusterStatus,
}

/// See [`ManagementCluster`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ManagementClusterSpec {
    /// The name users see.
    pub display_name: Option<String>,
    /// True for `local`, the cluster Rancher itself runs in.
    pub internal: bool,
}

/// See [`ManagementCluster`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ManagementClusterStatus {
    /// Conditions; may be null while a cluster is being made.
    #[serde(deserialize_with = "null_is_empty")]
    pub conditions: Vec<Condition>,
    /// `imported`, `rke2`, `k3s` …
    pub driver: Option<String>,
}

fn null_is_empty<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::<Vec<T>>::deserialize(deserializer)?.unwrap_or_default())
}

impl ManagementCluster {
    /// The condition of this type, if there is one.
    #[must_use]
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.kind == kind)
    }

    /// The name users see and, where it differs, the id in brackets: `shop (c-m-8x2kq)`.
    #[must_use]
    pub fn title(&self) -> String {
        match self.spec.display_name.as_deref() {
            Some(name) if !name.is_empty() && name != self.metadata.name => {
                format!("{name} ({})", self.metadata.name)
            }
            _ => self.metadata.name.clone(),
        }
    }
}

impl Kind for ManagementCluster {
    const RESOURCE: ResourceType = MANAGEMENT_CLUSTERS;
}

/// One setting of Rancher.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Setting {
    /// Metadata.
    pub metadata: Metadata,
    /// The value that was set, or empty.
    pub value: String,
    /// The built-in value.
    #[serde(rename = "default")]
    pub default_value: String,
}

impl Setting {
    /// The value in force: the set one if not empty, otherwise the default
    /// (rancher/rancher pkg/controllers/dashboardapi/settings/settings.go).
    #[must_use]
    pub fn effective(&self) -> &str {
        if self.value.is_empty() { &self.default_value } else { &self.value }
    }
}

impl Kind for Setting {
    const RESOURCE: ResourceType = SETTINGS;
}
