//! Leases of Rancher's other controllers, each judged by its own identity rule (RL140).

use std::time::Duration;

use rancher_common::finding::{Diagnosis, Evidence, Finding};
use rancher_common::kinds::{Deployment, LEASES, Lease, Pod};
use rancher_common::resource::ObjectRef;
use rancher_common::snapshot::{Content, Snapshot};
use rancher_common::text::count;
use rancher_common::time::{Timestamp, between, human, rfc3339};
use serde::Deserialize as _;

use super::replicas;
use crate::findings::OTHER_LEASE_STALE;
use crate::needs;

/// How a holder names itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Identity {
    /// A bare UUID: no pod can be told from it.
    Uuid,
    /// `<hostname>_<uuid>`, as controller-runtime writes it.
    HostAndUuid,
    /// The hostname, which is the pod's name.
    Host,
}

/// A controller with a lease.
struct Controller {
    namespace: &'static str,
    /// Name of the lease, or its beginning where shards append theirs.
    lease: &'static str,
    deployment: &'static str,
    identity: Identity,
    what: &'static str,
}

const fn controller(
    namespace: &'static str,
    lease: &'static str,
    deployment: &'static str,
    identity: Identity,
    what: &'static str,
) -> Controller {
    Controller { namespace, lease, deployment, identity, what }
}

/// Sources: rancher/webhook pkg/server/server.go; rancher/fleet internal/cmd/controller, internal/cmd/agent;
/// kubernetes-sigs/cluster-api main.go; rancher/turtles main.go; rancher/system-upgrade-controller pkg/upgrade;
/// kubernetes-sigs/controller-runtime pkg/leaderelection/leader_election.go. The fleet-cleanup-lock is left out: its
/// job comes and goes.
static CONTROLLERS: [Controller; 10] = [
    controller("cattle-system", "rancher-webhook-leader", "rancher-webhook", Identity::Uuid, "Rancher's webhook"),
    controller(
        "cattle-system",
        "system-upgrade-controller",
        "system-upgrade-controller",
        Identity::Host,
        "the system-upgrade-controller",
    ),
    controller(
        "cattle-fleet-system",
        "fleet-controller-leader-election-shard",
        "fleet-controller",
        Identity::HostAndUuid,
        "Fleet's controller",
    ),
    controller(
        "cattle-fleet-system",
        "fleet-gitops-leader-election-shard",
        "gitjob",
        Identity::HostAndUuid,
        "Fleet's gitjob",
    ),
    controller(
        "cattle-fleet-system",
        "fleet-helmops-leader-election-shard",
        "helmops",
        Identity::HostAndUuid,
        "Fleet's helmops",
    ),
    controller(
        "cattle-fleet-system",
        "fleet-agentmanagement-lock",
        "fleet-controller",
        Identity::Host,
        "Fleet's agent management",
    ),
    controller("cattle-fleet-local-system", "fleet-agent", "fleet-agent", Identity::Host, "the local fleet-agent"),
    controller(
        "cattle-capi-system",
        "controller-leader-election-capi",
        "capi-controller-manager",
        Identity::HostAndUuid,
        "Cluster API",
    ),
    controller(
        "cattle-provisioning-capi-system",
        "controller-leader-election-capi",
        "capi-controller-manager",
        Identity::HostAndUuid,
        "Cluster API",
    ),
    controller(
        "cattle-turtles-system",
        "controller-leader-election-rancher-turtles",
        "rancher-turtles-controller-manager",
        Identity::HostAndUuid,
        "Rancher Turtles",
    ),
];

/// The namespaces they live in.
pub(crate) const NAMESPACES: [&str; 6] = [
    "cattle-capi-system",
    "cattle-fleet-local-system",
    "cattle-fleet-system",
    "cattle-provisioning-capi-system",
    "cattle-system",
    "cattle-turtles-system",
];

/// Added to a lease's own duration before it counts as old, for clocks.
const MARGIN: Duration = Duration::from_secs(30);

/// A lease at one look.
struct Seen {
    controller: &'static Controller,
    lease: Lease,
    at: Timestamp,
}

impl Seen {
    fn name(&self) -> &str {
        self.lease.metadata.name.as_deref().unwrap_or_default()
    }

    fn renewed(&self) -> Option<Timestamp> {
        self.lease.spec.as_ref()?.renew_time.as_ref().map(|time| time.0)
    }

    fn holder(&self) -> &str {
        self.lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
    }

    fn seconds(&self) -> u64 {
        let seconds = self.lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds).unwrap_or_default();
        u64::try_from(seconds).unwrap_or_default()
    }

    fn old(&self) -> bool {
        self.renewed().is_some_and(|at| between(at, self.at) > Duration::from_secs(self.seconds()) + MARGIN)
    }
}

/// The leases of one reading, by place.
fn look(snapshot: &Snapshot, newest: bool) -> Vec<Seen> {
    let want = needs::all_leases();
    let mut readings = snapshot.readings_of(&want).filter(|reading| matches!(reading.content, Content::Objects(_)));
    let reading = if newest { readings.next_back() } else { readings.next() };
    let Some((Content::Objects(objects), at)) = reading.map(|reading| (&reading.content, reading.at)) else {
        return Vec::new();
    };
    let mut seen: Vec<Seen> = objects
        .iter()
        .filter_map(|object| Lease::deserialize(object).ok())
        .filter_map(|lease| {
            let namespace = lease.metadata.namespace.as_deref()?;
            let name = lease.metadata.name.as_deref()?;
            let controller = CONTROLLERS.iter().find(|controller| {
                controller.namespace == namespace
                    && (controller.lease == name
                        || (controller.lease.ends_with("shard") && name.starts_with(controller.lease)))
            })?;
            Some(Seen { controller, lease, at })
        })
        .collect();
    seen.sort_by(|a, b| (a.controller.namespace, a.name()).cmp(&(b.controller.namespace, b.name())));
    seen
}

/// Whether a second look is needed.
pub(crate) fn doubtful(snapshot: &Snapshot) -> bool {
    look(snapshot, false).iter().any(Seen::old)
}

/// Leases that both looks saw old and alike, at least one renewal apart.
fn stale(snapshot: &Snapshot) -> Vec<Seen> {
    let first = look(snapshot, false);
    look(snapshot, true)
        .into_iter()
        .filter(Seen::old)
        .filter(|now| {
            first.iter().any(|then| {
                then.controller.namespace == now.controller.namespace
                    && then.name() == now.name()
                    && then.renewed() == now.renewed()
                    && then.holder() == now.holder()
                    && between(then.at, now.at) >= Duration::from_secs(10)
            })
        })
        .collect()
}

/// Namespaces whose Deployments and pods tell whether that matters.
pub(crate) fn stale_namespaces(snapshot: &Snapshot) -> Vec<&'static str> {
    let mut namespaces: Vec<&str> = stale(snapshot).iter().map(|seen| seen.controller.namespace).collect();
    namespaces.dedup();
    namespaces
}

/// RL140.
pub(crate) fn judge(snapshot: &Snapshot, diagnosis: &mut Diagnosis) {
    let all = look(snapshot, true).len();
    let mut findings = Vec::new();
    for seen in stale(snapshot) {
        let controller = seen.controller;
        let deployment = snapshot.get::<Deployment>(Some(controller.namespace), controller.deployment).ok().flatten();
        let expected = deployment.is_some_and(|deployment| deployment.spec.replicas != Some(0));
        if !expected {
            continue;
        }
        findings.push(finding(snapshot, &seen));
    }
    if all > 0 && findings.is_empty() {
        diagnosis.pass("other leases", format!("none of {} is stale", count(all, "other lease", "other leases")));
    }
    diagnosis.findings.extend(findings);
}

fn finding(snapshot: &Snapshot, seen: &Seen) -> Finding {
    let controller = seen.controller;
    let mut subject = ObjectRef::new(&LEASES, Some(controller.namespace), seen.name());
    subject.uid.clone_from(&seen.lease.metadata.uid);
    let age = seen
        .renewed()
        .map_or_else(String::new, |at| format!(" since {} ({})", rfc3339(at), human(between(at, snapshot.as_of))));
    let host = match controller.identity {
        Identity::Uuid => None,
        Identity::HostAndUuid => seen.holder().rsplit_once('_').map(|(host, _)| host),
        Identity::Host => Some(seen.holder()),
    }
    .filter(|host| !host.is_empty());
    let pod = host.map(|host| (host, snapshot.get::<Pod>(Some(controller.namespace), host)));
    let holder = match (&pod, seen.holder()) {
        (_, "") => "it was released".to_owned(),
        (None, holder) => format!("{holder} tells of no pod"),
        (Some((host, Ok(Some(pod)))), _) => format!("pod {host}: {}", replicas::state_words(pod, snapshot.as_of)),
        (Some((host, Ok(None))), _) => format!("pod {host} does not exist"),
        (Some((host, Err(_))), _) => format!("pod {host} could not be looked at"),
    };
    let source = format!("Lease {}/{}", controller.namespace, seen.name());
    Finding::new(
        &OTHER_LEASE_STALE,
        "other leases",
        subject,
        format!(
            "{} has not renewed its lease {}/{}{age}, though it is good for {}s",
            controller.what,
            controller.namespace,
            seen.name(),
            seen.seconds()
        ),
    )
    .evidence([
        Evidence::new("holder", holder).from(format!("{source} .spec.holderIdentity")).at(seen.at),
        Evidence::new("deployment", format!("{}/{} is expected to run", controller.namespace, controller.deployment))
            .from(format!("Deployment {}/{} .spec.replicas", controller.namespace, controller.deployment)),
    ])
    .advice(format!(
        "Look at the pods of Deployment {}/{}; its lease is not the fault.",
        controller.namespace, controller.deployment
    ))
}
