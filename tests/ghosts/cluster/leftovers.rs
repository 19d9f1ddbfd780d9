//! What is left of machines and clusters that are gone: copies of Nodes, plan Secrets and ServiceAccounts, infra machines.

use std::time::Duration;

use rancher_testkit::{Fault, FaultProxy, Match, Program, World, eventually};
use serde_json::{Value, json};

use super::races::race;
use super::{LIMIT, PLUGIN, QUICK, codes, fix, plugin, writes};

const GONE: &str = "c-m-00gone00";
const WORKSPACE: &str = "fleet-default";
const LOST: &str = "custom-aaaaaaaaaaaa";

/// Longer than the patience of [`QUICK`].
const STUCK: Duration = Duration::from_secs(7);

fn copy(world: &World, name: &str) -> Value {
    world.get(&["nodes.management.cattle.io", "-n", GONE, name])
}

#[test]
fn of_a_cluster_that_is_gone() {
    let world = World::start(&["--holder", "live", "--downstream", "edge"]);
    let metadata = |name: &str| {
        json!({"name": name, "namespace": GONE, "finalizers": ["controller.cattle.io/node-controller"],
               "labels": {"management.cattle.io/nodename": "node77"}})
    };
    let mut items = vec![json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": GONE}})];
    items.extend(
        ["machine-1", "machine-2", "machine-3"]
            .map(|name| json!({"apiVersion": "management.cattle.io/v3", "kind": "Node", "metadata": metadata(name)})),
    );
    items.push(json!({
        "apiVersion": "rke.cattle.io/v1", "kind": "CustomMachine",
        "metadata": {"name": LOST, "namespace": WORKSPACE, "finalizers": ["wrangler.cattle.io/unmanaged-machine"],
                     "labels": {"cluster.x-k8s.io/cluster-name": "gone"}},
        "spec": {},
    }));
    // Without a leader at work nobody takes the finalizer off.
    world.provisioner(false);
    world.apply(json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string());
    for name in ["machine-1", "machine-2"] {
        world.kubectl(&["delete", "nodes.management.cattle.io", "-n", GONE, name, "--wait=false"]);
    }
    world.kubectl(&["delete", "custommachines.rke.cattle.io", "-n", WORKSPACE, LOST, "--wait=false"]);
    std::thread::sleep(STUCK);

    let check = plugin(&world, &["check", "-o", "json", "--grace", "1s"]).run();
    check.expect_code(3);
    let report = check.json();
    assert_eq!(codes(&report), ["RG105", "RG108"], "{report:#}");

    // Somebody touches the object between our look and our write.
    let path = format!("/namespaces/{GONE}/nodes/machine-1");
    let target = format!("{GONE}/machine-1");
    let lost = race(&world, &target, &Match::of("PATCH", &path).dry_run(false), || {
        world.kubectl(&["annotate", "nodes.management.cattle.io", "-n", GONE, "machine-1", "example.com/touched=yes"]);
    });
    lost.expect_code(6).expect_words("has changed");
    assert!(writes(&world).is_empty(), "{:#?}", writes(&world));
    fix(&world, &target).expect_code(0);
    assert!(copy(&world, "machine-1").is_null());

    // The server takes the finalizer off and never says so.
    let proxy = FaultProxy::start(&world);
    let path = format!("/namespaces/{GONE}/nodes/machine-2");
    proxy.rule(Match::of("PATCH", &path).dry_run(false), Fault::ForwardThenSilence);
    let through = |args: &[&str]| {
        Program::new(PLUGIN)
            .env("KUBECONFIG", proxy.kubeconfig())
            .args(["fix", &format!("{GONE}/machine-2"), "--patience", "6s", "--request-timeout", "3s"])
            .args(args)
            .run()
    };
    let digest = through(&["-o", "json"]).json()["plan"]["digest"].as_str().unwrap().to_owned();
    through(&["--confirm", &digest]).expect_code(0);
    assert!(copy(&world, "machine-2").is_null());

    // One that nobody has deleted is deleted first; its finalizer is another decision.
    let target = format!("{GONE}/machine-3");
    let plan = plugin(&world, &["fix", &target, "-o", "json"]).args(QUICK).run().json();
    let digest = plan["plan"]["digest"].as_str().unwrap();
    let deleted = plugin(&world, &["fix", &target, "--confirm", digest, "--verify-timeout", "20s"]).args(QUICK).run();
    deleted.expect_code(7);
    assert!(!copy(&world, "machine-3")["metadata"]["deletionTimestamp"].is_null());
    fix(&world, &target).expect_code(0);
    assert!(copy(&world, "machine-3").is_null());

    fix(&world, &format!("gone/{LOST}")).expect_code(0);
    assert!(world.get(&["custommachines.rke.cattle.io", "-n", WORKSPACE, LOST]).is_null());
    plugin(&world, &["check", "--grace", "1s"]).run().expect_code(0);
}

#[test]
fn credentials() {
    let world = World::start(&["--holder", "live", "--downstream", "edge"]);
    // As after a restore that lost the owner references.
    let plan = format!("{LOST}-machine-plan");
    let labels = json!({"rke.cattle.io/machine-name": LOST, "rke.cattle.io/rkebootstrap-name": LOST});
    let mut secret_labels = labels.clone();
    secret_labels["rke.cattle.io/cluster-name"] = json!("edge");
    let mut account_labels = labels;
    account_labels["rke.cattle.io/service-account-role"] = json!("plan");
    world.apply(
        json!({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "Secret", "type": "rke.cattle.io/machine-plan",
             "metadata": {"name": plan, "namespace": WORKSPACE, "labels": secret_labels},
             "stringData": {"plan": "{\"instructions\":[{\"env\":[\"RKE2_TOKEN=hush\"]}]}"}},
            {"apiVersion": "v1", "kind": "ServiceAccount",
             "metadata": {"name": plan, "namespace": WORKSPACE, "labels": account_labels}},
        ]})
        .to_string(),
    );
    eventually("it is old enough", LIMIT, || {
        codes(&plugin(&world, &["check", "-o", "json", "--grace", "1s"]).run().json()) == ["RG106"]
    });
    let target = format!("edge/{LOST}");
    let secret = || world.get(&["secret", "-n", WORKSPACE, &plan]);

    // Between the plan and the write an RKEBootstrap of that name takes the Secret on.
    let path = format!("/namespaces/{WORKSPACE}/secrets/{plan}");
    let lost = race(&world, &target, &Match::of("DELETE", &path).dry_run(false), || {
        world.kubectl(&["label", "secret", "-n", WORKSPACE, &plan, "example.com/adopted=yes"]);
    });
    lost.expect_code(6).expect_words("has changed");
    assert!(!secret().is_null());

    let fixed = fix(&world, &target);
    fixed.expect_code(0);
    assert!(!fixed.says("hush"), "{fixed}");
    assert!(secret().is_null());
    assert!(world.get(&["serviceaccount", "-n", WORKSPACE, &plan]).is_null());
    let deleted = |kind: &str| ("delete".to_owned(), kind.to_owned(), plan.clone());
    assert_eq!(writes(&world), [deleted("secrets"), deleted("serviceaccounts")]);
}
