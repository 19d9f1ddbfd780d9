//! The verdict, from what was read: who leads and how well, who could lead instead, and what hangs on it.

pub(crate) mod clusters;
pub(crate) mod contention;
pub(crate) mod election;
pub(crate) mod holder;
pub(crate) mod legacy;
pub(crate) mod logs;
pub(crate) mod other_leases;
pub(crate) mod replicas;
pub(crate) mod target;

use rancher_common::finding::{Diagnosis, Evidence, Passed, Remediation, Severity, access, shared};
use rancher_common::kinds::Deployment;
use rancher_common::rancher::Setting;
use rancher_common::snapshot::Snapshot;
use rancher_common::text::count;
use rancher_common::time::between;

use crate::Question;
use clusters::Fleet;
use election::{Election, Looks, Record, Timing};
use holder::Leadership;
use replicas::{Presence, Version};

/// What the snapshot says about the subject of this plugin, before it is judged.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    pub snapshot: &'a Snapshot,
    pub presence: Presence,
    /// The readings of the Lease, or what is wrong with its shape.
    pub looks: Result<Option<Looks>, String>,
    pub election: Election,
    /// Rancher's version as text, and as numbers where it has some.
    pub version_text: Option<String>,
    pub version: Option<Version>,
    /// The downstream clusters, or nothing when they were not read.
    pub fleet: Result<Fleet, ()>,
}

impl<'a> Scene<'a> {
    pub(crate) fn of(question: &Question, snapshot: &'a Snapshot) -> Self {
        let presence = Presence::of(question, snapshot);
        let looks = Looks::of(snapshot);
        let setting = snapshot.get::<Setting>(None, "server-version").ok().flatten();
        let image = match &presence {
            Presence::Here(installation) => installation.image_version().map(str::to_owned),
            _ => None,
        };
        let version_text = setting.map(|setting| setting.effective().to_owned()).filter(|v| !v.is_empty()).or(image);
        let election = match (&looks, &presence) {
            (Ok(Some(looks)), Presence::Here(installation)) => {
                Election::of(looks, &installation.timing, |holder| installation.replica(holder).is_some())
            }
            // Who is a replica cannot be seen from here.
            (Ok(Some(looks)), Presence::Absent(_)) => {
                Election::of(looks, &Timing::of(&Deployment::default()), |_| true)
            }
            _ => Election::Unknown,
        };
        Self {
            snapshot,
            presence,
            looks,
            election,
            version: version_text.as_deref().and_then(Version::parse),
            version_text,
            fleet: Fleet::of(snapshot),
        }
    }

    /// The timings of the installation, or the built-in ones.
    pub(crate) fn timing(&self) -> Timing {
        match &self.presence {
            Presence::Here(installation) => installation.timing.clone(),
            _ => Timing::of(&Deployment::default()),
        }
    }

    /// The newest record in the Lease.
    pub(crate) fn record(&self) -> Option<&Record> {
        self.looks.as_ref().ok()?.as_ref()?.last.record.as_ref()
    }

    /// Whether the leader that wrote this record must have stopped leading: it gives up after its RenewDeadline
    /// (kubernetes/client-go tools/leaderelection/leaderelection.go, `renew`).
    pub(crate) fn deadline_over(&self, record: &Record) -> bool {
        let Some(changed) = self.last_change(record) else {
            return false;
        };
        let deadline = self.timing().deadline_of(record);
        between(changed, self.snapshot.as_of) > deadline + holder::MARGIN
    }

    /// When the record changed last, as far as is known: its renewTime, but not later than the first look at it, in case
    /// the holder's clock is ahead.
    pub(crate) fn last_change(&self, record: &Record) -> Option<rancher_common::time::Timestamp> {
        let first = self.looks.as_ref().ok()?.as_ref()?.first.at;
        Some(record.renewed?.min(first))
    }

    /// Whether Rancher runs in a container of its own with an API server inside (`docker run rancher/rancher`): then its
    /// identity is the container's id (rancher/wrangler pkg/leader/leader.go: `os.Hostname()`).
    pub(crate) fn in_docker(&self) -> bool {
        matches!(self.presence, Presence::Absent(_))
            && self.record().is_some_and(|record| {
                record.holder.len() == 12
                    && record.holder.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
            })
    }
}

/// A diagnosis and what the plan needs to know beyond it.
pub(crate) struct Verdict<'a> {
    pub diagnosis: Diagnosis,
    pub scene: Scene<'a>,
    pub remedy: Option<holder::Remedy>,
}

/// Judges.
pub(crate) fn diagnose<'a>(question: &Question, snapshot: &'a Snapshot) -> Verdict<'a> {
    let scene = Scene::of(question, snapshot);
    let mut diagnosis = Diagnosis {
        rancher_version: scene.version_text.clone(),
        cluster_uid: access::cluster_uid(snapshot),
        ..Diagnosis::default()
    };
    diagnosis.findings.extend(target::connection(snapshot));
    let unread = target::unread(question, &scene);
    let mut remedy = None;
    match &scene.presence {
        Presence::Unknown => {
            for check in ["leader", "replicas", "clusters"] {
                diagnosis.skip(check, "waits for access");
            }
        }
        Presence::Absent(namespaces) => {
            if let Some(finding) = target::wrong_cluster(&scene, namespaces) {
                diagnosis.findings.push(finding);
                diagnosis.wrong_target = true;
            } else if scene.in_docker() {
                let leadership = holder::in_docker(&scene);
                dependents(&mut diagnosis, &scene, &leadership);
                conclude(&mut diagnosis, leadership);
            } else if unread.is_empty() {
                diagnosis.findings.push(target::no_rancher(&scene, namespaces));
                diagnosis.wrong_target = true;
            }
        }
        Presence::Here(installation) => {
            diagnosis.rancher_replicas = Some(installation.wanted());
            let mut leadership = holder::judge(&scene, installation);
            diagnosis.findings.extend(contention::shared_identity(snapshot, installation));
            match replicas::no_ready_replica(snapshot, installation) {
                Some(finding) => diagnosis.findings.push(finding),
                None => diagnosis.pass(
                    "replicas",
                    format!(
                        "{} of {} Ready",
                        installation.ready().len(),
                        count(installation.wanted(), "replica", "replicas")
                    ),
                ),
            }
            diagnosis.findings.extend(logs::leader_flapping(snapshot, installation, scene.record()));
            if let (Some(leader), Some(record)) = (&leadership.leader, scene.record())
                && let Some(zombie) = logs::zombie_leader(snapshot, leader, record, scene.version)
            {
                if zombie.restart {
                    leadership.becomes_sick(zombie.finding, leader.clone(), record.acquired);
                } else {
                    diagnosis.findings.push(zombie.finding);
                }
            }
            diagnosis.findings.extend(legacy::finding(&scene));
            dependents(&mut diagnosis, &scene, &leadership);
            diagnosis.findings.extend(tunnels(&scene, installation));
            other_leases::judge(snapshot, &mut diagnosis);
            remedy = conclude(&mut diagnosis, leadership);
        }
    }
    diagnosis.findings.extend(unread);
    diagnosis.order();
    if let Some(first) = obstacle(&diagnosis) {
        for finding in diagnosis.findings.iter_mut().filter(|finding| finding.fixable) {
            finding.fixable = false;
            finding.remediation = Some(Remediation { text: first.to_owned(), argv: Vec::new() });
        }
    }
    Verdict { diagnosis, scene, remedy }
}

/// What must be done before `fix` repairs anything, whatever the finding.
fn obstacle(diagnosis: &Diagnosis) -> Option<&'static str> {
    if diagnosis.findings.iter().any(|finding| finding.severity == Severity::Unknown) {
        Some("Make what could not be read readable first (RX001): fix decides nothing without it.")
    } else if diagnosis.of(&shared::THROUGH_RANCHER_PROXY).next().is_some() {
        Some("Use a kubeconfig of the cluster itself (RX003): fix repairs nothing through the Rancher that is ill.")
    } else if diagnosis.cluster_uid.is_none() {
        Some("Ask for the right to get the namespace kube-system: fix keeps its backups under the UID of it.")
    } else {
        None
    }
}

/// The clusters, which depend on the leader.
fn dependents(diagnosis: &mut Diagnosis, scene: &Scene<'_>, leadership: &Leadership) {
    match &scene.fleet {
        Ok(fleet) => clusters::judge(scene.snapshot, fleet, leadership, diagnosis),
        Err(()) => diagnosis.skip("clusters", "waits for access"),
    }
}

fn tunnels(scene: &Scene<'_>, installation: &replicas::Installation) -> Option<rancher_common::finding::Finding> {
    logs::tunnels_rejected(scene.snapshot, installation, &scene.fleet.as_ref().ok()?.ids)
}

/// Takes the leader's part into the diagnosis; what must be done comes back.
fn conclude(diagnosis: &mut Diagnosis, leadership: Leadership) -> Option<holder::Remedy> {
    if let Some((message, evidence)) = leadership.passed {
        diagnosis.passed.insert(0, Passed { check: "leader".to_owned(), message, evidence });
    }
    if let Some(reason) = leadership.skipped {
        diagnosis.skip("leader", reason);
    }
    // Before its consequences, also for those that claim no cause.
    diagnosis.findings.splice(0..0, leadership.findings);
    leadership.remedy
}

/// Evidence with the time of the newest look at the Lease.
fn seen(scene: &Scene<'_>, evidence: Evidence) -> Evidence {
    match &scene.looks {
        Ok(Some(looks)) => evidence.at(looks.last.at),
        _ => evidence,
    }
}
