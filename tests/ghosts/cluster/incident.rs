//! The seed incident: a ghost blocks the rotation of certificates, and the node it once was looks for a Secret that does
//! not exist any more.

use rancher_testkit::{World, eventually};
use serde_json::{Value, json};

use super::{CONTROL_PLANES, LIMIT, QUICK, WORKERS, codes, edge, fix, init_node, join_all, plugin, writes};

const GHOST: &str = "custom-2d74d4c9a104";

#[test]
fn a_ghost_blocks_a_rotation_until_it_is_removed() {
    let world = World::start(&["--holder", "live", "--downstream", "edge"]);
    edge(&world);
    world.machine("edge", GHOST, "etcd");
    world.rotate("edge");
    eventually("the planner waits", LIMIT, || !world.waits_for("edge").is_empty());

    // A machine that was registered just now is none.
    let young = plugin(&world, &["check", "edge", "-o", "json"]).args(["--downstream-context", "edge"]).run();
    young.expect_code(0);
    assert!(codes(&young.json()).is_empty(), "{young}");
    let early = plugin(&world, &["fix", &format!("edge/{GHOST}"), "--downstream-context", "edge"]).run();
    early.expect_code(6).expect_words("may still join");

    // The others still work on the plans that they had before the rotation had to wait.
    let mut report = Value::Null;
    eventually("only the ghost is left to wait for", LIMIT, || {
        report = plugin(&world, &["check", "edge", "-o", "json"]).args(QUICK).run().json();
        codes(&report) == ["RG101", "RG210"]
    });
    assert_eq!(report["exitCode"], 3);
    assert_eq!(report["findings"][0]["subject"]["name"], GHOST);
    assert!(report["findings"][1]["message"].as_str().unwrap().contains("the certificate rotation"), "{report:#}");
    let items = report["items"].as_array().unwrap();
    assert_eq!(items.len(), 1 + CONTROL_PLANES.len() + WORKERS.len());
    assert_eq!((&items[0]["machine"], &items[0]["state"]), (&json!(GHOST), &json!("never joined")));
    // The whole fleet says the same.
    let fleet = plugin(&world, &["check", "-o", "name", "--grace", "1s"]).run();
    fleet.expect_code(3);
    assert!(fleet.stdout.contains(&format!("machine.cluster.x-k8s.io/{GHOST}")), "{fleet}");

    // Which machine is node01, and what does its agent look for?
    let node = plugin(&world, &["whois", "node01", "-o", "json"]).run();
    node.expect_code(0);
    assert_eq!(node.json()["items"][0]["machine"], CONTROL_PLANES[0].0, "{node}");
    let file = world.files().join("rancher2_connection_info.json");
    let info = |secret: &str| json!({"kubeConfig": "token: hush", "namespace": "fleet-default", "secretName": secret});
    std::fs::write(&file, info("custom-aaaaaaaaaaaa-machine-plan").to_string()).unwrap();
    let lost = plugin(&world, &["whois", "--connection-info", file.to_str().unwrap()]).run();
    lost.expect_code(0).expect_words("RG107").expect_words("which does not exist");
    assert!(!lost.stdout.contains("hush"), "{lost}");
    std::fs::write(&file, info(&format!("{GHOST}-machine-plan")).to_string()).unwrap();
    let known = plugin(&world, &["whois", "--connection-info", file.to_str().unwrap(), "-o", "name"]).run();
    known.expect_code(0);
    assert_eq!(known.stdout.trim(), format!("machine.cluster.x-k8s.io/{GHOST}"), "{known}");
    assert!(writes(&world).is_empty(), "{:#?}", writes(&world));

    let fixed = fix(&world, &format!("edge/{GHOST}"));
    fixed.expect_code(0).expect_words("the planner does not wait for it any more");
    fixed.expect_words("system-agent-install.sh").expect_words("--etcd").expect_words("--token TOKEN");
    // One ordinary deletion, no finalizer, no annotation.
    assert_eq!(writes(&world), [("delete".to_owned(), "machines".to_owned(), GHOST.to_owned())]);
    for kind in ["machines.cluster.x-k8s.io", "rkebootstraps.rke.cattle.io", "custommachines.rke.cattle.io"] {
        assert!(world.get(&[kind, "-n", "fleet-default", GHOST]).is_null());
    }
    assert!(world.get(&["secret", "-n", "fleet-default", &format!("{GHOST}-machine-plan")]).is_null());
    eventually("the rotation goes through", LIMIT, || world.waits_for("edge").is_empty());
    for (machine, node) in CONTROL_PLANES.iter().chain(&WORKERS) {
        assert_eq!(world.machine_object(machine)["status"]["nodeRef"]["name"], *node);
    }
    let after = plugin(&world, &["check", "edge"]).args(QUICK).run();
    after.expect_code(0);
    let again = plugin(&world, &["fix", &format!("edge/{GHOST}")]).args(QUICK).run();
    again.expect_code(2).expect_words("RX006");
}

#[test]
fn a_node_that_vanished() {
    let world = World::start(&["--holder", "live", "--downstream", "edge"]);
    edge(&world);
    let (machine, node) = WORKERS[1];
    let target = format!("edge/{machine}");
    world.node_gone("edge", node);
    eventually("Cluster API has noticed", LIMIT, || {
        world.machine_object(machine).to_string().contains("has been deleted while the Machine still exists")
    });

    // Cluster API's word alone is a finding, but nothing to act on.
    let blind = plugin(&world, &["check", "edge", "-o", "json"]).run();
    blind.expect_code(3);
    assert_eq!(codes(&blind.json()), ["RG102"], "{blind}");
    assert_eq!(blind.json()["findings"][0]["fixable"], false, "{blind}");
    let refused = plugin(&world, &["fix", &target]).run();
    refused.expect_code(6).expect_words("--downstream-context");

    fix(&world, &target).expect_code(0);
    assert!(world.machine_object(machine).is_null());
    assert_eq!(writes(&world), [("delete".to_owned(), "machines".to_owned(), machine.to_owned())]);
}

/// The init node: once it is being deleted the planner elects another one and joins the others to that.
#[test]
fn an_init_node_that_is_lost() {
    let world = World::start(&["--holder", "live", "--downstream", "edge"]);
    // The first server never comes, and all others wait for it.
    world.machine("edge", GHOST, "etcd,controlplane");
    for (machine, _) in WORKERS {
        world.machine("edge", machine, "worker");
    }
    eventually("it is the init node", LIMIT, || init_node(&world) == GHOST);
    for (machine, _) in CONTROL_PLANES {
        world.machine("edge", machine, "etcd,controlplane");
    }
    eventually("the planner waits for it", LIMIT, || world.waits_for("edge").contains(GHOST));
    let target = format!("edge/{GHOST}");
    eventually("it is a ghost", LIMIT, || plugin(&world, &["check", &target]).args(QUICK).run().code == 3);
    fix(&world, &target).expect_code(0);
    join_all(&world, "edge", &CONTROL_PLANES);
    join_all(&world, "edge", &WORKERS);
    eventually("all plans are applied", LIMIT, || world.waits_for("edge").is_empty());

    // One that ran, with the others joined to it.
    let init = init_node(&world);
    let (machine, node) = CONTROL_PLANES.into_iter().find(|(machine, _)| *machine == init).unwrap();
    world.node_gone("edge", node);
    fix(&world, &format!("edge/{machine}")).expect_code(0);
    assert!(world.machine_object(machine).is_null());
    let next = init_node(&world);
    assert!(next != init && CONTROL_PLANES.iter().any(|(machine, _)| *machine == next), "{next}");
    eventually("all are joined to the new one", LIMIT, || world.waits_for("edge").is_empty());
    let deleted = |name: &str| ("delete".to_owned(), "machines".to_owned(), name.to_owned());
    assert_eq!(writes(&world), [deleted(GHOST), deleted(machine)]);
}

#[test]
fn whose_plan_is_applied_is_no_ghost() {
    let world = World::start(&["--holder", "live", "--downstream", "edge"]);
    edge(&world);
    // The leader does not notice any more that plans are applied.
    world.rotate("edge");
    eventually("the rotation has begun", LIMIT, || !world.waits_for("edge").is_empty());
    world.provisioner(false);
    let codes_of = |args: &[&str]| {
        let report = plugin(&world, args).args(QUICK).args(["-o", "json"]).run().json();
        codes(&report).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let seen = codes_of(&["check", "edge"]);
    assert!(seen.iter().all(|code| !["RG101", "RG102", "RG104"].contains(&code.as_str())), "{seen:?}");
    world.provisioner(true);
    eventually("the rotation goes through", LIMIT, || world.waits_for("edge").is_empty());

    // An agent that falls silent is no ghost either.
    world.agent(WORKERS[0].0, false);
    world.rotate("edge");
    eventually("the planner waits", LIMIT, || world.waits_for("edge").contains(WORKERS[0].0));
    std::thread::sleep(std::time::Duration::from_secs(2));
    let seen = codes_of(&["check", "edge"]);
    assert!(seen.contains(&"RG203".to_owned()), "{seen:?}");
    assert!(!seen.contains(&"RG101".to_owned()), "{seen:?}");
    let fix = plugin(&world, &["fix", &format!("edge/{}", WORKERS[0].0)]).args(QUICK).run();
    fix.expect_code(6).expect_words("is no ghost");
    assert!(writes(&world).is_empty());
}
