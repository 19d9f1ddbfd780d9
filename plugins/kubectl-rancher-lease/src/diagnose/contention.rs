//! The other replicas: whether the Lease is free and nobody takes it (RL103), why nobody can (RL104), and whether two of
//! them have one identity (RL106).

use std::collections::BTreeMap;

use rancher_common::finding::{Evidence, Finding};
use rancher_common::kinds::Pod;
use rancher_common::snapshot::Snapshot;
use rancher_common::text::count;
use rancher_common::time::{between, human};

use super::election::{self, Record};
use super::holder::{self, Leadership};
use super::replicas::{self, Installation};
use super::{Scene, logs};
use crate::findings::{LEASE_FREE, NO_READY_REPLICA, NOBODY_CAN_CONTEND, SHARED_IDENTITY};

/// RL103 or RL109: the Lease is missing or released, and both looks saw it so. A candidate takes it at its next attempt,
/// which comes within seconds.
pub(crate) fn free(scene: &Scene<'_>, installation: &Installation, record: Option<&Record>) -> Leadership {
    let now = scene.snapshot.as_of;
    let state = if record.is_some() { "released" } else { "missing" };
    let facts = holder::evidence(scene, record);
    let candidates = installation.candidates(None);
    if candidates.iter().any(|candidate| candidate.starting(now)) {
        return holder::pending(
            scene,
            format!(
                "the Lease is {state}; {} still on the way to the election",
                match candidates.iter().filter(|candidate| candidate.starting(now)).count() {
                    1 => "1 replica is".to_owned(),
                    many => format!("{many} replicas are"),
                }
            ),
            facts,
        );
    }
    let mut finding = Finding::new(
        &LEASE_FREE,
        "leader",
        election::subject(record),
        format!("the Lease is {state} and stays so: nobody leads, and nobody takes it"),
    )
    .evidence(facts)
    .advice("There is nothing to delete; cure what keeps the replicas from the election.");
    let mut leadership = Leadership { since: record.and_then(|record| record.renewed), ..Leadership::default() };
    if installation.ready().is_empty() {
        finding = finding.caused_by(&NO_READY_REPLICA);
    } else {
        leadership.findings.push(nobody_finding(
            scene,
            installation,
            record,
            &format!("the Lease is {state}"),
            Vec::new(),
        ));
        finding = finding.caused_by(&NOBODY_CAN_CONTEND);
    }
    leadership.sick = Some(&LEASE_FREE);
    leadership.findings.push(finding);
    leadership
}

/// RL104.
pub(crate) fn nobody(
    scene: &Scene<'_>,
    installation: &Installation,
    record: Option<&Record>,
    what: &str,
    facts: Vec<Evidence>,
) -> Leadership {
    Leadership {
        findings: vec![nobody_finding(scene, installation, record, what, facts)],
        sick: Some(&NOBODY_CAN_CONTEND),
        since: record.and_then(|record| scene.last_change(record)),
        ..Leadership::default()
    }
}

fn nobody_finding(
    scene: &Scene<'_>,
    installation: &Installation,
    record: Option<&Record>,
    what: &str,
    mut facts: Vec<Evidence>,
) -> Finding {
    let snapshot = scene.snapshot;
    let ready = installation.ready();
    let over = record
        .filter(|record| !record.holder.is_empty())
        .and_then(|record| Some((scene.last_change(record)?, record.duration().unwrap_or_default())))
        .map(|(changed, duration)| {
            let age = between(changed, snapshot.as_of);
            if age > duration {
                format!(", its record ran out {} ago", human(age.saturating_sub(duration)))
            } else {
                String::new()
            }
        })
        .unwrap_or_default();
    let causes = logs::causes(snapshot, installation.pods.iter());
    if ready.is_empty() {
        // Why not is what RL120 tells.
        return Finding::new(
            &NOBODY_CAN_CONTEND,
            "leader",
            election::subject(record),
            format!("{what}{over}, and no replica is Ready to take the Lease, so deleting it would change nothing"),
        )
        .evidence(facts)
        .advice("Make a replica Ready first (RL120).")
        .caused_by(&NO_READY_REPLICA);
    }
    let why = if causes.is_empty() {
        "their logs hold no known reason".to_owned()
    } else {
        causes.iter().map(logs::Cause::text).collect::<Vec<_>>().join("; ")
    };
    let who = count(ready.len(), "Ready replica", "Ready replicas");
    let message =
        format!("{what}{over}, yet none of {who} takes the Lease, so deleting it would change nothing: {why}");
    facts.extend(causes.iter().map(logs::Cause::evidence));
    if causes.is_empty() {
        for pod in &ready {
            facts.push(
                Evidence::new(
                    "pod",
                    format!("{}: {}", replicas::name(pod), replicas::state_words(pod, snapshot.as_of)),
                )
                .from(format!("{} .status", replicas::subject(pod))),
            );
            facts.extend(logs::tail(snapshot, pod));
        }
    }
    let advice = causes.first().map_or(
        "Read the logs of Rancher's pods from their start: a replica takes part in the election only after CRDs, caches and migrations.",
        logs::Cause::advice,
    );
    Finding::new(&NOBODY_CAN_CONTEND, "leader", election::subject(record), message).evidence(facts).advice(advice)
}

/// RL106: running pods with one identity. Each of them takes the other's Lease for its own, so that both lead.
pub(crate) fn shared_identity(snapshot: &Snapshot, installation: &Installation) -> Vec<Finding> {
    let mut by_identity: BTreeMap<String, Vec<&Pod>> = BTreeMap::new();
    for pod in installation.pods.iter().filter(|pod| replicas::runs(pod)) {
        let identity = replicas::identity(pod);
        if !identity.is_empty() {
            by_identity.entry(identity).or_default().push(pod);
        }
    }
    by_identity
        .into_iter()
        .filter(|(_, pods)| pods.len() > 1)
        .map(|(identity, pods)| {
            let host_network = pods.iter().any(|pod| pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true));
            let (cause, advice) = if host_network {
                (
                    "hostNetwork gives each the hostname of its node",
                    "Let each replica run on a node of its own (Helm value antiAffinity: required), or switch hostNetwork off.",
                )
            } else {
                (
                    "their hostname is not their pod's own name",
                    "Remove spec.hostname from the pod template, or shorten the release name so that pod names have at most 63 characters.",
                )
            };
            let facts = pods.iter().map(|pod| {
                Evidence::new("pod", format!("{} on {}: {}", replicas::name(pod), replicas::node(pod).unwrap_or("no node"), replicas::state_words(pod, snapshot.as_of)))
                    .from(format!("{} .spec.hostNetwork, .spec.hostname, .spec.nodeName", replicas::subject(pod)))
            });
            Finding::new(
                &SHARED_IDENTITY,
                "leader",
                installation.subject(),
                format!(
                    "{} take part in the election as {identity}, so that all of them believe they lead: {cause}",
                    count(pods.len(), "replica", "replicas")
                ),
            )
            .evidence(facts)
            .advice(advice)
        })
        .collect()
}
