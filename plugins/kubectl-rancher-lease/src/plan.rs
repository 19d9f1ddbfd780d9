//! What to do about it. A Lease is deleted only when its old leader cannot lead any more; everything that a deletion
//! would not cure is refused with its cause.

use rancher_common::doctor::Prescription;
use rancher_common::finding::{Diagnosis, Finding, Severity, shared};
use rancher_common::kinds::{LEASES, PODS, Pod};
use rancher_common::plan::{Action, Change, Fact, Operation, Plan, Reversibility};
use rancher_common::resource::ObjectRef;
use rancher_common::snapshot::Snapshot;
use rancher_common::text::shell_line;
use serde_json::Value;

use crate::Question;
use crate::diagnose::holder::Remedy;
use crate::diagnose::{self, Scene, replicas};
use crate::findings::{
    CLUSTERS_DISCONNECTED, LEADER_FLAPPING, LONG_LEASE_DURATION, OTHER_LEASE_STALE, TAKEOVER_PENDING, ZOMBIE_LEADER,
};

/// Plans the repair of what was found.
pub(crate) fn plan(question: &Question, snapshot: &Snapshot, diagnosis: &Diagnosis) -> Prescription {
    let verdict = diagnose::diagnose(question, snapshot);
    if diagnosis.wrong_target {
        return refuse("this is not the cluster that Rancher runs in", diagnosis, |_| true);
    }
    if diagnosis.findings.iter().any(|finding| finding.severity == Severity::Unknown) {
        return refuse("required evidence is missing", diagnosis, |finding| finding.severity == Severity::Unknown);
    }
    if let Some(proxied) = diagnosis.of(&shared::THROUGH_RANCHER_PROXY).next() {
        return Prescription::Refused {
            why: "the connection passes through the Rancher that is to be repaired".to_owned(),
            instead: instead(proxied),
        };
    }
    if let Some(remedy) = &verdict.remedy {
        return prescribe(&verdict.scene, diagnosis, remedy);
    }
    if let Some(error) = diagnosis.findings.iter().find(|finding| finding.severity == Severity::Error) {
        return Prescription::Refused {
            why: format!("{}: {}", error.rule.code, error.message),
            instead: diagnosis.findings.iter().filter(|f| f.severity == Severity::Error).flat_map(instead).collect(),
        };
    }
    if let Some(pending) = diagnosis.of(&TAKEOVER_PENDING).next() {
        return Prescription::Wait(pending.message.clone());
    }
    let elsewhere = [&ZOMBIE_LEADER, &LEADER_FLAPPING, &CLUSTERS_DISCONNECTED, &OTHER_LEASE_STALE];
    let found: Vec<&Finding> = elsewhere.iter().flat_map(|rule| diagnosis.of(rule)).collect();
    if let Some(first) = found.first() {
        return Prescription::Refused {
            why: format!("the Lease is in order; {}: {}", first.rule.code, first.message),
            instead: found.iter().flat_map(|finding| instead(finding)).collect(),
        };
    }
    let mut message = "a Rancher replica leads and renews its Lease".to_owned();
    if let Some(long) = diagnosis.of(&LONG_LEASE_DURATION).next() {
        message = format!("{message}; but {} ({})", long.message, long.rule.code);
    }
    Prescription::NothingToDo(message)
}

fn refuse(why: &str, diagnosis: &Diagnosis, which: impl Fn(&Finding) -> bool) -> Prescription {
    Prescription::Refused {
        why: why.to_owned(),
        instead: diagnosis.findings.iter().filter(|finding| which(finding)).flat_map(instead).collect(),
    }
}

/// What a finding says to do.
fn instead(finding: &Finding) -> Vec<String> {
    let Some(remediation) = &finding.remediation else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    if !remediation.text.is_empty() {
        lines.push(format!("{}: {}", finding.rule.code, remediation.text));
    }
    // The way this plugin was called is known to the report only.
    if remediation.argv.first().is_some_and(|word| word != "SELF") {
        lines.push(format!("  {}", shell_line(&remediation.argv)));
    }
    lines
}

fn prescribe(scene: &Scene<'_>, diagnosis: &Diagnosis, remedy: &Remedy) -> Prescription {
    let Some(cluster_uid) = diagnosis.cluster_uid.clone() else {
        return Prescription::Refused {
            why: "the namespace kube-system could not be read, so the cluster has no identity to keep a backup under"
                .to_owned(),
            instead: vec!["ask for the right to get the namespace kube-system".to_owned()],
        };
    };
    let (code, action) = match remedy {
        Remedy::DeleteLease { code, because } => (*code, delete_lease(scene, because)),
        Remedy::RestartPod { code, pod } => (*code, restart(scene, code, pod)),
    };
    let Some(action) = action else {
        return Prescription::Refused {
            why: "the object to be changed has no UID, so it cannot be changed under a condition".to_owned(),
            instead: Vec::new(),
        };
    };
    Prescription::Plan(Plan {
        tool: "rancher-lease".to_owned(),
        cluster_uid,
        repairs: vec![code.to_owned()],
        actions: vec![action],
        then: "wait for a Ready replica that leads and has renewed twice, then for the clusters that are disconnected"
            .to_owned(),
    })
}

/// These values of the object, as facts.
fn facts(raw: &Value, pointers: &[&str]) -> Vec<Fact> {
    pointers
        .iter()
        .map(|pointer| Fact {
            pointer: (*pointer).to_owned(),
            value: raw.pointer(pointer).cloned().unwrap_or(Value::Null),
        })
        .collect()
}

fn delete_lease(scene: &Scene<'_>, because: &str) -> Option<Action> {
    let record = scene.record()?;
    record.uid()?;
    let seconds = record.seconds.unwrap_or_default();
    Some(Action {
        resource: LEASES,
        object: ObjectRef::of(&LEASES, &record.raw),
        operation: Operation::Delete { grace_period_seconds: None },
        why: format!("{} does not lead any more: {because}", record.holder),
        changes: vec![Change {
            field: "spec.holderIdentity".to_owned(),
            before: format!("{} (for {seconds}s)", record.holder),
            after: "the first replica that looks; a new Lease".to_owned(),
        }],
        facts: facts(
            &record.raw,
            &["/metadata/uid", "/spec/holderIdentity", "/spec/renewTime", "/spec/leaseDurationSeconds"],
        ),
        wait: None,
        dependents: Vec::new(),
        reversibility: Reversibility::Reversible,
        leaves: vec![
            format!(
                "leaseTransitions start from 0 again (now {}), acquireTime is the new leader's",
                record.transitions
            ),
            "undo would put the record of the dead leader back, which nobody wants unless this was a mistake"
                .to_owned(),
        ],
    })
}

fn restart(scene: &Scene<'_>, code: &str, pod: &Pod) -> Option<Action> {
    pod.metadata.uid.as_ref()?;
    let namespace = pod.metadata.namespace.as_deref();
    let raw = scene.snapshot.raw(&PODS, namespace, replicas::name(pod)).ok().flatten()?;
    let container = replicas::status(pod)?.container_id.clone();
    let mut facts = facts(raw, &["/metadata/uid", "/metadata/deletionTimestamp", "/spec/nodeName"]);
    // The index is that of the status in this very object: a restarted container has another id.
    if let (Some(id), Some(index)) = (container, status_index(raw, pod)) {
        facts
            .push(Fact { pointer: format!("/status/containerStatuses/{index}/containerID"), value: Value::String(id) });
    }
    let record = scene.record();
    let mut leaves = vec!["the Deployment starts another pod under another name".to_owned()];
    if let Some(seconds) = record.and_then(|record| record.seconds)
        && seconds > 60
    {
        leaves.push(format!(
            "if the process does not release the Lease when it is ended, the record stays good for {seconds}s: run fix again then (RL101)"
        ));
    }
    if let replicas::Presence::Here(installation) = &scene.presence
        && installation.ready().iter().all(|ready| replicas::name(ready) == replicas::name(pod))
    {
        leaves
            .push("it is the only Ready replica: Rancher's UI and API are away until the new pod is Ready".to_owned());
    }
    let why = if code == ZOMBIE_LEADER.code {
        "its controllers do not start; ending the process lets another replica lead"
    } else {
        "its process does not renew; ending it is the only way to be sure that it has stopped leading"
    };
    Some(Action {
        resource: PODS,
        object: ObjectRef::of(&PODS, raw),
        operation: Operation::Delete { grace_period_seconds: None },
        why: why.to_owned(),
        changes: vec![Change {
            field: "pod".to_owned(),
            before: format!("{} on {}", replicas::name(pod), replicas::node(pod).unwrap_or("no node")),
            after: "a new pod of the same ReplicaSet".to_owned(),
        }],
        facts,
        wait: None,
        dependents: Vec::new(),
        reversibility: Reversibility::Reversible,
        leaves,
    })
}

fn status_index(raw: &Value, pod: &Pod) -> Option<usize> {
    let name = replicas::container_name(pod);
    raw["status"]["containerStatuses"].as_array()?.iter().position(|status| status["name"].as_str() == Some(name))
}
