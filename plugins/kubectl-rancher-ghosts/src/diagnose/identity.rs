//! The objects of one machine, as a tree.

use rancher_common::kinds::SERVICE_ACCOUNTS;
use rancher_common::rancher::{ETCD_SNAPSHOTS, Metadata};
use rancher_common::snapshot::{Content, Want};
use serde::Deserialize as _;

use super::Scene;
use crate::model::fleet::{Cluster, Picture};
use crate::model::objects::{MACHINE_NAME, NODE_MACHINE_UID, Part};
use crate::model::reading::Seen;

/// One line per object: what it is, and what it says of itself.
pub(crate) fn tree(scene: &Scene<'_>, cluster: &Cluster, picture: &Picture) -> Vec<String> {
    let mut lines = Vec::new();
    let part = |what: &str, seen: &Seen<Box<Part>>| match seen {
        Ok(Some(part)) => format!("{}{}{}", part.reference(), deleting(&part.metadata), finalizers(&part.metadata)),
        Ok(None) => format!("{what}: does not exist"),
        Err(why) => format!("{what}: unknown ({why})"),
    };
    if let Some(machine) = picture.whole() {
        lines.push(format!("{}{}{}", picture.reference(), deleting(&machine.metadata), finalizers(&machine.metadata)));
    }
    lines.push(part("RKEBootstrap", &picture.bootstrap));
    lines.push(part("infra machine", &picture.infra));
    lines.push(match &picture.plan {
        Ok(Some(secret)) => {
            let plan = &secret.plan;
            let state = if plan.plan.is_none() {
                "no plan"
            } else if plan.applied_checksum == plan.plan {
                "plan applied"
            } else if plan.failed_checksum == plan.plan {
                "plan failing"
            } else if plan.agent_has_answered() {
                "plan not applied"
            } else {
                "agent never answered"
            };
            let init = if secret.is_init_node() { ", init node" } else { "" };
            format!("{} ({state}{init})", secret.reference())
        }
        Ok(None) => "plan Secret: does not exist".to_owned(),
        Err(why) => format!("plan Secret: unknown ({why})"),
    });
    lines.extend(accounts(scene, picture));
    lines.push(match (&picture.row.node, &cluster.nodes) {
        (_, Err(why)) => format!("Node {}: unknown ({why})", picture.row.node.as_deref().unwrap_or("?")),
        (None, Ok(nodes)) => {
            let uid = picture.whole().map(crate::model::machine::Machine::uid);
            match nodes.iter().find(|node| node.machine_uid().is_some() && node.machine_uid() == uid) {
                Some(node) => format!("Node {} (by its label {NODE_MACHINE_UID})", node.name()),
                None => "Node: none".to_owned(),
            }
        }
        (Some(name), Ok(_)) => match cluster.node(name) {
            Ok(Some(node)) => format!(
                "Node {name} ({}{})",
                if node.ready == Some(true) { "Ready" } else { "not Ready" },
                if node.unschedulable { ", unschedulable" } else { "" }
            ),
            _ => format!("Node {name}: does not exist"),
        },
    });
    lines.extend(copies(scene, cluster, picture));
    lines.extend(snapshots(scene, cluster, picture));
    let last = lines.len().saturating_sub(1);
    lines
        .into_iter()
        .enumerate()
        .map(|(index, line)| format!("{} {line}", if index == last { "`-" } else { "|-" }))
        .collect()
}

fn deleting(metadata: &Metadata) -> &'static str {
    if metadata.deletion_timestamp.is_some() { ", being deleted" } else { "" }
}

fn finalizers(metadata: &Metadata) -> String {
    if metadata.finalizers.is_empty() {
        String::new()
    } else {
        format!(", finalizers: {}", metadata.finalizers.join(" "))
    }
}

/// Service accounts of the machine's agent.
fn accounts(scene: &Scene<'_>, picture: &Picture) -> Vec<String> {
    scene
        .snapshot
        .readings
        .iter()
        .filter(|reading| reading.want.resource() == Some(&SERVICE_ACCOUNTS))
        .filter_map(|reading| match &reading.content {
            Content::Objects(objects) => Some(objects),
            _ => None,
        })
        .flatten()
        .filter_map(|object| Metadata::deserialize(&object["metadata"]).ok())
        .filter(|metadata| {
            metadata.namespace.as_deref() == Some(picture.row.namespace.as_str())
                && metadata.labels.get(MACHINE_NAME).is_some_and(|name| *name == picture.row.name)
        })
        .map(|metadata| format!("ServiceAccount {}/{}", picture.row.namespace, metadata.name))
        .collect()
}

/// Rancher's copies of the Node.
fn copies(scene: &Scene<'_>, cluster: &Cluster, picture: &Picture) -> Vec<String> {
    let (Some(id), Some(node)) = (&cluster.id, &picture.row.node) else { return Vec::new() };
    let Ok(nodes) = scene.snapshot.raw_list(&rancher_common::rancher::MANAGEMENT_NODES, Some(id)) else {
        return Vec::new();
    };
    nodes
        .iter()
        .filter(|copy| copy["metadata"]["labels"]["management.cattle.io/nodename"].as_str() == Some(node))
        .filter_map(|copy| copy["metadata"]["name"].as_str())
        .map(|name| format!("nodes.management.cattle.io {id}/{name}"))
        .collect()
}

/// etcd snapshots that go with the machine: garbage collection takes them along.
pub(crate) fn snapshots(scene: &Scene<'_>, cluster: &Cluster, picture: &Picture) -> Vec<String> {
    let want = Want::list(ETCD_SNAPSHOTS, Some(&cluster.namespace), rancher_common::snapshot::Form::Metadata);
    let Ok(all) = scene.snapshot.here().answer(&want) else { return Vec::new() };
    let uid = picture.whole().map(crate::model::machine::Machine::uid);
    all.iter()
        .filter_map(|object| Metadata::deserialize(&object["metadata"]).ok())
        .filter(|metadata| metadata.owner("Machine").is_some_and(|owner| Some(owner.uid.as_str()) == uid))
        .map(|metadata| format!("ETCDSnapshot {}/{}", cluster.namespace, metadata.name))
        .collect()
}
