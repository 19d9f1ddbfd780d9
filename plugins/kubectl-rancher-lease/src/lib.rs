//! Slice: superseded by the full diagnosis.
#![allow(missing_docs)]

use std::time::Duration;

use rancher_common::doctor::{About, Doctor, Prescription, Verification, Verifier};
use rancher_common::finding::{Diagnosis, Evidence, Finding, Rule};
use rancher_common::kinds::{LEASES, Lease, NAMESPACES, Namespace, PODS, Pod};
use rancher_common::plan::{Action, Fact, Operation, Plan, Reversibility};
use rancher_common::resource::ObjectRef;
use rancher_common::snapshot::{Form, Need, Right, Snapshot, Want};
use serde_json::json;

rancher_common::rule!("../../..", HOLDER_GONE, "RL101", "HolderGone", Error);

#[derive(Clone, Debug)]
pub struct LeaseDoctor;

#[derive(Clone, Debug, clap::Args)]
pub struct Question {
    /// Namespace of Rancher
    #[arg(long, value_name = "NAMESPACE", default_value = "cattle-system")]
    rancher_namespace: String,
}

fn lease_want() -> Want {
    Want::Get { resource: LEASES, namespace: Some("kube-system".into()), name: "cattle-controllers".into() }
}
fn needs(q: &Question) -> Vec<Need> {
    vec![
        Need::required(lease_want(), "who leads"),
        Need::required(
            Want::List {
                resource: PODS,
                namespace: Some(q.rancher_namespace.clone()),
                selector: None,
                form: Form::Full,
            },
            "who can lead",
        ),
        Need::required(
            Want::Get { resource: NAMESPACES, namespace: None, name: "kube-system".into() },
            "which cluster",
        ),
    ]
}

impl Doctor for LeaseDoctor {
    type Question = Question;
    fn about(&self) -> About {
        static RULES: [&Rule; 1] = [&HOLDER_GONE];
        About {
            name: "rancher-lease",
            question: "Is a working Rancher replica leading, and if not, why not?",
            version: env!("CARGO_PKG_VERSION"),
            rules: &RULES,
            after_help: "",
        }
    }
    fn needs(&self, q: &Question, s: &Snapshot) -> Vec<Need> {
        let mut n = needs(q);
        if let Ok(Some(_)) = s.get::<Lease>(Some("kube-system"), "cattle-controllers") {
            n.push(Need::required(lease_want(), "does it stand still").again_after(Duration::from_secs(6)));
        }
        n
    }
    fn rights(&self, q: &Question) -> Vec<(Right, &'static str, bool)> {
        needs(q).iter().map(|n| (n.want.right(), "x", true)).collect()
    }
    fn repair_rights(&self, _: &Question) -> Vec<(Right, &'static str)> {
        vec![]
    }
    fn diagnose(&self, q: &Question, s: &Snapshot) -> Diagnosis {
        let mut d = Diagnosis::default();
        d.cluster_uid = s.get::<Namespace>(None, "kube-system").ok().flatten().and_then(|n| n.metadata.uid);
        let lease = s.get::<Lease>(Some("kube-system"), "cattle-controllers").ok().flatten();
        let pods = s.list::<Pod>(Some(&q.rancher_namespace)).map(|l| l.items).unwrap_or_default();
        let holder = lease.as_ref().and_then(|l| l.spec.as_ref()).and_then(|l| l.holder_identity.clone());
        match holder {
            Some(h) if !pods.iter().any(|p| p.metadata.name.as_deref() == Some(&h)) => {
                d.findings.push(
                    Finding::new(
                        &HOLDER_GONE,
                        "lease",
                        ObjectRef::of(
                            &LEASES,
                            s.raw(&LEASES, Some("kube-system"), "cattle-controllers")
                                .ok()
                                .flatten()
                                .unwrap_or(&json!(null)),
                        ),
                        format!("held by {h}, which is gone"),
                    )
                    .evidence([Evidence::new("holder", h)])
                    .fixable()
                    .next_command(["SELF", "fix"]),
                );
            }
            _ => d.pass("lease", "held"),
        }
        d
    }
    fn plan(&self, _: &Question, s: &Snapshot, d: &Diagnosis) -> Prescription {
        let Some(f) = d.findings.first() else { return Prescription::NothingToDo("fine".into()) };
        let raw = s.raw(&LEASES, Some("kube-system"), "cattle-controllers").ok().flatten().cloned().unwrap_or_default();
        Prescription::Plan(Plan {
            tool: "rancher-lease".into(),
            cluster_uid: d.cluster_uid.clone().unwrap_or_default(),
            repairs: vec!["RL101".into()],
            actions: vec![Action {
                resource: LEASES,
                object: f.subject.clone(),
                operation: Operation::Delete { grace_period_seconds: None },
                why: "its holder is gone".into(),
                changes: vec![],
                facts: ["/spec/holderIdentity", "/spec/renewTime"]
                    .iter()
                    .map(|p| Fact { pointer: (*p).into(), value: raw.pointer(p).cloned().unwrap_or_default() })
                    .collect(),
                dependents: vec![],
                reversibility: Reversibility::Reversible,
                leaves: vec![],
            }],
            then: "wait for a new holder".into(),
        })
    }
    fn verifier(&self, q: &Question, _: &Snapshot, _: &Plan) -> Box<dyn Verifier> {
        Box::new(V(q.clone()))
    }
}
struct V(Question);
impl Verifier for V {
    fn needs(&self, _: &Snapshot) -> Vec<Need> {
        needs(&self.0)
    }
    fn observe(&mut self, s: &Snapshot) -> Verification {
        match s.get::<Lease>(Some("kube-system"), "cattle-controllers") {
            Ok(Some(l)) => Verification::Done(format!("held by {:?}", l.spec.and_then(|s| s.holder_identity))),
            _ => Verification::Pending { done: 0, total: 1, waiting_for: "a holder".into() },
        }
    }
}
