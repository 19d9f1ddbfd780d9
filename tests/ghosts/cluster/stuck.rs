//! Deletions that stand still, each at its step, and what lets them go on.

use std::time::Duration;

use rancher_testkit::{World, eventually};

use super::{CONTROL_PLANES, LIMIT, QUICK, WORKERS, codes, edge, expect_refusal, hold_drain, plugin, writes};

fn delete(world: &World, machine: &str) {
    world.kubectl(&["delete", "machine", "-n", "fleet-default", machine, "--wait=false"]);
}

fn step(world: &World, machine: &str) -> String {
    let object = world.machine_object(machine);
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let deleting = conditions.into_iter().find(|condition| condition["type"] == "Deleting").unwrap_or_default();
    deleting["reason"].as_str().unwrap_or_default().to_owned()
}

/// The downstream cluster of a worker is gone for good: two annotations, no finalizer.
#[test]
fn a_worker_whose_cluster_is_gone() {
    let world = World::start(&["--holder", "live", "--downstream", "edge"]);
    edge(&world);
    let (machine, _) = WORKERS[0];
    let target = format!("edge/{machine}");
    world.reachable("edge", false);
    eventually("the cluster is disconnected", LIMIT, || {
        let clusters = world.get(&["clusters.management.cattle.io", world.downstream("edge").id()]);
        clusters.to_string().contains("\"Disconnected\"") || {
            let conditions = clusters["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|c| c["type"] == "Connected" && c["status"] == "False")
        }
    });
    // As long as nobody deletes it, it may be alive.
    let unknown = plugin(&world, &["check", &target, "-o", "json"]).args(QUICK).run();
    unknown.expect_code(5);
    assert_eq!(codes(&unknown.json()), ["RG209"], "{unknown}");
    plugin(&world, &["fix", &target]).args(QUICK).run().expect_code(5);

    delete(&world, machine);
    eventually("it stands at the drain", LIMIT, || step(&world, machine) == "DrainingNode");
    std::thread::sleep(Duration::from_secs(7));

    // In a terminal: the name is typed once for each step.
    // Between two steps Cluster API may be silent for ten seconds: it tries that long to delete the Node.
    let flags = ["--downstream-context", "edge", "--grace", "1s", "--patience", "15s"];
    std::thread::sleep(Duration::from_secs(9));
    let mut terminal = plugin(&world, &["fix", &target]).args(flags).limit(Duration::from_secs(180)).terminal();
    terminal.expect("exclude-node-draining");
    terminal.expect("gone for good");
    terminal.expect(&format!("type the name {machine}"));
    terminal.send_line(machine);
    terminal.expect("exclude-wait-for-node-volume-detach");
    terminal.expect(&format!("type the name {machine}"));
    terminal.send_line(machine);
    let (code, text) = terminal.end();
    assert_eq!(code, 0, "{text}");
    assert!(world.machine_object(machine).is_null(), "{text}");
    let patch = ("patch".to_owned(), "machines".to_owned(), machine.to_owned());
    assert_eq!(writes(&world), [patch.clone(), patch]);
}

/// Rancher's leader leads, but takes no finalizer off: one named finalizer after the other, infra first.
#[test]
fn finalizers_that_nobody_takes_off() {
    let world = World::start(&["--holder", "live", "--downstream", "edge"]);
    edge(&world);
    let ghost = "custom-2d74d4c9a104";
    let target = format!("edge/{ghost}");
    world.machine("edge", ghost, "worker");
    eventually("it is planned", LIMIT, || {
        let bootstrap = world.get(&["rkebootstraps.rke.cattle.io", "-n", "fleet-default", ghost]);
        let infra = world.get(&["custommachines.rke.cattle.io", "-n", "fleet-default", ghost]);
        bootstrap["metadata"]["finalizers"].is_array() && infra["metadata"]["finalizers"].is_array()
    });
    eventually("the planner waits for it", LIMIT, || world.waits_for("edge").contains(ghost));
    world.provisioner(false);
    delete(&world, ghost);
    eventually("it waits for its infra machine", LIMIT, || step(&world, ghost) == "WaitingForInfrastructureDeletion");
    std::thread::sleep(Duration::from_secs(7));

    let run = |digest: Option<&str>| {
        let mut program = plugin(&world, &["fix", &target, "-o", "json"]).args(QUICK).args(["--verify-timeout", "20s"]);
        if let Some(digest) = digest {
            program = program.args(["--confirm", digest]);
        }
        program.run()
    };
    let first = run(None).json();
    assert_eq!(first["plan"]["actions"][0]["object"]["kind"], "CustomMachine", "{first:#}");
    // What was agreed to for one finalizer is no consent to the next.
    let second = run(first["plan"]["digest"].as_str());
    second.expect_code(7);
    let second = second.json();
    assert_eq!(second["changed"], true);
    assert_eq!(second["plan"]["actions"][0]["object"]["kind"], "RKEBootstrap", "{second:#}");
    let third = run(second["plan"]["digest"].as_str());
    // It is gone; only the planner, which the same leader is, does not say so.
    third.expect_code(7).expect_words("the planner to move on");
    assert!(world.machine_object(ghost).is_null());
    let patched = |kind: &str| ("patch".to_owned(), kind.to_owned(), ghost.to_owned());
    assert_eq!(writes(&world), [patched("custommachines"), patched("rkebootstraps")]);
}

/// A drain that a PodDisruptionBudget holds up is no reason to skip it; an etcd machine's hook neither.
#[test]
fn steps_that_are_somebody_s_safeguard() {
    let world = World::start(&["--holder", "live", "--downstream", "edge"]);
    edge(&world);
    let (worker, node) = WORKERS[0];
    hold_drain(&world, node);
    delete(&world, worker);
    world.etcd("edge", false);
    let (etcd, _) = CONTROL_PLANES[2];
    delete(&world, etcd);
    eventually("one drains, the other waits for its hook", LIMIT, || {
        step(&world, worker) == "DrainingNode" && step(&world, etcd) == "WaitingForPreTerminateHook"
    });
    std::thread::sleep(Duration::from_secs(7));
    expect_refusal(&world, &format!("edge/{worker}"), &format!("Node {node} is Ready"));
    expect_refusal(&world, &format!("edge/{etcd}"), "rke-bootstrap-cleanup");

    // Paused, nothing moves, and nothing is taken off.
    world.kubectl(&[
        "patch",
        "cluster.cluster.x-k8s.io",
        "-n",
        "fleet-default",
        "edge",
        "--type=merge",
        "-p",
        r#"{"spec":{"paused":true}}"#,
    ]);
    let paused = plugin(&world, &["check", "edge", "-o", "json"]).args(QUICK).run();
    assert!(codes(&paused.json()).contains(&"RG206"), "{paused}");
    expect_refusal(&world, &format!("edge/{worker}"), "is paused");
    assert!(writes(&world).is_empty());
}
