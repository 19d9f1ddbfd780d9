//! What `fix` does not touch, on the real thing.

use rancher_testkit::{World, eventually};

use super::{CONTROL_PLANES, LIMIT, QUICK, WORKERS, codes, edge, expect_refusal, init_node, join_all, plugin, writes};

const GHOST: &str = "custom-2d74d4c9a104";

#[test]
fn guards() {
    let world = World::start(&["--holder", "live", "--downstream", "edge"]);
    edge(&world);
    let target = format!("edge/{GHOST}");
    world.machine("edge", GHOST, "etcd");
    eventually("the planner waits for it", LIMIT, || world.waits_for("edge").contains(GHOST));

    // Cluster API's controller is away.
    world.capi(false);
    eventually("the Deployment shows it", LIMIT, || {
        let output = plugin(&world, &["check", "edge", "-o", "json"]).args(QUICK).run();
        serde_json::from_str(&output.stdout).is_ok_and(|report| codes(&report).contains(&"RG208"))
    });
    let down = plugin(&world, &["fix", &target]).args(QUICK).run();
    assert!([5, 6].contains(&down.code), "{down}");
    assert!(!down.says("to apply exactly this plan"), "{down}");
    world.capi(true);
    eventually("it is back", LIMIT, || {
        let output = plugin(&world, &["check", "edge", "-o", "json"]).args(QUICK).run();
        output.code == 3 && !codes(&output.json()).contains(&"RG208")
    });

    // A restore is under way.
    let restore = |phase: &str| {
        let patch = serde_json::json!({"status": {"etcdSnapshotRestorePhase": phase}}).to_string();
        world.kubectl(&[
            "patch",
            "rkecontrolplane",
            "-n",
            "fleet-default",
            "edge",
            "--subresource=status",
            "--type=merge",
            "-p",
            &patch,
        ]);
    };
    restore("Shutdown");
    expect_refusal(&world, &target, "restore");
    restore("Finished");

    // Vanished etcd machines: with two of three healthy there is a quorum without it, with one there is not.
    let init = init_node(&world);
    let others: Vec<_> = CONTROL_PLANES.iter().filter(|(machine, _)| *machine != init).collect();
    let (machine, node) = others[0];
    world.etcd("edge", false);
    world.node_gone("edge", node);
    let vanished = format!("edge/{machine}");
    let kubelet_down = others[1].1;
    world.kubelet("edge", kubelet_down, false);
    eventually("a node is NotReady", std::time::Duration::from_secs(120), || {
        let node = world.downstream("edge").get(&["node", kubelet_down]);
        let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|c| c["type"] == "Ready" && c["status"] != "True")
    });
    expect_refusal(&world, &vanished, "are proven healthy");

    // No leader that works.
    for pod in world.pods() {
        world.command(&format!("kill-replica {pod}"));
    }
    eventually("nobody renews", std::time::Duration::from_secs(120), || {
        let output = plugin(&world, &["fix", &target]).args(QUICK).run();
        output.code == 6 && output.says("no working Rancher leader")
    });
    assert!(writes(&world).is_empty());
}

#[test]
fn the_last_of_a_role_and_small_etcds() {
    let world = World::start(&["--holder", "live", "--downstream", "edge"]);
    let two = [CONTROL_PLANES[0], CONTROL_PLANES[1]];
    for (machine, _) in two {
        world.machine("edge", machine, "etcd,controlplane");
    }
    world.machine("edge", WORKERS[0].0, "worker");
    join_all(&world, "edge", &two);
    join_all(&world, "edge", &[WORKERS[0]]);
    eventually("all plans are applied", LIMIT, || world.waits_for("edge").is_empty());

    let init = init_node(&world);
    let (lost, node) = two.iter().find(|(machine, _)| *machine != init).unwrap();
    world.node_gone("edge", node);
    world.node_gone("edge", WORKERS[0].1);
    expect_refusal(&world, &format!("edge/{lost}"), "has 2 members");
    expect_refusal(&world, &format!("edge/{}", WORKERS[0].0), "is the last worker machine");
    assert!(writes(&world).is_empty());
}
