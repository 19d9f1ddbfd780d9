//! RG210: what waits for a machine.

use rancher_common::finding::{Evidence, Finding, Severity};

use super::Judged;
use crate::findings;
use crate::model::fleet::{Cluster, Picture};
use crate::model::planner::{self, Waiting};

/// Findings of a machine that explain why the planner waits for it.
const EXPLAINS: [&str; 8] = ["RG101", "RG102", "RG103", "RG104", "RG201", "RG202", "RG203", "RG204"];

/// Judges the planner's message against what is known of the machines it names.
pub(crate) fn judge(cluster: &Cluster, judged: &[(&Picture, Judged)]) -> Vec<Finding> {
    let Some(message) = cluster.planner_message() else { return Vec::new() };
    planner::parse(message).iter().flat_map(|waiting| one(cluster, message, waiting, judged)).collect()
}

fn one(cluster: &Cluster, message: &str, waiting: &Waiting, judged: &[(&Picture, Judged)]) -> Option<Finding> {
    let guilty: Vec<(&str, &'static rancher_common::finding::Rule)> = judged
        .iter()
        .filter(|(picture, _)| waiting.machines.contains(&picture.row.name))
        .flat_map(|(picture, judged)| {
            judged
                .findings
                .iter()
                .filter(|finding| EXPLAINS.contains(&finding.rule.code))
                .map(|finding| (picture.row.name.as_str(), finding.rule))
        })
        .collect();
    if guilty.is_empty() || !waiting.blocks() {
        return None;
    }
    let mut waits: Vec<String> = waiting.later_tiers().iter().map(|tier| format!("all {tier} machines")).collect();
    if cluster.plane().is_some_and(|plane| plane.rotating) {
        waits.push("the certificate rotation".to_owned());
    }
    waits.push(format!("every other change to {} machines", waiting.tier));
    let mut finding = Finding::new(
        &findings::BLOCKS,
        "blocked",
        cluster.reference(),
        format!("cluster {} waits for {}: {}", cluster.title(), waiting.machines.join(", "), waits.join(", ")),
    )
    .evidence([Evidence::new("planner", message)
        .from("RKEControlPlane condition Ready, or its copy on the provisioning Cluster")])
    .severity(Severity::Warning);
    for name in &waiting.machines {
        finding = finding.evidence([Evidence::new("machine", name.clone())]);
    }
    for (_, rule) in guilty {
        if !finding.caused_by.contains(&rule.code) {
            finding = finding.caused_by(rule);
        }
    }
    Some(finding)
}
