//! Through Rancher's proxy, with the wrong downstream cluster, and where Rancher is not.

use rancher_testkit::{FaultProxy, Program, World, eventually};

use super::{LIMIT, PLUGIN, WORKERS, codes, edge, join_all, plugin};

#[test]
fn other_ways_to_the_nodes() {
    let world = World::start(&["--holder", "live", "--downstream", "edge,west"]);
    edge(&world);
    for (machine, roles) in [("custom-cccccccccccc", "etcd,controlplane"), ("custom-dddddddddddd", "worker")] {
        world.machine("west", machine, roles);
    }
    join_all(&world, "west", &[("custom-cccccccccccc", "node01"), ("custom-dddddddddddd", "node04")]);
    let (machine, node) = WORKERS[1];
    world.node_gone("edge", node);
    eventually("Cluster API has noticed", LIMIT, || {
        world.machine_object(machine).to_string().contains("has been deleted while the Machine still exists")
    });
    let fixable = |program: Program| {
        let output = program.args(["-o", "json", "--grace", "1s"]).run();
        let report = output.json();
        assert_eq!(codes(&report), ["RG102"], "{report:#}");
        report["findings"][0]["fixable"] == true
    };

    // With the caller's rights through Rancher, as kubeconfigs that Rancher hands out do.
    let proxy = FaultProxy::start(&world);
    let rancher = proxy.kubeconfig_of_rancher(&[world.downstream("edge")]);
    let through = |args: &[&str]| Program::new(PLUGIN).env("KUBECONFIG", &rancher).args(args);
    assert!(fixable(through(&["check", "edge", "--context", "local"])), "the Nodes were read through Rancher");
    assert!(proxy.seen().iter().any(|seen| seen.uri.contains(world.downstream("edge").id())));

    // The nodes of another cluster prove nothing about this one.
    let west = world.downstream("west").kubeconfig();
    assert!(!fixable(plugin(&world, &["check", "edge", "--downstream-kubeconfig", west.to_str().unwrap()])));
    let refused = plugin(&world, &["fix", &format!("edge/{machine}"), "--downstream-context", "west"]).run();
    refused.expect_code(6).expect_words("none of the Nodes");

    // A downstream cluster in the place of Rancher's.
    let wrong = Program::new(PLUGIN).env("KUBECONFIG", world.downstream("edge").kubeconfig()).arg("check").run();
    wrong.expect_code(2).expect_words("RX005");
    // Names that do not exist.
    plugin(&world, &["check", "nowhere"]).run().expect_code(2).expect_words("There are: edge, west");
    plugin(&world, &["check", "edge/custom-000000000000"]).run().expect_code(2).expect_words("RX006");
}
