//! RG210: what waits for a machine.

use rancher_common::finding::{Evidence, Finding, Rule, Severity};
use rancher_common::text::some_of;

use super::Judged;
use crate::findings;
use crate::model::fleet::{Cluster, Picture};
use crate::model::machine::Role;
use crate::model::planner::{self, Waiting};

/// Findings of a machine that explain why the planner waits for it.
const EXPLAINS: [&str; 8] = ["RG101", "RG102", "RG103", "RG104", "RG201", "RG202", "RG203", "RG204"];

/// Judges the planner's message against what is known of the machines it names.
pub(crate) fn judge(cluster: &Cluster, judged: &[(&Picture, Judged)]) -> Vec<Finding> {
    let Some(message) = cluster.planner_message() else { return Vec::new() };
    planner::parse(message).iter().flat_map(|waiting| one(cluster, message, waiting, judged)).collect()
}

fn one(cluster: &Cluster, message: &str, waiting: &Waiting, judged: &[(&Picture, Judged)]) -> Option<Finding> {
    let faults = |which: &dyn Fn(&Picture) -> bool| -> Vec<(String, &'static Rule)> {
        judged
            .iter()
            .filter(|(picture, _)| which(picture))
            .flat_map(|(picture, judged)| {
                let explaining = judged.findings.iter().filter(|finding| EXPLAINS.contains(&finding.rule.code));
                explaining.map(|finding| (picture.row.name.clone(), finding.rule))
            })
            .collect()
    };
    let mut guilty = faults(&|picture| waiting.machines.contains(&picture.row.name));
    let mut named = true;
    if guilty.is_empty() {
        // etcd and control plane are changed one machine at a time, and one whose plan is not applied counts as
        // unavailable: the planner then names the machine whose turn it is, not the one that takes its place
        // (rancher/rancher pkg/capr/planner/planner.go, reconcile with concurrency 1).
        let role = match waiting.tier {
            "bootstrap" | "etcd" => Some(Role::Etcd),
            "control plane" => Some(Role::ControlPlane),
            _ => None,
        };
        guilty =
            faults(&|picture| picture.whole().is_some_and(|m| !m.deleting() && role.is_some_and(|role| m.is(role))));
        named = false;
    }
    if guilty.is_empty() || !waiting.blocks() {
        return None;
    }
    let mut waits: Vec<String> = waiting.later_tiers().iter().map(|tier| format!("all {tier} machines")).collect();
    if cluster.plane().is_some_and(|plane| plane.rotating) {
        waits.push("the certificate rotation".to_owned());
    }
    waits.push(format!("every other change to {} machines", waiting.tier));
    let mut machines: Vec<&str> = guilty.iter().map(|(name, _)| name.as_str()).collect();
    machines.dedup();
    let mut finding = Finding::new(
        &findings::BLOCKS,
        "blocked",
        cluster.reference(),
        format!("cluster {} waits for {}: {}", cluster.title(), some_of(&machines, 3), waits.join(", ")),
    )
    .evidence([Evidence::new("planner", message)
        .from("RKEControlPlane condition Ready, or its copy on the provisioning Cluster")])
    .severity(Severity::Warning);
    if !named {
        let names = if waiting.machines.is_empty() {
            format!("the planner names no machine; these are all with that role ({}) that do not work", waiting.tier)
        } else {
            format!(
                "the planner names {}, whose turn it is; only one {} machine may be unavailable at a time",
                waiting.machines.join(", "),
                waiting.tier
            )
        };
        finding = finding.evidence([Evidence::new("names", names)]);
    }
    finding = finding.evidence(machines.iter().map(|name| Evidence::new("machine", (*name).to_owned())));
    for (_, rule) in &guilty {
        if !finding.caused_by.contains(&rule.code) {
            finding = finding.caused_by(rule);
        }
    }
    Some(finding)
}
