//! The API server misbehaves while machines are looked at or removed.

use rancher_testkit::{Fault, FaultProxy, Match, Program, World};

use super::{PLUGIN, WORKERS, codes, edge, ghost};

const GHOST: &str = "custom-2d74d4c9a104";

#[test]
fn what_cannot_be_read_is_never_green_and_an_unanswered_deletion_is_looked_at() {
    let world = World::start(&["--holder", "live", "--downstream", "edge"]);
    edge(&world);
    ghost(&world, GHOST);
    let downstream = world.downstream("edge").kubeconfig();
    let proxy = FaultProxy::start(&world);
    let target = format!("edge/{GHOST}");
    let run = |args: &[&str]| {
        Program::new(PLUGIN)
            .env("KUBECONFIG", proxy.kubeconfig())
            .args(args)
            .args(["--grace", "1s", "--request-timeout", "3s", "--downstream-kubeconfig"])
            .arg(&downstream)
            .run()
    };
    run(&["check", "edge"]).expect_code(3);

    let required = [
        "/apis/provisioning.cattle.io/v1/clusters",
        "/apis/management.cattle.io/v3/clusters",
        "/namespaces/fleet-default/machines",
        "/api/v1/namespaces/fleet-default/secrets",
    ];
    for path in required {
        for (name, fault) in [
            ("500", Fault::api_error(500, "InternalError", "etcdserver: request timed out")),
            ("HTML 503", Fault::Html503),
            ("truncated", Fault::TruncatedBody),
            ("403", Fault::api_error(403, "Forbidden", "no")),
        ] {
            proxy.rule(Match::of("GET", path), fault);
            let check = run(&["check", "edge", "-o", "json"]);
            // What was proven without it stays proven.
            assert!([3, 5].contains(&check.code), "{name} of {path}: {check}");
            assert!(codes(&check.json()).contains(&"RX001"), "{name} of {path}: {check}");
            let fix = run(&["fix", &target]);
            fix.expect_code(5);
            assert!(!fix.says("Plan "), "{name} of {path}: {fix}");
            proxy.reset();
        }
    }

    // The server deletes it and never says so.
    let digest = run(&["fix", &target, "-o", "json"]).json()["plan"]["digest"].as_str().unwrap().to_owned();
    let path = format!("/namespaces/fleet-default/machines/{GHOST}");
    proxy.rule(Match::of("DELETE", &path).dry_run(false), Fault::ForwardThenSilence);
    let fixed = run(&["fix", &target, "--confirm", &digest]);
    fixed.expect_code(0);
    assert!(world.machine_object(GHOST).is_null());
    let deletes = proxy.seen().iter().filter(|seen| seen.method == "DELETE" && !seen.uri.contains("dryRun")).count();
    assert_eq!(deletes, 1, "never repeated");
    assert!(!world.machine_object(WORKERS[0].0).is_null());
}
