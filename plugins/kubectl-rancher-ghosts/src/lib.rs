//! `kubectl rancher-ghosts`: which machines have no node behind them, what do they block, what is in their way?
//!
//! Everything here is a pure function of what was read; [`GhostsDoctor`] joins the parts.

mod diagnose;
mod findings;
mod model;
mod needs;
mod plan;
mod question;
mod verify;
mod whois;

pub use findings::ALL as RULES;
pub use question::{ConnectionInfo, Question, Verbs};

use rancher_common::doctor::{About, Candidates, Doctor, Prescription, Verifier};
use rancher_common::finding::Diagnosis;
use rancher_common::kube::DownstreamFlags;
use rancher_common::plan::Plan;
use rancher_common::rancher::{MACHINES, PROVISIONING_CLUSTERS};
use rancher_common::snapshot::{Form, Need, Right, Snapshot, Want};

use model::fleet::Fleet;

/// The plugin.
#[derive(Clone, Copy, Debug, Default)]
pub struct GhostsDoctor;

impl Doctor for GhostsDoctor {
    type Question = Question;
    type Verbs = Verbs;

    fn about(&self) -> About {
        About {
            name: "rancher-ghosts",
            question: "Which machines have no node behind them, what do they block, what is in their way?",
            version: env!("CARGO_PKG_VERSION"),
            rules: &RULES,
            after_help: "CLUSTER is the name of a provisioning Cluster; -n names its workspace (default: all of them).",
        }
    }

    fn needs(&self, question: &Question, snapshot: &Snapshot) -> Vec<Need> {
        needs::needs(question, snapshot)
    }

    fn rights(&self, question: &Question) -> Vec<(Right, &'static str, bool)> {
        needs::rights(question)
    }

    fn downstream_rights(&self, question: &Question) -> Vec<(Right, &'static str, bool)> {
        needs::downstream_rights(question)
    }

    fn repair_rights(&self, question: &Question) -> Vec<(Right, &'static str)> {
        needs::repair_rights(question)
    }

    fn asked(&self, verb: &Verbs) -> Question {
        match verb {
            Verbs::Whois(whois) => whois.question(),
        }
    }

    fn diagnose(&self, question: &Question, snapshot: &Snapshot) -> Diagnosis {
        diagnose::diagnose(question, snapshot)
    }

    fn plan(&self, question: &Question, snapshot: &Snapshot, diagnosis: &Diagnosis) -> Prescription {
        plan::plan(question, snapshot, diagnosis)
    }

    fn verifier(&self, question: &Question, snapshot: &Snapshot, plan: &Plan) -> Box<dyn Verifier> {
        Box::new(verify::Removal::new(question, snapshot, plan))
    }

    fn afterwards(&self, question: &Question, before: &Snapshot, plan: &Plan) -> Vec<String> {
        if plan.repairs.iter().any(|code| code == findings::NODE_CLAIMED_TWICE.code) {
            // The host is that of the live machine: nothing is to be cleaned there.
            return Vec::new();
        }
        let fleet = Fleet::of(question, before);
        let [cluster] = fleet.targets(question)[..] else { return Vec::new() };
        match question.machine().and_then(|name| cluster.machine(name)) {
            Some(picture) => plan::registration::afterwards(question, before, cluster, picture),
            None => Vec::new(),
        }
    }

    fn candidates(&self) -> Option<Candidates> {
        Some(Candidates {
            needs: vec![
                Need::optional(Want::list(PROVISIONING_CLUSTERS, None, Form::Metadata), "names"),
                Need::optional(Want::list(MACHINES, Some("fleet-default"), Form::Table), "names"),
            ],
            names: candidate_names,
        })
    }

    fn downstream<'q>(&self, question: &'q Question) -> Option<&'q DownstreamFlags> {
        Some(&question.downstream)
    }

    fn adopt_namespace(&self, question: &mut Question, namespace: &str) {
        question.namespace.get_or_insert_with(|| namespace.to_owned());
    }

    fn target(&self, question: &Question) -> Option<String> {
        question.target.as_ref().map(ToString::to_string)
    }

    /// Longer than any step may stand still: pods are given their time to end.
    fn verify_timeout(&self) -> std::time::Duration {
        std::time::Duration::from_secs(15 * 60)
    }

    fn repeat(&self, question: &Question) -> Vec<String> {
        question.repeat()
    }
}

/// `CLUSTER` and `CLUSTER/MACHINE`.
fn candidate_names(snapshot: &Snapshot) -> Vec<(String, String)> {
    let view = snapshot.here();
    let clusters = view.answer(&Want::list(PROVISIONING_CLUSTERS, None, Form::Metadata)).unwrap_or_default();
    let of_cluster = model::triage::rows(snapshot, "fleet-default").unwrap_or_default().rows.into_iter();
    let named = clusters
        .iter()
        .filter_map(|cluster| Some((cluster["metadata"]["name"].as_str()?.to_owned(), "cluster".to_owned())));
    named.chain(of_cluster.map(|row| (format!("{}/{}", row.cluster, row.name), row.node.unwrap_or_default()))).collect()
}
