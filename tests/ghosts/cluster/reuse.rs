//! A host that was installed anew under its old name: two Machines, one Node.

use rancher_testkit::{Fault, FaultProxy, Match, Program, World, eventually};

use super::{
    CONTROL_PLANES, LIMIT, PLUGIN, QUICK, WORKERS, codes, edge, expect_refusal, fix, hold_drain, join_all, plugin,
    writes,
};

const LIVE: &str = "custom-aaaaaaaaaaaa";

/// A worker's host comes back as another machine under the same name.
fn reinstalled(world: &World) -> (String, String) {
    let (ghost, node) = WORKERS[0];
    world.machine("edge", LIVE, "worker");
    join_all(world, "edge", &[(LIVE, node)]);
    eventually("both claim it", LIMIT, || world.machine_object(ghost)["status"]["nodeRef"]["name"] == node);
    (format!("edge/{ghost}"), node.to_owned())
}

#[track_caller]
fn expect_node(world: &World, node: &str, uid: &str) {
    let object = world.downstream("edge").get(&["node", node]);
    assert_eq!(object["metadata"]["uid"], uid, "the live Node is another one or gone");
    assert!(object["spec"]["unschedulable"].is_null(), "{object:#}");
    assert!(object["metadata"]["deletionTimestamp"].is_null(), "{object:#}");
}

fn uid(world: &World, node: &str) -> String {
    world.downstream("edge").get(&["node", node])["metadata"]["uid"].as_str().unwrap().to_owned()
}

#[test]
fn the_live_node_stays() {
    let world = World::start(&["--holder", "live", "--downstream", "edge"]);
    edge(&world);
    let (target, node) = reinstalled(&world);
    let node_uid = uid(&world, &node);
    let ghost = WORKERS[0].0;

    let check = plugin(&world, &["check", "edge", "-o", "json"]).args(QUICK).run();
    check.expect_code(3);
    let report = check.json();
    assert_eq!(codes(&report), ["RG104"], "{report:#}");
    assert_eq!(report["findings"][0]["subject"]["name"], ghost, "the ghost, not the live one");
    // Without a look at the Node nobody knows which one lives.
    let blind = plugin(&world, &["fix", &target]).run();
    blind.expect_code(6).expect_words("--downstream-context");

    // The first try loses its connection between the pause and the deletion.
    let proxy = FaultProxy::start(&world);
    let path = format!("/namespaces/fleet-default/machines/{ghost}");
    proxy.rule(
        Match::of("DELETE", &path).dry_run(false),
        Fault::api_error(500, "InternalError", "etcdserver: leader changed"),
    );
    let through = |args: &[&str]| {
        let downstream = world.downstream("edge").kubeconfig();
        Program::new(PLUGIN)
            .env("KUBECONFIG", proxy.kubeconfig())
            .args(args)
            .args(["--downstream-kubeconfig", downstream.to_str().unwrap(), "--grace", "1s"])
            .run()
    };
    let plan = through(&["fix", &target, "-o", "json"]).json();
    let broken = through(&["fix", &target, "--confirm", plan["plan"]["digest"].as_str().unwrap()]);
    broken.expect_code(8).expect_words("leader changed");
    expect_node(&world, &node, &node_uid);
    assert_eq!(world.machine_object(ghost)["metadata"]["annotations"]["cluster.x-k8s.io/paused"], "true");

    // The next one goes on from there.
    let fixed = fix(&world, &target);
    fixed.expect_code(0).expect_words("still there and schedulable");
    assert!(!fixed.says("uninstall"), "the host is the live machine's: {fixed}");
    expect_node(&world, &node, &node_uid);
    assert!(world.machine_object(ghost).is_null());
    assert!(world.get(&["custommachines.rke.cattle.io", "-n", "fleet-default", ghost]).is_null());
    let machine = |verb: &str| (verb.to_owned(), "machines".to_owned(), ghost.to_owned());
    assert_eq!(writes(&world), [machine("patch"), machine("delete"), machine("patch")]);
    std::thread::sleep(std::time::Duration::from_secs(3));
    expect_node(&world, &node, &node_uid);
    assert_eq!(world.machine_object(LIVE)["status"]["phase"], "Running");
    plugin(&world, &["check", "edge"]).args(QUICK).run().expect_code(0);
}

#[test]
fn a_deletion_that_is_under_way_is_stopped() {
    let world = World::start(&["--holder", "live", "--downstream", "edge"]);
    edge(&world);
    let (target, node) = reinstalled(&world);
    let node_uid = uid(&world, &node);
    // A pod that may not be evicted holds the drain up, while the user finds out what was done.
    hold_drain(&world, &node);
    let ghost = WORKERS[0].0;
    world.kubectl(&["delete", "machine", "-n", "fleet-default", ghost, "--wait=false"]);
    eventually("Cluster API drains the live Node", LIMIT, || {
        world.downstream("edge").get(&["node", &node])["spec"]["unschedulable"] == true
    });
    // It is cordoned already; that is said, and left to a person.
    fix(&world, &target).expect_code(0).expect_words(&format!("kubectl uncordon {node}"));
    world.downstream("edge").kubectl(&["uncordon", &node]);
    assert!(world.machine_object(ghost).is_null());
    expect_node(&world, &node, &node_uid);
    assert!(!world.downstream("edge").get(&["pod", "held"]).is_null());
}

#[test]
fn an_etcd_node_claimed_twice_is_left_alone() {
    let world = World::start(&["--holder", "live", "--downstream", "edge"]);
    edge(&world);
    let (ghost, node) = CONTROL_PLANES[1];
    world.machine("edge", LIVE, "etcd,controlplane");
    join_all(&world, "edge", &[(LIVE, node)]);
    expect_refusal(&world, &format!("edge/{ghost}"), "is no pure worker");
    assert!(writes(&world).is_empty());
}
