//! RG105, RG106, RG108 and RG110: what machines and clusters that are gone left behind.

use std::collections::{BTreeMap, BTreeSet};

use rancher_common::finding::{Diagnosis, Evidence, Finding};
use rancher_common::kinds::NAMESPACES;
use rancher_common::rancher::{
    CUSTOM_MACHINES, MACHINES, MANAGEMENT_CLUSTERS, MANAGEMENT_NODES, Metadata, RKE_BOOTSTRAPS,
};
use rancher_common::resource::{ObjectRef, ResourceType};
use rancher_common::snapshot::{Form, Place, Snapshot, Want};
use rancher_common::text::{count, some_of};
use rancher_common::time::between;
use serde::Deserialize as _;

use super::Scene;
use crate::findings;
use crate::model::fleet::{Cluster, Fleet, LOCAL};
use crate::model::objects::{Part, PlanSecret, reference};
use crate::model::reading::Objects;
use crate::model::triage;
use crate::plan;

/// Parts of machines whose names no Machine has: they are looked at whole before they are called orphans, since old
/// versions of Cluster API gave them names of their own.
pub(crate) fn doubts(snapshot: &Snapshot, fleet: &Fleet) -> Vec<(ResourceType, String, String)> {
    let mut doubts = Vec::new();
    for namespace in &fleet.workspaces {
        let Ok(rows) = triage::rows(snapshot, namespace) else { continue };
        let names: BTreeSet<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        for kind in fleet.infra_kinds.iter().chain([&RKE_BOOTSTRAPS]) {
            let want = Want::list(kind.clone(), Some(namespace), Form::Table);
            let Ok(parts) = snapshot.here().answer(&want) else { continue };
            // Whole objects need no second question.
            doubts.extend(
                parts
                    .iter()
                    .filter(|part| part.get("cells").is_some())
                    .filter_map(|part| part["metadata"]["name"].as_str())
                    .filter(|name| !names.contains(name))
                    .map(|name| (kind.clone(), namespace.clone(), name.to_owned())),
            );
        }
    }
    doubts
}

/// RKEBootstraps that own plan Secrets without a Machine and were not seen: a selection by labels proves no absence.
pub(crate) fn owners_of_secrets(snapshot: &Snapshot, cluster: &Cluster) -> Vec<String> {
    let bootstraps = Objects::of(snapshot, &Place::Here, &RKE_BOOTSTRAPS);
    without_machine(cluster)
        .filter_map(|secret| Some(secret.metadata.owner("RKEBootstrap")?.name.clone()))
        .filter(|name| bootstraps.get(&cluster.namespace, name).is_err())
        .collect()
}

/// Plan Secrets of a cluster whose Machine is not among those of the cluster.
fn without_machine(cluster: &Cluster) -> impl Iterator<Item = &PlanSecret> {
    cluster.secrets.iter().filter(|secret| {
        let machine = secret.metadata.labels.get(crate::model::objects::MACHINE_NAME);
        machine.is_none_or(|machine| cluster.machine(machine).is_none())
    })
}

/// A part of a machine that is gone.
#[derive(Clone, Debug)]
pub(crate) struct Orphan {
    pub part: Part,
    /// Name of the Machine it belonged to, as far as it says so.
    pub machine: Option<String>,
}

/// Whole parts whose Machine is proven absent.
pub(crate) fn orphans(scene: &Scene<'_>) -> Vec<Orphan> {
    let Scene { question, snapshot, fleet } = scene;
    if snapshot.not_served(&MACHINES) {
        // Without the kind no Machine is seen, which proves nothing about those of the parts that are left.
        return Vec::new();
    }
    let mut known: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for namespace in &fleet.workspaces {
        let targets = fleet.targets(question);
        let complete = if question.target.is_some() {
            targets
                .iter()
                .any(|c| c.namespace == *namespace && snapshot.here().answer(&crate::needs::machines_of(c)).is_ok())
        } else {
            triage::rows(snapshot, namespace).is_ok()
        };
        if complete {
            known.insert(namespace, BTreeSet::new());
        }
    }
    for cluster in &fleet.clusters {
        if let Some(names) = known.get_mut(cluster.namespace.as_str()) {
            names.extend(cluster.machines.iter().map(|picture| picture.row.name.as_str()));
        }
    }
    // Machines of clusters without a provisioning Cluster are in no picture.
    let strays: Vec<(String, String)> = fleet
        .workspaces
        .iter()
        .filter_map(|namespace| triage::rows(snapshot, namespace).ok())
        .flatten()
        .map(|row| (row.namespace, row.name))
        .collect();
    for (namespace, name) in &strays {
        if let Some(names) = known.get_mut(namespace.as_str()) {
            names.insert(name);
        }
    }
    // What a Machine refers to is no orphan, whatever its own marks say.
    let referred: BTreeSet<(&str, &str, &str)> = fleet
        .clusters
        .iter()
        .flat_map(|cluster| &cluster.machines)
        .filter_map(|picture| picture.whole())
        .flat_map(|machine| {
            let namespace = machine.metadata.namespace.as_deref().unwrap_or_default();
            machine.infra.iter().chain(&machine.bootstrap).map(move |r| (namespace, r.kind.as_str(), r.name.as_str()))
        })
        .collect();
    let mut found = Vec::new();
    for kind in fleet.infra_kinds.iter().chain([&RKE_BOOTSTRAPS]) {
        for object in Objects::of(snapshot, &Place::Here, kind).all() {
            let Some(part) = Part::read(kind, object) else { continue };
            let namespace = part.metadata.namespace.clone().unwrap_or_default();
            let Some(names) = known.get(namespace.as_str()) else { continue };
            let machine = part.machine().map(str::to_owned);
            let owner = machine.as_deref().unwrap_or(&part.metadata.name);
            // Lists are read beside each other: a host that is being registered may be in one of them only.
            let young =
                part.metadata.creation_timestamp.is_some_and(|made| between(made, snapshot.as_of) < question.grace);
            if young && part.metadata.deletion_timestamp.is_none() {
                continue;
            }
            if names.contains(owner) || referred.contains(&(namespace.as_str(), &kind.kind, &part.metadata.name)) {
                continue;
            }
            if question.target.is_some()
                && !fleet.targets(question).iter().any(|cluster| names_it(cluster, &part.metadata))
            {
                continue;
            }
            found.push(Orphan { part, machine });
        }
    }
    found
}

fn names_it(cluster: &Cluster, metadata: &Metadata) -> bool {
    metadata.namespace.as_deref() == Some(cluster.namespace.as_str())
        && [crate::model::machine::CLUSTER_NAME, "rke.cattle.io/cluster-name"]
            .iter()
            .any(|label| metadata.labels.get(*label).is_some_and(|name| *name == cluster.name))
}

pub(crate) fn judge(scene: &Scene<'_>, diagnosis: &mut Diagnosis) {
    for orphan in orphans(scene) {
        let finding = part_finding(scene, &orphan);
        diagnosis.findings.push(finding);
    }
    secrets(scene, diagnosis);
    management_nodes(scene, diagnosis);
    if scene.question.target.is_none() && scene.snapshot.here().answer(&all_nodes()).is_err() {
        diagnosis.skip(
            "leftovers",
            "copies of Nodes of clusters that are gone were not looked for in a fleet of this size: --orphans does",
        );
    }
}

/// RG105 and RG106.
fn part_finding(scene: &Scene<'_>, orphan: &Orphan) -> Finding {
    let part = &orphan.part;
    let is_infra = part.resource != RKE_BOOTSTRAPS;
    let rule = if is_infra { &findings::INFRA_ORPHAN } else { &findings::BOOTSTRAP_ORPHAN };
    let machine = orphan.machine.as_deref().unwrap_or("unknown");
    let mut evidence = vec![
        Evidence::new("machine", format!("{machine} does not exist")).from("machines.cluster.x-k8s.io"),
        Evidence::new("finalizers", part.metadata.finalizers.join(", "))
            .from(format!("{} .metadata.finalizers", part.reference())),
        Evidence::new("deleting", if part.metadata.deletion_timestamp.is_some() { "yes" } else { "no" }),
    ];
    if part.has_vm() {
        let id = part.provider_id.clone().unwrap_or_else(|| "no provider id".to_owned());
        evidence.push(
            Evidence::new("VM", format!("it may be running, and billed: {id}"))
                .from(format!("{} .spec.providerID", part.reference())),
        );
    }
    let message = if is_infra {
        format!("{} has no Machine any more; its controller asks for it for ever", part.reference())
    } else {
        format!("{} was left behind by machine {machine}", part.reference())
    };
    let finding = Finding::new(rule, "leftover", part.reference(), message).evidence(evidence);
    plan::orphans::target_of(scene, orphan, finding)
}

/// RG106 for plan Secrets whose RKEBootstrap is gone.
fn secrets(scene: &Scene<'_>, diagnosis: &mut Diagnosis) {
    let Scene { question, snapshot, fleet } = scene;
    let bootstraps = Objects::of(snapshot, &Place::Here, &RKE_BOOTSTRAPS);
    for cluster in fleet.targets(question) {
        for secret in without_machine(cluster) {
            let Some(bootstrap) = secret.metadata.owner("RKEBootstrap") else { continue };
            if bootstraps.get(&cluster.namespace, &bootstrap.name) == Ok(None) {
                diagnosis.findings.push(left_secret(secret, &bootstrap.name));
            }
        }
    }
}

fn left_secret(secret: &PlanSecret, bootstrap: &str) -> Finding {
    let mut finding = Finding::new(
        &findings::BOOTSTRAP_ORPHAN,
        "leftover",
        secret.reference(),
        format!("{} was left behind by RKEBootstrap {bootstrap}", secret.reference()),
    )
    .evidence([Evidence::new("owner", format!("RKEBootstrap {bootstrap} does not exist"))
        .from("Secret .metadata.ownerReferences")]);
    if let Some(url) = secret.joined_to() {
        finding = finding.evidence([Evidence::new("joined-to", url.to_owned()).from("Secret .metadata.annotations")]);
    }
    finding.advice("Garbage collection takes it away as soon as the controller manager looks at it: if it stays, look there. While it names a joined-to, it can keep an etcd machine from going.")
}

fn all_nodes() -> Want {
    Want::list(MANAGEMENT_NODES, None, Form::Metadata)
}

/// RG108 and RG110.
fn management_nodes(scene: &Scene<'_>, diagnosis: &mut Diagnosis) {
    let Scene { question, snapshot, fleet } = scene;
    if question.target.is_some() {
        return;
    }
    let Ok(nodes) = snapshot.here().answer(&all_nodes()) else { return };
    let namespaces: Option<BTreeSet<&str>> = snapshot
        .here()
        .answer(&Want::list(NAMESPACES, None, Form::Metadata))
        .ok()
        .map(|all| all.iter().filter_map(|namespace| namespace["metadata"]["name"].as_str()).collect());
    if snapshot.raw_list(&MANAGEMENT_CLUSTERS, None).is_err() {
        return;
    }
    let ids: BTreeSet<&str> = fleet.management.iter().map(|cluster| cluster.metadata.name.as_str()).collect();
    let mut by_cluster: BTreeMap<String, Vec<Metadata>> = BTreeMap::new();
    for node in nodes {
        let Ok(metadata) = Metadata::deserialize(&node["metadata"]) else { continue };
        let id = metadata.namespace.clone().unwrap_or_default();
        let no_namespace = namespaces.as_ref().is_some_and(|all| !all.contains(id.as_str()));
        if (!ids.contains(id.as_str()) || no_namespace) && id != LOCAL {
            by_cluster.entry(id).or_default().push(metadata);
        }
    }
    for (id, nodes) in by_cluster {
        // While a cluster is being removed, its copies of Nodes go one after the other.
        let goes =
            |node: &Metadata| node.deletion_timestamp.is_some_and(|t| between(t, snapshot.as_of) < question.grace);
        let mut nodes: Vec<Metadata> = nodes.into_iter().filter(|node| !goes(node)).collect();
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        let Some(first) = nodes.first() else { continue };
        let gone = namespaces.as_ref().map(|all| !all.contains(id.as_str()));
        if gone == Some(true) {
            diagnosis.findings.push(
                Finding::new(
                    &findings::NAMESPACE_GONE,
                    "leftover",
                    ObjectRef::new(&NAMESPACES, None, &id),
                    format!("namespace {id} does not exist, but {} in it", count(nodes.len(), "object lives", "objects live")),
                )
                .evidence([
                    Evidence::new("objects", some_of(&names, 5)).from(MANAGEMENT_NODES.full_name()),
                    Evidence::new("namespace", "no such namespace").from("namespaces"),
                ])
                .advice("They crash the leader when it tries to change them. In this order: make the namespace again, remove what is in it, then the namespace. Never its finalizer."),
            );
            continue;
        }
        let finalizers: BTreeSet<&str> = nodes.iter().flat_map(|node| &node.finalizers).map(String::as_str).collect();
        diagnosis.findings.push(
            Finding::new(
                &findings::MANAGEMENT_NODE_ORPHAN,
                "leftover",
                reference(&MANAGEMENT_NODES, first),
                format!("{} of cluster {id}, which does not exist", count(nodes.len(), "copy of a Node is left", "copies of Nodes are left")),
            )
            .evidence([
                Evidence::new("objects", some_of(&names, 5)).from(MANAGEMENT_NODES.full_name()),
                Evidence::new("cluster", format!("there is no management Cluster {id}")).from(MANAGEMENT_CLUSTERS.full_name()),
                Evidence::new("finalizers", finalizers.into_iter().collect::<Vec<_>>().join(", ")),
            ])
            .advice("Nothing depends on them but the namespace, which cannot go while they stay. Remove them one by one only when you know that the cluster is gone for good: the finalizer of old versions deletes real Nodes."),
        );
    }
}

/// Whether this is the kind of host a person registered: nothing but the object itself is lost with it.
pub(crate) fn is_custom(part: &Part) -> bool {
    part.resource == CUSTOM_MACHINES
}
