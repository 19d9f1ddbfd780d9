//! Machine ↔ plan Secret ↔ node ↔ address ↔ infra, whichever end is in hand.

use kubectl_rancher_ghosts::{ConnectionInfo, GhostsDoctor, Question};
use rancher_common::doctor::Doctor as _;
use rancher_common::finding::Diagnosis;
use rancher_common::rancher::{CUSTOM_MACHINES, MACHINES};
use rancher_common::report::{FailOn, judge};
use rancher_common::snapshot::{Form, Want};

use crate::catalogue::{GHOST_SERVER, POOL_WORKER};
use crate::recorded::codes;
use crate::world::{Agent, Capi, DAY, GHOST, HOSTS, Host, WORKSPACE, World};

fn world(capi: Capi) -> World {
    let mut world = World::healthy(capi);
    world.register(&GHOST_SERVER, false, Agent::Never, 3 * DAY);
    world.join(&POOL_WORKER);
    world
}

fn whois(world: &World, asked: &str) -> Diagnosis {
    let mut world = world.clone();
    world.question = Question { whois: Some(asked.to_owned()), ..world.question };
    GhostsDoctor.diagnose(&world.question, &world.snapshot())
}

/// The machines that are found, with the cells of their lines.
fn found(diagnosis: &Diagnosis) -> Vec<(String, Vec<String>)> {
    let rows = diagnosis.inventory.iter().flat_map(|inventory| &inventory.rows);
    rows.map(|row| (row.object.name.clone(), row.cells.clone())).collect()
}

#[track_caller]
fn is(world: &World, asked: &str, machine: &str) -> Vec<String> {
    let diagnosis = whois(world, asked);
    let rows = found(&diagnosis);
    let [(name, cells)] = &rows[..] else { panic!("{asked}: {rows:?} {:?}", diagnosis.findings) };
    assert_eq!(name, machine, "{asked}");
    assert!(diagnosis.findings.is_empty(), "{asked}: {:?}", diagnosis.findings);
    assert_eq!(judge(&diagnosis, FailOn::Error).1.code(), 0, "{asked}");
    cells.clone()
}

#[test]
fn from_every_end() {
    for capi in [Capi::New, Capi::Old] {
        let world = world(capi);
        let host = HOSTS[0];
        let node = host.node(true);
        let address = node["status"]["addresses"][0]["address"].as_str().expect("an address").to_owned();
        let ends = [
            host.machine.to_owned(),
            format!("prod/{}", host.machine),
            format!("{}-machine-plan", host.machine),
            host.hostname.to_owned(),
            host.uid(),
            host.cattle_id(),
            format!("rke2://{}", host.hostname),
            address,
        ];
        for end in &ends {
            let cells = is(&world, end, host.machine);
            for told in ["prod", host.machine, "custom-898d97f03763-machine-plan", host.hostname] {
                assert!(cells.iter().any(|cell| cell == told), "{end}: {cells:?}");
            }
            assert!(cells.contains(&format!("CustomMachine/{}", host.machine)), "{cells:?}");
            assert!(cells.contains(&"etcd,control-plane".to_owned()), "{cells:?}");
        }
    }
}

/// A machine that never joined is known by what its host said when it registered.
#[test]
fn a_ghost_is_found_by_its_host() {
    let world = world(Capi::New);
    for end in [GHOST, GHOST_SERVER.hostname, &GHOST_SERVER.uid(), &GHOST_SERVER.cattle_id()] {
        let cells = is(&world, end, GHOST);
        assert!(cells.contains(&format!("({})", GHOST_SERVER.hostname)), "{cells:?}");
    }
}

#[test]
fn a_pools_machine_is_found_by_its_vm() {
    let world = world(Capi::New);
    let cells = is(&world, POOL_WORKER.machine, POOL_WORKER.machine);
    assert!(cells.contains(&format!("VmwarevsphereMachine/{}", POOL_WORKER.machine)), "{cells:?}");
}

#[test]
fn two_machines_of_one_node_are_both_told() {
    let mut world = world(Capi::New);
    let old = Host { machine: "custom-5a5a5a5a5a5a", ..HOSTS[3] };
    world.register(&old, true, Agent::InSync, 90 * DAY);
    let mut names: Vec<String> = found(&whois(&world, HOSTS[3].hostname)).into_iter().map(|(name, _)| name).collect();
    names.sort();
    assert_eq!(names, [HOSTS[3].machine, old.machine]);
}

#[test]
fn nobody_is_told_by_a_code_and_2() {
    let diagnosis = whois(&world(Capi::New), "192.0.2.250");
    assert_eq!(codes(&diagnosis).into_iter().collect::<Vec<_>>(), ["RX006"]);
    assert_eq!(judge(&diagnosis, FailOn::Error).1.code(), 2);
}

/// What was not read is not absent.
#[test]
fn nobody_is_not_told_where_machines_were_not_read() {
    let mut world = world(Capi::New);
    world.forbidden.insert("list machines");
    let diagnosis = whois(&world, "192.0.2.250");
    assert_eq!(codes(&diagnosis).into_iter().collect::<Vec<_>>(), ["RX001"]);
    assert_eq!(judge(&diagnosis, FailOn::Error).1.code(), 5);
}

/// A question that no row answers costs the list of whole machines, not the parts of each of them.
#[test]
fn only_what_may_match_is_read() {
    let mut world = world(Capi::New);
    world.question = Question { whois: Some("nowhere.example.com".to_owned()), ..Question::default() };
    let (_, needs) = world.collect_for(false);
    let gets: Vec<String> = needs
        .iter()
        .filter(
            |need| matches!(&need.want, Want::Get { resource, .. } if [MACHINES, CUSTOM_MACHINES].contains(resource)),
        )
        .map(|need| need.want.to_string())
        .collect();
    assert!(gets.is_empty(), "{gets:?}");
    let whole = Want::list(MACHINES, Some(WORKSPACE), Form::Full);
    assert!(needs.iter().any(|need| need.want == whole));
}

fn file(secret: &str) -> ConnectionInfo {
    ConnectionInfo { path: "info.json".into(), namespace: WORKSPACE.to_owned(), secret: secret.to_owned() }
}

#[test]
fn a_connection_file_of_a_known_and_of_an_unknown_machine() {
    let mut world = world(Capi::New);
    let mut ask = |secret: &str| {
        world.question =
            Question { whois: Some(secret.to_owned()), connection_info: Some(file(secret)), ..Question::default() };
        GhostsDoctor.diagnose(&world.question, &world.snapshot())
    };
    let known = ask("custom-898d97f03763-machine-plan");
    assert_eq!(found(&known).len(), 1);
    assert!(known.passed.iter().any(|passed| passed.message.contains("exists")), "{known:?}");
    assert_eq!(judge(&known, FailOn::Error).1.code(), 0);
    let unknown = ask("custom-0a0a0a0a0a0a-machine-plan");
    assert_eq!(codes(&unknown).into_iter().collect::<Vec<_>>(), ["RG107"]);
    assert!(found(&unknown).is_empty());
}

/// The same file beside a check: also when another cluster is asked for than that of the file's machine.
#[test]
fn a_connection_file_beside_a_check() {
    let mut world = world(Capi::New);
    world.cluster(WORKSPACE, "test", "c-m-b7n5tz9h");
    let there = Host { cluster: "test", machine: "custom-111111111111", ..HOSTS[0] };
    world.register(&there, true, Agent::InSync, 20 * DAY);
    for target in [None, Some("prod"), Some("test")] {
        for (secret, unknown) in [
            ("custom-898d97f03763-machine-plan", false),
            ("custom-111111111111-machine-plan", false),
            ("custom-0a0a0a0a0a0a-machine-plan", true),
        ] {
            let mut world = world.clone();
            world.question.connection_info = Some(file(secret));
            if let Some(target) = target {
                world.ask(target);
            }
            let diagnosis = GhostsDoctor.diagnose(&world.question, &world.snapshot());
            let told = diagnosis.findings.iter().any(|finding| finding.subject.name == secret);
            assert_eq!(told, unknown, "{target:?} {secret}: {:?}", diagnosis.findings);
        }
    }
}

/// Where the Secret cannot be read, its absence is not told.
#[test]
fn a_connection_file_whose_secret_cannot_be_read() {
    let mut world = world(Capi::New);
    world.forbidden.insert("get secrets");
    world.question.connection_info = Some(file("custom-0a0a0a0a0a0a-machine-plan"));
    world.ask("prod");
    let diagnosis = GhostsDoctor.diagnose(&world.question, &world.snapshot());
    let found = codes(&diagnosis);
    assert!(found.contains("RX001") && !found.contains("RG107"), "{found:?}");
}
