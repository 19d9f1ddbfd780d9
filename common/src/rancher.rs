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
