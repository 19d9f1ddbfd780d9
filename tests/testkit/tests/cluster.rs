//! The machines of a world, as far as its played parts must agree with Cluster API's real controller. What the
//! plugins' tests build on is proved here once.

use std::time::Duration;

use rancher_testkit::{FaultProxy, Program, World, binary, eventually};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(30);
const SERVER: &str = "custom-2d74d4c9a104";
const WORKER: &str = "custom-81f0aa2b3c5d";
const GHOST: &str = "custom-c0ffee000001";

fn phase(machine: &Value) -> &str {
    machine["status"]["phase"].as_str().unwrap_or_default()
}

fn condition<'a>(machine: &'a Value, kind: &str, field: &str) -> &'a str {
    let conditions = machine["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let found = conditions.iter().find(|condition| condition["type"] == kind);
    found.and_then(|condition| condition[field].as_str()).unwrap_or_default()
}

fn delete(world: &World, machine: &str) {
    world.kubectl(&["delete", "machines.cluster.x-k8s.io", "-n", "fleet-default", machine, "--wait=false"]);
}

fn gone(world: &World, machine: &str) {
    eventually(&format!("{machine} is gone"), LIMIT, || world.machine_object(machine).is_null());
}

#[test]
fn machines() {
    let world = World::start(&["--holder", "live", "--rancher-replicas", "1", "--downstream", "edge"]);
    let edge = world.downstream("edge");
    let uid = world.machine("edge", SERVER, "etcd,controlplane");
    world.join("edge", SERVER, "node01");
    world.machine("edge", WORKER, "worker");
    world.join("edge", WORKER, "node02");
    eventually("both machines run and nothing is waited for", LIMIT, || {
        [SERVER, WORKER].iter().all(|machine| {
            let machine = world.machine_object(machine);
            phase(&machine) == "Running" && condition(&machine, "Reconciled", "status") == "True"
        }) && world.waits_for("edge").is_empty()
    });
    assert_eq!(world.machine_object(SERVER)["status"]["nodeRef"]["name"], "node01");
    let node = edge.get(&["node", "node01"]);
    assert_eq!(node["metadata"]["annotations"]["cluster.x-k8s.io/machine"], SERVER);
    assert_eq!(node["metadata"]["labels"]["rke.cattle.io/machine"], Value::from(uid));
    eventually("Rancher knows both nodes", LIMIT, || {
        world.get(&["nodes.management.cattle.io", "-n", edge.id()])["items"].as_array().unwrap().len() == 2
    });
    through_rancher(&world);

    // An etcd machine that never joins stops a rotation of certificates, and gives way when it is deleted.
    world.machine("edge", GHOST, "etcd");
    eventually("the planner waits for it", LIMIT, || {
        world.waits_for("edge")
            == format!("configuring etcd node(s) {GHOST}: waiting for agent to check in and apply initial plan")
    });
    eventually("it is called so itself", LIMIT, || {
        let ghost = world.machine_object(GHOST);
        phase(&ghost) == "Provisioning"
            && condition(&ghost, "Reconciled", "message") == "waiting for agent to check in and apply initial plan"
    });
    world.rotate("edge");
    let rotated = || {
        world.get(&["rkecontrolplanes.rke.cattle.io", "-n", "fleet-default", "edge"])["status"]
            ["certificateRotationGeneration"]
            .as_u64()
    };
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(rotated(), None);
    world.provisioner(false);
    delete(&world, GHOST);
    eventually("its hook holds it while Rancher is away", LIMIT, || {
        condition(&world.machine_object(GHOST), "Deleting", "reason") == "WaitingForPreTerminateHook"
    });
    world.provisioner(true);
    gone(&world, GHOST);
    eventually("its plan Secret has gone with it", LIMIT, || {
        world.get(&["secret", "-n", "fleet-default", &format!("{GHOST}-machine-plan")]).is_null()
    });
    eventually("the rotation is done", LIMIT, || rotated() == Some(1));

    // A pool's machine comes again when it is deleted.
    let pool = world.pool("edge", "pool1", "worker", 1);
    let selector = format!("cluster.x-k8s.io/deployment-name={pool}");
    let of_pool = || {
        let list = world.get(&["machines.cluster.x-k8s.io", "-n", "fleet-default", "-l", &selector]);
        let items = list["items"].as_array().cloned().unwrap_or_default();
        items.iter().map(|machine| machine["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    eventually("its machine is there", LIMIT, || of_pool().len() == 1);
    let first = of_pool().remove(0);
    delete(&world, &first);
    eventually("another one took its place", LIMIT, || matches!(of_pool().as_slice(), [only] if *only != first));
    world.kubectl(&["scale", "machinedeployments.cluster.x-k8s.io", "-n", "fleet-default", &pool, "--replicas", "0"]);
    eventually("the pool is empty", LIMIT, || of_pool().is_empty());

    // Two Machines of one Node: the deletion of the old one takes the Node of the new one.
    world.machine("edge", GHOST, "worker");
    world.join("edge", GHOST, "node02");
    eventually("both claim the Node", LIMIT, || {
        [WORKER, GHOST].iter().all(|machine| world.machine_object(machine)["status"]["nodeRef"]["name"] == "node02")
    });
    delete(&world, WORKER);
    gone(&world, WORKER);
    eventually("the Node has gone with it", LIMIT, || edge.get(&["node", "node02"]).is_null());

    // A cluster that is not reached holds the deletion of a machine whose Node is known.
    world.join("edge", GHOST, "node02");
    // Before its own copy of the Node has come, the controller takes the Node for gone and skips the drain.
    eventually("the controller has seen the new Node", LIMIT, || {
        edge.get(&["node", "node02"])["metadata"]["annotations"]["cluster.x-k8s.io/machine"] == GHOST
    });
    world.reachable("edge", false);
    delete(&world, GHOST);
    eventually("its draining fails", LIMIT, || {
        let ghost = world.machine_object(GHOST);
        condition(&ghost, "Deleting", "reason") == "DrainingNode"
            && condition(&ghost, "Deleting", "message").starts_with("Error draining Node")
    });
    world.reachable("edge", true);
    gone(&world, GHOST);
}

/// Every context leads to its cluster, directly and through Rancher's proxy.
fn through_rancher(world: &World) {
    let edge = world.downstream("edge");
    let proxy = FaultProxy::start(world);
    for kubeconfig in [world.kubeconfig_of_all(), proxy.kubeconfig_of_rancher(std::slice::from_ref(&edge))] {
        let names = |context: &str| {
            let args = ["get", "nodes", "-o", "name", "--context", context];
            Program::new(binary("kubectl"))
                .env("KUBECONFIG", &kubeconfig)
                .args(args)
                .run()
                .expect_code(0)
                .stdout
                .clone()
        };
        assert_eq!(names("edge"), "node/node01\nnode/node02\n");
        assert!(names("management").contains("node/rancher-node-1"));
    }
    let prefix = format!("/k8s/clusters/{}/api/v1/nodes", edge.id());
    assert!(proxy.seen().iter().any(|seen| seen.uri.starts_with(&prefix)));
}
