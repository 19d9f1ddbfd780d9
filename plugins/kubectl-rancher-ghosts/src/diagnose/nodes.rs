//! RG102, RG104 and RG107: machines and Nodes compared.
//!
//! Cluster API finds a Machine's Node by provider id, which the built-in cloud provider of RKE2 and K3s makes of the
//! node's *name*. A host that is installed anew under its old name is therefore claimed by its old Machine as well, and
//! only the label `rke.cattle.io/machine`, the UID of the Machine whose plan set the node up, tells which one lives
//! (rancher/rancher pkg/controllers/capr/machinenodelookup; tried with Cluster API 1.13 and 1.14).

use rancher_common::finding::{Diagnosis, Evidence, Finding};
use rancher_common::kinds::{NODES, SECRETS};
use rancher_common::resource::ObjectRef;
use rancher_common::text::{count, some_of};

use super::{Judged, Scene, plans};
use crate::findings;
use crate::model::fleet::{Cluster, Picture};
use crate::model::machine::Machine;
use crate::model::objects::{Node, reference};
use crate::plan::target_of;

/// A machine that refers to a Node.
pub(crate) fn judge(scene: &Scene<'_>, cluster: &Cluster, picture: &Picture, machine: &Machine, name: &str) -> Judged {
    let rivals: Vec<&Picture> = cluster.rivals(picture, name).collect();
    match cluster.node(name) {
        Ok(None) => {
            return match cluster.node_of(machine) {
                // The host was given another name: kubelet registered it anew, and Cluster API still has the old one.
                Some(node) => Judged::state("renamed", format!("Node {name} is now called {}", node.name())),
                None => vanished(scene, cluster, picture, machine, name),
            };
        }
        Ok(Some(node)) => {
            if let Some(live) = owner(cluster, machine, name) {
                return claimed_twice(scene, cluster, picture, machine, name, live);
            }
            // Its owner is among the machines, or nobody knows whose it is.
            if node.machine_uid() != Some(machine.uid()) && !rivals.is_empty() {
                return undecided_claim(picture, machine, name, &rivals, &not_told(node));
            }
        }
        Err(why) => {
            if !rivals.is_empty() {
                return undecided_claim(picture, machine, name, &rivals, why);
            }
            if let Some(judged) = by_word_of_capi(cluster, picture, machine, name, why) {
                return judged;
            }
        }
    }
    let judged = match picture.secret() {
        Some(secret) => plans::judge(scene, cluster, picture, machine, secret),
        None => Judged::default(),
    };
    if judged.state.is_empty() {
        let told = machine.condition("Reconciled").filter(|c| !c.is("True")).map(|c| c.message().to_owned());
        let not_ready = machine.condition("Ready").filter(|ready| !ready.is("True")).map(|c| c.message().to_owned());
        let why = told.or(not_ready).unwrap_or_default();
        return Judged::state("running", why.lines().next().unwrap_or_default());
    }
    judged
}

fn not_told(node: &Node) -> String {
    match node.machine_uid() {
        None => "the Node has no label rke.cattle.io/machine".to_owned(),
        Some(uid) => format!("the Node's label rke.cattle.io/machine is {uid}, which is no machine of this cluster"),
    }
}

/// The machine that a Node says it belongs to, if that is another one than this and exists.
pub(crate) fn owner<'c>(cluster: &'c Cluster, machine: &Machine, node: &str) -> Option<&'c Picture> {
    let uid = cluster.node(node).ok()??.machine_uid()?;
    if uid == machine.uid() {
        return None;
    }
    cluster.machines.iter().find(|other| other.whole().is_some_and(|other| other.uid() == uid))
}

fn vanished(scene: &Scene<'_>, cluster: &Cluster, picture: &Picture, machine: &Machine, name: &str) -> Judged {
    let nodes = cluster.nodes.as_ref().map_or(0, Vec::len);
    let place = cluster.place.as_ref().map(ToString::to_string).unwrap_or_default();
    let mut evidence = vec![
        Evidence::new("node", format!("{name} is not among the {nodes} Nodes of {place}")).from("nodes"),
        Evidence::new("claim", name).from("Machine .status.nodeRef.name"),
    ];
    if let Some(gone) = machine.node_gone() {
        evidence.push(Evidence::new("capi", gone.message()).from("Machine condition NodeHealthy"));
    }
    if let Some(pool) = machine.pool() {
        evidence.push(Evidence::new("pool", format!("MachineSet {pool} replaces it unless the pool is made smaller")));
    }
    let finding = Finding::new(
        &findings::NODE_VANISHED,
        "machine",
        picture.reference(),
        format!("Node {name} of {} does not exist in cluster {} any more", machine.name(), cluster.title()),
    )
    .evidence(evidence);
    Judged::found(
        "vanished",
        format!("Node {name} does not exist any more"),
        target_of(scene, cluster, picture, finding),
    )
}

pub(crate) fn claimed_twice(
    scene: &Scene<'_>,
    cluster: &Cluster,
    picture: &Picture,
    machine: &Machine,
    name: &str,
    live: &Picture,
) -> Judged {
    let finding = Finding::new(
        &findings::NODE_CLAIMED_TWICE,
        "machine",
        picture.reference(),
        format!("{} refers to Node {name}, which is {}'s", machine.name(), live.row.name),
    )
    .evidence([
        Evidence::new("claim", name).from("Machine .status.nodeRef.name"),
        Evidence::new("owner", format!("{} ({})", live.row.name, live.whole().map_or("", Machine::uid)))
            .from(format!("Node {name} label rke.cattle.io/machine")),
        Evidence::new("this one", machine.uid()).from("Machine .metadata.uid"),
        Evidence::new(
            "danger",
            format!("an ordinary deletion of {} drains and deletes the live Node {name}", machine.name()),
        ),
    ]);
    Judged::found(
        "claimed twice",
        format!("Node {name} belongs to {}", live.row.name),
        target_of(scene, cluster, picture, finding),
    )
}

/// Two machines claim a Node and nothing tells whose it is.
fn undecided_claim(picture: &Picture, machine: &Machine, name: &str, rivals: &[&Picture], why: &str) -> Judged {
    let names: Vec<&str> = rivals.iter().map(|rival| rival.row.name.as_str()).collect();
    let finding = Finding::new(
        &findings::NODE_CLAIMED_TWICE,
        "machine",
        picture.reference(),
        format!("{} and {} refer to one Node, {name}; which of them lives is not known", machine.name(), some_of(&names, 3)),
    )
    .evidence([
        Evidence::new("claim", name).from("Machine .status.nodeRef.name"),
        Evidence::new("unknown", why.to_owned()),
        Evidence::new("danger", format!("an ordinary deletion of either drains and deletes Node {name}")),
    ])
    .advice("Delete neither. Give a connection to the downstream cluster (--downstream-context): the Node's label tells whose it is.");
    Judged::found("claimed twice", format!("so does {}", some_of(&names, 3)), finding)
}

/// Without a connection of our own only Cluster API's word is left, which was true when it was written.
fn by_word_of_capi(cluster: &Cluster, picture: &Picture, machine: &Machine, name: &str, why: &str) -> Option<Judged> {
    let gone = machine.node_gone();
    if let (Some(gone), Some(true)) = (gone, cluster.connected()) {
        let finding = Finding::new(
            &findings::NODE_VANISHED,
            "machine",
            picture.reference(),
            format!("Node {name} of {} was deleted, says Cluster API", machine.name()),
        )
        .evidence([
            Evidence::new("capi", gone.message()).from("Machine condition NodeHealthy"),
            Evidence::new("connected", "True").from("management Cluster condition Connected"),
            Evidence::new("own look", format!("none: {why}")),
        ])
        .advice("Give a connection to the downstream cluster (--downstream-context): fix removes nothing on hearsay.");
        return Some(Judged::found("vanished", gone.message(), finding));
    }
    let healthy = machine.condition("NodeHealthy");
    let unreachable = healthy.is_some_and(|c| c.is("Unknown") && c.reason() != "InternalError");
    if cluster.connected() == Some(false) || unreachable || gone.is_some() {
        let told = healthy.map(|c| c.message().to_owned()).filter(|text| !text.is_empty());
        return Some(Judged {
            undecided: true,
            ..Judged::state("unknown", told.unwrap_or_else(|| "the cluster is not connected".to_owned()))
        });
    }
    None
}

/// RG107.
pub(crate) fn unclaimed(scene: &Scene<'_>, diagnosis: &mut Diagnosis) {
    if let Some(info) = &scene.question.connection_info {
        unknown_secret(scene, info, diagnosis);
    }
    let mut not_compared = 0;
    for cluster in scene.fleet.targets(scene.question) {
        let Ok(nodes) = &cluster.nodes else {
            not_compared += usize::from(!cluster.machines.is_empty());
            continue;
        };
        // An imported cluster has neither machines nor a control plane of Rancher's.
        if cluster.machines.is_empty() && cluster.plane().is_none() {
            continue;
        }
        // In a fleet the UIDs of machines that are well are not known.
        let all_whole = cluster.machines.iter().all(|picture| picture.whole().is_some());
        for node in nodes {
            let by_uid = node.machine_uid().is_some_and(|uid| {
                !all_whole || cluster.machines.iter().any(|p| p.whole().is_some_and(|m| m.uid() == uid))
            });
            let by_name = cluster.machines.iter().any(|p| p.row.node.as_deref() == Some(node.name()));
            if by_uid || by_name {
                continue;
            }
            let mut evidence = vec![
                Evidence::new("node", if node.ready == Some(true) { "Ready" } else { "not Ready" })
                    .from(format!("Node {} condition Ready", node.name())),
                Evidence::new(
                    "machine",
                    node.machine_uid().map_or_else(
                        || "no label rke.cattle.io/machine".to_owned(),
                        |uid| format!("label rke.cattle.io/machine = {uid}: no Machine has this UID"),
                    ),
                ),
            ];
            if let Some(address) = node.addresses.first() {
                evidence.push(
                    Evidence::new("address", address.clone()).from(format!("Node {} .status.addresses", node.name())),
                );
            }
            if node.etcd {
                evidence.push(Evidence::new("etcd", "it is an etcd node: its member counts for quorum"));
            }
            diagnosis.findings.push(
                Finding::new(
                    &findings::NODE_WITHOUT_MACHINE,
                    "node",
                    reference(&NODES, &node.metadata),
                    format!("Node {} of cluster {} has no machine: Rancher does not manage it", node.name(), cluster.title()),
                )
                .evidence(evidence)
                .advice("Register the host again: clean it first if its cattle-id has changed; fix cannot do that from here."),
            );
        }
    }
    if scene.question.target.is_none() && not_compared > 0 {
        diagnosis.skip(
            "node",
            format!(
                "the Nodes of {} were not compared with their machines: check CLUSTER does, with a connection to it",
                count(not_compared, "cluster", "clusters")
            ),
        );
    }
}

/// A node whose agent looks for a plan Secret that does not exist.
fn unknown_secret(scene: &Scene<'_>, info: &crate::question::ConnectionInfo, diagnosis: &mut Diagnosis) {
    let owner = crate::whois::owner_of_secret(scene.fleet, &info.namespace, &info.secret);
    if let Some((cluster, picture)) = owner {
        diagnosis.pass(
            "connection",
            format!("{} is the plan Secret of {}/{}", info.secret, cluster.title(), picture.row.name),
        );
        return;
    }
    match crate::whois::secret_of_file(scene) {
        Some(Ok(None)) => {}
        Some(Ok(Some(()))) => {
            diagnosis.pass("connection", format!("plan Secret {} exists", info.secret));
            return;
        }
        // RX001 tells why it is not known.
        _ => return,
    }
    diagnosis.findings.push(
        Finding::new(
            &findings::NODE_WITHOUT_MACHINE,
            "node",
            ObjectRef::new(&SECRETS, Some(&info.namespace), &info.secret),
            format!("the agent behind this file looks for plan Secret {}, which does not exist", info.secret),
        )
        .evidence([
            Evidence::new("file", info.path.display().to_string()).from("secretName"),
            Evidence::new("effect", "the agent gets 401 or idles: it will never apply a plan"),
        ])
        .advice("Register that host again; its old Machine, if one is left, is a ghost."),
    );
}
