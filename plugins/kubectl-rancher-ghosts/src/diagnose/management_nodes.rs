//! RG108 and RG110: Rancher's copies of Nodes whose cluster, Node or namespace is gone.
//!
//! A nodes.management object lives in the namespace named after the cluster's id, names its Node in a label, and goes with
//! it while the cluster is connected (rancher/rancher pkg/controllers/managementuser/nodesyncer).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rancher_common::finding::{Diagnosis, Evidence, Finding};
use rancher_common::kinds::NAMESPACES;
use rancher_common::rancher::{MACHINES, MANAGEMENT_CLUSTERS, MANAGEMENT_NODES, Metadata, PROVISIONING_CLUSTERS};
use rancher_common::resource::{ObjectRef, ResourceType};
use rancher_common::snapshot::{Content, Form, Place, Reading, Snapshot, Want};
use rancher_common::text::{count, some_of};
use rancher_common::time::between;
use serde::Deserialize as _;

use super::Scene;
use crate::findings;
use crate::model::fleet::{Cluster, LOCAL};
use crate::model::objects::reference;
use crate::model::reading::Objects;
use crate::plan;

/// Between two looks at a copy without its Node: Rancher takes it away as soon as it sees the Node go.
pub(crate) const SECOND_LOOK: Duration = Duration::from_secs(10);

/// Label with the name of the Node.
const NODE: &str = "management.cattle.io/nodename";

/// The copies of all clusters.
pub(crate) fn all() -> Want {
    Want::list(MANAGEMENT_NODES, None, Form::Metadata)
}

/// What is known of a cluster's existence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existence {
    /// Neither a management nor a provisioning Cluster has this id.
    Gone,
    /// There is no management Cluster, but a provisioning Cluster names one of this id.
    Half,
    Exists,
    Unknown,
}

/// Whether a cluster of this id exists.
pub(crate) fn existence(scene: &Scene<'_>, id: &str) -> Existence {
    let snapshot = scene.snapshot;
    let (Ok(management), Ok(provisioning)) =
        (snapshot.raw_list(&MANAGEMENT_CLUSTERS, None), snapshot.raw_list(&PROVISIONING_CLUSTERS, None))
    else {
        return Existence::Unknown;
    };
    if id == LOCAL || management.iter().any(|cluster| cluster["metadata"]["name"] == id) {
        Existence::Exists
    } else if provisioning.iter().any(|cluster| cluster["status"]["clusterName"] == id) {
        Existence::Half
    } else {
        Existence::Gone
    }
}

/// All copies that were read, by the id of their cluster and in the order of their names.
pub(crate) fn copies(scene: &Scene<'_>) -> BTreeMap<String, Vec<Metadata>> {
    let whole = Objects::of(scene.snapshot, &Place::Here, &MANAGEMENT_NODES);
    let listed = scene.snapshot.here().answer(&all());
    let objects = listed.map_or_else(|_| whole.all().collect::<Vec<_>>(), |listed| listed.iter().collect());
    let mut copies: BTreeMap<String, Vec<Metadata>> = BTreeMap::new();
    for object in objects {
        let Ok(metadata) = Metadata::deserialize(&object["metadata"]) else { continue };
        copies.entry(metadata.namespace.clone().unwrap_or_default()).or_default().push(metadata);
    }
    for nodes in copies.values_mut() {
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
    }
    copies
}

/// Whether the namespace of a cluster exists, as far as that was read.
pub(crate) fn has_namespace(scene: &Scene<'_>, id: &str) -> Option<bool> {
    match scene.snapshot.here().answer(&Want::list(NAMESPACES, None, Form::Metadata)) {
        Ok(every) => Some(every.iter().any(|namespace| namespace["metadata"]["name"] == id)),
        Err(_) => scene.snapshot.raw(&NAMESPACES, None, id).ok().map(|found| found.is_some()),
    }
}

pub(crate) fn judge(scene: &Scene<'_>, diagnosis: &mut Diagnosis) {
    let copies = copies(scene);
    if scene.question.target.is_some() {
        let clusters = scene.fleet.targets(scene.question).into_iter();
        diagnosis.findings.extend(clusters.filter_map(|cluster| of_a_cluster_that_lives(scene, cluster)));
    }
    diagnosis
        .findings
        .extend(scene.fleet.workspaces.iter().filter_map(|workspace| without_workspace(scene, workspace)));
    let named = scene.question.target.as_ref().map(|target| target.cluster.as_str());
    let targets = scene.fleet.targets(scene.question);
    for (id, nodes) in &copies {
        let existence = existence(scene, id);
        let asked = named.is_none_or(|named| named == id || targets.iter().any(|c| c.id.as_ref() == Some(id)));
        if !asked || existence == Existence::Unknown || id == LOCAL {
            continue;
        }
        // While a cluster is being removed, its copies of Nodes go one after the other.
        let left: Vec<&Metadata> = nodes.iter().filter(|node| named.is_some() || !goes(scene, node)).collect();
        let Some(first) = left.first() else { continue };
        if has_namespace(scene, id) == Some(false) {
            let objects: Vec<&str> = left.iter().map(|node| node.name.as_str()).collect();
            diagnosis.findings.push(no_namespace(id, &MANAGEMENT_NODES, &objects));
        } else if existence != Existence::Exists {
            let finding = no_cluster(id, &left);
            diagnosis.findings.push(plan::management_nodes::target_of(scene, id, first, finding));
        }
    }
    if named.is_none() && scene.snapshot.here().answer(&all()).is_err() {
        diagnosis.skip(
            "leftovers",
            "copies of Nodes of clusters that are gone were not looked for in a fleet of this size: --orphans does",
        );
    }
}

fn goes(scene: &Scene<'_>, node: &Metadata) -> bool {
    node.deletion_timestamp.is_some_and(|since| between(since, scene.snapshot.as_of) < scene.question.grace)
}

fn names(nodes: &[&Metadata]) -> String {
    some_of(&nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), 5)
}

/// The copies of one cluster.
pub(crate) fn of_cluster(id: &str) -> Want {
    Want::list(MANAGEMENT_NODES, Some(id), Form::Full)
}

/// Copies without their Node, in one look.
fn without_node(cluster: &Cluster, look: &Reading) -> BTreeMap<String, Metadata> {
    let Content::Objects(objects) = &look.content else { return BTreeMap::new() };
    objects
        .iter()
        .filter_map(|object| Metadata::deserialize(&object["metadata"]).ok())
        .filter(|copy| copy.labels.get(NODE).is_some_and(|node| cluster.node(node) == Ok(None)))
        .map(|copy| (copy.name.clone(), copy))
        .collect()
}

/// Whether there is a copy without its Node, which Rancher may be about to take away: only a second look tells.
pub(crate) fn doubtful(snapshot: &Snapshot, cluster: &Cluster, id: &str) -> bool {
    snapshot.readings_of(&of_cluster(id)).next().is_some_and(|look| !without_node(cluster, look).is_empty())
}

/// RG108 in a cluster that lives: its finalizers can delete real Nodes, so nothing is offered.
fn of_a_cluster_that_lives(scene: &Scene<'_>, cluster: &Cluster) -> Option<Finding> {
    let want = of_cluster(cluster.id.as_deref()?);
    let looks: Vec<&Reading> = scene.snapshot.readings_of(&want).collect();
    let [first, .., last] = looks[..] else { return None };
    let before = without_node(cluster, first);
    let gone: Vec<Metadata> =
        without_node(cluster, last).into_values().filter(|copy| before.contains_key(&copy.name)).collect();
    let gone: Vec<&Metadata> = gone.iter().collect();
    let nodes: Vec<&str> = gone.iter().filter_map(|copy| copy.labels.get(NODE)).map(String::as_str).collect();
    let of = count(gone.len(), "copy of a Node is left", "copies of Nodes are left");
    Some(
        Finding::new(
            &findings::MANAGEMENT_NODE_ORPHAN,
            "leftover",
            reference(&MANAGEMENT_NODES, gone.first()?),
            format!("{of} in cluster {} without the Node: {}", cluster.title(), some_of(&nodes, 5)),
        )
        .evidence([
            Evidence::new("objects", names(&gone)).from(MANAGEMENT_NODES.full_name()),
            Evidence::new("nodes", format!("not there: {}", some_of(&nodes, 5))).from("nodes"),
        ])
        .advice("Leave it: Rancher takes it away while the cluster is connected, and in some versions its finalizer deletes a real Node of that name. If it stays, look at Rancher's leader and at its version."),
    )
}

/// RG110 for a workspace: its machines, else its clusters. What is being removed may be the last that the namespace waited
/// for when it was listed.
fn without_workspace(scene: &Scene<'_>, workspace: &str) -> Option<Finding> {
    if has_namespace(scene, workspace) != Some(false) {
        return None;
    }
    let fleet = scene.fleet;
    let clusters: Vec<&Cluster> = fleet.clusters.iter().filter(|cluster| cluster.namespace == workspace).collect();
    let strays = fleet.strays.iter().filter(|((namespace, _), _)| namespace == workspace).flat_map(|(_, rows)| rows);
    let pictured = clusters.iter().flat_map(|cluster| &cluster.machines).map(|picture| &picture.row);
    let machines = pictured.chain(strays).filter(|row| row.phase != "Deleting");
    let machines: Vec<&str> = machines.map(|row| row.name.as_str()).collect();
    if !machines.is_empty() {
        return Some(no_namespace(workspace, &MACHINES, &machines));
    }
    let stay = clusters.iter().filter(|cluster| cluster.metadata.deletion_timestamp.is_none());
    let names: Vec<&str> = stay.map(|cluster| cluster.name.as_str()).collect();
    (!names.is_empty()).then(|| no_namespace(workspace, &PROVISIONING_CLUSTERS, &names))
}

/// RG110.
fn no_namespace(id: &str, kind: &ResourceType, names: &[&str]) -> Finding {
    Finding::new(
        &findings::NAMESPACE_GONE,
        "leftover",
        ObjectRef::new(&NAMESPACES, None, id),
        format!("namespace {id} does not exist, but {} in it", count(names.len(), "object lives", "objects live")),
    )
    .evidence([
        Evidence::new("objects", some_of(names, 5)).from(kind.full_name()),
        Evidence::new("namespace", "no such namespace").from("namespaces"),
    ])
    .advice("They crash the leader when it tries to change them. In this order: make the namespace again, remove what is in it, then the namespace. Never its finalizer.")
}

/// RG108 of a cluster that is gone.
fn no_cluster(id: &str, nodes: &[&Metadata]) -> Finding {
    let finalizers: BTreeSet<&str> = nodes.iter().flat_map(|node| &node.finalizers).map(String::as_str).collect();
    let of = count(nodes.len(), "copy of a Node is left", "copies of Nodes are left");
    Finding::new(
        &findings::MANAGEMENT_NODE_ORPHAN,
        "leftover",
        reference(&MANAGEMENT_NODES, nodes[0]),
        format!("{of} of cluster {id}, which does not exist"),
    )
    .evidence([
        Evidence::new("objects", names(nodes)).from(MANAGEMENT_NODES.full_name()),
        Evidence::new("cluster", format!("there is no management Cluster {id}")).from(MANAGEMENT_CLUSTERS.full_name()),
        Evidence::new("finalizers", finalizers.into_iter().collect::<Vec<_>>().join(", ")),
    ])
}
