//! Naming objects: which kind, where, which one.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A kind of object as the API server serves it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ResourceType {
    /// API group, empty for the core group.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub group: Cow<'static, str>,
    /// The version to ask for. Where more than one is in use, all of them separated by commas, the preferred one
    /// first: then the served versions are discovered.
    pub version: Cow<'static, str>,
    /// Kind, for instance `Lease`.
    pub kind: Cow<'static, str>,
    /// Plural name in the URL, for instance `leases`.
    pub plural: Cow<'static, str>,
    /// Whether objects live in a namespace.
    pub namespaced: bool,
}

impl ResourceType {
    const fn new(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
        namespaced: bool,
    ) -> Self {
        Self {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed(version),
            kind: Cow::Borrowed(kind),
            plural: Cow::Borrowed(plural),
            namespaced,
        }
    }

    /// A kind whose objects live in a namespace.
    #[must_use]
    pub const fn namespaced(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
    ) -> Self {
        Self::new(group, version, kind, plural, true)
    }

    /// A kind whose objects belong to the whole cluster.
    #[must_use]
    pub const fn cluster_wide(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
    ) -> Self {
        Self::new(group, version, kind, plural, false)
    }

    /// `leases.coordination.k8s.io`, or `pods` for the core group.
    #[must_use]
    pub fn full_name(&self) -> String {
        dotted(&self.plural, &self.group)
    }
}

/// `name.group`, or only `name` for the core group.
fn dotted(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

/// One object: enough to name it to a person and to find it again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// API group, empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Kind, for instance `Lease`.
    pub kind: String,
    /// Namespace, if the kind has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
    /// UID, where the object was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

impl ObjectRef {
    /// Names an object that may not exist.
    #[must_use]
    pub fn new(resource: &ResourceType, namespace: Option<&str>, name: &str) -> Self {
        Self {
            group: resource.group.clone().into_owned(),
            kind: resource.kind.clone().into_owned(),
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
            uid: None,
        }
    }

    /// Names an object that was read, UID included.
    #[must_use]
    pub fn of(resource: &ResourceType, object: &Value) -> Self {
        let metadata = |key: &str| object["metadata"][key].as_str().map(str::to_owned);
        Self {
            group: resource.group.clone().into_owned(),
            kind: resource.kind.clone().into_owned(),
            namespace: metadata("namespace"),
            name: metadata("name").unwrap_or_default(),
            uid: metadata("uid"),
        }
    }

    /// As `kubectl -o name` writes it: `lease.coordination.k8s.io/cattle-controllers`, `pod/rancher-…`.
    #[must_use]
    pub fn kubectl_name(&self) -> String {
        format!("{}/{}", dotted(&self.kind.to_lowercase(), &self.group), self.name)
    }
}

impl fmt::Display for ObjectRef {
    /// `Lease kube-system/cattle-controllers`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}
