//! The verdict, from what was read: which machines have no node, what stands in their way, what waits for them.

pub(crate) mod blocks;
pub(crate) mod clusters;
pub(crate) mod controllers;
pub(crate) mod credentials;
pub(crate) mod deleting;
pub(crate) mod identity;
pub(crate) mod joining;
pub(crate) mod leader;
pub(crate) mod management_nodes;
pub(crate) mod nodes;
pub(crate) mod orphans;
pub(crate) mod plans;
pub(crate) mod target;

use rancher_common::finding::{Column, Diagnosis, Finding, Inventory, Row, Severity, access};
use rancher_common::rancher::Setting;
use rancher_common::snapshot::{Place, Snapshot};
use rancher_common::text::{count, shorten};
use rancher_common::time::{between, human};

use crate::model::fleet::{Cluster, Fleet, Picture};
use crate::model::machine::{Machine, Role};
use crate::{Question, needs};

/// Machines that are well are listed up to this many; beyond that only counted.
const LISTED: usize = 100;

/// The state of one machine in a word or two, why, and what was found.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    pub state: String,
    pub why: String,
    pub findings: Vec<Finding>,
    /// Whether a vanished node and an unreachable one cannot be told apart.
    pub undecided: bool,
}

impl Judged {
    pub(crate) fn state(state: impl Into<String>, why: impl Into<String>) -> Self {
        Self { state: state.into(), why: why.into(), ..Self::default() }
    }

    /// A finding whose message is also the reason in the table.
    pub(crate) fn found(state: impl Into<String>, why: impl Into<String>, finding: Finding) -> Self {
        Self { findings: vec![finding], ..Self::state(state, why) }
    }
}

/// What is judged, and when.
#[derive(Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub question: &'a Question,
    pub snapshot: &'a Snapshot,
    pub fleet: &'a Fleet,
}

/// Judges.
pub(crate) fn diagnose(question: &Question, snapshot: &Snapshot) -> Diagnosis {
    let fleet = Fleet::of(question, snapshot);
    let scene = Scene { question, snapshot, fleet: &fleet };
    let mut diagnosis = Diagnosis {
        rancher_version: version(snapshot),
        cluster_uid: access::cluster_uid(snapshot),
        ..Diagnosis::default()
    };
    diagnosis.findings.extend(access::clock_skew(snapshot));
    if let Some(finding) = target::wrong(&scene) {
        diagnosis.findings.push(finding);
        diagnosis.wrong_target = true;
        return diagnosis;
    }
    let mut unread = access::unread(&needs::of_fleet(question, snapshot, &fleet), snapshot);
    unread.extend(malformed(&fleet));
    if question.asks_who() {
        crate::whois::answer(&scene, unread.is_empty(), &mut diagnosis);
        diagnosis.findings.extend(unread);
        return diagnosis;
    }
    controllers::judge(&scene, &mut diagnosis);
    leader::judge(&scene, &mut diagnosis);
    let mut rows = Vec::new();
    let mut well = 0;
    let targets = fleet.targets(question);
    let all = targets.iter().map(|cluster| cluster.machines.len()).sum();
    // Of a large fleet those are listed that something is said about.
    let only_problems = question.target.is_none() && all > LISTED;
    for cluster in targets {
        let judged: Vec<(&Picture, Judged)> =
            cluster.machines.iter().map(|picture| (picture, machine(&scene, cluster, picture))).collect();
        well += judged.iter().filter(|(_, judged)| judged.findings.is_empty() && !judged.undecided).count();
        clusters::judge(&scene, cluster, &judged, &mut diagnosis);
        for (picture, judged) in judged {
            let severity = severity(&judged);
            if severity.is_some() || !only_problems {
                rows.push((severity, row(&scene, cluster, picture, &judged)));
            }
            diagnosis.findings.extend(judged.findings);
        }
    }
    orphans::judge(&scene, &mut diagnosis);
    credentials::judge(&scene, &mut diagnosis);
    management_nodes::judge(&scene, &mut diagnosis);
    clusters::ghosts(&scene, &mut diagnosis);
    nodes::unclaimed(&scene, &mut diagnosis);
    target::keep(&scene, &mut diagnosis);
    tell_the_well(&scene, well, all, &mut diagnosis);
    diagnosis.inventory = inventory(&scene, rows);
    diagnosis.findings.extend(unread);
    diagnosis.order();
    obstacles(&mut diagnosis);
    diagnosis
}

/// Rancher's version.
pub(crate) fn version(snapshot: &Snapshot) -> Option<String> {
    let setting = snapshot.get::<Setting>(None, "server-version").ok().flatten()?;
    Some(setting.effective().to_owned()).filter(|version| !version.is_empty())
}

fn malformed(fleet: &Fleet) -> impl Iterator<Item = Finding> {
    fleet.malformed.iter().map(|(subject, problem)| access::malformed(subject, problem))
}

/// One machine.
fn machine(scene: &Scene<'_>, cluster: &Cluster, picture: &Picture) -> Judged {
    let Some(machine) = picture.whole() else {
        return match &picture.machine {
            Ok(None) => Judged::state("gone", "deleted while it was looked at"),
            _ if picture.suspect => Judged { undecided: true, ..Judged::state("unknown", "it was not read whole") },
            // What its row says was true when Cluster API last saw it.
            _ if cluster.connected() == Some(false) && cluster.nodes.is_err() => {
                Judged { undecided: true, ..Judged::state("unknown", "the cluster is not connected") }
            }
            _ => Judged::state("running", ""),
        };
    };
    if machine.deleting() {
        // Whether a live Node is about to be drained comes before how far that has gone.
        let claimed = machine.node.as_deref().and_then(|node| nodes::owner(cluster, machine, node));
        return match (&machine.node, claimed) {
            (Some(node), Some(live)) => nodes::claimed_twice(scene, cluster, picture, machine, node, live),
            _ => deleting::judge(scene, cluster, picture, machine),
        };
    }
    match &machine.node {
        None => joining::judge(scene, cluster, picture, machine),
        Some(node) => nodes::judge(scene, cluster, picture, machine, node),
    }
}

fn severity(judged: &Judged) -> Option<Severity> {
    let worst = judged.findings.iter().map(|finding| finding.severity).max();
    worst.or(judged.undecided.then_some(Severity::Unknown))
}

/// Age of a machine.
pub(crate) fn age(snapshot: &Snapshot, machine: &Machine) -> Option<std::time::Duration> {
    Some(between(machine.metadata.creation_timestamp?, snapshot.as_of))
}

const COLUMNS: [Column; 12] = [
    Column { name: "CLUSTER", wide: false },
    Column { name: "MACHINE", wide: false },
    Column { name: "ROLES", wide: false },
    Column { name: "NODE", wide: false },
    Column { name: "AGE", wide: false },
    Column { name: "STATE", wide: false },
    Column { name: "WHY", wide: false },
    Column { name: "PHASE", wide: true },
    Column { name: "ADDRESS", wide: true },
    Column { name: "PROVIDER ID", wide: true },
    Column { name: "PLAN SECRET", wide: true },
    Column { name: "UID", wide: true },
];

/// What a cell shows when there is nothing to show.
const NONE: &str = "-";

/// The roles of a machine, as the table shows them.
pub(crate) fn roles(picture: &Picture) -> String {
    let Some(machine) = picture.whole() else { return NONE.to_owned() };
    let words: Vec<&str> = machine
        .roles()
        .into_iter()
        .map(|role| match role {
            Role::Etcd => "etcd",
            Role::ControlPlane => "control-plane",
            Role::Worker => "worker",
        })
        .collect();
    if words.is_empty() { NONE.to_owned() } else { words.join(",") }
}

/// The name of a machine's host: of its Node, or the name the host gave when it registered.
pub(crate) fn host(picture: &Picture) -> Option<String> {
    picture.row.node.clone().or_else(|| {
        let label = picture.whole()?.metadata.labels.get(crate::model::objects::NODE_NAME)?;
        (!label.is_empty()).then(|| format!("({label})"))
    })
}

fn row(scene: &Scene<'_>, cluster: &Cluster, picture: &Picture, judged: &Judged) -> Row {
    let or_none = |text: Option<String>| text.filter(|text| !text.is_empty()).unwrap_or_else(|| NONE.to_owned());
    let age = picture.whole().and_then(|machine| age(scene.snapshot, machine)).map(human);
    Row {
        object: picture.reference(),
        severity: severity(judged),
        cells: vec![
            cluster.title(),
            picture.row.name.clone(),
            roles(picture),
            or_none(host(picture)),
            or_none(age.or_else(|| Some(picture.row.age.clone()))),
            judged.state.clone(),
            or_none(Some(shorten(&judged.why, 90).into_owned())),
            or_none(Some(picture.row.phase.clone())),
            or_none(picture.row.addresses.first().cloned()),
            or_none(picture.provider_id().map(str::to_owned)),
            or_none(picture.secret().map(|secret| secret.metadata.name.clone())),
            or_none(picture.whole().map(|machine| machine.uid().to_owned())),
        ],
        below: if scene.question.tree { identity::tree(scene, cluster, picture) } else { Vec::new() },
    }
}

fn inventory(scene: &Scene<'_>, mut rows: Vec<(Option<Severity>, Row)>) -> Option<Inventory> {
    if let Some(machine) = scene.question.machine() {
        rows.retain(|(_, row)| row.object.name == machine);
    }
    // Problems first; within them, and below them, by cluster and name.
    rows.sort_by(|(a, left), (b, right)| {
        let key = |row: &Row| (row.cells[0].clone(), row.cells[1].clone());
        b.cmp(a).then_with(|| key(left).cmp(&key(right)))
    });
    let rows: Vec<Row> = rows.into_iter().map(|(_, row)| row).collect();
    (!rows.is_empty()).then(|| Inventory { columns: COLUMNS.to_vec(), rows })
}

fn tell_the_well(scene: &Scene<'_>, well: usize, all: usize, diagnosis: &mut Diagnosis) {
    let clusters = scene.fleet.targets(scene.question);
    if scene.question.machine().is_some() {
        return;
    }
    if all == 0 {
        diagnosis.skip("machines", "no cluster here has machines of Cluster API");
    } else if well > 0 {
        let with = clusters.iter().filter(|cluster| !cluster.machines.is_empty()).count();
        diagnosis.pass(
            "machines",
            format!(
                "{well} of {} in {} are as they should be",
                count(all, "machine", "machines"),
                count(with, "cluster", "clusters")
            ),
        );
    }
    for cluster in &clusters {
        let looked_in_vain = cluster.place == Some(Place::Downstream);
        if let Err(why) = &cluster.nodes
            && !cluster.machines.is_empty()
            && (scene.question.target.is_some() || looked_in_vain)
        {
            diagnosis.skip("nodes", why.clone());
        }
    }
    if scene.question.target.is_none()
        && scene.snapshot.origin.downstream.is_some()
        && clusters.iter().all(|c| c.place.is_none() || needs::is_local(c))
    {
        diagnosis.skip("nodes", "the downstream connection is for one cluster: name it");
    }
}

/// What must be done before `fix` repairs anything, whatever the finding.
fn obstacles(diagnosis: &mut Diagnosis) {
    let advice = if diagnosis.cluster_uid.is_none() {
        "Ask for the right to get the namespace kube-system: fix keeps its backups under the UID of it."
    } else if diagnosis.findings.iter().any(|f| f.rule.code == "RX001") {
        "Make what could not be read readable first (RX001): fix decides nothing without it."
    } else {
        return;
    };
    for finding in diagnosis.findings.iter_mut().filter(|finding| finding.fixable) {
        finding.fixable = false;
        finding.remediation = None;
        *finding = finding.clone().advice(advice);
    }
}
