//! What the logs of Rancher's pods say: a catalogue of known lines, why a leader was lost (RL107), whether the leader's
//! controllers started (RL108), and which tunnels were rejected (RL132). Text that is not in the catalogue is shown, not
//! interpreted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rancher_common::finding::{Evidence, Finding, Severity};
use rancher_common::kinds::Pod;
use rancher_common::snapshot::Snapshot;
use rancher_common::text::{count, shorten, some_of};
use rancher_common::time::{Timestamp, between, human, rfc3339};

use super::election::Record;
use super::replicas::{self, Installation, Version};
use crate::findings::{LEADER_FLAPPING, TUNNEL_REJECTED, ZOMBIE_LEADER};

/// Longest piece of a log line that is shown.
const SHOWN: usize = 300;

/// One line of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line<'a> {
    /// When the container runtime took it; the kubelet puts it in front.
    at: Option<Timestamp>,
    text: &'a str,
}

fn lines(log: &str) -> impl DoubleEndedIterator<Item = Line<'_>> {
    log.lines().filter(|line| !line.trim().is_empty()).map(|line| match line.split_once(' ') {
        Some((first, rest)) => match first.parse::<Timestamp>() {
            Ok(at) => Line { at: Some(at), text: rest.trim_end() },
            Err(_) => Line { at: None, text: line.trim_end() },
        },
        None => Line { at: None, text: line.trim_end() },
    })
}

/// Logs of a pod's Rancher container that were read: the newest run first.
fn logs<'a>(snapshot: &'a Snapshot, pod: &'a Pod) -> impl Iterator<Item = (bool, &'a str)> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    [false, true].into_iter().filter_map(move |previous| {
        let log =
            snapshot.log(namespace, replicas::name(pod), replicas::container_name(pod), previous).ok().flatten()?;
        Some((previous, log))
    })
}

fn origin(pod: &Pod, previous: bool) -> String {
    format!(
        "{}log of {}/{} ({})",
        if previous { "previous " } else { "" },
        pod.metadata.namespace.as_deref().unwrap_or_default(),
        replicas::name(pod),
        replicas::container_name(pod)
    )
}

/// A known line: all of its words occur in it.
struct Known {
    words: &'static [&'static str],
    any: &'static [&'static str],
    cause: &'static str,
    advice: &'static str,
}

/// Words of a request for the lock (kubernetes/client-go tools/leaderelection/leaderelection.go: `error retrieving
/// resource lock`, since 0.35 `Error retrieving lease lock`; the URL and the forbidden message name the object).
const LOCK: &[&str] = &["resource lock", "lease lock", "cattle-controllers", "leader election record"];

/// Most specific first.
///
/// Sources: client-go tools/leaderelection/leaderelection.go; rancher/rancher pkg/rancher/rancher.go (imperative API),
/// pkg/multiclustermanager/app.go (initial data); reports R02, R03, R06, R26 of this project's incident collection
/// (rancher/rancher#13446, #43326, #33140, #44446).
static CATALOGUE: [Known; 11] = [
    Known {
        words: &["forbidden"],
        any: LOCK,
        cause: "Rancher's ServiceAccount may not read or write the Lease",
        advice: "Restore the ClusterRoleBinding of the Helm release to cluster-admin; where the platform denies writes in kube-system (GKE Autopilot), Rancher cannot elect a leader.",
    },
    Known {
        words: &["nauthorized"],
        any: LOCK,
        cause: "the API server rejects the credentials of Rancher's ServiceAccount",
        advice: "Look at the ServiceAccount's token: its issuer and audience must be those of this API server.",
    },
    Known {
        words: &["x509:"],
        any: LOCK,
        cause: "Rancher does not trust the API server's certificate",
        advice: "Compare the API server's certificate with the CA in the ConfigMap kube-root-ca.crt of Rancher's namespace.",
    },
    Known {
        words: &["connection refused"],
        any: LOCK,
        cause: "the API server refused Rancher's connections",
        advice: "Look at the API server and at the path from Rancher's nodes to the Service kubernetes.",
    },
    Known {
        words: &["deadline exceeded"],
        any: LOCK,
        cause: "the API server or etcd answers too slowly for the election",
        advice: "Look at etcd's disk latency and at CPU and memory of the nodes; until that is cured, longer CATTLE_ELECTION_LEASE_DURATION, CATTLE_ELECTION_RENEW_DEADLINE and CATTLE_ELECTION_RETRY_PERIOD (Helm value extraEnv) bridge it.",
    },
    Known {
        words: &["timeout"],
        any: &["retrieving resource lock", "retrieving lease lock", "update lock", "update lease", "renew lease"],
        cause: "the API server or etcd answers too slowly for the election",
        advice: "Look at etcd's disk latency and at CPU and memory of the nodes; until that is cured, longer CATTLE_ELECTION_LEASE_DURATION, CATTLE_ELECTION_RENEW_DEADLINE and CATTLE_ELECTION_RETRY_PERIOD (Helm value extraEnv) bridge it.",
    },
    Known {
        words: &["timed out waiting for the condition"],
        any: &["renew lease"],
        cause: "the API server or etcd answers too slowly for the election",
        advice: "Look at etcd's disk latency and at CPU and memory of the nodes; until that is cured, longer CATTLE_ELECTION_LEASE_DURATION, CATTLE_ELECTION_RENEW_DEADLINE and CATTLE_ELECTION_RETRY_PERIOD (Helm value extraEnv) bridge it.",
    },
    Known {
        words: &["kube-apiserver did not contact the rancher imperative api in time"],
        any: &[],
        cause: "the API server cannot reach Rancher's imperative API (port 6666), so Rancher ends before it takes part in the election",
        advice: "Open the way from the API server to Rancher's pods on port 6666 and look at the APIService v1.ext.cattle.io; AGGREGATION_REGISTRATION_TIMEOUT (Helm value extraEnv) gives it more time.",
    },
    Known {
        words: &["failed calling webhook"],
        any: &["rancher.cattle.io", "rancher-webhook"],
        cause: "rancher-webhook does not answer, so Rancher's own writes fail",
        advice: "Make the Deployment rancher-webhook ready again.",
    },
    Known {
        words: &["Waiting for initial data to be populated"],
        any: &[],
        cause: "this replica waits for a leader to write the initial data",
        advice: "Look at the replica that should lead: this one only waits.",
    },
    Known {
        words: &["no space left on device"],
        any: &[],
        cause: "a disk is full",
        advice: "Free space on the node or volume that the line names.",
    },
];

/// A line of the catalogue that a log holds.
#[derive(Clone, Debug)]
pub(crate) struct Cause {
    entry: usize,
    at: Option<Timestamp>,
    line: String,
    origin: String,
}

impl Cause {
    /// What it means.
    pub(crate) fn text(&self) -> &'static str {
        CATALOGUE[self.entry].cause
    }

    /// What to do about it.
    pub(crate) fn advice(&self) -> &'static str {
        CATALOGUE[self.entry].advice
    }

    /// The line itself.
    pub(crate) fn evidence(&self) -> Evidence {
        let evidence = Evidence::new("log", self.line.clone()).from(self.origin.clone());
        match self.at {
            Some(at) => evidence.at(at),
            None => evidence,
        }
    }
}

fn known(text: &str) -> Option<usize> {
    CATALOGUE.iter().position(|known| {
        known.words.iter().all(|word| text.contains(word))
            && (known.any.is_empty() || known.any.iter().any(|word| text.contains(word)))
    })
}

/// What the logs of these pods say is wrong, the newest line of each cause, in the order of the catalogue. A pod's
/// previous log counts only where the current one is silent.
pub(crate) fn causes<'a>(snapshot: &Snapshot, pods: impl Iterator<Item = &'a Pod>) -> Vec<Cause> {
    let mut newest: BTreeMap<usize, Cause> = BTreeMap::new();
    for pod in pods {
        for (previous, log) in logs(snapshot, pod) {
            let found: Vec<Cause> = lines(log)
                .filter_map(|line| {
                    Some(Cause {
                        entry: known(line.text)?,
                        at: line.at,
                        line: shorten(line.text, SHOWN).into_owned(),
                        origin: origin(pod, previous),
                    })
                })
                .collect();
            let silent = found.is_empty();
            for cause in found {
                if newest.get(&cause.entry).is_none_or(|known| known.at <= cause.at) {
                    newest.insert(cause.entry, cause);
                }
            }
            if !silent {
                break;
            }
        }
    }
    newest.into_values().collect()
}

/// Whether a line tells of an error or an end.
fn is_grave(text: &str) -> bool {
    ["[FATAL]", "[ERROR]", "level=fatal", "level=error", "panic:", "Fatal", "fatal error:"]
        .iter()
        .any(|mark| text.contains(mark))
}

/// The last lines of a pod's log that mean something: those that tell of errors, or else the last ones. Of a container
/// that does not run, the log of its previous run.
pub(crate) fn tail(snapshot: &Snapshot, pod: &Pod) -> Vec<Evidence> {
    for (previous, log) in logs(snapshot, pod) {
        let grave: Vec<Line<'_>> = lines(log).filter(|line| is_grave(line.text)).collect();
        let all: Vec<Line<'_>> = if grave.is_empty() { lines(log).collect() } else { grave };
        if all.is_empty() {
            continue;
        }
        return all[all.len().saturating_sub(2)..]
            .iter()
            .map(|line| {
                let evidence = Evidence::new("log", shorten(line.text, SHOWN)).from(origin(pod, previous));
                match line.at {
                    Some(at) => evidence.at(at),
                    None => evidence,
                }
            })
            .collect();
    }
    Vec::new()
}

/// Written before the process of a leader that lost the election ends with exit code 1
/// (rancher/wrangler pkg/leader/leader.go, `OnStoppedLeading`).
const LOST: &str = "leaderelection lost";

/// How long ago a restart is still news.
pub(crate) const RECENT: Duration = Duration::from_secs(24 * 3600);

/// Whether a pod's previous run ended badly and not long ago, so that its log is worth reading.
pub(crate) fn ended_badly(pod: &Pod, now: Timestamp) -> bool {
    replicas::last_end(pod).is_some_and(|(code, _, at)| code != 0 && at.is_none_or(|at| between(at, now) <= RECENT))
}

/// RL107: leaders lost the election and restarted. The line before the last one says why.
pub(crate) fn leader_flapping(
    snapshot: &Snapshot,
    installation: &Installation,
    record: Option<&Record>,
) -> Option<Finding> {
    let mut evidence = Vec::new();
    let mut lost = Vec::new();
    let mut advice = None;
    let mut causes = BTreeSet::new();
    for pod in &installation.pods {
        if !ended_badly(pod, snapshot.as_of) {
            continue;
        }
        let Some((_, log)) = logs(snapshot, pod).find(|(previous, _)| *previous) else {
            continue;
        };
        let all: Vec<Line<'_>> = lines(log).collect();
        let Some(end) = all.iter().rposition(|line| line.text.contains(LOST)) else {
            continue;
        };
        lost.push(pod);
        // `leases … already exists` is a harmless race at start (R04), and releasing a lost Lease fails by nature.
        let before = all[..end]
            .iter()
            .rev()
            .find(|line| !line.text.contains("already exists") && !line.text.contains("Failed to release lock"));
        let shown: Vec<&Line<'_>> = before.into_iter().chain(std::iter::once(&all[end])).collect();
        for line in shown {
            let item = Evidence::new("log", shorten(line.text, SHOWN)).from(origin(pod, true));
            evidence.push(match line.at {
                Some(at) => item.at(at),
                None => item,
            });
        }
        let recent = all[end.saturating_sub(20)..end].iter().rev().find_map(|line| known(line.text));
        if let Some(entry) = recent {
            causes.insert(CATALOGUE[entry].cause);
            advice.get_or_insert(CATALOGUE[entry].advice);
        }
        if let Some((code, reason, at)) = replicas::last_end(pod) {
            let ago = at.map(|at| format!(" {} ago", human(between(at, snapshot.as_of)))).unwrap_or_default();
            evidence.push(
                Evidence::new(
                    "restart",
                    format!(
                        "{} ended{ago} with exit code {code} ({}), {}",
                        replicas::name(pod),
                        reason.unwrap_or("no reason given"),
                        count(usize::try_from(replicas::restarts(pod)).unwrap_or_default(), "restart", "restarts")
                    ),
                )
                .from(format!("{} .status.containerStatuses", replicas::subject(pod))),
            );
        }
    }
    if lost.is_empty() {
        return None;
    }
    if let Some(record) = record {
        evidence.push(
            Evidence::new("transitions", record.transitions.to_string())
                .from("Lease kube-system/cattle-controllers .spec.leaseTransitions; only a hint, it counts from the Lease's creation"),
        );
    }
    let causes: Vec<&str> = causes.into_iter().collect();
    let why =
        if causes.is_empty() { "the line before does not tell a known cause".to_owned() } else { causes.join("; ") };
    let message = format!(
        "{} lost the leadership within the last {} and restarted ({}): {why}",
        count(lost.len(), "replica", "replicas"),
        human(RECENT),
        replicas::names(lost.iter().copied())
    );
    Some(
        Finding::new(&LEADER_FLAPPING, "leader", installation.subject(), message).evidence(evidence).advice(
            advice.unwrap_or(
                "Read the lines before `leaderelection lost` in the previous logs of the pods named; the exit itself is by design.",
            ),
        ),
    )
}

/// Logged by a leader whose start-up function failed, and again every 5 s (rancher/wrangler pkg/leader/manager.go,
/// `OnLeader`). Newer versions end the process instead (`OnLeaderOrDie`).
const START_FAILED: &str = "failed to call leader func";
/// Logged at the end of the leader's start (rancher/rancher pkg/multiclustermanager/app.go).
const STARTED: &str = "Rancher startup complete";
/// Logged for each start-up function by newer versions (rancher/rancher pkg/wrangler/context.go).
const FUNC_DONE: &str = "leader func executed successfully";
/// First words of the wait for CAPI's CRDs and the turtles App (rancher/rancher pkg/wrangler/capi.go).
const DEFERRED_CAPI: &str = "[deferred-capi]";
/// Logged by client-go when a candidate has become the leader (tools/leaderelection/leaderelection.go; the second form
/// since 0.35).
const ACQUIRED: [&str; 2] = ["successfully acquired lease", "Successfully acquired lease"];

/// How long a leader may take to start its controllers before silence counts: caches of a large fleet take minutes.
const LEADER_STARTUP: Duration = Duration::from_secs(900);

/// Whether this version logs each start-up function of the leader.
fn logs_functions(version: Version) -> bool {
    match (version.0, version.1) {
        (2, 11) => version >= Version(2, 11, 6),
        (2, 12) => version >= Version(2, 12, 2),
        _ => version >= Version(2, 13, 0),
    }
}

/// What the leader's log proves about its controllers.
pub(crate) struct Zombie {
    /// RL108.
    pub finding: Finding,
    /// Whether a restart is the cure: only where a failure is proven.
    pub restart: bool,
}

/// RL108: the leader renews, but its controllers have not started. The absence of a success line proves nothing where
/// the log does not reach back to the leader's start.
pub(crate) fn zombie_leader(
    snapshot: &Snapshot,
    leader: &Pod,
    record: &Record,
    version: Option<Version>,
) -> Option<Zombie> {
    let (_, log) = logs(snapshot, leader).find(|(previous, _)| !*previous)?;
    let all: Vec<Line<'_>> = lines(log).collect();
    let last = |words: &[&str]| all.iter().rposition(|line| words.iter().any(|word| line.text.contains(word)));
    let subject = replicas::subject(leader);
    let show = |line: &Line<'_>| {
        let item = Evidence::new("log", shorten(line.text, SHOWN)).from(origin(leader, false));
        match line.at {
            Some(at) => item.at(at),
            None => item,
        }
    };
    let success = last(&[STARTED, FUNC_DONE]);

    let failures: Vec<&Line<'_>> = all.iter().filter(|line| line.text.contains(START_FAILED)).collect();
    if let (Some(at), Some(newest)) = (last(&[START_FAILED]), failures.last())
        && failures.len() >= 2
        && last(&[STARTED]).is_none_or(|done| done < at)
        && newest.at.is_none_or(|time| between(time, snapshot.as_of) <= Duration::from_secs(120))
    {
        let message = format!(
            "leader {} renews its Lease, but its controllers do not start: {} of a start-up function in its log, the last one {}",
            replicas::name(leader),
            count(failures.len(), "failure", "failures"),
            newest.at.map_or_else(
                || "without a time".to_owned(),
                |at| format!("{} ago", human(between(at, snapshot.as_of)))
            )
        );
        let finding = Finding::new(&ZOMBIE_LEADER, "leader", subject, message)
            .evidence([show(newest)])
            .advice(
                "Let fix restart the leader's pod; if the next leader fails in the same way, the cause is in the line above.",
            )
            .next_command(["SELF", "fix"])
            .fixable();
        return Some(Zombie { finding, restart: true });
    }

    let deferred = last(&[DEFERRED_CAPI]);
    if let Some(at) = deferred
        && at + 40 >= all.len()
        && !all[at].text.to_ascii_lowercase().contains("registered")
    {
        let line = &all[at];
        if line.at.is_none_or(|time| between(time, snapshot.as_of) <= Duration::from_secs(120)) {
            let message = format!(
                "leader {} still waits for Cluster API before it starts the controllers that provision clusters",
                replicas::name(leader)
            );
            let finding = Finding::new(&ZOMBIE_LEADER, "leader", subject, message)
                .severity(Severity::Warning)
                .evidence([show(line)])
                .advice("Look at the App rancher-turtles and the CRDs of Cluster API: a restart of Rancher does not change them.");
            return Some(Zombie { finding, restart: false });
        }
    }

    let acquired = last(&ACQUIRED)?;
    let since = all[acquired].at.or(record.acquired)?;
    let silent_for = between(since, snapshot.as_of);
    if success.is_none_or(|done| done < acquired) && silent_for > LEADER_STARTUP {
        let expected = match version {
            Some(version) if logs_functions(version) => FUNC_DONE,
            Some(_) => STARTED,
            // Without the version it is not known which line to miss.
            None => return None,
        };
        let message = format!(
            "leader {} acquired the Lease {} ago, but its log holds no `{expected}` since then",
            replicas::name(leader),
            human(silent_for)
        );
        let acquisition = show(&all[acquired]);
        let last_words = tail(snapshot, leader).into_iter().filter(|item| *item != acquisition);
        let finding = Finding::new(&ZOMBIE_LEADER, "leader", subject, message)
            .severity(Severity::Warning)
            .evidence(std::iter::once(acquisition.clone()).chain(last_words))
            .advice("Read the leader's log from that line on: what it did last is what it waits for.");
        return Some(Zombie { finding, restart: false });
    }
    None
}

/// The start of the line with which Rancher refuses an agent's tunnel (rancher/rancher pkg/tunnelserver/chain.go; older
/// versions write `handling`).
const REJECTED: [&str; 2] =
    ["Failed to handle tunnel request from remote address ", "Failed to handling tunnel request from remote address "];

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rejection<'a> {
    at: Option<Timestamp>,
    address: String,
    code: &'a str,
    reason: &'a str,
}

fn rejection(line: Line<'_>) -> Option<Rejection<'_>> {
    let rest = REJECTED.iter().find_map(|words| Some(line.text.split_once(words)?.1))?;
    let (who, what) = rest.split_once(": response ")?;
    let (code, reason) = what.split_once(':').unwrap_or((what, ""));
    let (peer, forwarded) = match who.split_once(" (X-Forwarded-For: ") {
        Some((peer, forwarded)) => (peer, forwarded.trim_end_matches(')').trim()),
        None => (who, ""),
    };
    let address = if forwarded.is_empty() {
        // Without the port, which changes with every attempt.
        peer.rsplit_once(':').map_or(peer, |(host, _)| host).trim_matches(['[', ']']).to_owned()
    } else {
        forwarded.split(',').next().unwrap_or(forwarded).trim().to_owned()
    };
    // logrus closes a quoted message with a quotation mark in its text format.
    Some(Rejection { at: line.at, address, code: code.trim(), reason: reason.trim().trim_end_matches('"') })
}

/// What a refusal means (rancher/rancher pkg/tunnelserver/mcmauthorizer/tunnel.go, rancher/remotedialer server.go).
fn meaning(code: &str, reason: &str) -> &'static str {
    match (code, reason) {
        ("400", reason) if reason.contains("Error during upgrade") => {
            "something between agent and Rancher removes the websocket upgrade"
        }
        ("400", reason) if reason.contains("cluster not found") => {
            "Rancher does not know the agent's token: its cluster was deleted, or the token was removed or rotated"
        }
        ("400", reason) if reason.contains("not found") => "the cluster of the agent's token does not exist any more",
        ("400", reason) if reason.contains("missing node or cluster") || reason.contains("invalid input") => {
            "the agent's registration is malformed"
        }
        ("401", _) => "the agent sent no token, or a token for the second tunnel that Rancher does not accept",
        _ => "not a known refusal",
    }
}

/// The cluster that a refusal names as not existing.
fn named_cluster(reason: &str) -> Option<&str> {
    let (_, rest) = reason.split_once("clusters.management.cattle.io")?;
    rest.split('"').nth(1)
}

/// RL132: rejected tunnels by reason and remote address. `clusters` are the ids that exist; refusals of others are noise
/// of deleted clusters (R28), but only where the log names the cluster.
pub(crate) fn tunnels_rejected(
    snapshot: &Snapshot,
    installation: &Installation,
    clusters: &BTreeSet<String>,
) -> Option<Finding> {
    #[derive(Default)]
    struct Group {
        count: usize,
        addresses: BTreeMap<String, usize>,
        last: Option<Timestamp>,
        noise: bool,
        pods: BTreeSet<String>,
    }
    let mut groups: BTreeMap<(String, String), Group> = BTreeMap::new();
    for pod in &installation.pods {
        let Some((_, log)) = logs(snapshot, pod).find(|(previous, _)| !*previous) else {
            continue;
        };
        for rejected in lines(log).filter_map(rejection) {
            if rejected.at.is_some_and(|at| between(at, snapshot.as_of) > Duration::from_secs(3600)) {
                continue;
            }
            let key = (rejected.code.to_owned(), shorten(rejected.reason, 160).into_owned());
            let group = groups.entry(key).or_default();
            group.count += 1;
            *group.addresses.entry(rejected.address).or_default() += 1;
            group.last = group.last.max(rejected.at);
            group.noise = named_cluster(rejected.reason).is_some_and(|id| !clusters.contains(id));
            group.pods.insert(replicas::name(pod).to_owned());
        }
    }
    if groups.is_empty() {
        return None;
    }
    let total: usize = groups.values().map(|group| group.count).sum();
    let noise: usize = groups.values().filter(|group| group.noise).map(|group| group.count).sum();
    let mut sorted: Vec<_> = groups.iter().collect();
    sorted.sort_by_key(|(key, group)| (group.noise, std::cmp::Reverse(group.count), (*key).clone()));
    let evidence: Vec<Evidence> = sorted
        .iter()
        .take(6)
        .map(|((code, reason), group)| {
            let mut addresses: Vec<(&String, &usize)> = group.addresses.iter().collect();
            addresses.sort_by_key(|(address, count)| (std::cmp::Reverse(**count), (*address).clone()));
            let addresses: Vec<String> =
                addresses.iter().map(|(address, count)| format!("{address} ({count})")).collect();
            let what = if group.noise { "a deleted cluster" } else { meaning(code, reason) };
            let last = group.last.map(|at| format!(", last {}", rfc3339(at))).unwrap_or_default();
            Evidence::new(
                if group.noise { "noise" } else { "rejected" },
                format!("{} × {code} {reason}: {what}; from {}{last}", group.count, some_of(&addresses, 4)),
            )
            .from(format!("logs of {}", some_of(&group.pods.iter().map(String::as_str).collect::<Vec<_>>(), 3)))
        })
        .collect();
    let message = if noise == total {
        format!(
            "{} of agents whose clusters were deleted: noise, no outage",
            count(total, "tunnel request", "tunnel requests")
        )
    } else if noise > 0 {
        format!(
            "Rancher rejected {} in the last hour, {noise} of them from agents of deleted clusters",
            count(total, "tunnel request", "tunnel requests")
        )
    } else {
        format!("Rancher rejected {} in the last hour", count(total, "tunnel request", "tunnel requests"))
    };
    let (severity, advice) = if noise == total {
        (
            Severity::Info,
            "Nothing to do for Rancher; to end the noise, remove the agents that are left at the addresses above.",
        )
    } else {
        (
            Severity::Warning,
            "Find the agents by the addresses above; those of clusters that still exist can be looked at with kubectl rancher-agent check.",
        )
    };
    Some(
        Finding::new(&TUNNEL_REJECTED, "tunnels", installation.subject(), message)
            .severity(severity)
            .evidence(evidence)
            .advice(advice),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejections_are_read() {
        let line = |text| lines(text).next().and_then(rejection);
        let with_proxy = line(
            "2026-11-30T23:59:00.5Z 2026/11/30 23:59:00 [ERROR] Failed to handle tunnel request from remote address 192.0.2.4:44320 (X-Forwarded-For: 198.51.100.7, 192.0.2.1): response 401: failed authentication",
        )
        .expect("a rejection");
        assert_eq!(
            (with_proxy.address.as_str(), with_proxy.code, with_proxy.reason),
            ("198.51.100.7", "401", "failed authentication")
        );
        let direct = line(
            "[ERROR] Failed to handling tunnel request from remote address [2001:db8::7]:4 (X-Forwarded-For: ): response 400: cluster not found",
        );
        assert_eq!(direct.expect("a rejection").address, "2001:db8::7");
        assert_eq!(line("[INFO] Handling backend connection request [c-m-1]"), None);
        assert_eq!(named_cluster("clusters.management.cattle.io \"c-m-gone\" not found"), Some("c-m-gone"));
    }

    #[test]
    fn the_catalogue_knows_both_forms_of_client_go() {
        let cases = [
            (
                "error retrieving resource lock kube-system/cattle-controllers: Get \"https://192.0.2.1:443/x?timeout=15m0s\": context deadline exceeded",
                Some("too slowly"),
            ),
            (
                "\"Error retrieving lease lock\" err=\"leases.coordination.k8s.io \\\"cattle-controllers\\\" is forbidden: User cannot get resource\" lock=\"kube-system/cattle-controllers\"",
                Some("may not"),
            ),
            (
                "error initially creating leader election record: leases.coordination.k8s.io \"cattle-controllers\" already exists",
                None,
            ),
            ("[FATAL] kube-apiserver did not contact the rancher imperative api in time, retrying", Some("6666")),
            ("pods is forbidden: User \"u-abc\" cannot list resource", None),
        ];
        for (text, wanted) in cases {
            let found = known(text).map(|entry| CATALOGUE[entry].cause);
            match wanted {
                Some(words) => assert!(found.is_some_and(|cause| cause.contains(words)), "{text}: {found:?}"),
                None => assert_eq!(found, None, "{text}"),
            }
        }
    }

    #[test]
    fn success_lines_by_version() {
        for (version, expected) in [
            (Version(2, 10, 9), false),
            (Version(2, 11, 5), false),
            (Version(2, 11, 6), true),
            (Version(2, 12, 1), false),
            (Version(2, 12, 2), true),
            (Version(2, 13, 0), true),
        ] {
            assert_eq!(logs_functions(version), expected, "{version:?}");
        }
    }
}
