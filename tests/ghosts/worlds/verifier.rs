//! When a removal has worked, when it stands still, and what must not go with it.

use std::time::Duration;

use kubectl_rancher_ghosts::GhostsDoctor;
use rancher_common::doctor::{Doctor as _, Prescription, Verification, Verifier};
use rancher_common::kinds::{NODES, SECRETS};
use rancher_common::rancher::{CUSTOM_MACHINES, MACHINES, RKE_BOOTSTRAPS};
use rancher_common::snapshot::{Content, Place, Reading, Snapshot};
use rancher_common::time::{Timestamp, after};
use rancher_testkit::memory::{forbidden, uid};
use serde_json::json;

use crate::catalogue::{self, GHOST_SERVER, GHOST_WORKER, claimed_twice, from, never_joined, stuck};
use crate::recorded::look;
use crate::world::{CHECK_IN, Capi, GHOST, HOSTS, PAUSED, Roles, Step, World, deleting, start};

/// A repair that is being watched.
struct Watch {
    world: World,
    verifier: Box<dyn Verifier>,
    now: Timestamp,
}

impl Watch {
    fn of(world: World) -> Self {
        let snapshot = world.snapshot();
        let (_, Prescription::Plan(plan)) = look(&world, &snapshot) else { panic!("no plan") };
        let verifier = GhostsDoctor.verifier(&world.question, &snapshot, &plan);
        Self { world, verifier, now: start() }
    }

    /// The next look, so many seconds later.
    fn look(&mut self, seconds: u64) -> Verification {
        self.look_without(seconds, |_| false)
    }

    fn look_without(&mut self, seconds: u64, fails: impl Fn(&Reading) -> bool) -> Verification {
        self.now = after(self.now, Duration::from_secs(seconds));
        let mut snapshot = Snapshot::new(self.world.origin.clone(), self.now);
        for need in self.verifier.needs(&snapshot) {
            let mut reading = self.world.reading(&need, self.now, false);
            if fails(&reading) {
                reading.content = Content::Failed(forbidden(&reading.want));
            }
            snapshot.readings.push(reading);
        }
        self.verifier.observe(&snapshot)
    }

    /// Cluster API stands at a step of the deletion.
    fn step(&mut self, step: Step, message: &str) {
        let capi = self.world.capi;
        self.world.machine(GHOST, |machine| deleting(capi, machine, 0, step, message));
    }

    fn all_gone(&mut self) {
        for kind in [MACHINES, RKE_BOOTSTRAPS, CUSTOM_MACHINES] {
            self.world.remove(&kind, |object| object["metadata"]["name"] == GHOST);
        }
        self.world.remove(&SECRETS, |secret| secret["metadata"]["name"] == format!("{GHOST}-machine-plan"));
    }
}

#[track_caller]
fn waits_for(verification: &Verification) -> &str {
    match verification {
        Verification::Pending { waiting_for, done, total } => {
            assert!(done < total, "{verification:?}");
            waiting_for
        }
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn done(verification: &Verification) -> &str {
    match verification {
        Verification::Done(message) => message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn gone_at_once() {
    let mut watch = Watch::of(never_joined(Capi::New, &GHOST_WORKER));
    watch.all_gone();
    assert_eq!(done(&watch.look(2)), format!("{GHOST} and all that belonged to it are gone"));
}

#[test]
fn step_by_step() {
    for capi in [Capi::New, Capi::Old] {
        let mut watch = Watch::of(never_joined(capi, &GHOST_WORKER));
        assert_eq!(waits_for(&watch.look(2)), format!("{GHOST} to be deleted"));
        watch.step(Step::Drain, "Draining");
        assert_eq!(waits_for(&watch.look(2)), "drain: Draining");
        watch.step(Step::Volumes, "Waiting for volumes");
        assert!(waits_for(&watch.look(2)).starts_with(if capi == Capi::New { "volume" } else { "drain" }));
        watch.world.remove(&CUSTOM_MACHINES, |object| object["metadata"]["name"] == GHOST);
        assert!(matches!(watch.look(2), Verification::Pending { done: 1, total: 4, .. }));
        watch.world.remove(&MACHINES, |object| object["metadata"]["name"] == GHOST);
        assert!(waits_for(&watch.look(2)).starts_with("left: "), "the bootstrap stays");
        watch.all_gone();
        done(&watch.look(2));
    }
}

#[test]
fn stuck_only_after_the_patience() {
    let mut watch = Watch::of(never_joined(Capi::New, &GHOST_WORKER));
    watch.step(Step::Infra, "Waiting for CustomMachine to be deleted");
    waits_for(&watch.look(2));
    waits_for(&watch.look(60));
    // Something moves: the patience begins anew.
    watch.step(Step::Bootstrap, "Waiting for RKEBootstrap to be deleted");
    waits_for(&watch.look(59));
    waits_for(&watch.look(119));
    match watch.look(1) {
        Verification::Stuck(text) => {
            assert!(text.contains("bootstrap deletion") && text.contains("stands still for 2m"), "{text}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_patience_is_the_users() {
    let mut world = never_joined(Capi::New, &GHOST_WORKER);
    world.question.patience = Duration::from_secs(10);
    let mut watch = Watch::of(world);
    watch.step(Step::Infra, "Waiting");
    waits_for(&watch.look(2));
    assert!(matches!(watch.look(10), Verification::Stuck(_)));
}

/// A reading that fails neither proves that things stand still nor that they are gone.
#[test]
fn what_cannot_be_read_is_neither_gone_nor_stuck() {
    for kind in ["Machine", "RKEBootstrap", "CustomMachine", "Secret"] {
        let mut watch = Watch::of(never_joined(Capi::New, &GHOST_WORKER));
        watch.all_gone();
        for _ in 0..5 {
            let seen = watch.look_without(60, |reading| reading.want.resource().is_some_and(|r| r.kind == kind));
            assert!(waits_for(&seen).contains("readable"), "{seen:?}");
        }
        done(&watch.look(2));
    }
}

#[test]
fn another_object_of_the_name_is_not_ours() {
    let mut watch = Watch::of(never_joined(Capi::New, &GHOST_WORKER));
    for kind in [MACHINES, RKE_BOOTSTRAPS, CUSTOM_MACHINES] {
        watch.world.edit(&kind, GHOST, |object| object["metadata"]["uid"] = json!(uid("registered again")));
    }
    watch.world.remove(&SECRETS, |_| true);
    done(&watch.look(2));
}

#[test]
fn the_planner_must_move_on() {
    let world = from(never_joined(Capi::New, &GHOST_SERVER), |world| {
        world.planner(&format!("configuring bootstrap node(s) {GHOST}: {CHECK_IN}"));
    });
    let mut watch = Watch::of(world);
    watch.all_gone();
    assert!(waits_for(&watch.look(2)).starts_with("the planner to move on"));
    watch.world.planner("configuring worker node(s) custom-3524fa7f0d71,custom-3b154219b4e1 and 10 more");
    assert!(done(&watch.look(2)).ends_with("the planner does not wait for it any more"));
}

#[test]
fn an_unblocked_deletion_ends_with_the_machine() {
    let mut watch = Watch::of(stuck(Capi::New, &GHOST_WORKER, Step::Drain, "Draining"));
    assert_eq!(waits_for(&watch.look(2)), "drain: Draining");
    watch.step(Step::Volumes, "Waiting for volumes");
    waits_for(&watch.look(60));
    assert!(matches!(watch.look(120), Verification::Stuck(_)), "the next step needs another decision");
    watch.all_gone();
    done(&watch.look(2));
}

#[test]
fn the_live_node_must_stay() {
    let live = HOSTS[3];
    let gone = |node: &serde_json::Value| node["metadata"]["name"] == live.hostname;
    let watch = || {
        let mut watch = Watch::of(claimed_twice(Capi::New, Roles::Worker));
        watch.world.machine(GHOST, |machine| machine["metadata"]["annotations"][PAUSED] = json!("true"));
        watch.all_gone();
        watch
    };
    assert!(done(&watch().look(2)).ends_with(&format!("Node {} is still there and schedulable", live.hostname)));

    let mut lost = watch();
    lost.world.remove_at(&Place::Downstream, &NODES, gone);
    assert!(waits_for(&lost.look(2)).contains("must not go"));

    let mut cordoned = watch();
    cordoned
        .world
        .edit_at(&Place::Downstream, &NODES, live.hostname, |node| node["spec"]["unschedulable"] = json!(true));
    assert!(waits_for(&cordoned.look(2)).contains("to be uncordoned"));

    let mut anew = watch();
    anew.world.edit_at(&Place::Downstream, &NODES, live.hostname, |node| {
        node["metadata"]["uid"] = json!(uid("registered again by its kubelet"));
    });
    assert!(waits_for(&anew.look(2)).contains("made anew"));

    let mut unseen = watch();
    let seen = unseen.look_without(2, |reading| reading.place == Place::Downstream);
    assert!(waits_for(&seen).contains("to be seen"));
}

/// The verifier of every plan of the catalogue waits as long as nothing has happened, and is content when the objects of
/// the plan, and all that hangs on them, are gone.
#[test]
fn no_plan_is_verified_before_anything_happens() {
    let mut plans = 0;
    for incident in catalogue::all() {
        let snapshot = incident.world.snapshot();
        let (_, Prescription::Plan(plan)) = look(&incident.world, &snapshot) else { continue };
        let mut verifier = GhostsDoctor.verifier(&incident.world.question, &snapshot, &plan);
        let mut seen = Snapshot::new(incident.world.origin.clone(), start());
        for need in verifier.needs(&seen) {
            seen.readings.push(incident.world.reading(&need, start(), false));
        }
        assert!(matches!(verifier.observe(&seen), Verification::Pending { .. }), "{}", incident.name);
        plans += 1;
    }
    assert!(plans > 20, "{plans}");
}
