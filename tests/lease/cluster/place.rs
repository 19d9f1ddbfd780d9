//! The wrong place: no Rancher, a downstream cluster, Rancher's own proxy, and kubeconfigs that lead nowhere.

use rancher_testkit::{ControlPlane, FaultProxy, Program, World};
use serde_json::json;

use super::{PLUGIN, plugin};

#[test]
fn where_rancher_is_not() {
    let plane = ControlPlane::start();
    let server = plane.text("server");
    let kubeconfig = plane.files().join("two-contexts");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "edge-7",
        "contexts": [
            {"name": "edge-7", "context": {"cluster": "edge-7", "user": "admin"}},
            {"name": "rancher-prod", "context": {"cluster": "rancher-prod", "user": "admin"}},
        ],
        "clusters": [
            {"name": "edge-7", "cluster": {"server": server, "certificate-authority": plane.text("caFile")}},
            {"name": "rancher-prod", "cluster": {"server": "https://127.0.0.1:1"}},
        ],
        "users": [{"name": "admin", "user": {"token": plane.text("adminToken")}}],
    });
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    let run = |args: &[&str]| Program::new(PLUGIN).env("KUBECONFIG", &kubeconfig).args(args).run();

    let empty = run(&["check"]);
    empty.expect_code(2).expect_words("RX005").expect_words("edge-7");
    assert!(!empty.stdout.contains("[OK]"), "{empty}");
    run(&["fix", "--yes"]).expect_code(2).expect_words("RX005");

    let agent = json!({"matchLabels": {"app": "cattle-cluster-agent"}});
    plane.kubectl(&["create", "namespace", "cattle-system"]);
    plane.apply(
        json!({"apiVersion": "v1", "kind": "List", "items": [
            {
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": "cattle-cluster-agent", "namespace": "cattle-system"},
                "spec": {"selector": agent, "template": {
                    "metadata": {"labels": {"app": "cattle-cluster-agent"}},
                    "spec": {"containers": [{"name": "cluster-register", "image": "rancher/rancher-agent:v2.13.2"}]},
                }},
            },
            {
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": "cattle-controllers", "namespace": "kube-system"},
                "spec": {"holderIdentity": "cattle-cluster-agent-5c7f9b7d4-x2k8p", "leaseDurationSeconds": 162_000,
                         "renewTime": "2026-01-01T00:00:00.000000Z"},
            },
        ]})
        .to_string(),
    );
    let downstream = run(&["check"]);
    downstream.expect_code(2).expect_words("RX002").expect_words("rancher-prod");
    let json = run(&["check", "-o", "json"]);
    json.expect_code(2);
    assert_eq!(json.json()["verdict"], "WrongTarget", "{json}");
    run(&["fix", "--yes"]).expect_code(2).expect_words("RX002");
    assert!(plane.audit_of_plugin().iter().all(|entry| ["get", "list"].contains(&entry.verb.as_str())));
    assert!(!plane.get(&["lease", "-n", "kube-system", "cattle-controllers"]).is_null());

    // Kubeconfigs.
    run(&["check", "--context", "nowhere"]).expect_code(2).expect_words("nowhere");
    run(&["check", "--kubeconfig", "/nonexistent/config"]).expect_code(2).expect_words("/nonexistent/config");
    let missing = Program::new(PLUGIN).env("KUBECONFIG", "/nonexistent/config").args(["check", "-o", "json"]).run();
    missing.expect_code(2);
    assert_eq!(missing.json()["exitCode"], 2, "{missing}");
    Program::new(PLUGIN).args(["check"]).run().expect_code(2).expect_words("kubeconfig");
    run(&["check", "--context", "rancher-prod"]).expect_code(1).expect_words("does not answer");
    run(&["check", "--token", "wrong"]).expect_code(1).expect_words("nauthorized");
}

#[test]
fn through_rancher_itself() {
    let world = World::start(&["--holder", "dead", "--clusters", "1", "--start-replicas=false"]);
    let before = world.lease();
    let proxy = FaultProxy::start(&world);
    let through =
        |args: &[&str]| Program::new(PLUGIN).env("KUBECONFIG", proxy.kubeconfig_through_rancher()).args(args).run();
    through(&["check"]).expect_code(3).expect_words("RX003").expect_words("RL101");
    let fix = through(&["fix", "--yes"]);
    fix.expect_code(6).expect_words("passes through the Rancher");
    assert_eq!(proxy.count("DELETE", ""), 0);
    assert_eq!(world.lease(), before);
    // A server with a path is no obstacle in itself.
    plugin(&world, &["check"]).run().expect_code(3);
}
