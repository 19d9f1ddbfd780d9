//! When a repair counts as done.

use kubectl_rancher_lease::{LeaseDoctor, Question};
use rancher_common::doctor::{Doctor as _, Prescription, Verification};
use serde_json::json;

use crate::build::*;
use crate::prescribe;

fn pending(verification: Verification, words: &str) {
    match verification {
        Verification::Pending { waiting_for, .. } => {
            assert!(waiting_for.contains(words), "{waiting_for} has no {words}")
        }
        other => panic!("not waiting: {other:?}"),
    }
}

#[test]
fn a_new_leader_must_renew_twice_and_the_clusters_must_come_back() {
    let start = World::dead(GONE, 162_000, 2460).edit(|w| {
        w.clusters = Some(vec![local(), cluster("c-m-11111", "shop", false), cluster("c-m-22222", "factory", true)]);
    });
    let snapshot = start.snapshot();
    let Prescription::Plan(plan) = prescribe(&snapshot) else { panic!("a plan") };
    let mut verifier = LeaseDoctor.verifier(&Question::default(), &snapshot, &plan);
    let look = |lease: Option<serde_json::Value>, connected: bool| {
        World::healthy()
            .edit(|w| {
                w.lease = lease;
                w.clusters =
                    Some(vec![local(), cluster("c-m-11111", "shop", connected), cluster("c-m-22222", "factory", true)]);
            })
            .snapshot()
    };
    let new = |renewed: i64| Some(lease(LEADER, 45, ago(renewed)).change("/metadata/uid", json!("lease-uid-2")));

    pending(verifier.observe(&snapshot), "to be replaced");
    pending(verifier.observe(&look(None, false)), "to take the Lease");
    pending(verifier.observe(&look(new(9), false)), "0 of 2");
    pending(verifier.observe(&look(new(9), false)), "0 of 2");
    pending(verifier.observe(&look(new(7), false)), "1 of 2");
    assert_eq!(
        verifier.observe(&look(new(5), false)),
        Verification::Pending { done: 1, total: 2, waiting_for: "1 cluster to connect: shop (c-m-11111)".into() }
    );
    match verifier.observe(&look(new(3), true)) {
        Verification::Done(message) => assert!(message.contains("1 cluster Connected again"), "{message}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_same_holder_does_not_count_after_a_restart_unless_its_pod_is_another() {
    let start = World::dead(LEADER, 162_000, 2460);
    let snapshot = start.snapshot();
    let Prescription::Plan(plan) = prescribe(&snapshot) else { panic!("a plan") };
    let mut verifier = LeaseDoctor.verifier(&Question::default(), &snapshot, &plan);
    for renewed in [5, 4, 3] {
        let look = World::healthy().edit(|w| w.lease = Some(lease(LEADER, 162_000, ago(renewed)))).snapshot();
        pending(verifier.observe(&look), "another leader");
    }
    let mut verifier = LeaseDoctor.verifier(&Question::default(), &snapshot, &plan);
    let looks = [5, 4, 3].map(|renewed| {
        World::healthy()
            .edit(|w| {
                w.lease = Some(lease(LEADER, 162_000, ago(renewed)));
                w.pods[0] = pod(LEADER, 1).change("/metadata/uid", json!("pod-new"));
            })
            .snapshot()
    });
    pending(verifier.observe(&looks[0]), "0 of 2");
    pending(verifier.observe(&looks[1]), "1 of 2");
    assert!(matches!(verifier.observe(&looks[2]), Verification::Done(_)));
}

#[test]
fn a_record_that_outlives_the_restarted_pod_is_named() {
    let snapshot = World::dead(LEADER, 162_000, 2460).snapshot();
    let Prescription::Plan(plan) = prescribe(&snapshot) else { panic!("a plan") };
    let mut verifier = LeaseDoctor.verifier(&Question::default(), &snapshot, &plan);
    let look = World::dead(LEADER, 162_000, 2460).pods(vec![pod("rancher-6f9d5c7b8-ddddd", 1)]).snapshot();
    pending(verifier.observe(&look), "run fix again");
}

#[test]
fn what_cannot_be_read_is_not_done() {
    let start = World::dead(GONE, 162_000, 2460).snapshot();
    let Prescription::Plan(plan) = prescribe(&start) else { panic!("a plan") };
    let mut verifier = LeaseDoctor.verifier(&Question::default(), &start, &plan);
    let blind = World::healthy().edit(|w| w.forbidden = vec![lease_want()]).snapshot();
    pending(verifier.observe(&blind), "to be readable");
}
