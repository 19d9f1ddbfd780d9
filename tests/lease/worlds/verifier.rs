//! When a repair has worked.

use kubectl_rancher_lease::LeaseDoctor;
use rancher_common::doctor::{Doctor as _, Prescription, Verification, Verifier};
use rancher_common::kinds::{LEASES, PODS};
use rancher_common::rancher::MANAGEMENT_CLUSTERS;
use rancher_common::snapshot::{Content, Reading, Snapshot};
use rancher_common::time::{Timestamp, after};
use serde_json::{Value, json};
use std::time::Duration;

use crate::world::{self, CLUSTERS, DEV, GONE, MINUTE, REPLICAS, World, lease, start, uid};

/// A repair that is being watched.
struct Watch {
    world: World,
    verifier: Box<dyn Verifier>,
    now: Timestamp,
}

impl Watch {
    /// The Lease of a leader that is gone has just been deleted.
    fn of(world: World) -> Self {
        let snapshot = world.snapshot();
        let diagnosis = LeaseDoctor.diagnose(&world.question, &snapshot);
        let Prescription::Plan(plan) = LeaseDoctor.plan(&world.question, &snapshot, &diagnosis) else {
            panic!("no plan");
        };
        let verifier = LeaseDoctor.verifier(&world.question, &snapshot, &plan);
        let mut watch = Self { world, verifier, now: start() };
        watch.no_lease();
        watch
    }

    fn no_lease(&mut self) {
        self.world.remove(&LEASES, |lease| lease["metadata"]["name"] == "cattle-controllers");
    }

    /// Another record, renewed so many seconds after the start.
    fn record(&mut self, holder: &str, renewed: i64) {
        self.world.put(LEASES, next_lease(holder, renewed));
    }

    /// The next look, two seconds later.
    fn look(&mut self) -> Verification {
        self.look_without(|_| false)
    }

    fn look_without(&mut self, fails: impl Fn(&Reading) -> bool) -> Verification {
        self.now = after(self.now, Duration::from_secs(2));
        let mut snapshot = Snapshot::new(self.world.origin.clone(), self.now);
        for need in self.verifier.needs(&snapshot) {
            let mut reading = Reading {
                content: self.world.answer(&need.want, false),
                place: rancher_common::snapshot::Place::Here,
                want: need.want,
                at: self.now,
                required: need.required,
                why: need.why.into_owned(),
            };
            if fails(&reading) {
                reading.content = Content::Failed(world::forbidden(&reading.want));
            }
            snapshot.readings.push(reading);
        }
        self.verifier.observe(&snapshot)
    }

    fn connect_all(&mut self) {
        for (id, title) in CLUSTERS {
            self.world.put(MANAGEMENT_CLUSTERS, world::cluster(id, title, true));
        }
    }
}

fn next_lease(holder: &str, renewed: i64) -> Value {
    let mut next = lease(holder, 45, -renewed);
    next["metadata"]["uid"] = json!(uid("the next Lease"));
    next
}

fn leader_gone() -> Watch {
    Watch::of(World::leader_gone(DEV))
}

fn clusters_gone() -> Watch {
    let mut world = World::leader_gone(DEV);
    world.disconnect(&[CLUSTERS[0].0, CLUSTERS[3].0]);
    Watch::of(world)
}

fn waits_for(verification: &Verification) -> &str {
    match verification {
        Verification::Pending { waiting_for, .. } => waiting_for,
        other => panic!("{other:?}"),
    }
}

fn done(verification: &Verification) -> &str {
    match verification {
        Verification::Done(message) => message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_new_leader_must_renew_twice() {
    let mut watch = leader_gone();
    assert_eq!(waits_for(&watch.look()), "a replica to take the Lease");
    watch.record(REPLICAS[1], 3);
    assert!(waits_for(&watch.look()).ends_with("to renew (0 of 2)"));
    // The same record again is no renewal.
    assert!(waits_for(&watch.look()).ends_with("to renew (0 of 2)"));
    watch.record(REPLICAS[1], 7);
    assert!(waits_for(&watch.look()).ends_with("to renew (1 of 2)"));
    watch.record(REPLICAS[1], 9);
    assert!(done(&watch.look()).starts_with(&format!("{} leads", REPLICAS[1])));
}

#[test]
fn another_leader_starts_from_zero() {
    let mut watch = leader_gone();
    for second in [1, 3] {
        watch.record(REPLICAS[1], second);
        watch.look();
    }
    watch.record(REPLICAS[0], 5);
    assert!(waits_for(&watch.look()).ends_with("to renew (0 of 2)"));
    watch.no_lease();
    watch.look();
    watch.record(REPLICAS[0], 9);
    assert!(waits_for(&watch.look()).ends_with("to renew (0 of 2)"));
}

#[test]
fn a_new_leader_must_be_ready() {
    let mut watch = leader_gone();
    watch.world.edit(&PODS, REPLICAS[1], world::not_ready);
    for second in [1, 3, 5, 7] {
        watch.record(REPLICAS[1], second);
        assert_eq!(waits_for(&watch.look()), format!("leader {} to be Ready", REPLICAS[1]));
    }
    watch.world.put(PODS, world::pod(world::NAMESPACE, REPLICAS[1], world::NODE_NAMES[1], MINUTE));
    done(&watch.look());
}

#[test]
fn a_new_leader_must_be_a_replica() {
    let mut watch = leader_gone();
    for second in [1, 3, 5, 7] {
        watch.record("rancher-staging-5f8c7d-q7wz2", second);
        assert!(waits_for(&watch.look()).contains("to be replaced by a replica of Rancher"));
    }
}

#[test]
fn the_old_record_is_never_enough() {
    let mut watch = leader_gone();
    for second in [1, 3, 5, 7] {
        watch.world.put(LEASES, lease(GONE, DEV, 41 * MINUTE - second));
        waits_for(&watch.look());
    }
}

#[test]
fn the_old_leader_is_never_enough() {
    let mut world = World::healthy();
    world.variable("CATTLE_DEV_MODE", "true");
    world.put(LEASES, lease(REPLICAS[0], DEV, 41 * MINUTE));
    let mut watch = Watch::of(world);
    // The pod was to be deleted, but the same pod goes on under the same Lease.
    for second in [1, 3, 5, 7] {
        watch.world.put(LEASES, lease(REPLICAS[0], DEV, -second));
        assert_eq!(waits_for(&watch.look()), format!("another leader than {}", REPLICAS[0]));
    }
}

#[test]
fn a_restarted_leader_may_lead_again() {
    let mut world = World::healthy();
    world.variable("CATTLE_DEV_MODE", "true");
    for name in REPLICAS {
        world.edit(&PODS, name, world::host_network);
    }
    world.put(LEASES, lease(world::NODE_NAMES[0], DEV, 41 * MINUTE));
    let mut watch = Watch::of(world);
    // With hostNetwork the pod that comes instead has the same identity, and takes the same Lease back.
    watch.world.edit(&PODS, REPLICAS[0], |pod| pod["metadata"]["uid"] = json!(uid("the next pod")));
    for second in [1, 3, 5] {
        watch.world.put(LEASES, lease(world::NODE_NAMES[0], DEV, -second));
        let seen = watch.look();
        assert_eq!(matches!(seen, Verification::Done(_)), second == 5, "{seen:?}");
    }
}

#[test]
fn clusters_are_named_until_they_are_back() {
    let mut watch = clusters_gone();
    for second in [1, 3] {
        watch.record(REPLICAS[1], second);
        assert!(matches!(watch.look(), Verification::Pending { done: 0, total: 3, .. }));
    }
    watch.record(REPLICAS[1], 5);
    let seen = watch.look();
    assert_eq!(waits_for(&seen), "2 clusters to connect: shop (c-m-8x2kq4wd), laboratory (c-m-j9w3r6xd)");
    assert!(matches!(seen, Verification::Pending { done: 1, total: 3, .. }));

    watch.world.put(MANAGEMENT_CLUSTERS, world::cluster(CLUSTERS[0].0, CLUSTERS[0].1, true));
    let seen = watch.look();
    assert_eq!(waits_for(&seen), "1 cluster to connect: laboratory (c-m-j9w3r6xd)");
    assert!(matches!(seen, Verification::Pending { done: 2, total: 3, .. }));

    watch.connect_all();
    assert!(done(&watch.look()).ends_with("; 2 clusters Connected again"));
}

#[test]
fn a_cluster_that_is_deleted_is_not_awaited() {
    let mut watch = clusters_gone();
    watch.world.remove(&MANAGEMENT_CLUSTERS, |cluster| cluster["metadata"]["name"] == CLUSTERS[0].0);
    watch.world.edit(&MANAGEMENT_CLUSTERS, CLUSTERS[3].0, |cluster| {
        cluster["metadata"]["deletionTimestamp"] = json!(world::ago(0));
    });
    for second in [1, 3, 5] {
        watch.record(REPLICAS[1], second);
        let seen = watch.look();
        assert_eq!(matches!(seen, Verification::Done(_)), second == 5, "{seen:?}");
    }
}

#[test]
fn what_cannot_be_read_is_not_done() {
    for kind in ["Lease", "Pod", "Cluster"] {
        let mut watch = clusters_gone();
        watch.connect_all();
        for second in [1, 3, 5, 7] {
            watch.record(REPLICAS[1], second);
            let fails = |reading: &Reading| reading.want.resource().is_some_and(|resource| resource.kind == kind);
            assert!(waits_for(&watch.look_without(fails)).contains("readable") || second < 5);
        }
    }
}
