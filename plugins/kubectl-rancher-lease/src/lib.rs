//! `kubectl rancher-lease`: is a working Rancher replica leading, and if not, why not?
//!
//! Everything here is a pure function of what was read; [`LeaseDoctor`] joins the parts.

mod diagnose;
mod findings;
mod needs;
mod plan;
mod verify;

use rancher_common::doctor::{About, Doctor, NoVerbs, Prescription, Verifier};
use rancher_common::finding::Diagnosis;
use rancher_common::plan::Plan;
use rancher_common::snapshot::{Need, Right, Snapshot, Want};

pub use findings::ALL as RULES;

/// The plugin's own flags.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Question {
    /// Namespace that Rancher is installed in [default: cattle-system, or the one Rancher's own settings name]
    #[arg(long, value_name = "NAMESPACE")]
    pub rancher_namespace: Option<String>,
}

/// The plugin.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeaseDoctor;

impl Doctor for LeaseDoctor {
    type Question = Question;
    type Verbs = NoVerbs;

    fn about(&self) -> About {
        About {
            name: "rancher-lease",
            question: "Is a working Rancher replica leading, and if not, why not?",
            version: env!("CARGO_PKG_VERSION"),
            rules: &RULES,
            after_help: "",
        }
    }

    fn needs(&self, question: &Question, snapshot: &Snapshot) -> Vec<Need> {
        needs::needs(question, snapshot)
    }

    fn rights(&self, question: &Question) -> Vec<(Right, &'static str, bool)> {
        needs::rights(question)
    }

    fn repair_rights(&self, question: &Question) -> Vec<(Right, &'static str)> {
        needs::repair_rights(question)
    }

    fn asked(&self, verb: &NoVerbs) -> Question {
        match *verb {}
    }

    fn diagnose(&self, question: &Question, snapshot: &Snapshot) -> Diagnosis {
        diagnose::diagnose(question, snapshot).diagnosis
    }

    fn plan(&self, question: &Question, snapshot: &Snapshot, diagnosis: &Diagnosis) -> Prescription {
        plan::plan(question, snapshot, diagnosis)
    }

    fn verifier(&self, question: &Question, snapshot: &Snapshot, plan: &Plan) -> Box<dyn Verifier> {
        Box::new(verify::LeaseVerifier::new(question, snapshot, plan))
    }

    fn settled(&self, diagnosis: &Diagnosis) -> bool {
        let open = [&findings::TAKEOVER_PENDING, &findings::LEASE_FREE];
        diagnosis.not_judged.is_empty() && open.iter().all(|rule| diagnosis.of(rule).next().is_none())
    }

    fn watched(&self, _: &Question) -> Option<(Want, &'static [&'static str])> {
        Some((needs::lease(), &["/metadata/uid", "/spec/holderIdentity", "/spec/leaseDurationSeconds"]))
    }

    /// kubectl's `-n` names the one namespace this plugin asks about.
    fn adopt_namespace(&self, question: &mut Question, namespace: &str) {
        question.rancher_namespace.get_or_insert_with(|| namespace.to_owned());
    }

    fn repeat(&self, question: &Question) -> Vec<String> {
        question
            .rancher_namespace
            .iter()
            .flat_map(|namespace| ["--rancher-namespace".to_owned(), namespace.clone()])
            .collect()
    }
}
