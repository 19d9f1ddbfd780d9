//! Whether this is the right cluster, and whether what was asked for exists (RX002, RX005, RX006).

use rancher_common::finding::{Diagnosis, Evidence, Finding, access, shared};
use rancher_common::rancher::{MACHINES, MANAGEMENT_CLUSTERS, PROVISIONING_CLUSTERS};
use rancher_common::resource::ObjectRef;
use rancher_common::text::some_of;

use super::{Scene, clusters, credentials, management_nodes, orphans};
use crate::findings;
use crate::question::Target;

/// Why nothing can be judged here, if it cannot.
pub(crate) fn wrong(scene: &Scene<'_>) -> Option<Finding> {
    let Scene { question, snapshot, fleet } = scene;
    if snapshot.not_served(&PROVISIONING_CLUSTERS) || snapshot.not_served(&MANAGEMENT_CLUSTERS) {
        let advice = access::use_another_context(snapshot, "the cluster Rancher runs in");
        return Some(
            Finding::new(
                &shared::NO_RANCHER_HERE,
                "target",
                ObjectRef::new(&PROVISIONING_CLUSTERS, None, "*"),
                "no Rancher here: its kinds are not served",
            )
            .evidence([Evidence::new("kinds", "clusters.provisioning.cattle.io not served")])
            .advice(advice),
        );
    }
    let target = question.target.as_ref()?;
    // What could not be read is told by RX001.
    snapshot.raw_list(&PROVISIONING_CLUSTERS, None).ok()?;
    let missing = |subject, message: String, have: &[String], what: &str| {
        let advice = if have.is_empty() {
            format!("There is no {what} at all.")
        } else {
            format!("There are: {}.", some_of(have, 12))
        };
        Some(Finding::new(&shared::NO_SUCH_TARGET, "target", subject, message).advice(advice))
    };
    match fleet.targets(question)[..] {
        [] => {
            // A cluster may be meant by the name that its management Cluster shows: that one not read is told by RX001.
            snapshot.raw_list(&MANAGEMENT_CLUSTERS, None).ok()?;
            let half = fleet.management.iter().any(|management| clusters::is_called(management, target));
            if half || of_a_cluster_that_is_gone(scene, target) {
                return None;
            }
            let names: Vec<String> = fleet.clusters.iter().map(super::Cluster::title).collect();
            let subject = ObjectRef::new(&PROVISIONING_CLUSTERS, question.namespace.as_deref(), &target.cluster);
            missing(subject, format!("there is no cluster {}", target.cluster), &names, "cluster")
        }
        [cluster] => {
            let machine = target.machine.as_deref()?;
            let listed = snapshot.here().answer(&crate::needs::machines_of(cluster)).is_ok();
            if !listed || cluster.machine(machine).is_some() || left_behind(scene, cluster, machine) {
                return None;
            }
            let names: Vec<String> = cluster.machines.iter().map(|picture| picture.row.name.clone()).collect();
            let subject = ObjectRef::new(&MACHINES, Some(&cluster.namespace), machine);
            missing(subject, format!("cluster {} has no machine {machine}", cluster.title()), &names, "machine")
        }
        ref several => {
            let names: Vec<String> =
                several.iter().map(|cluster| format!("-n {} {}", cluster.namespace, cluster.name)).collect();
            let subject = ObjectRef::new(&PROVISIONING_CLUSTERS, None, &target.cluster);
            missing(subject, format!("there is more than one cluster {}", target.cluster), &names, "cluster")
        }
    }
}

/// Whether something is left of a cluster that is gone: then its name is a good target.
fn of_a_cluster_that_is_gone(scene: &Scene<'_>, target: &Target) -> bool {
    let copy = || {
        let copies = management_nodes::copies(scene);
        copies
            .get(&target.cluster)
            .is_some_and(|copies| copies.iter().any(|c| Some(&c.name) == target.machine.as_ref()))
    };
    let left = || !orphans::orphans(scene).is_empty() || !credentials::left(scene).is_empty();
    target.machine.is_some() && (left() || copy())
}

/// Whether something of a machine that is gone is still there: then its name is a good target.
fn left_behind(scene: &Scene<'_>, cluster: &super::Cluster, machine: &str) -> bool {
    cluster.parts.iter().any(|part| part.machine() == Some(machine) || part.metadata.name == machine)
        || !credentials::left(scene).is_empty()
}

/// With a machine asked for, only what is about it, or holds up everything.
pub(crate) fn keep(scene: &Scene<'_>, diagnosis: &mut Diagnosis) {
    let Some(machine) = scene.question.machine() else { return };
    let about_all = [
        &findings::CAPI_DOWN,
        &findings::PAUSED,
        &findings::ETCD_PLANE_REPLACED,
        &findings::JOINED_TO_DELETING,
        &findings::NAMESPACE_GONE,
    ];
    diagnosis.findings.retain(|finding| {
        about_all.iter().any(|rule| finding.rule.code == rule.code)
            || finding.rule.code.starts_with("RX")
            || finding.subject.name == machine
            || finding.subject.name.strip_suffix("-machine-plan") == Some(machine)
            || (finding.rule.code == findings::BLOCKS.code
                && finding.evidence.iter().any(|fact| fact.label == "machine" && fact.value == machine))
    });
}
