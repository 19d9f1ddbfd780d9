//! `kubectl rancher-ghosts` against two real API servers with Cluster API's real controller between them: whole
//! processes, real phases, drains, hooks and deletions. Only Rancher's leader is played.
//!
//! `CONTROL_PLANE_BIN=tests/control-plane/bin cargo test -p kubectl-rancher-ghosts --test cluster`; the binaries come
//! from `tests/control-plane/build.sh`.
#![expect(clippy::unwrap_used, reason = "tests")]

mod faults;
mod incident;
#[cfg(unix)]
mod launch;
mod leftovers;
mod place;
mod races;
mod refusals;
mod reuse;
mod rights;
mod stuck;

use std::time::Duration;

use rancher_testkit::{Output, Program, World, eventually};
use serde_json::{Value, json};

/// The plugin as cargo built it.
const PLUGIN: &str = env!("CARGO_BIN_EXE_kubectl-rancher-ghosts");
/// Machines of [`edge`] and their nodes.
const CONTROL_PLANES: [(&str, &str); 3] =
    [("custom-898d97f03763", "node01"), ("custom-f489526f114a", "node02"), ("custom-0cf3ab0002bb", "node03")];
const WORKERS: [(&str, &str); 2] = [("custom-3524fa7f0d71", "node04"), ("custom-3b154219b4e1", "node05")];
/// For what Cluster API and the played leader do.
const LIMIT: Duration = Duration::from_secs(60);

/// The plugin as administrator of both clusters; a machine is a ghost after a second here.
fn plugin(world: &World, args: &[&str]) -> Program {
    Program::new(PLUGIN).env("KUBECONFIG", world.kubeconfig_of_all()).args(args)
}

/// Flags that make minutes of waiting seconds.
const QUICK: [&str; 6] = ["--downstream-context", "edge", "--grace", "1s", "--patience", "6s"];

/// `fix` of one machine, agreed to by the digest of the plan that it shows.
fn fix(world: &World, target: &str) -> Output {
    // What belongs to a machine may change between the two runs; then the plan is another one, and is agreed to anew.
    loop {
        let plan = plugin(world, &["fix", target, "-o", "json"]).args(QUICK).run();
        plan.expect_code(6);
        let digest = plan.json()["plan"]["digest"].as_str().unwrap_or_else(|| panic!("no plan: {plan}")).to_owned();
        let done = plugin(world, &["fix", target, "--confirm", &digest]).args(QUICK).limit(2 * LIMIT).run();
        if !done.says("is for another plan") {
            return done;
        }
    }
}

/// A refusal without a plan, for this reason.
#[track_caller]
fn expect_refusal(world: &World, target: &str, words: &str) {
    let output = plugin(world, &["fix", target]).args(QUICK).run();
    output.expect_code(6).expect_words(words);
    assert!(!output.says("Plan "), "{output}");
}

/// Starts these machines at the same time and waits until each has its Node, and its agent has done what its plan says.
fn join_all(world: &World, cluster: &str, machines: &[(&str, &str)]) {
    for (machine, node) in machines {
        world.join(cluster, machine, node);
    }
    for (machine, node) in machines {
        eventually(&format!("{machine} has {node}"), LIMIT, || {
            let object = world.machine_object(machine);
            object["status"]["nodeRef"]["name"] == *node && object["status"]["phase"] == "Running"
        });
        // Cluster API may be first; an agent that has not answered within the grace of a second counts as silent here.
        eventually(&format!("{machine}'s plan is applied"), LIMIT, || {
            let secret = plan_secret(world, machine);
            !secret["data"]["plan"].is_null() && secret["data"]["appliedPlan"] == secret["data"]["plan"]
        });
    }
}

/// Makes three machines with etcd and the control plane, and two workers.
fn edge(world: &World) {
    for (machine, _) in CONTROL_PLANES {
        world.machine("edge", machine, "etcd,controlplane");
    }
    for (machine, _) in WORKERS {
        world.machine("edge", machine, "worker");
    }
    join_all(world, "edge", &CONTROL_PLANES);
    join_all(world, "edge", &WORKERS);
    eventually("all plans are applied", LIMIT, || world.waits_for("edge").is_empty());
}

/// The machine that the others are joined to.
fn init_node(world: &World) -> String {
    let secrets = world.get(&["secrets", "-n", "fleet-default", "-l", "rke.cattle.io/init-node=true"]);
    secrets["items"][0]["metadata"]["labels"]["rke.cattle.io/machine-name"].as_str().unwrap_or_default().to_owned()
}

fn plan_secret(world: &World, machine: &str) -> Value {
    world.get(&["secret", "-n", "fleet-default", &format!("{machine}-machine-plan")])
}

/// Registers a worker that never joins, and waits until it counts as a ghost.
fn ghost(world: &World, machine: &str) {
    world.machine("edge", machine, "worker");
    // Before it has a plan it is called a ghost as well, for lack of a Secret, but not for a moment in between.
    eventually("it is planned", LIMIT, || !plan_secret(world, machine)["data"]["plan"].is_null());
    let target = format!("edge/{machine}");
    eventually("it is a ghost", LIMIT, || plugin(world, &["check", &target]).args(QUICK).run().code == 3);
}

/// A pod on this node that its PodDisruptionBudget does not let go.
fn hold_drain(world: &World, node: &str) {
    world.downstream("edge").apply(
        json!({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "Pod",
             "metadata": {"name": "held", "namespace": "default", "labels": {"app": "held"}},
             "spec": {"nodeName": node, "tolerations": [{"operator": "Exists"}],
                      "containers": [{"name": "c", "image": "example.com/c"}]}},
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
             "metadata": {"name": "held", "namespace": "default"},
             "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "held"}}}},
        ]})
        .to_string(),
    );
}

fn codes(report: &Value) -> Vec<&str> {
    report["findings"].as_array().unwrap().iter().map(|finding| finding["code"].as_str().unwrap()).collect()
}

/// The writes of the plugin that were meant and made: verb, resource, name.
fn writes(world: &World) -> Vec<(String, String, String)> {
    world
        .audit_of_plugin()
        .into_iter()
        .filter(|entry| !["get", "list"].contains(&entry.verb.as_str()) && entry.code < 300)
        .filter(|entry| !entry.uri.contains("dryRun=All") && !entry.uri.contains("selfsubjectaccessreviews"))
        .map(|entry| (entry.verb.clone(), entry.object[1].clone(), entry.object[3].clone()))
        .collect()
}
