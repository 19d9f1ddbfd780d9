//! Whether this is the right cluster, seen in the right way (RX001 to RX005).

use rancher_common::finding::{Evidence, Finding, access, shared};
use rancher_common::kinds::{DEPLOYMENTS, Deployment, NAMESPACES};
use rancher_common::rancher::{MANAGEMENT_CLUSTERS, ManagementCluster};
use rancher_common::resource::ObjectRef;
use rancher_common::snapshot::{Need, Snapshot};
use rancher_common::text::some_of;

use super::Scene;
use super::election::{self, Election, LEASE_NAMESPACE};
use super::holder::AGENT;
use super::replicas;
use crate::{Question, needs};

/// RX003 and RX004.
pub(crate) fn connection(snapshot: &Snapshot) -> Vec<Finding> {
    let mut findings = Vec::new();
    let subject = ObjectRef::new(&NAMESPACES, None, LEASE_NAMESPACE);
    if let Some(cluster) = &snapshot.origin.rancher_proxy {
        findings.push(
            Finding::new(
                &shared::THROUGH_RANCHER_PROXY,
                "connection",
                subject.clone(),
                format!(
                    "the connection passes through Rancher itself (/k8s/clusters/{cluster}), which is what is looked at"
                ),
            )
            .evidence([Evidence::new("server", snapshot.origin.server.clone()).from("kubeconfig")])
            .advice("Use a kubeconfig of the cluster itself: it still works when Rancher does not, and fix needs it."),
        );
    }
    findings.extend(access::clock_skew(snapshot));
    findings
}

/// RX001: required readings that failed or are missing, and required objects of another shape.
pub(crate) fn unread(question: &Question, scene: &Scene<'_>) -> Vec<Finding> {
    let snapshot = scene.snapshot;
    let mut findings = access::unread(&needs::needs(question, snapshot), snapshot);
    if let Err(problem) = &scene.looks {
        findings.push(access::malformed(&election::subject(None), problem));
    }
    // A failed reading between good ones counts as an answer, but is no look.
    if matches!(scene.looks, Ok(Some(_)))
        && scene.election == Election::Unknown
        && (matches!(scene.presence, replicas::Presence::Here(_)) || scene.in_docker())
        && !findings.iter().any(|finding| finding.subject == election::subject(None))
    {
        let need = Need::required(needs::lease(), needs::WHY_LEASE);
        findings.push(access::cannot_read(&need, "of two looks at it one failed", false));
    }
    let namespaces = replicas::namespaces(question, snapshot);
    for (resource, object, problem) in replicas::malformed(snapshot, &namespaces) {
        findings.push(access::malformed(&ObjectRef::of(&resource, object), &problem.to_string()));
    }
    if let Ok(listed) = snapshot.list::<ManagementCluster>(None) {
        for (object, problem) in &listed.malformed {
            findings.push(access::malformed(&ObjectRef::of(&MANAGEMENT_CLUSTERS, object), &problem.to_string()));
        }
    }
    findings.sort_by(|a, b| (&a.subject, &a.message).cmp(&(&b.subject, &b.message)));
    findings
}

/// RX002: a downstream cluster. Its agent elects with the same Lease (rancher/rancher pkg/agent/rancher/rancher.go).
pub(crate) fn wrong_cluster(scene: &Scene<'_>, namespaces: &[String]) -> Option<Finding> {
    let snapshot = scene.snapshot;
    let holder = scene.record().map(|record| record.holder.as_str()).filter(|holder| holder.starts_with(AGENT));
    let agent = namespaces
        .iter()
        .filter_map(|namespace| snapshot.list::<Deployment>(Some(namespace)).ok())
        .flat_map(|listed| listed.items)
        .find(|deployment| deployment.metadata.name.as_deref() == Some("cattle-cluster-agent"));
    if holder.is_none() && agent.is_none() {
        return None;
    }
    let mut facts = Vec::new();
    if let Some(holder) = holder {
        facts.push(super::seen(
            scene,
            Evidence::new("holder", holder).from("Lease kube-system/cattle-controllers .spec.holderIdentity"),
        ));
    }
    let mut subject = election::subject(scene.record());
    if let Some(agent) = agent {
        subject = ObjectRef::new(&DEPLOYMENTS, agent.metadata.namespace.as_deref(), "cattle-cluster-agent");
        subject.uid = agent.metadata.uid;
        facts.push(Evidence::new("agent", "Deployment cattle-cluster-agent is here").from(subject.to_string()));
    }
    facts.push(
        Evidence::new("server", format!("no Rancher Deployment in {}", some_of(namespaces, 3)))
            .from("deployments.apps"),
    );
    let advice = access::use_another_context(snapshot, "the management cluster, where Rancher itself runs");
    Some(
        Finding::new(
            &shared::WRONG_CLUSTER,
            "target",
            subject,
            "this is a downstream cluster: it runs Rancher's agent, not Rancher",
        )
        .evidence(facts)
        .advice(advice),
    )
}

/// RX005.
pub(crate) fn no_rancher(scene: &Scene<'_>, namespaces: &[String]) -> Finding {
    let snapshot = scene.snapshot;
    let served = !snapshot.not_served(&MANAGEMENT_CLUSTERS);
    let place = some_of(namespaces, 3);
    let (message, advice) = if served {
        (
            format!("Rancher's kinds are served here, but there is no Rancher Deployment in {place}"),
            "If Rancher runs in another namespace, name it with --rancher-namespace; if its Deployment was removed, install the Helm release again.".to_owned(),
        )
    } else {
        let advice = access::use_another_context(snapshot, "the cluster Rancher runs in");
        (format!("no Rancher here: no Deployment in {place}, and its kinds are not served"), advice)
    };
    let facts = [
        Evidence::new("deployments", format!("none of Rancher's chart in {place}")).from("deployments.apps"),
        Evidence::new(
            "kinds",
            format!("clusters.management.cattle.io {}", if served { "served" } else { "not served" }),
        ),
    ];
    Finding::new(
        &shared::NO_RANCHER_HERE,
        "target",
        ObjectRef::new(&DEPLOYMENTS, namespaces.first().map(String::as_str), replicas::CONTAINER),
        message,
    )
    .evidence(facts)
    .advice(advice)
}
