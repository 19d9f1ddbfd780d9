//! The downstream clusters: which are not connected (RL130), and whether what they say is old news (RL131).

use std::collections::BTreeSet;

use rancher_common::finding::{Diagnosis, Evidence, Finding};
use rancher_common::rancher::{MANAGEMENT_CLUSTERS, ManagementCluster};
use rancher_common::resource::ObjectRef;
use rancher_common::snapshot::Snapshot;
use rancher_common::text::{count, shorten, some_of};
use rancher_common::time::{between, human, rfc3339};

use super::holder::Leadership;
use crate::findings::{CLUSTERS_DISCONNECTED, CONDITIONS_FROZEN, ZOMBIE_LEADER};

/// The downstream clusters by their state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fleet {
    /// Ids of all clusters, the local one included.
    pub ids: BTreeSet<String>,
    /// Those that are connected: how many.
    pub connected: usize,
    /// Provisioned, but not connected, by id.
    pub disconnected: Vec<ManagementCluster>,
    /// Not provisioned yet: nothing has ever been connected.
    pub waiting: Vec<String>,
    /// Being deleted.
    pub deleting: Vec<String>,
}

/// Whether it is the cluster that Rancher itself runs in, which has no tunnel
/// (rancher/rancher pkg/controllers/management/clusterdeploy/clusterdeploy.go).
pub(crate) fn is_internal(cluster: &ManagementCluster) -> bool {
    cluster.spec.internal || cluster.metadata.name == "local"
}

/// Whether this condition is True.
pub(crate) fn holds(cluster: &ManagementCluster, kind: &str) -> bool {
    cluster.condition(kind).is_some_and(|condition| condition.status == "True")
}

impl Fleet {
    /// From the snapshot. A kind that is not served has no objects.
    pub(crate) fn of(snapshot: &Snapshot) -> Result<Self, ()> {
        let listed = snapshot.list::<ManagementCluster>(None).map_err(|_| ())?;
        let mut fleet = Self::default();
        for cluster in listed.items {
            fleet.ids.insert(cluster.metadata.name.clone());
            if is_internal(&cluster) {
                continue;
            }
            if cluster.metadata.deletion_timestamp.is_some() {
                fleet.deleting.push(cluster.title());
            } else if holds(&cluster, "Connected") {
                fleet.connected += 1;
            } else if holds(&cluster, "Provisioned") {
                fleet.disconnected.push(cluster);
            } else {
                fleet.waiting.push(cluster.title());
            }
        }
        fleet.disconnected.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        fleet.waiting.sort();
        fleet.deleting.sort();
        Ok(fleet)
    }

    /// Downstream clusters that should be connected.
    fn total(&self) -> usize {
        self.connected + self.disconnected.len()
    }
}

/// RL130 and RL131.
pub(crate) fn judge(snapshot: &Snapshot, fleet: &Fleet, leadership: &Leadership, diagnosis: &mut Diagnosis) {
    let total = fleet.total();
    if let Some(rule) = leadership.sick
        && total > 0
    {
        let since = leadership.since.map_or_else(
            || "an unknown time".to_owned(),
            |at| format!("{} ({} ago)", rfc3339(at), human(between(at, snapshot.as_of))),
        );
        let subject = ObjectRef::new(&MANAGEMENT_CLUSTERS, None, "*");
        let message = format!(
            "nobody updates the conditions of {} since {since}: Connected and Ready may be wrong both ways",
            count(total, "downstream cluster", "downstream clusters")
        );
        let facts = [Evidence::new("writer", "only the leader writes Connected, and only when it changes")
            .from("rancher/rancher pkg/controllers/management/clusterconnected/clusterconnected.go")];
        diagnosis
            .findings
            .push(Finding::new(&CONDITIONS_FROZEN, "clusters", subject, message).evidence(facts).caused_by(rule));
    }
    if fleet.disconnected.is_empty() {
        if leadership.sick.is_none() {
            let mut message = match total {
                0 => "no downstream clusters".to_owned(),
                total => format!(
                    "{} of {} Connected",
                    fleet.connected,
                    count(total, "downstream cluster", "downstream clusters")
                ),
            };
            if !fleet.waiting.is_empty() {
                message = format!("{message}; not provisioned yet: {}", some_of(&fleet.waiting, 3));
            }
            if !fleet.deleting.is_empty() {
                message = format!("{message}; being deleted: {}", some_of(&fleet.deleting, 3));
            }
            diagnosis.pass("clusters", message);
        }
        return;
    }
    let doubtful = diagnosis.of(&ZOMBIE_LEADER).next().is_some();
    diagnosis.findings.push(disconnected(snapshot, fleet, leadership, doubtful));
}

/// RL130. `doubtful`: whether the leader's controllers may not have started.
fn disconnected(snapshot: &Snapshot, fleet: &Fleet, leadership: &Leadership, doubtful: bool) -> Finding {
    let titles: Vec<String> = fleet.disconnected.iter().map(ManagementCluster::title).collect();
    let first = &fleet.disconnected[0];
    let mut subject = ObjectRef::new(&MANAGEMENT_CLUSTERS, None, &first.metadata.name);
    if let (1, uid) = (fleet.disconnected.len(), &first.metadata.uid) {
        subject.uid.clone_from(uid);
    } else {
        subject.name = "*".to_owned();
    }
    let message = format!(
        "{} of {} not Connected: {}",
        fleet.disconnected.len(),
        count(fleet.total(), "downstream cluster", "downstream clusters"),
        some_of(&titles, 5)
    );
    let facts = fleet.disconnected.iter().take(5).map(|cluster| {
        let connected = cluster.condition("Connected");
        let since = connected
            .and_then(|condition| condition.last_update_time.as_deref())
            .filter(|time| !time.is_empty())
            .map(|time| format!(", last written {time}"))
            .unwrap_or_default();
        let ready = cluster
            .condition("Ready")
            .and_then(|condition| condition.message.as_deref())
            .filter(|message| !message.is_empty())
            .map(|message| format!("; Ready says: {}", shorten(message, 160)))
            .unwrap_or_default();
        Evidence::new(
            "cluster",
            format!(
                "{}: Connected={}{since}{ready}",
                cluster.title(),
                connected.map_or("not set", |c| c.status.as_str())
            ),
        )
        .from(format!("Cluster {} .status.conditions", cluster.metadata.name))
        .at(snapshot.as_of)
    });
    let mut finding = Finding::new(&CLUSTERS_DISCONNECTED, "clusters", subject, message).evidence(facts);
    let others: Vec<String> = [("not provisioned yet", &fleet.waiting), ("being deleted", &fleet.deleting)]
        .iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(state, names)| format!("{state}: {}", some_of(names, 3)))
        .collect();
    if !others.is_empty() {
        finding =
            finding.evidence([Evidence::new("not counted", others.join("; ")).from("clusters.management.cattle.io")]);
    }
    match leadership.sick {
        Some(rule) => {
            finding.caused_by(rule).advice("Cure the leader first: nobody else would notice that they are back.")
        }
        None if leadership.leader.is_some() => finding
            .advice(if doubtful {
                "Look at what is said of the leader's controllers (RL108), and at the chain between Rancher and the cluster."
            } else {
                "The leader is well, so look at the chain between Rancher and the cluster."
            })
            .next_command(["kubectl", "rancher-agent", "check", first.metadata.name.as_str()]),
        None => finding.advice("Wait for a leader first: nobody else would notice that they are back."),
    }
}
