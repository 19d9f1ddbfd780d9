//! The API server, or something before it, misbehaves.

use std::time::Duration;

use rancher_testkit::{Fault, FaultProxy, Match, Output, Program, World};
use serde_json::Value;

use super::{PLUGIN, at_once};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/cattle-controllers";
/// What check cannot do without, and the words it has for each.
const REQUIRED: [&str; 4] = [
    LEASE,
    "/apis/apps/v1/namespaces/cattle-system/deployments",
    "/api/v1/namespaces/cattle-system/pods",
    "/apis/management.cattle.io/v3/clusters",
];

fn faults() -> Vec<(&'static str, Fault)> {
    vec![
        (
            "429",
            Fault::Status(
                429,
                vec![("retry-after", "1".into())],
                r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"too many requests","reason":"TooManyRequests","code":429}"#.into(),
            ),
        ),
        ("HTML 503", Fault::Html503),
        ("500", Fault::api_error(500, "InternalError", "etcdserver: request timed out")),
        ("reset", Fault::Reset),
        ("truncated", Fault::TruncatedBody),
        ("slow", Fault::Delay(Duration::from_secs(60))),
    ]
}

/// What a person needs to hear of it.
fn words(fault: &str) -> &'static [&'static str] {
    match fault {
        "429" => &["too many requests (tried"],
        "HTML 503" => &["503"],
        "500" => &["etcdserver: request timed out"],
        "reset" => &["reset", "closed"],
        "truncated" => &["before the answer was complete (end of file before message length reached)"],
        "slow" => &["no complete answer within 1 s"],
        "refused" => &["refused"],
        _ => &[],
    }
}

fn plugin(proxy: &FaultProxy, args: &[&str]) -> Program {
    Program::new(PLUGIN).env("KUBECONFIG", proxy.kubeconfig()).args(args).args(["--request-timeout", "1s"])
}

/// One valid document whatever happened, with the exit code of the process.
#[track_caller]
fn expect_document(output: &Output) -> Value {
    let report = output.json();
    assert_eq!(report["kind"], "Report", "{output}");
    assert_eq!(report["exitCode"].as_i64(), Some(output.code.into()), "{output}");
    report
}

#[test]
fn nothing_answers() {
    let world = World::start(&["--holder", "dead", "--clusters", "1", "--start-replicas=false"]);
    let mut cases = Vec::new();
    for (name, fault) in faults() {
        for output in ["table", "wide", "json", "yaml", "name"] {
            cases.push((name, Some(fault.clone()), output));
        }
    }
    cases.extend(["table", "json"].map(|output| ("refused", None, output)));
    let nobody = world.kubeconfig_of("refused", "http://127.0.0.1:1", "no-token");
    at_once(8, &cases, |(name, fault, output)| {
        let proxy = FaultProxy::start(&world);
        let mut run = plugin(&proxy, &["check", "-o", output]);
        match fault {
            Some(fault) => proxy.rule(Match::all(), fault.clone()),
            None => run = run.env("KUBECONFIG", &nobody),
        }
        let run = run.run();
        assert_eq!(run.code, 1, "{name}: {run}");
        assert!(run.stderr.contains("does not answer"), "{name}: {run}");
        assert!(words(name).iter().any(|words| run.stderr.contains(words)), "{name}: {run}");
        match *output {
            "json" => assert_eq!(expect_document(&run)["verdict"], "Error", "{name}: {run}"),
            "yaml" => assert!(run.stdout.starts_with("apiVersion:"), "{name}: {run}"),
            _ => assert!(!run.stdout.contains("[OK]"), "{name}: {run}"),
        }
    });
    for name in ["429", "slow"] {
        let fault = faults().into_iter().find(|(other, _)| *other == name).unwrap().1;
        let proxy = FaultProxy::start(&world);
        proxy.rule(Match::all(), fault);
        plugin(&proxy, &["fix", "--yes"]).run().expect_code(1);
        assert_eq!(proxy.count("DELETE", ""), 0, "{name}");
    }
}

#[test]
fn what_passes_is_tried_again() {
    let world = World::start(&["--holder", "dead", "--clusters", "1", "--start-replicas=false"]);
    // An error of the server itself, and a read that took its time, may take as long again: those are reported.
    let mut passing = faults();
    passing.retain(|(name, _)| !["500", "slow"].contains(name));
    at_once(6, &passing, |(name, fault)| {
        let proxy = FaultProxy::start(&world);
        // Once each: a list, a get, and the very first request.
        for path in [LEASE, REQUIRED[1], REQUIRED[2]] {
            proxy.rule(Match::of("GET", path).exactly().times(1), fault.clone());
        }
        let run = plugin(&proxy, &["check", "-o", "json"]).run();
        assert_eq!(run.code, 3, "{name}: {run}");
        assert_eq!(codes(&expect_document(&run)), ["RL101", "RL131", "RL130"], "{name}");
    });
}

fn codes(report: &Value) -> Vec<&str> {
    report["findings"].as_array().unwrap().iter().map(|finding| finding["code"].as_str().unwrap()).collect()
}

#[test]
fn a_write_without_an_answer_is_looked_at_and_never_repeated() {
    let world = World::start(&["--holder", "dead", "--clusters", "1"]);
    let proxy = FaultProxy::start(&world);
    proxy.rule(Match::of("DELETE", LEASE).dry_run(false), Fault::ForwardThenSilence);
    let fix = plugin(&proxy, &["fix", "--yes", "-o", "json"]).run();
    fix.expect_code(0);
    assert_eq!(expect_document(&fix)["verdict"], "Fixed", "{fix}");
    assert_eq!(proxy.count("DELETE", LEASE), 1);
    let deletes = world.audit().iter().filter(|entry| entry.is_delete() && entry.uri.contains(LEASE)).count();
    assert_eq!(deletes, 1);
    assert!(world.pods().contains(&world.holder()));

    // The world is well now. Whatever cannot be read, nothing is called well.
    let healthy = plugin(&proxy, &["check"]).run();
    healthy.expect_code(0);
    let mut cases = Vec::new();
    for (index, path) in REQUIRED.iter().enumerate() {
        for (number, (name, fault)) in faults().into_iter().enumerate() {
            // Each read with half of the faults, each fault with half of the reads, in each format once.
            if (index + number) % 2 == 0 {
                cases.push((path, name, fault, ["table", "json", "wide", "name", "yaml"][(index + number / 2) % 5]));
            }
        }
    }
    at_once(6, &cases, |(path, name, fault, output)| {
        let proxy = FaultProxy::start(&world);
        proxy.rule(Match::of("GET", path).exactly(), fault.clone());
        let check = plugin(&proxy, &["check", "-o", output]).run();
        assert_eq!(check.code, 5, "{path} {name}: {check}");
        match *output {
            "json" => {
                let report = expect_document(&check);
                assert_eq!(report["verdict"], "Inconclusive", "{path} {name}: {check}");
                assert!(codes(&report).contains(&"RX001"), "{path} {name}: {check}");
            }
            "table" | "wide" => assert!(check.stdout.contains("[??] RX001"), "{path} {name}: {check}"),
            _ => {}
        }
        let fix = plugin(&proxy, &["fix", "--yes", "-o", "json"]).run();
        assert_eq!(fix.code, 5, "{path} {name}: {fix}");
        expect_document(&fix);
        assert_eq!(proxy.count("DELETE", ""), 0, "{path} {name}");
    });
}

#[test]
fn a_refused_write_changes_nothing() {
    let world = World::start(&["--holder", "dead", "--clusters", "1", "--start-replicas=false"]);
    let before = world.lease();
    let answers = [
        ("403", Fault::api_error(403, "Forbidden", "leases \"cattle-controllers\" is forbidden: an admission policy")),
        ("409", Fault::api_error(409, "Conflict", "the ResourceVersion in the precondition does not match")),
        ("500", Fault::api_error(500, "InternalError", "etcdserver: leader changed")),
        ("503", Fault::Html503),
        ("reset", Fault::Reset),
    ];
    at_once(5, &answers, |(name, fault)| {
        for dry_run in [false, true] {
            let proxy = FaultProxy::start(&world);
            proxy.rule(Match::of("DELETE", LEASE).dry_run(dry_run), fault.clone());
            let fix = plugin(&proxy, &["fix", "--yes", "-o", "json"]).run();
            assert_eq!(fix.code, 6, "{name}: {fix}");
            let report = expect_document(&fix);
            assert_eq!((&report["verdict"], &report["changed"]), (&"Refused".into(), &false.into()), "{name}: {fix}");
            assert_eq!(proxy.count("DELETE", LEASE), usize::from(!dry_run), "{name}");
        }
    });
    // A required read fails here too, and a problem is proven or not; without it there is no plan.
    at_once(4, &REQUIRED, |path| {
        let proxy = FaultProxy::start(&world);
        proxy.rule(Match::of("GET", path).exactly(), Fault::Html503);
        let check = plugin(&proxy, &["check"]).run();
        assert_eq!(check.code, if path.ends_with("/clusters") { 3 } else { 5 }, "{path}: {check}");
        plugin(&proxy, &["fix", "--yes"]).run().expect_code(5);
        assert_eq!(proxy.count("DELETE", ""), 0, "{path}");
    });
    assert_eq!(world.lease(), before);
}
