//! The Kubernetes kinds the plugins read, with the types of `k8s-openapi` (its readers ignore unknown fields and take a
//! missing field for an empty one).

pub use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
pub use k8s_openapi::api::coordination::v1::Lease;
pub use k8s_openapi::api::core::v1::{
    ConfigMap, Container, ContainerStatus, Event, Namespace, Node, Pod, PodSpec, Secret, Service,
};

use crate::resource::ResourceType;
use crate::snapshot::Kind;

/// Leases.
pub const LEASES: ResourceType = ResourceType::namespaced("coordination.k8s.io", "v1", "Lease", "leases");
/// Pods.
pub const PODS: ResourceType = ResourceType::namespaced("", "v1", "Pod", "pods");
/// Nodes.
pub const NODES: ResourceType = ResourceType::cluster_wide("", "v1", "Node", "nodes");
/// Namespaces.
pub const NAMESPACES: ResourceType = ResourceType::cluster_wide("", "v1", "Namespace", "namespaces");
/// Config maps.
pub const CONFIG_MAPS: ResourceType = ResourceType::namespaced("", "v1", "ConfigMap", "configmaps");
/// Secrets.
pub const SECRETS: ResourceType = ResourceType::namespaced("", "v1", "Secret", "secrets");
/// Services.
pub const SERVICES: ResourceType = ResourceType::namespaced("", "v1", "Service", "services");
/// Events of the core group.
pub const EVENTS: ResourceType = ResourceType::namespaced("", "v1", "Event", "events");
/// Service accounts.
pub const SERVICE_ACCOUNTS: ResourceType = ResourceType::namespaced("", "v1", "ServiceAccount", "serviceaccounts");
/// Deployments.
pub const DEPLOYMENTS: ResourceType = ResourceType::namespaced("apps", "v1", "Deployment", "deployments");
/// Replica sets.
pub const REPLICA_SETS: ResourceType = ResourceType::namespaced("apps", "v1", "ReplicaSet", "replicasets");

macro_rules! kinds {
    ($($type:ty => $resource:ident),* $(,)?) => {
        $(impl Kind for $type {
            const RESOURCE: ResourceType = $resource;
        })*
    };
}

kinds! {
    Lease => LEASES,
    Pod => PODS,
    Node => NODES,
    Namespace => NAMESPACES,
    ConfigMap => CONFIG_MAPS,
    Secret => SECRETS,
    Service => SERVICES,
    Event => EVENTS,
    Deployment => DEPLOYMENTS,
    ReplicaSet => REPLICA_SETS,
}
