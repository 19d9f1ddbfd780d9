//! The wrong place, and the wrong way to the right one.

use rancher_testkit::{ControlPlane, FaultProxy, Program, World};
use serde_json::json;

use super::{PLUGIN, plugin};

fn codes(report: &serde_json::Value) -> Vec<&str> {
    report["findings"].as_array().unwrap().iter().map(|finding| finding["code"].as_str().unwrap()).collect()
}

#[test]
fn a_cluster_without_rancher_and_a_downstream_one_are_told_apart() {
    let plane = ControlPlane::start();
    let empty = plugin(&plane, &["check", "-o", "json"]).run();
    empty.expect_code(2);
    assert_eq!(codes(&empty.json()), ["RX005"], "{empty}");

    // What Rancher's agent leaves in a downstream cluster (rancher/rancher pkg/systemtemplate, pkg/agent/rancher).
    let labels = json!({"app": "cattle-cluster-agent"});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "cattle-cluster-agent", "namespace": "cattle-system"},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "cluster-register", "image": "rancher/rancher-agent:v2.13.2"}]},
        }},
    });
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "cattle-controllers", "namespace": "kube-system"},
        "spec": {"holderIdentity": "cattle-cluster-agent-7c9d6b5f4-abcde", "leaseDurationSeconds": 45},
    });
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "cattle-system"}});
    plane.apply(format!("{namespace}\n---\n{deployment}\n---\n{lease}\n")).expect_code(0);

    // A kubeconfig with a second context, which may be the one that was meant.
    let file = plane.files().join("two-contexts");
    let text = std::fs::read_to_string(plane.kubeconfig()).unwrap();
    let mut config: serde_json::Value = rancher_common::yaml::read(&text).unwrap();
    let mut second = config["contexts"][0].clone();
    second["name"] = json!("rancher-prod");
    config["contexts"].as_array_mut().unwrap().push(second);
    std::fs::write(&file, rancher_common::yaml::write(&config).unwrap()).unwrap();

    let downstream = Program::new(PLUGIN).env("KUBECONFIG", &file).args(["check"]).run();
    downstream.expect_code(2).expect_words("RX002").expect_words("rancher-prod").expect_words("WRONG CLUSTER");
    Program::new(PLUGIN).env("KUBECONFIG", &file).args(["fix", "--yes"]).run().expect_code(2);
    assert!(!plane.audit().iter().any(|entry| entry.is_delete() && entry.agent.starts_with("kubectl-rancher")));
}

#[test]
fn through_rancher_itself_check_warns_and_fix_refuses() {
    let world = World::start(&["--holder", "dead", "--clusters", "1"]);
    let proxy = FaultProxy::start(&world);
    let through =
        |args: &[&str]| Program::new(PLUGIN).env("KUBECONFIG", proxy.kubeconfig_through_rancher()).args(args).run();
    let check = through(&["check", "-o", "json"]);
    check.expect_code(3);
    let report = check.json();
    assert!(codes(&report).contains(&"RX003") && codes(&report).contains(&"RL101"), "{report:#}");
    assert_eq!(report["target"]["viaRancherProxy"], true);
    through(&["fix", "--yes"]).expect_code(6).expect_words("through Rancher");
    assert_eq!(proxy.seen().iter().filter(|seen| seen.method == "DELETE").count(), 0);
    // The offer to repair is not made where it would be refused.
    assert!(report["findings"].as_array().unwrap().iter().all(|finding| finding["fixable"] == false), "{report:#}");
}

#[test]
fn what_names_no_target_is_wrong_usage() {
    let plane = ControlPlane::start();
    let run = |kubeconfig: &str, args: &[&str]| Program::new(PLUGIN).env("KUBECONFIG", kubeconfig).args(args).run();
    let good = plane.kubeconfig().display().to_string();
    run("/nonexistent", &["check"]).expect_code(2).expect_words("kubeconfig");
    run(&good, &["check", "--context", "nope"]).expect_code(2).expect_words("nope").expect_words("management");
    run(&good, &["check", "--user", "nobody"]).expect_code(2).expect_words("nobody");
    // A missing file in a list is no error, as for kubectl.
    run(&format!("/nonexistent:{good}"), &["check"]).expect_code(2).expect_words("RX005");
    // Credentials that the server does not know: it answers, but to nobody.
    let stranger = plane.kubeconfig_of("management", plane.text("server"), "not-a-token").display().to_string();
    run(&stranger, &["check"]).expect_code(1).expect_words("nauthorized");
}
