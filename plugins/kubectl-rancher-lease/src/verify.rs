//! When a repair has worked: a Ready replica leads and has renewed twice, and the clusters that were disconnected are
//! back.

use rancher_common::doctor::{Verification, Verifier};
use rancher_common::plan::Plan;
use rancher_common::rancher::ManagementCluster;
use rancher_common::snapshot::{Need, Snapshot, Unread};
use rancher_common::text::{count, some_of};
use rancher_common::time::{Timestamp, rfc3339};

use crate::diagnose::Scene;
use crate::diagnose::clusters::holds;
use crate::diagnose::replicas::{self, DEFAULT_NAMESPACE, Installation, Presence};
use crate::{Question, needs};

/// Renewals under one holder that count as leading.
const RENEWALS: u32 = 2;

/// See the module.
#[derive(Debug)]
pub(crate) struct LeaseVerifier {
    /// The installation as it was: what its pods are called and how they are selected does not change by a repair.
    installation: Option<Box<Installation>>,
    /// UID of the Lease, its holder, and the UID of the holder's pod before the repair.
    before: (Option<String>, String, Option<String>),
    /// Holder and renewTime at the last look.
    last: Option<(String, Option<Timestamp>)>,
    /// How often that holder has renewed before our eyes.
    renewals: u32,
    /// Clusters to come back: id and title.
    awaited: Vec<(String, String)>,
}

impl LeaseVerifier {
    pub(crate) fn new(question: &Question, snapshot: &Snapshot, _: &Plan) -> Self {
        let scene = Scene::of(question, snapshot);
        let record = scene.record();
        let holder = record.map(|record| record.holder.clone()).unwrap_or_default();
        let lease = record.and_then(|record| record.uid()).map(str::to_owned);
        let awaited = scene
            .fleet
            .as_ref()
            .map(|fleet| fleet.disconnected.iter().map(|c| (c.metadata.name.clone(), c.title())).collect())
            .unwrap_or_default();
        let installation = match scene.presence {
            Presence::Here(installation) => Some(installation),
            _ => None,
        };
        let pod = installation
            .as_ref()
            .and_then(|installation| installation.replica(&holder))
            .and_then(|pod| pod.metadata.uid.clone());
        Self { installation, before: (lease, holder, pod), last: None, renewals: 0, awaited }
    }

    /// The new leader, or what is waited for.
    fn leader(&mut self, snapshot: &Snapshot) -> Result<String, String> {
        let unreadable = |what: &str, why: &Unread<'_>| format!("{what}: {why}");
        let lease = snapshot
            .get::<rancher_common::kinds::Lease>(Some("kube-system"), "cattle-controllers")
            .map_err(|why| unreadable("the Lease to be readable", &why))?;
        let spec = lease.as_ref().and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let holder = spec.holder_identity.unwrap_or_default();
        if holder.is_empty() {
            (self.last, self.renewals) = (None, 0);
            return Err("a replica to take the Lease".to_owned());
        }
        let renewed = spec.renew_time.map(|time| time.0);
        match &self.last {
            Some((last, at)) if *last == holder => self.renewals += u32::from(*at != renewed),
            _ => self.renewals = 0,
        }
        self.last = Some((holder.clone(), renewed));

        let Some(installation) = &self.installation else {
            return Err("Rancher's Deployment, which was not found".to_owned());
        };
        let listed = snapshot
            .list::<rancher_common::kinds::Pod>(Some(&installation.namespace))
            .map_err(|why| unreadable("the pods to be readable", &why))?;
        let installation = installation.with_pods(listed.items);
        let Some(pod) = installation.replica(&holder) else {
            let restarted = holder == self.before.1 && self.before.2.is_some();
            return Err(if restarted {
                format!("the Lease, which still names {holder} though its pod is gone: run fix again")
            } else {
                format!("{holder} to be replaced by a replica of Rancher")
            });
        };
        let lease_uid = lease.and_then(|lease| lease.metadata.uid);
        let (old_lease, old_holder, old_pod) = &self.before;
        if lease_uid == *old_lease && holder == *old_holder && pod.metadata.uid == *old_pod {
            return Err(format!("another leader than {holder}"));
        }
        if !replicas::is_ready(pod) {
            return Err(format!("leader {} to be Ready", replicas::name(pod)));
        }
        if self.renewals < RENEWALS {
            return Err(format!("leader {} to renew ({} of {RENEWALS})", replicas::name(pod), self.renewals));
        }
        let since = spec.acquire_time.map(|time| format!(" since {}", rfc3339(time.0))).unwrap_or_default();
        Ok(format!("{} leads{since} and renews", replicas::name(pod)))
    }

    /// Clusters that are not back, or why that cannot be said. One that was deleted meanwhile is not waited for.
    fn missing(&self, snapshot: &Snapshot) -> Result<Vec<String>, String> {
        if self.awaited.is_empty() {
            return Ok(Vec::new());
        }
        let listed =
            snapshot.list::<ManagementCluster>(None).map_err(|why| format!("the clusters to be readable: {why}"))?;
        Ok(self
            .awaited
            .iter()
            .filter(|(id, _)| {
                let malformed = listed.malformed.iter().any(|(raw, _)| raw["metadata"]["name"].as_str() == Some(id));
                malformed
                    || listed.items.iter().any(|cluster| {
                        cluster.metadata.name == *id
                            && cluster.metadata.deletion_timestamp.is_none()
                            && !holds(cluster, "Connected")
                    })
            })
            .map(|(_, title)| title.clone())
            .collect())
    }
}

impl Verifier for LeaseVerifier {
    fn needs(&self, _: &Snapshot) -> Vec<Need> {
        let namespace = self.installation.as_ref().map_or(DEFAULT_NAMESPACE, |i| i.namespace.as_str());
        needs::after_repair(namespace)
    }

    fn observe(&mut self, snapshot: &Snapshot) -> Verification {
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let total = number(self.awaited.len() + 1);
        let leader = self.leader(snapshot);
        let leader = match leader {
            Ok(leader) => leader,
            Err(waiting_for) => return Verification::Pending { done: 0, total, waiting_for },
        };
        match self.missing(snapshot) {
            Err(waiting_for) => Verification::Pending { done: 1, total, waiting_for },
            Ok(missing) if missing.is_empty() => Verification::Done(match self.awaited.len() {
                0 => leader,
                back => format!("{leader}; {} Connected again", count(back, "cluster", "clusters")),
            }),
            Ok(missing) => Verification::Pending {
                done: total - number(missing.len()),
                total,
                waiting_for: format!(
                    "{} to connect: {}",
                    count(missing.len(), "cluster", "clusters"),
                    some_of(&missing, 5)
                ),
            },
        }
    }
}
