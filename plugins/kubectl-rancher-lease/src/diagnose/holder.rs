//! The holder of the Lease: whether it leads (RL105), is gone (RL101), does not renew (RL102), is about to be replaced
//! (RL109) or is none of ours (RL111), and what may be done about it.

use std::time::Duration;

use rancher_common::finding::{Evidence, Finding, Rule};
use rancher_common::kinds::Pod;
use rancher_common::text::{count, some_of};
use rancher_common::time::{Timestamp, after, between, human, rfc3339};

use super::election::{self, Election, Record};
use super::replicas::{self, Candidate, Installation};
use super::{Scene, contention, legacy, seen};
use crate::findings::{FOREIGN_HOLDER, HOLDER_GONE, HOLDER_NOT_RENEWING, LONG_LEASE_DURATION, TAKEOVER_PENDING};

/// A recorded duration up to this is waited out.
const SHORT: Duration = Duration::from_secs(60);
/// From this recorded duration on an unclean restart hurts.
const LONG: Duration = Duration::from_secs(300);
/// Added to a RenewDeadline, for clocks and for the last request under way.
pub(crate) const MARGIN: Duration = Duration::from_secs(15);

/// What would repair it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Remedy {
    /// Delete the Lease: the old leader cannot lead any more.
    DeleteLease {
        /// The code that it repairs.
        code: &'static str,
        /// Why the old leader cannot lead any more.
        because: String,
    },
    /// Delete the leader's pod, so that its process ends and another one starts.
    RestartPod {
        /// The code that it repairs.
        code: &'static str,
        /// The pod.
        pod: Box<Pod>,
    },
}

/// The verdict on the leader.
#[derive(Debug, Default)]
pub(crate) struct Leadership {
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// What is in order.
    pub passed: Option<(String, Vec<Evidence>)>,
    /// Why it was not judged.
    pub skipped: Option<String>,
    /// The replica that leads, if one does.
    pub leader: Option<Pod>,
    /// The finding because of which nobody does a leader's work.
    pub sick: Option<&'static Rule>,
    /// Since when nobody does.
    pub since: Option<Timestamp>,
    /// What would repair it.
    pub remedy: Option<Remedy>,
}

impl Leadership {
    fn sick(finding: Finding, since: Option<Timestamp>) -> Self {
        Self { sick: Some(finding.rule), findings: vec![finding], since, ..Self::default() }
    }

    fn pending(finding: Finding) -> Self {
        Self { findings: vec![finding], ..Self::default() }
    }

    fn with(mut self, remedy: Option<Remedy>) -> Self {
        self.remedy = remedy;
        self
    }

    /// A leader that renews, but does not work.
    pub(crate) fn becomes_sick(&mut self, finding: Finding, pod: Pod, since: Option<Timestamp>) {
        self.remedy = Some(Remedy::RestartPod { code: finding.rule.code, pod: Box::new(pod) });
        self.sick = Some(finding.rule);
        self.since = since;
        self.leader = None;
        self.passed = None;
        self.findings.push(finding);
    }
}

/// Judges the leader of an installation in this cluster.
pub(crate) fn judge(scene: &Scene<'_>, installation: &Installation) -> Leadership {
    match &scene.election {
        Election::Unknown => {
            Leadership { skipped: Some("waits for a second look at the Lease".to_owned()), ..Leadership::default() }
        }
        Election::Free(record) => contention::free(scene, installation, record.as_ref()),
        Election::JustFreed => pending(
            scene,
            "the Lease has just become free; the candidates look every few seconds",
            evidence(scene, scene.record()),
        ),
        Election::Renewing(record) => renewing(scene, installation, record),
        Election::Still(record) => {
            let window = Window::of(scene, installation, record);
            match installation.replica(&record.holder) {
                Some(pod) => not_renewing(scene, installation, record, pod, &window),
                None => match installation.stray(scene.snapshot, &record.holder) {
                    Some(pod) => stray(scene, installation, record, &pod),
                    None => gone(scene, installation, record, &window),
                },
            }
        }
    }
}

/// RL109.
pub(crate) fn pending(scene: &Scene<'_>, message: impl Into<String>, facts: Vec<Evidence>) -> Leadership {
    let subject = election::subject(scene.record());
    Leadership::pending(
        Finding::new(&TAKEOVER_PENDING, "leader", subject, message)
            .evidence(facts)
            .advice("Wait, and touch nothing: a change of the Lease makes every candidate wait anew.")
            .next_command(["SELF", "check", "--wait"]),
    )
}

/// What the Lease says, as evidence.
pub(crate) fn evidence(scene: &Scene<'_>, record: Option<&Record>) -> Vec<Evidence> {
    const LEASE: &str = "Lease kube-system/cattle-controllers";
    let Some(record) = record else {
        return vec![seen(scene, Evidence::new("lease", "does not exist").from(LEASE))];
    };
    let holder = if record.holder.is_empty() { "\"\" (released)".to_owned() } else { record.holder.clone() };
    let mut facts = vec![seen(scene, Evidence::new("holder", holder).from(format!("{LEASE} .spec.holderIdentity")))];
    if let Some(renewed) = record.renewed {
        let age = between(renewed, scene.snapshot.as_of);
        let mut text = format!("{} ({} ago)", rfc3339(renewed), human(age));
        if let Ok(Some(looks)) = &scene.looks
            && !looks.apart().is_zero()
        {
            let verb = if matches!(scene.election, Election::Renewing(_)) { "changed" } else { "unchanged" };
            text = format!("{text}, {verb} over two looks {} apart", human(looks.apart()));
        }
        facts.push(seen(scene, Evidence::new("renewTime", text).from(format!("{LEASE} .spec.renewTime"))));
    }
    let duration = match record.seconds {
        Some(seconds) => format!("{seconds}s ({})", human(record.duration().unwrap_or_default())),
        None => "not set, so the record has run out at once".to_owned(),
    };
    facts.push(seen(scene, Evidence::new("duration", duration).from(format!("{LEASE} .spec.leaseDurationSeconds"))));
    facts
}

/// A healthy leader, or somebody else who renews.
fn renewing(scene: &Scene<'_>, installation: &Installation, record: &Record) -> Leadership {
    let Some(pod) = installation.replica(&record.holder) else {
        return foreign(scene, installation, record);
    };
    let now = scene.snapshot.as_of;
    // At the time of the look: other readings may have come long after it.
    let looked = scene.looks.as_ref().ok().and_then(Option::as_ref).map_or(now, |looks| looks.last.at);
    let since =
        record.acquired.map(|at| format!(" since {} ({})", rfc3339(at), human(between(at, now)))).unwrap_or_default();
    let renewed = match record.renewed {
        // It has renewed between the two looks, or it would not be the leader here.
        Some(at) if between(at, looked) > SHORT + installation.timing.retry.saturating_mul(5) => {
            format!("renews; its clock is {} behind the API server's", human(between(at, looked)))
        }
        Some(at) if at <= looked => format!("renewed {} ago", human(between(at, looked))),
        Some(at) => format!("renews; its clock is {} ahead of the API server's", human(between(looked, at))),
        None => "renews".to_owned(),
    };
    let valid = record.duration().map(|d| format!(", valid for {}", human(d))).unwrap_or_default();
    let name = replicas::name(pod);
    let who = if record.holder == name { name.to_owned() } else { format!("{name} (as {})", record.holder) };
    let mut leadership = Leadership {
        passed: Some((format!("{who} leads{since}; {renewed}{valid}"), Vec::new())),
        leader: Some(pod.clone()),
        ..Leadership::default()
    };
    leadership.findings.extend(long_duration(scene, installation, record));
    leadership
}

/// RL105.
fn long_duration(scene: &Scene<'_>, installation: &Installation, record: &Record) -> Option<Finding> {
    let duration = record.duration().filter(|duration| *duration >= LONG)?;
    let timing = &installation.timing;
    let mut facts = evidence(scene, Some(record));
    facts.extend(timing.variables.iter().map(|(name, value)| {
        Evidence::new("variable", format!("{name}={value}"))
            .from(format!("{} .spec.template.spec.containers[rancher].env", installation.subject()))
    }));
    let names: Vec<&str> = timing.variables.iter().map(|(name, _)| name.as_str()).collect();
    let (cause, advice) = if names.is_empty() {
        (
            "no variable of the Deployment asks for that, so the leader was started with others".to_owned(),
            "Restart Rancher in good order (kubectl rollout restart): the next leader writes the duration of its own environment.".to_owned(),
        )
    } else {
        (
            format!("set by {}", names.join(", ")),
            format!(
                "Remove {} from the Helm value extraEnv of the release: the defaults are 45s, 30s and 2s. Where more is needed, set CATTLE_ELECTION_LEASE_DURATION, CATTLE_ELECTION_RENEW_DEADLINE and CATTLE_ELECTION_RETRY_PERIOD together, each below the one before it, or Rancher does not start.",
                names.join(", ")
            ),
        )
    };
    let message = format!(
        "after an unclean end of {} nobody would lead for {}: that is the Lease's duration ({cause})",
        record.holder,
        human(duration)
    );
    Some(
        Finding::new(&LONG_LEASE_DURATION, "leader", election::subject(Some(record)), message)
            .evidence(facts)
            .advice(advice),
    )
}

/// RL111.
fn foreign(scene: &Scene<'_>, installation: &Installation, record: &Record) -> Leadership {
    let guess = if record.holder.starts_with(AGENT) {
        "it is a cluster agent, which elects with the same Lease where it sees no Service cattle-system/rancher"
    } else {
        "another Rancher in another namespace or outside this cluster, or a node whose hostname differs from its name"
    };
    let message = format!(
        "{} holds and renews the Lease, but is none of the {} of Deployment {}/{}",
        record.holder,
        count(installation.pods.len(), "pod", "pods"),
        installation.namespace,
        installation.name()
    );
    let mut facts = evidence(scene, Some(record));
    facts.push(
        Evidence::new("replicas", replicas::names(&installation.pods))
            .from(format!("pods of {}", installation.subject())),
    );
    let finding = Finding::new(&FOREIGN_HOLDER, "leader", election::subject(Some(record)), message)
        .evidence(facts)
        .advice(format!(
            "Find out what {} is before anything else: {guess}. Its Lease must not be deleted while it leads.",
            record.holder
        ));
    Leadership { findings: vec![finding], ..Leadership::default() }
}

/// How the names of cluster agents' pods begin; their embedded Rancher elects with the same Lease in the downstream
/// cluster (rancher/rancher pkg/agent/rancher/rancher.go).
pub(crate) const AGENT: &str = "cattle-cluster-agent-";

/// Who waits for the record to run out, and until when.
pub(crate) struct Window<'a> {
    /// Candidates that are Ready or starting and may still be waiting.
    pub able: Vec<Candidate<'a>>,
    /// Ready candidates that should have taken over already.
    pub overdue: Vec<Candidate<'a>>,
    /// When the first of those that wait takes over by itself.
    pub estimate: Option<Timestamp>,
}

impl<'a> Window<'a> {
    /// Expiry counts from a candidate's own first sight of the record and uses the record's duration; renewTime is never
    /// compared (kubernetes/client-go tools/leaderelection/leaderelection.go, `isLeaseValid`). When a candidate saw the
    /// record first is known only within bounds: not before its container started, not after it had time to start.
    fn of(scene: &Scene<'_>, installation: &'a Installation, record: &Record) -> Self {
        let now = scene.snapshot.as_of;
        let changed = scene.last_change(record);
        let duration = record.duration().unwrap_or_default();
        let holder = installation.replica(&record.holder);
        let mut window = Self { able: Vec::new(), overdue: Vec::new(), estimate: None };
        for candidate in installation.candidates(holder) {
            let ready = replicas::is_ready(candidate.pod);
            let latest_sight = candidate.started.map(|started| after(started, replicas::STARTUP)).max(changed);
            let latest = latest_sight.map(|sight| after(after(sight, duration), installation.timing.grace()));
            let waits = latest.is_none_or(|latest| now <= latest);
            if waits && (ready || candidate.starting(now)) {
                let expected = candidate.first_sight(changed).map_or(now, |sight| after(sight, duration)).max(now);
                window.estimate = Some(window.estimate.map_or(expected, |known| known.min(expected)));
                window.able.push(candidate);
            } else if ready {
                window.overdue.push(candidate);
            }
        }
        window
    }

    fn has_ready(&self) -> bool {
        self.able.iter().any(|candidate| replicas::is_ready(candidate.pod))
    }

    fn names(&self) -> String {
        replicas::names(self.able.iter().map(|candidate| candidate.pod))
    }

    /// `about 2026-12-02T20:19:00Z (in 44h18m)`.
    fn when(&self, now: Timestamp) -> String {
        self.estimate.map_or_else(
            || "at a time that is not known".to_owned(),
            |at| format!("about {} (in {})", rfc3339(at), human(between(now, at))),
        )
    }

    fn evidence(&self, record: &Record) -> Vec<Evidence> {
        let mut facts = vec![
            Evidence::new("candidates", format!("{} waiting: {}", self.able.len(), self.names()))
                .from("Rancher's pods whose container runs and is Ready or starting"),
        ];
        if let Some(estimate) = self.estimate {
            facts.push(Evidence::new("takeover", format!("not before about {}", rfc3339(estimate))).from(format!(
                "estimate: the later of a candidate's container start and the record's last change, plus {}s",
                record.seconds.unwrap_or_default()
            )));
        }
        facts
    }
}

/// `since 2026-11-30T23:19:00Z (41m)`.
fn since(scene: &Scene<'_>, record: &Record) -> String {
    scene.last_change(record).map_or_else(
        || "since an unknown time".to_owned(),
        |at| format!("since {} ({})", rfc3339(at), human(between(at, scene.snapshot.as_of))),
    )
}

/// RL101, RL109 or RL104: the holder is none of Rancher's pods and does not renew.
fn gone(scene: &Scene<'_>, installation: &Installation, record: &Record, window: &Window<'_>) -> Leadership {
    let now = scene.snapshot.as_of;
    let duration = record.duration().unwrap_or_default();
    let mut facts = evidence(scene, Some(record));
    facts.push(
        Evidence::new("replicas", format!("no pod or node with that name: {}", replicas::names(&installation.pods)))
            .from(format!("pods of {}", installation.subject())),
    );
    if window.able.is_empty() {
        return contention::nobody(
            scene,
            installation,
            Some(record),
            &format!("holder {} is gone", record.holder),
            facts,
        );
    }
    facts.extend(window.evidence(record));
    if duration <= SHORT {
        return pending(
            scene,
            format!(
                "leader {} is gone {}; the first candidate takes over {}",
                record.holder,
                since(scene, record),
                window.when(now)
            ),
            facts,
        );
    }
    let (hindrance, because) = guard(scene, record, window);
    let waiting = count(window.able.len(), "candidate", "candidates");
    let finding = Finding::new(
        &HOLDER_GONE,
        "leader",
        election::subject(Some(record)),
        format!(
            "leader {} is gone and has not renewed {}, but the Lease is valid for {} from each candidate's first sight of it: {waiting}, the first takes over by itself {}",
            record.holder,
            since(scene, record),
            human(duration),
            window.when(now)
        ),
    )
    .evidence(facts);
    decide(scene, finding, record, hindrance, because)
}

/// RL102: the holder's pod exists, but is none of this Deployment's. What it is must be found out by hand.
fn stray(scene: &Scene<'_>, installation: &Installation, record: &Record, pod: &Pod) -> Leadership {
    let mut facts = evidence(scene, Some(record));
    facts.push(
        Evidence::new("pod", format!("{}: {}", replicas::name(pod), replicas::state_words(pod, scene.snapshot.as_of)))
            .from(format!("{} .status", replicas::subject(pod))),
    );
    let finding = Finding::new(
        &HOLDER_NOT_RENEWING,
        "leader",
        replicas::subject(pod),
        format!(
            "holder {} has not renewed {}; its pod exists, but Deployment {}/{} does not select it",
            record.holder,
            since(scene, record),
            installation.namespace,
            installation.name()
        ),
    )
    .evidence(facts)
    .advice("Find out what this pod is and end it; after that the holder counts as gone.");
    Leadership::sick(finding, scene.last_change(record))
}

/// Whether the Lease may be deleted: what forbids it, and why the old leader cannot lead any more.
fn guard(scene: &Scene<'_>, record: &Record, window: &Window<'_>) -> (Option<String>, String) {
    if legacy::in_use(scene) {
        return (Some(legacy::HINDRANCE.to_owned()), String::new());
    }
    if !window.has_ready() {
        return (Some("Wait until a replica is Ready: so far all of them are starting.".to_owned()), String::new());
    }
    let deadline = scene.timing().deadline_of(record);
    if scene.deadline_over(record) {
        return (
            None,
            format!("its RenewDeadline of {} is over, so it has stopped leading by itself", human(deadline)),
        );
    }
    match replicas::sick_nodes(scene.snapshot) {
        // A required reading: its failure is reported on its own.
        None => (
            Some("Make the nodes readable first: one that is cut off may still run the old leader.".to_owned()),
            String::new(),
        ),
        Some(sick) if sick.is_empty() => (
            None,
            format!(
                "its pod is gone and every node is Ready, so no process of it is left (its RenewDeadline of {} is not over)",
                human(deadline)
            ),
        ),
        Some(sick) => (
            Some(format!(
                "Bring back or switch off {}: the old leader may still run there and would go on leading until its RenewDeadline of {} is over ({}).",
                some_of(&sick, 3),
                human(deadline),
                safe_from(scene, record)
            )),
            String::new(),
        ),
    }
}

/// When the old leader's RenewDeadline is over.
fn safe_from(scene: &Scene<'_>, record: &Record) -> String {
    let deadline = scene.timing().deadline_of(record);
    scene
        .last_change(record)
        .map_or_else(|| "at an unknown time".to_owned(), |at| rfc3339(after(at, deadline + MARGIN)))
}

/// Puts the hindrance or the remedy into a finding about a Lease.
fn decide(
    scene: &Scene<'_>,
    finding: Finding,
    record: &Record,
    hindrance: Option<String>,
    because: String,
) -> Leadership {
    let code = finding.rule.code;
    let since = scene.last_change(record);
    let hindrance = hindrance.or_else(|| {
        record.uid().is_none().then(|| "The Lease has no UID, so it cannot be deleted under a condition.".to_owned())
    });
    match hindrance {
        Some(hindrance) => Leadership::sick(finding.advice(hindrance), since),
        None => {
            let finding = finding
                .evidence([Evidence::new("old leader", because.clone())])
                .advice("Let fix delete the Lease, under the condition that nobody touches it meanwhile.")
                .next_command(["SELF", "fix"])
                .fixable();
            Leadership::sick(finding, since).with(Some(Remedy::DeleteLease { code, because }))
        }
    }
}

/// RL102, RL109 or RL104: the holder's pod exists, but does not renew.
fn not_renewing(
    scene: &Scene<'_>,
    installation: &Installation,
    record: &Record,
    pod: &Pod,
    window: &Window<'_>,
) -> Leadership {
    let now = scene.snapshot.as_of;
    let name = replicas::name(pod);
    let duration = record.duration().unwrap_or_default();
    let node = replicas::node(pod).unwrap_or_default();
    let node_ready = replicas::node_ready(scene.snapshot, node);
    let mut facts = evidence(scene, Some(record));
    facts.push(
        Evidence::new("pod", format!("{name}: {}", replicas::state_words(pod, now)))
            .from(format!("{} .status", replicas::subject(pod))),
    );
    match node_ready {
        Some(true) => {}
        Some(false) => facts.push(
            Evidence::new("node", format!("{node} is not Ready")).from(format!("Node {node} .status.conditions")),
        ),
        None => facts
            .push(Evidence::new("node", format!("{node} does not exist or was not read")).from(format!("Node {node}"))),
    }
    if window.able.is_empty() && !window.overdue.is_empty() {
        let what = format!("holder {name} does not renew");
        return contention::nobody(scene, installation, Some(record), &what, facts);
    }
    if duration <= SHORT && !window.able.is_empty() {
        facts.extend(window.evidence(record));
        return pending(
            scene,
            format!(
                "leader {name} does not renew {}; the first candidate takes over {}",
                since(scene, record),
                window.when(now)
            ),
            facts,
        );
    }
    let here = node_ready == Some(true);
    let age = scene.last_change(record).map(|at| between(at, now)).unwrap_or_default();
    if here && replicas::deleted_at(pod).is_some_and(|end| now <= after(end, MARGIN)) {
        return pending(scene, format!("leader {name} is terminating and releases the Lease at its end"), facts);
    }
    if here && replicas::deleted_at(pod).is_none() && replicas::runs(pod) {
        let restarted = replicas::running_since(pod)
            .filter(|started| scene.last_change(record).is_none_or(|changed| changed < *started));
        if let Some(started) = restarted.filter(|started| between(*started, now) < replicas::STARTUP) {
            return pending(
                scene,
                format!(
                    "the container of leader {name} was restarted {} ago; it has the same identity and takes the Lease back as soon as it takes part in the election",
                    human(between(started, now))
                ),
                facts,
            );
        }
        let patience = scene.timing().deadline_of(record).min(SHORT) + MARGIN;
        if age < patience {
            return pending(
                scene,
                format!(
                    "leader {name} has not renewed {}; it renews again or ends within {}",
                    since(scene, record),
                    human(patience)
                ),
                facts,
            );
        }
        return hung(scene, installation, record, pod, facts);
    }
    // The process has ended, or cannot be reached any more.
    let state = if !here {
        format!("its node {node} is lost")
    } else if replicas::deleted_at(pod).is_some() {
        "it is stuck terminating".to_owned()
    } else {
        "its process does not run".to_owned()
    };
    if window.able.is_empty() {
        let what = format!("holder {name} does not renew: {state}");
        return contention::nobody(scene, installation, Some(record), &what, facts);
    }
    facts.extend(window.evidence(record));
    let finding = Finding::new(
        &HOLDER_NOT_RENEWING,
        "leader",
        election::subject(Some(record)),
        format!(
            "leader {name} has not renewed {}: {state}; the first candidate takes over by itself {}",
            since(scene, record),
            window.when(now)
        ),
    )
    .evidence(facts);
    let deadline = scene.timing().deadline_of(record);
    let process_ended = here && !replicas::runs(pod);
    let (hindrance, because) = if legacy::in_use(scene) {
        (Some(legacy::HINDRANCE.to_owned()), String::new())
    } else if !window.has_ready() {
        (Some("Wait until another replica is Ready: so far all of them are starting.".to_owned()), String::new())
    } else if process_ended {
        (None, format!("the kubelet of the Ready node {node} says that its process does not run"))
    } else if scene.deadline_over(record) {
        (None, format!("its RenewDeadline of {} is over, so it has stopped leading by itself", human(deadline)))
    } else {
        (
            Some(format!(
                "Bring back or switch off node {node}; the Lease may be deleted only after {}, when the RenewDeadline of {} of the process that may still run there is over.",
                safe_from(scene, record),
                human(deadline)
            )),
            String::new(),
        )
    };
    decide(scene, finding, record, hindrance, because)
}

/// RL102: the process runs on a Ready node, but does not renew, so that it hangs or cannot reach the API server.
fn hung(
    scene: &Scene<'_>,
    installation: &Installation,
    record: &Record,
    pod: &Pod,
    mut facts: Vec<Evidence>,
) -> Leadership {
    let name = replicas::name(pod);
    let since_when = scene.last_change(record);
    facts.extend(super::logs::tail(scene.snapshot, pod));
    let finding = Finding::new(
        &HOLDER_NOT_RENEWING,
        "leader",
        replicas::subject(pod),
        format!(
            "leader {name} runs on a Ready node, but has not renewed {}: it hangs, or cannot reach the API server",
            since(scene, record)
        ),
    );
    let owned = pod
        .metadata
        .owner_references
        .iter()
        .flatten()
        .any(|owner| owner.controller == Some(true) && owner.kind == "ReplicaSet");
    let twins =
        installation.pods.iter().filter(|pod| replicas::runs(pod) && replicas::is_identity(pod, &record.holder));
    let hindrance = if legacy::in_use(scene) {
        Some(legacy::HINDRANCE)
    } else if twins.count() > 1 {
        Some("Give each replica an identity of its own first (RL106): which of them leads cannot be seen.")
    } else if !owned || installation.wanted() == 0 {
        Some("Nothing would replace this pod: it belongs to no ReplicaSet, or the Deployment is scaled to 0.")
    } else if pod.metadata.uid.is_none() {
        Some("The pod has no UID, so it cannot be deleted under a condition.")
    } else {
        None
    };
    match hindrance {
        Some(hindrance) => Leadership::sick(finding.evidence(facts).advice(hindrance), since_when),
        None => {
            let finding = finding
                .evidence(facts)
                .advice("Let fix restart this pod: ending the process is the only way to be sure that it has stopped leading.")
                .next_command(["SELF", "fix"])
                .fixable();
            let code = finding.rule.code;
            Leadership::sick(finding, since_when).with(Some(Remedy::RestartPod { code, pod: Box::new(pod.clone()) }))
        }
    }
}

/// The leader of a Rancher that runs in a container of its own: its process cannot be seen through the API, so nothing
/// is ever repaired.
pub(crate) fn in_docker(scene: &Scene<'_>) -> Leadership {
    match &scene.election {
        Election::Unknown => {
            Leadership { skipped: Some("waits for a second look at the Lease".to_owned()), ..Leadership::default() }
        }
        Election::Renewing(record) => Leadership {
            passed: Some((
                format!("container {} leads and renews (Rancher runs outside of pods)", record.holder),
                evidence(scene, Some(record)),
            )),
            ..Leadership::default()
        },
        Election::JustFreed => pending(scene, "the Lease has just become free", evidence(scene, scene.record())),
        Election::Free(_) | Election::Still(_) => {
            let record = scene.record();
            let holder = record.map(|record| record.holder.clone()).unwrap_or_default();
            let finding = Finding::new(
                &HOLDER_NOT_RENEWING,
                "leader",
                election::subject(record),
                format!("container {holder} does not renew {}", record.map(|r| since(scene, r)).unwrap_or_default()),
            )
            .evidence(evidence(scene, record))
            .advice("Compare the holder with `docker ps` on Rancher's host: containers cannot be seen through this API, so nothing is repaired from here.");
            Leadership::sick(finding, record.and_then(|record| scene.last_change(record)))
        }
    }
}
