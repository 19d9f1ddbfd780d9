//! The rights that `rbac` prints are enough for check and fix, and the lack of a required one is noticed.

use rancher_testkit::{Program, World};
use serde_json::{Value, json};

use super::{LIMIT, PLUGIN, codes, edge, ghost};

const GHOST: &str = "custom-2d74d4c9a104";

/// Grants the printed rules to the user `viewer`.
fn grant(world: &World, printed: &str) {
    // What is for the downstream clusters stands behind its own heading.
    let here = printed.split("# In each downstream cluster").next().unwrap().trim_end().trim_end_matches("---");
    for namespace in ["cattle-capi-system", "cattle-provisioning-capi-system"] {
        let _ = world.kubectl_program(["create", "namespace", namespace]).run();
    }
    world.apply(here);
    let mut bindings = Vec::new();
    for document in here.split("---\n").filter(|text| text.contains("kind:")) {
        let role: Value = rancher_common::yaml::read(document).unwrap();
        let namespaced = role["kind"] == "Role";
        bindings.push(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": if namespaced { "RoleBinding" } else { "ClusterRoleBinding" },
            "metadata": {"name": role["metadata"]["name"], "namespace": role["metadata"]["namespace"]},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role["kind"], "name": role["metadata"]["name"]},
            "subjects": [{"kind": "User", "name": "viewer", "apiGroup": "rbac.authorization.k8s.io"}],
        }));
    }
    world.apply(json!({"apiVersion": "v1", "kind": "List", "items": bindings}).to_string());
}

#[test]
fn printed_rights_are_enough() {
    let world = World::start(&["--holder", "live", "--downstream", "edge"]);
    edge(&world);
    ghost(&world, GHOST);
    let kubeconfig = world.kubeconfig_of("viewer", world.text("server"), world.text("viewerToken"));
    let downstream = world.downstream("edge").kubeconfig();
    let run = |args: &[&str]| {
        Program::new(PLUGIN)
            .env("KUBECONFIG", &kubeconfig)
            .args(args)
            .args(["--grace", "1s", "--downstream-kubeconfig"])
            .arg(&downstream)
            .run()
    };
    // Without any rights nothing is known, and nothing is green.
    let blind = run(&["check", "edge", "-o", "json"]);
    blind.expect_code(5);
    assert!(codes(&blind.json()).contains(&"RX001"), "{blind}");

    let for_check = Program::new(PLUGIN).args(["rbac"]).run();
    for_check.expect_code(0);
    grant(&world, &for_check.stdout);
    let started = std::time::Instant::now();
    loop {
        let check = run(&["check", "edge"]);
        if check.code == 3 {
            break;
        }
        assert!(started.elapsed() < LIMIT, "the printed rights are not enough: {check}");
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    for args in [
        &["check", "edge/custom-2d74d4c9a104", "--tree"] as &[&str],
        &["check", "edge"],
        &["check"],
        &["whois", "node01"],
    ] {
        let seen = Program::new(PLUGIN).env("KUBECONFIG", &kubeconfig).args(args).args(["-o", "json"]).run();
        assert_eq!(seen.json()["notRun"].as_array().unwrap().len(), 0, "{args:?}: {seen}");
    }
    let refused = run(&["fix", &format!("edge/{GHOST}")]);
    refused.expect_code(6).expect_words("you may not delete machines.cluster.x-k8s.io");

    let for_fix = Program::new(PLUGIN).args(["rbac", "--for=fix"]).run();
    grant(&world, &for_fix.stdout);
    let started = std::time::Instant::now();
    let digest = loop {
        let output = run(&["fix", &format!("edge/{GHOST}"), "-o", "json"]);
        let plan = &output.json()["plan"];
        if plan["checked"].as_array().is_some_and(|all| !all.is_empty()) {
            break plan["digest"].as_str().unwrap().to_owned();
        }
        assert!(started.elapsed() < LIMIT, "the printed rights are not enough: {output}");
        std::thread::sleep(std::time::Duration::from_millis(500));
    };
    run(&["fix", &format!("edge/{GHOST}"), "--confirm", &digest]).expect_code(0);
    assert!(world.machine_object(GHOST).is_null());
    // Nothing was asked for that is not printed.
    let denied: Vec<_> = world
        .audit_of_plugin()
        .into_iter()
        .filter(|entry| entry.user == "viewer" && entry.code == 403)
        .map(|entry| (entry.verb, entry.uri, entry.at))
        .collect();
    // The first look was made without rights at all, and one write was tried.
    assert!(denied.iter().all(|(verb, ..)| verb != "patch"), "{denied:#?}");
}
