//! RG105 and RG106: what machines that are gone left behind.

use std::collections::{BTreeSet, HashMap, HashSet};

use rancher_common::finding::{Diagnosis, Evidence, Finding};
use rancher_common::rancher::{CUSTOM_MACHINES, MACHINES, Metadata, RKE_BOOTSTRAPS};
use rancher_common::resource::ResourceType;
use rancher_common::snapshot::{Form, Place, Shown, Snapshot, Want};
use rancher_common::text::count;
use rancher_common::time::between;

use super::Scene;
use crate::Question;
use crate::findings;
use crate::model::fleet::{Cluster, Fleet};
use crate::model::objects::Part;
use crate::model::reading::{Objects, Rows};
use crate::plan;

/// Parts of machines whose names no Machine has, and which were not read yet: they are looked at whole before they are
/// called orphans, since old versions of Cluster API gave them names of their own.
pub(crate) fn doubts(snapshot: &Snapshot, fleet: &Fleet) -> Vec<(ResourceType, String, String)> {
    let mut doubts = Vec::new();
    let rows = Rows::of(snapshot, &MACHINES, &fleet.workspaces);
    for kind in fleet.infra_kinds.iter().chain([&RKE_BOOTSTRAPS]) {
        let read = Objects::of(snapshot, &Place::Here, kind);
        for namespace in &fleet.workspaces {
            let want = Want::list(kind.clone(), Some(namespace), Form::Table);
            // Whole objects need no second question.
            let Ok(Shown::Rows(parts)) = snapshot.here().shown(&want) else { continue };
            let Some(names) = rows.names(namespace) else { continue };
            doubts.extend(
                parts
                    .names()
                    .filter(|name| !names.contains(name) && read.get(namespace, name).is_err())
                    .map(|name| (kind.clone(), namespace.clone(), name.to_owned())),
            );
        }
    }
    doubts
}

/// A part of a machine that is gone.
#[derive(Clone, Debug)]
pub(crate) struct Orphan {
    pub part: Part,
    /// Name of the Machine it belonged to, as far as it says so.
    pub machine: Option<String>,
}

/// The Machines that parts of this name in a cluster that is gone say they belong to: by workspace and name.
pub(crate) fn owners_in_doubt(question: &Question, snapshot: &Snapshot, fleet: &Fleet) -> Vec<(String, String)> {
    let named = question.machine().map(str::to_owned);
    let pairs = fleet.workspaces.iter().filter_map(|namespace| Some((namespace.clone(), named.clone()?)));
    let owners = whole_parts(snapshot, fleet).into_iter().filter_map(|part| {
        let owner = part.machine()?.to_owned();
        Some((part.metadata.namespace?, owner))
    });
    pairs.chain(owners).collect::<BTreeSet<_>>().into_iter().collect()
}

/// All whole parts.
fn whole_parts(snapshot: &Snapshot, fleet: &Fleet) -> Vec<Part> {
    let mut parts = Vec::new();
    for kind in fleet.infra_kinds.iter().chain([&RKE_BOOTSTRAPS]) {
        let objects = Objects::of(snapshot, &Place::Here, kind);
        parts.extend(objects.all().filter_map(|object| Part::read(kind, object)));
    }
    parts
}

/// Whether something may belong to a host that is being registered: lists are read beside each other, and one of them
/// may be older.
pub(crate) fn just_made(scene: &Scene<'_>, metadata: &Metadata) -> bool {
    let made = metadata.creation_timestamp;
    metadata.deletion_timestamp.is_none()
        && made.is_some_and(|made| between(made, scene.snapshot.as_of) < scene.question.grace)
}

/// Parts in a cluster that is gone: each Machine was asked for by its name.
fn of_a_cluster_that_is_gone(scene: &Scene<'_>, cluster: &str) -> Vec<Orphan> {
    let machines = Objects::of(scene.snapshot, &Place::Here, &MACHINES);
    whole_parts(scene.snapshot, scene.fleet)
        .into_iter()
        .filter(|part| cluster_of(&part.metadata) == Some(cluster))
        .filter(|part| {
            let namespace = part.metadata.namespace.as_deref().unwrap_or_default();
            let owner = part.machine().unwrap_or(&part.metadata.name);
            !just_made(scene, &part.metadata)
                && scene.fleet.workspaces.iter().any(|workspace| workspace == namespace)
                && machines.get(namespace, owner) == Ok(None)
        })
        .map(|part| Orphan { machine: part.machine().map(str::to_owned), part })
        .collect()
}

/// Whole parts whose Machine is proven absent.
pub(crate) fn orphans(scene: &Scene<'_>) -> Vec<Orphan> {
    let Scene { question, snapshot, fleet } = scene;
    if snapshot.not_served(&MACHINES) {
        // Without the kind no Machine is seen, which proves nothing about those of the parts that are left.
        return Vec::new();
    }
    if let Some(target) = &question.target
        && fleet.targets(question).is_empty()
    {
        return of_a_cluster_that_is_gone(scene, &target.cluster);
    }
    let parts = whole_parts(snapshot, fleet);
    if parts.is_empty() {
        return Vec::new();
    }
    let rows = Rows::of(snapshot, &MACHINES, &fleet.workspaces);
    let targets = fleet.targets(question);
    let of_target = |namespace: &str| {
        let read = targets
            .iter()
            .any(|c| c.namespace == namespace && snapshot.here().answer(&crate::needs::machines_of(c)).is_ok());
        let clusters = fleet.clusters.iter().filter(move |cluster| cluster.namespace == namespace);
        read.then(|| clusters.flat_map(|c| &c.machines).map(|picture| picture.row.name.as_str()).collect())
    };
    // All Machines of a workspace, those of clusters without a provisioning Cluster too, which are in no picture.
    let known: HashMap<&str, HashSet<&str>> = fleet
        .workspaces
        .iter()
        .filter_map(|namespace| {
            let names = if question.target.is_some() { of_target(namespace) } else { rows.names(namespace).cloned() };
            Some((namespace.as_str(), names?))
        })
        .collect();
    // What a Machine refers to is no orphan, whatever its own marks say.
    let referred: HashSet<(&str, &str, &str)> = fleet
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
    for part in parts {
        let namespace = part.metadata.namespace.as_deref().unwrap_or_default();
        let Some(names) = known.get(namespace) else { continue };
        let machine = part.machine().map(str::to_owned);
        let owner = machine.as_deref().unwrap_or(&part.metadata.name);
        if just_made(scene, &part.metadata) {
            continue;
        }
        let kind = part.resource.kind.as_ref();
        if names.contains(owner) || referred.contains(&(namespace, kind, part.metadata.name.as_str())) {
            continue;
        }
        if question.target.is_some() && !targets.iter().any(|cluster| names_it(cluster, &part.metadata)) {
            continue;
        }
        found.push(Orphan { part, machine });
    }
    found
}

/// Whether an object belongs to a cluster, as far as its labels say.
fn names_it(cluster: &Cluster, metadata: &Metadata) -> bool {
    metadata.namespace.as_deref() == Some(cluster.namespace.as_str()) && cluster_of(metadata) == Some(&cluster.name)
}

/// What a target calls the cluster of an object: the one that its labels name, else its workspace.
pub(crate) fn cluster_of(metadata: &Metadata) -> Option<&str> {
    let label = |name: &str| metadata.labels.get(name).map(String::as_str);
    label(crate::model::machine::CLUSTER_NAME)
        .or_else(|| label("rke.cattle.io/cluster-name"))
        .or(metadata.namespace.as_deref())
}

pub(crate) fn judge(scene: &Scene<'_>, diagnosis: &mut Diagnosis) {
    let unread = doubts(scene.snapshot, scene.fleet).len();
    if unread > 0 {
        let parts = count(unread, "part", "parts");
        diagnosis.skip("leftover", format!("{parts} of machines were not read, whose names no Machine has"));
    }
    for orphan in orphans(scene) {
        let finding = part_finding(scene, &orphan);
        diagnosis.findings.push(finding);
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
    let message = if part.has_vm() {
        format!("{} has no Machine any more, without which its controller deletes no VM", part.reference())
    } else if is_infra {
        format!("{} has no Machine any more", part.reference())
    } else {
        format!("{} was left behind by machine {machine}", part.reference())
    };
    let finding = Finding::new(rule, "leftover", part.reference(), message).evidence(evidence);
    plan::orphans::target_of(scene, orphan, finding)
}

/// Whether this is the kind of host a person registered: nothing but the object itself is lost with it.
pub(crate) fn is_custom(part: &Part) -> bool {
    part.resource == CUSTOM_MACHINES
}
