//! The incident from end to end.

use std::time::Duration;

use rancher_testkit::{World, eventually};
use serde_json::Value;

use super::plugin;

const DEAD: &str = "rancher-5d7c8f9b64-q2xvz";

fn connected(world: &World) -> bool {
    let clusters = world.get(&["clusters.management.cattle.io"]);
    clusters["items"].as_array().unwrap().iter().all(|cluster| {
        let conditions = cluster["status"]["conditions"].as_array();
        conditions.is_some_and(|all| all.iter().any(|c| c["type"] == "Connected" && c["status"] == "True"))
            || cluster["metadata"]["name"] == "local"
    })
}

fn codes(report: &Value) -> Vec<&str> {
    report["findings"].as_array().unwrap().iter().map(|finding| finding["code"].as_str().unwrap()).collect()
}

#[test]
fn a_dead_leader_is_found_and_replaced() {
    let world = World::start(&["--holder", "dead", "--clusters", "5"]);
    assert_eq!(world.holder(), DEAD);

    let check = plugin(&world, &["check", "-o", "json"]).run();
    check.expect_code(3);
    let report = check.json();
    assert_eq!((report["exitCode"].as_i64(), report["changed"].as_bool()), (Some(3), Some(false)));
    assert!(codes(&report).contains(&"RL101"), "{report:#}");
    let text = plugin(&world, &["check"]).run();
    text.expect_code(3).expect_words(&format!("leader {DEAD} is gone")).expect_words("valid for 45h");
    // Nothing but reads so far.
    assert!(world.audit_of_plugin().iter().all(|entry| ["get", "list"].contains(&entry.verb.as_str())));

    let fix = plugin(&world, &["fix", "--yes"]);
    let fixed = fix.run();
    fixed.expect_code(0);
    assert!(fixed.elapsed < Duration::from_secs(60), "{fixed}");
    let leader = world.holder();
    assert!(world.pods().contains(&leader), "{leader} leads\n{fixed}");
    assert!(connected(&world), "{fixed}");

    let deletes: Vec<_> =
        world.audit().into_iter().filter(|entry| entry.is_delete() && entry.uri.contains("lease")).collect();
    assert_eq!(deletes.len(), 1, "{deletes:#?}");
    assert!(deletes[0].agent.starts_with("kubectl-rancher-lease/"), "{deletes:?}");
    assert_eq!((deletes[0].code, deletes[0].user.as_str()), (200, "admin"));

    let time = |text: &str| text.parse::<jiff::Timestamp>().unwrap();
    let lease = world.lease();
    let waited = time(lease["spec"]["acquireTime"].as_str().unwrap()).duration_since(time(&deletes[0].at));
    assert!(waited < jiff::SignedDuration::from_secs(30), "a new leader after {waited:?}");

    let again = plugin(&world, &["fix", "--yes", "-o", "json"]).run();
    again.expect_code(0);
    assert_eq!(again.json()["verdict"], "NothingToDo", "{again}");
    plugin(&world, &["check"]).run().expect_code(0);
    assert_eq!(world.audit().iter().filter(|entry| entry.is_delete() && entry.uri.contains("lease")).count(), 1);

    // The Lease of the dead leader must not come back while somebody leads.
    let state = fix.home().join("state/kubectl-rancher");
    let backups = plugin(&world, &["undo", "-o", "json", "--backup-dir"]).args([&state]).run();
    let id = backups.expect_code(0).json()["items"][0]["id"].as_str().unwrap().to_owned();
    let undo = plugin(&world, &["undo", &id, "--yes", "--backup-dir"]).args([&state]).run();
    undo.expect_code(6).expect_words("it exists");
    assert_eq!(world.holder(), leader);
}

#[test]
fn a_leader_killed_under_dev_mode_is_replaced() {
    let world = World::start(&["--holder", "live", "--clusters", "1", "--dev-mode"]);
    eventually("a replica leads", Duration::from_secs(60), || world.pods().contains(&world.holder()));
    let leader = world.holder();
    plugin(&world, &["check"]).run().expect_code(0);
    world.command(&format!("kill-replica {leader}"));
    world.kubectl(&["delete", "pod", "-n", "cattle-system", &leader]);

    let check = plugin(&world, &["check", "-o", "json"]).run();
    check.expect_code(3);
    let report = check.json();
    assert!(codes(&report).contains(&"RL101"), "{report:#}");
    let fixed = plugin(&world, &["fix", "--yes"]).run();
    fixed.expect_code(0);
    assert_ne!(world.holder(), leader);
    assert!(!world.holder().is_empty());
}
