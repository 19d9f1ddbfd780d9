//! RG109, RG205 to RG207, RG209 and RG210: what concerns a cluster as a whole.

use std::collections::HashSet;
use std::sync::Arc;

use rancher_common::finding::{Diagnosis, Evidence, Finding};
use rancher_common::rancher::{
    CAPI_CLUSTERS, MACHINES, MANAGEMENT_CLUSTERS, ManagementCluster, PROVISIONING_CLUSTERS, RKE_BOOTSTRAPS,
    RKE_CONTROL_PLANES,
};
use rancher_common::resource::ObjectRef;
use rancher_common::snapshot::Place;
use rancher_common::text::{count, some_of};
use rancher_common::time::{between, human};

use super::{Judged, Scene, blocks, deleting};
use crate::findings;
use crate::model::fleet::{Cluster, LOCAL, Picture, REMOVED, management_reference};
use crate::model::machine::{Machine, Role};
use crate::model::planner::ETCD_REPLACED;
use crate::model::reading::Objects;
use crate::model::triage::Row;
use crate::question::Target;

/// Mark of management Clusters that belong to a provisioning Cluster
/// (rancher/rancher pkg/controllers/provisioningv2/cluster/controller.go).
const ADMINISTRATED: &str = "provisioning.cattle.io/administrated";

pub(crate) fn judge(scene: &Scene<'_>, cluster: &Cluster, judged: &[(&Picture, Judged)], diagnosis: &mut Diagnosis) {
    diagnosis.findings.extend(paused(cluster));
    diagnosis.findings.extend(deleting::joined(scene, cluster));
    diagnosis.findings.extend(etcd_replaced(cluster));
    diagnosis.findings.extend(cannot_tell(scene, cluster, judged));
    diagnosis.findings.extend(blocks::judge(cluster, judged));
}

/// RG206.
pub(crate) fn paused(cluster: &Cluster) -> Vec<Finding> {
    let finding = |subject: ObjectRef, message: String, evidence: Evidence, advice: &str| {
        Finding::new(&findings::PAUSED, "paused", subject, message).evidence([evidence]).advice(advice)
    };
    let mut found = Vec::new();
    let restoring = cluster.plane().and_then(|plane| plane.restoring());
    let advice = if restoring.is_some() {
        "Let the restore end, or do it again from its start; to unpause alone reconciles against a broken plane."
    } else {
        "Find out who paused it and why before taking it away: a failed restore leaves it behind, and wants to be done again."
    };
    if cluster.capi_paused == Ok(Some(true)) {
        found.push(finding(
            ObjectRef::new(&CAPI_CLUSTERS, Some(&cluster.namespace), &cluster.name),
            format!("cluster {} is paused: Cluster API does nothing to its machines", cluster.title()),
            Evidence::new("paused", "true")
                .from("Cluster API Cluster .spec.paused, its annotation, or its condition Paused"),
            advice,
        ));
    }
    if let Some(plane) = cluster.plane() {
        let subject = || crate::model::objects::reference(&RKE_CONTROL_PLANES, &plane.metadata);
        if plane.paused() {
            found.push(finding(
                subject(),
                format!("the control plane of cluster {} is paused: the planner does nothing", cluster.title()),
                Evidence::new("paused", "annotation cluster.x-k8s.io/paused")
                    .from("RKEControlPlane .metadata.annotations"),
                advice,
            ));
        }
        if let Some(phase) = restoring {
            found.push(finding(
                subject(),
                format!("an etcd restore of cluster {} is under way ({phase})", cluster.title()),
                Evidence::new("phase", phase.to_owned()).from("RKEControlPlane .status.etcdSnapshotRestorePhase"),
                advice,
            ));
        }
    }
    for picture in &cluster.machines {
        if picture.whole().is_some_and(crate::model::machine::Machine::paused) {
            found.push(finding(
                picture.reference(),
                format!("machine {} of cluster {} is paused: nothing happens to it", picture.row.name, cluster.title()),
                Evidence::new("paused", "annotation cluster.x-k8s.io/paused").from("Machine .metadata.annotations"),
                advice,
            ));
        }
    }
    found
}

/// RG207.
fn etcd_replaced(cluster: &Cluster) -> Option<Finding> {
    let message = cluster.planner_message().filter(|message| message.contains(ETCD_REPLACED))?;
    let machines: Vec<&Picture> = cluster.of_role(Role::Etcd).map(|(picture, _)| picture).collect();
    let without: Vec<&str> =
        machines.iter().filter(|picture| picture.plan == Ok(None)).map(|picture| picture.row.name.as_str()).collect();
    let alive =
        cluster.nodes.as_ref().ok().map(|nodes| nodes.iter().filter(|n| n.etcd && n.ready == Some(true)).count());
    let lost = alive == Some(0) || (alive.is_none() && machines.is_empty());
    let mut evidence = vec![
        Evidence::new("planner", message).from("RKEControlPlane condition Ready"),
        Evidence::new("machines", count(machines.len(), "etcd machine", "etcd machines")),
    ];
    if !without.is_empty() {
        evidence.push(Evidence::new("plan Secrets", format!("missing for {}", some_of(&without, 5))));
    }
    evidence.push(Evidence::new(
        "nodes",
        match alive {
            Some(alive) => format!("{} Ready downstream", count(alive, "etcd node", "etcd nodes")),
            None => "not known: no downstream connection".to_owned(),
        },
    ));
    let (words, advice) = if lost {
        ("its etcd machines are gone", "Only a restore from an etcd snapshot helps. Do not delete further machines.")
    } else if alive.is_some_and(|alive| alive > 0) {
        (
            "though its etcd nodes run: what is missing is plan Secrets on Rancher's side",
            "Do not restore: it would roll a healthy cluster back. Bring the plan Secrets back from Rancher's backup.",
        )
    } else {
        (
            "and whether its etcd nodes run is not known",
            "Look at the downstream cluster itself before restoring anything: if it works, only plan Secrets are missing.",
        )
    };
    Some(
        Finding::new(
            &findings::ETCD_PLANE_REPLACED,
            "etcd",
            cluster.reference(),
            format!("the planner takes the etcd plane of cluster {} for replaced, {words}", cluster.title()),
        )
        .evidence(evidence)
        .advice(advice),
    )
}

/// RG209: one for the cluster, however many of its machines it is about.
fn cannot_tell(scene: &Scene<'_>, cluster: &Cluster, judged: &[(&Picture, Judged)]) -> Option<Finding> {
    let undecided: Vec<&str> = judged
        .iter()
        .filter(|(picture, judged)| {
            judged.undecided && scene.question.machine().is_none_or(|machine| machine == picture.row.name)
        })
        .map(|(picture, _)| picture.row.name.as_str())
        .collect();
    let first = undecided.first()?;
    let connected = match cluster.connected() {
        Some(true) => "True",
        Some(false) => "False",
        None => "unknown",
    };
    let why =
        cluster.nodes.as_ref().err().cloned().unwrap_or_else(|| "the Nodes were read, but do not tell".to_owned());
    let mut subject = cluster.reference();
    if let Some(machine) = scene.question.machine().and_then(|name| cluster.machine(name)) {
        subject = machine.reference();
    }
    Some(
        Finding::new(
            &findings::CANNOT_TELL_FROM_OUTAGE,
            "machines",
            subject,
            format!(
                "whether {} of cluster {} {} a node cannot be told",
                some_of(&undecided, 3),
                cluster.title(),
                if undecided.len() == 1 { "has" } else { "have" }
            ),
        )
        .evidence([
            Evidence::new("connected", connected).from("management Cluster condition Connected"),
            Evidence::new("own look", why),
            Evidence::new(
                "first",
                judged.iter().find(|(picture, _)| picture.row.name == **first).map_or("", |(_, j)| j.why.as_str()),
            ),
        ])
        .advice("A vanished node and an unreachable one look the same from here. Connect the cluster again, or give --downstream-context or --downstream-kubeconfig."),
    )
}

/// Whether a management Cluster is what a target without a machine names.
pub(crate) fn is_called(management: &ManagementCluster, target: &Target) -> bool {
    let shown = management.spec.display_name.as_deref();
    target.machine.is_none() && (management.metadata.name == target.cluster || shown == Some(target.cluster.as_str()))
}

/// RG109: machines of clusters that are gone. A cluster that somebody runs with Cluster API alone has no provisioning
/// Cluster either, but no RKEBootstraps.
fn strays(scene: &Scene<'_>) -> Vec<Finding> {
    let strays = &scene.fleet.strays;
    if strays.is_empty() {
        return Vec::new();
    }
    let machines = Objects::of(scene.snapshot, &Place::Here, &MACHINES);
    let of_rancher = |((namespace, _), rows): &(&(String, String), &Vec<Row>)| {
        let first = rows.first().and_then(|row| machines.get(namespace, &row.name).ok().flatten());
        first.and_then(Machine::read).is_some_and(|machine| {
            // A cluster that was just made may be younger than the list of clusters.
            machine.bootstrap.as_ref().is_some_and(|bootstrap| bootstrap.kind == RKE_BOOTSTRAPS.kind)
                && !super::orphans::just_made(scene, &machine.metadata)
        })
    };
    let finding = |((namespace, name), rows): (&(String, String), &Vec<Row>)| {
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        let deleting = rows.iter().filter(|row| row.phase == "Deleting").count();
        Finding::new(
            &findings::GHOST_CLUSTER,
            "cluster",
            ObjectRef::new(&PROVISIONING_CLUSTERS, Some(namespace), name),
            format!("{} of cluster {name}, which has no provisioning Cluster", count(rows.len(), "machine", "machines")),
        )
        .evidence([
            Evidence::new("machines", some_of(&names, 5)).from(MACHINES.full_name()),
            Evidence::new("deleting", format!("{deleting} of {}", rows.len())).from("Machine .status.phase"),
            Evidence::new("provisioning", format!("no Cluster {name} in {namespace}")).from(PROVISIONING_CLUSTERS.full_name()),
        ])
        .advice("Bring the provisioning Cluster back from Rancher's backup if the cluster lives; else delete its machines one by one, in the ordinary way. Finalizers last: infra machine before RKEBootstrap before Machine.")
    };
    strays.iter().filter(of_rancher).map(finding).collect()
}

/// RG109: halves of clusters, and clusters whose removal hangs.
pub(crate) fn ghosts(scene: &Scene<'_>, diagnosis: &mut Diagnosis) {
    let Scene { question, snapshot, fleet } = scene;
    let listed = snapshot.raw_list(&MANAGEMENT_CLUSTERS, None).is_ok();
    let named: HashSet<&str> = fleet.clusters.iter().filter_map(|cluster| cluster.id.as_deref()).collect();
    if listed && question.namespace.is_none() {
        let asked = |management: &&Arc<ManagementCluster>| {
            question.target.as_ref().is_none_or(|target| is_called(management, target))
        };
        for management in fleet.management.iter().filter(asked) {
            let ours = management.metadata.annotations.get(ADMINISTRATED).is_some_and(|value| value == "true");
            if named.contains(management.metadata.name.as_str()) || management.metadata.name == LOCAL || !ours {
                continue;
            }
            let age = management.metadata.creation_timestamp.map(|made| between(made, snapshot.as_of));
            let removed = management.metadata.deletion_timestamp.map(|since| between(since, snapshot.as_of));
            if [age, removed].into_iter().flatten().any(|since| since < question.grace) {
                continue;
            }
            diagnosis.findings.push(
                Finding::new(
                    &findings::GHOST_CLUSTER,
                    "cluster",
                    management_reference(management),
                    format!("management Cluster {} has no provisioning Cluster", management.title()),
                )
                .evidence([
                    Evidence::new("mark", format!("{ADMINISTRATED} is true")).from("Cluster .metadata.annotations"),
                    Evidence::new("provisioning", "no Cluster has it as .status.clusterName").from("clusters.provisioning.cattle.io"),
                    Evidence::new("finalizers", management.metadata.finalizers.join(", ")).from("Cluster .metadata.finalizers"),
                    Evidence::new("deleting", if management.metadata.deletion_timestamp.is_some() { "yes" } else { "no" }),
                ])
                .advice("Children first: its machines, then nodes.management in its namespace, then this Cluster by an ordinary delete. Never the namespace, never all finalizers at once."),
            );
        }
    }
    diagnosis.findings.extend(strays(scene));
    for cluster in fleet.targets(question) {
        if listed
            && cluster.id.is_some()
            && cluster.management.is_none()
            && cluster.metadata.deletion_timestamp.is_none()
        {
            let id = cluster.id.as_deref().unwrap_or_default();
            diagnosis.findings.push(
                Finding::new(
                    &findings::GHOST_CLUSTER,
                    "cluster",
                    cluster.reference(),
                    format!("provisioning Cluster {} names management Cluster {id}, which does not exist", cluster.title()),
                )
                .evidence([
                    Evidence::new("clusterName", id.to_owned()).from("Cluster .status.clusterName"),
                    Evidence::new("machines", count(cluster.machines.len(), "machine", "machines")).from(MACHINES.full_name()),
                    Evidence::new("management", "no such Cluster").from(MANAGEMENT_CLUSTERS.full_name()),
                ])
                .advice("Bring the management Cluster back from Rancher's backup if the cluster lives; else remove its machines one by one, then this Cluster."),
            );
        }
        if let Some(since) = cluster.metadata.deletion_timestamp {
            let waited = between(since, snapshot.as_of);
            if waited < question.grace {
                continue;
            }
            let left: Vec<&str> = cluster.machines.iter().map(|picture| picture.row.name.as_str()).collect();
            diagnosis.findings.push(
                Finding::new(
                    &findings::GHOST_CLUSTER,
                    "cluster",
                    cluster.reference(),
                    format!("cluster {} has been removed {} ago and is still there", cluster.title(), human(waited)),
                )
                .evidence([
                    Evidence::new("machines", if left.is_empty() { "none left".to_owned() } else { some_of(&left, 5) }),
                    Evidence::new("finalizers", cluster.metadata.finalizers.join(", ")).from("Cluster .metadata.finalizers"),
                    Evidence::new("says", cluster.conditions.iter().find(|c| c.kind == REMOVED).map_or("", |c| c.message()).to_owned()),
                ])
                .advice(if left.is_empty() {
                    "Nothing is left that it could wait for but its own controllers: look at Rancher's leader first (kubectl rancher-lease)."
                } else {
                    "Its machines first: fix them one by one; the Cluster follows by itself."
                }),
            );
        }
    }
}
