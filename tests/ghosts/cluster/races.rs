//! Somebody changes the machine in the moment between the plan and the write.

use std::time::Duration;

use rancher_testkit::{Fault, FaultProxy, Gate, Match, Program, World, eventually};

use super::{LIMIT, PLUGIN, edge, ghost, writes};

const GHOST: &str = "custom-2d74d4c9a104";

/// `fix` through the proxy, held before the write that is meant; what `rival` does then must stop it.
pub(crate) fn race(world: &World, target: &str, hold: &Match, rival: impl FnOnce()) -> rancher_testkit::Output {
    let proxy = FaultProxy::start(world);
    let downstream = world.downstream("edge").kubeconfig();
    let program = |more: &[&str]| {
        Program::new(PLUGIN)
            .env("KUBECONFIG", proxy.kubeconfig())
            .args(["fix", target, "--grace", "1s", "--patience", "6s", "--downstream-kubeconfig"])
            .arg(&downstream)
            .args(more)
    };
    let plan = program(&["-o", "json"]).run().json();
    let digest = plan["plan"]["digest"].as_str().unwrap_or_else(|| panic!("no plan: {plan:#}")).to_owned();
    let gate = Gate::default();
    proxy.rule(hold.clone(), Fault::Hold(gate.clone()));
    let running = program(&["--confirm", &digest]).start();
    gate.wait(LIMIT);
    rival();
    gate.open();
    running.wait()
}

#[test]
fn a_machine_that_changes_is_not_deleted() {
    let world = World::start(&["--holder", "live", "--downstream", "edge"]);
    edge(&world);
    let target = format!("edge/{GHOST}");
    let path = format!("/namespaces/fleet-default/machines/{GHOST}");
    let delete = Match::of("DELETE", &path).dry_run(false);

    // The host comes up after all.
    ghost(&world, GHOST);
    let output = race(&world, &target, &delete, || {
        world.join("edge", GHOST, "node09");
        eventually("it has a Node", LIMIT, || world.machine_object(GHOST)["status"]["nodeRef"]["name"] == "node09");
    });
    output.expect_code(6).expect_words("has changed");
    assert!(!world.downstream("edge").get(&["node", "node09"]).is_null());
    assert!(world.machine_object(GHOST)["metadata"]["deletionTimestamp"].is_null());

    // It is removed, and another one of the same name registers.
    let again = "custom-bbbbbbbbbbbb";
    ghost(&world, again);
    let path = format!("/namespaces/fleet-default/machines/{again}");
    let before = world.machine_object(again)["metadata"]["uid"].clone();
    let output = race(&world, &format!("edge/{again}"), &Match::of("DELETE", &path).dry_run(false), || {
        world.kubectl(&["delete", "machine", "-n", "fleet-default", again]);
        world.machine("edge", again, "worker");
    });
    output.expect_code(6).expect_words("has changed");
    let now = world.machine_object(again);
    assert_ne!(now["metadata"]["uid"], before);
    assert!(now["metadata"]["deletionTimestamp"].is_null(), "{now:#}");
}

#[test]
fn a_finalizer_is_never_taken_off_an_object_that_changed() {
    let world = World::start(&["--holder", "live", "--downstream", "edge"]);
    edge(&world);
    let target = format!("edge/{GHOST}");
    world.machine("edge", GHOST, "worker");
    let infra = || world.get(&["custommachines.rke.cattle.io", "-n", "fleet-default", GHOST]);
    eventually("it is planned", LIMIT, || infra()["metadata"]["finalizers"].is_array());
    world.provisioner(false);
    world.kubectl(&["delete", "machine", "-n", "fleet-default", GHOST, "--wait=false"]);
    eventually("its infra machine waits", LIMIT, || !infra()["metadata"]["deletionTimestamp"].is_null());
    std::thread::sleep(Duration::from_secs(7));
    let path = format!("/namespaces/fleet-default/custommachines/{GHOST}");
    let output = race(&world, &target, &Match::of("PATCH", &path).dry_run(false), || {
        // Somebody touches it in between.
        world.kubectl(&[
            "patch",
            "custommachine",
            "-n",
            "fleet-default",
            GHOST,
            "--type=json",
            "-p",
            r#"[{"op":"add","path":"/metadata/labels/example.com~1touched","value":"yes"}]"#,
        ]);
    });
    output.expect_code(6).expect_words("has changed");
    assert_eq!(infra()["metadata"]["finalizers"].as_array().unwrap().len(), 1);
    assert!(writes(&world).is_empty(), "{:#?}", writes(&world));
}
