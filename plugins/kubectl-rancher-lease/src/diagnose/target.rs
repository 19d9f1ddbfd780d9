//! Whether this is the right cluster, seen in the right way (RX001 to RX005).

use rancher_common::finding::{Evidence, Finding, shared};
use rancher_common::kinds::{DEPLOYMENTS, Deployment, NAMESPACES, Namespace};
use rancher_common::rancher::{MANAGEMENT_CLUSTERS, ManagementCluster};
use rancher_common::resource::ObjectRef;
use rancher_common::snapshot::{Content, Need, Snapshot, Want};
use rancher_common::text::some_of;

use super::Scene;
use super::election::{self, Election, LEASE_NAMESPACE};
use super::holder::AGENT;
use super::replicas;
use crate::{Question, needs};

/// From this difference on a clock is worth a warning, in seconds.
const SKEW: i64 = 5;

/// UID of the namespace kube-system.
pub(crate) fn cluster_uid(snapshot: &Snapshot) -> Option<String> {
    snapshot.get::<Namespace>(None, LEASE_NAMESPACE).ok().flatten()?.metadata.uid
}

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
    let skew = snapshot.origin.clock_skew_seconds;
    if skew.abs() >= SKEW {
        let direction = if skew > 0 { "behind" } else { "ahead of" };
        findings.push(
            Finding::new(
                &shared::CLOCK_SKEW,
                "connection",
                subject,
                format!(
                    "this machine's clock is {}s {direction} the API server's; ages are computed on the server's",
                    skew.abs()
                ),
            )
            .evidence([Evidence::new("skew", format!("{skew}s")).from("the API server's Date header")])
            .advice("Set this machine's clock; time stamps in its own logs do not match those of the cluster."),
        );
    }
    findings
}

/// RX001: required readings that failed or are missing, and required objects of another shape.
pub(crate) fn unread(question: &Question, scene: &Scene<'_>) -> Vec<Finding> {
    let snapshot = scene.snapshot;
    let mut findings: Vec<Finding> = Vec::new();
    let needs = needs::needs(question, snapshot);
    for (index, need) in needs.iter().enumerate().filter(|(_, need)| need.required) {
        let newest = snapshot.readings_of(&need.want).next_back();
        let problem = match newest.map(|reading| &reading.content) {
            Some(Content::Failed(failure)) => Some((failure.message.clone(), failure.kind == "Forbidden")),
            Some(_) if snapshot.answers(need) => None,
            Some(_) => Some(("a second look was not taken".to_owned(), false)),
            None => Some(("it was not read".to_owned(), false)),
        };
        let told = needs[..index].iter().any(|other| {
            other.required
                && other.want == need.want
                && matches!(newest.map(|r| &r.content), Some(Content::Failed(_)) | None)
        });
        if let Some((problem, forbidden)) = problem.filter(|_| !told) {
            findings.push(cannot_read(need, &problem, forbidden));
        }
    }
    if let Err(problem) = &scene.looks {
        findings.push(malformed(&election::subject(None), problem));
    }
    // A failed reading between good ones counts as an answer, but is no look.
    if matches!(scene.looks, Ok(Some(_)))
        && scene.election == Election::Unknown
        && (matches!(scene.presence, replicas::Presence::Here(_)) || scene.in_docker())
        && !findings.iter().any(|finding| finding.subject == election::subject(None))
    {
        let need = Need::required(needs::lease(), needs::WHY_LEASE);
        findings.push(cannot_read(&need, "of two looks at it one failed", false));
    }
    let namespaces = replicas::namespaces(question, snapshot);
    for (resource, object, problem) in replicas::malformed(snapshot, &namespaces) {
        findings.push(malformed(&ObjectRef::of(&resource, object), &problem.to_string()));
    }
    if let Ok(listed) = snapshot.list::<ManagementCluster>(None) {
        for (object, problem) in &listed.malformed {
            findings.push(malformed(&ObjectRef::of(&MANAGEMENT_CLUSTERS, object), &problem.to_string()));
        }
    }
    findings.sort_by(|a, b| (&a.subject, &a.message).cmp(&(&b.subject, &b.message)));
    findings
}

fn cannot_read(need: &Need, problem: &str, forbidden: bool) -> Finding {
    let subject = match &need.want {
        Want::Get { resource, namespace, name } => ObjectRef::new(resource, namespace.as_deref(), name),
        Want::List { resource, namespace, .. } => ObjectRef::new(resource, namespace.as_deref(), "*"),
        Want::Log { namespace, pod, .. } => ObjectRef::new(&rancher_common::kinds::PODS, Some(namespace), pod),
    };
    let right = need.want.right();
    let mut facts = vec![Evidence::new("not judged", need.why.clone().into_owned())];
    if forbidden {
        facts.push(Evidence::new("missing right", right.to_string()));
    }
    let finding =
        Finding::new(&shared::CANNOT_READ, "access", subject, format!("cannot read {}: {problem}", need.want))
            .evidence(facts);
    if forbidden {
        finding.advice("Ask for this right; the rbac verb prints all that are needed.").next_command(["SELF", "rbac"])
    } else {
        finding.advice("Run it again; what could not be read is never taken for healthy.")
    }
}

fn malformed(subject: &ObjectRef, problem: &str) -> Finding {
    Finding::new(&shared::CANNOT_READ, "access", subject.clone(), format!("cannot understand {subject}: {problem}"))
        .advice("Look at the object itself: it has another shape than its kind.")
}

/// Contexts that could be meant, likely ones first.
fn likely(contexts: &[String]) -> Vec<String> {
    let mut sorted = contexts.to_vec();
    sorted.sort_by_key(|name| {
        let lower = name.to_lowercase();
        let likely = ["rancher", "mgmt", "management", "local", "upstream"].iter().any(|word| lower.contains(word));
        (!likely, name.clone())
    });
    sorted
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
    let contexts = likely(&snapshot.origin.other_contexts);
    let advice = if contexts.is_empty() {
        "Use a kubeconfig of the management cluster, where Rancher itself runs.".to_owned()
    } else {
        format!(
            "Use the context of the management cluster, where Rancher itself runs; the kubeconfig also has: {}.",
            some_of(&contexts, 8)
        )
    };
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
        let contexts = likely(&snapshot.origin.other_contexts);
        let advice = if contexts.is_empty() {
            "Use a kubeconfig of the cluster Rancher runs in.".to_owned()
        } else {
            format!(
                "Use the context of the cluster Rancher runs in; the kubeconfig also has: {}.",
                some_of(&contexts, 8)
            )
        };
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
