//! What must hold for every snapshot, tried on random ones and on all of the catalogue.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use clap::ValueEnum as _;
use kubectl_rancher_ghosts::{GhostsDoctor, Question};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use rancher_common::doctor::{Doctor as _, Prescription};
use rancher_common::finding::Diagnosis;
use rancher_common::kinds::{DEPLOYMENTS, LEASES, NODES, SECRETS};
use rancher_common::plan::{Operation, Plan};
use rancher_common::rancher::{
    CAPI_CLUSTERS, CLUSTER_REGISTRATION_TOKENS, MACHINES, RKE_BOOTSTRAPS, RKE_CONTROL_PLANES,
};
use rancher_common::report::{FailOn, Invocation, Output, PlanReport, Report, Verdict, judge, plan_text};
use rancher_common::resource::ResourceType;
use rancher_common::snapshot::{Content, Form, Place, Reading, Right, Snapshot, Want};
use rancher_common::ui::Styles;
use rancher_testkit::memory::{forbidden, reorder};
use serde_json::{Value, json};

use crate::catalogue::{self, GHOST_SERVER, GHOST_WORKER, POOL_WORKER, from};
use crate::recorded::{codes, look};
use crate::world::{
    Agent, CLUSTER, Capi, DAY, HOSTS, HOUR, Host, ID, MARKER, MINUTE, PAUSED, Roles, Step, WORKSPACE, World, ago,
    node_deleted,
};

/// What is wrong with the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Nothing,
    NotThere,
    Young,
    NeverJoined,
    Agent(Agent),
    Vanished,
    Stuck(Step),
    ClaimedTwice,
    LeftInfra,
    LeftBootstrap,
}

/// How the downstream cluster is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connection {
    Own,
    Proxied,
    None,
    Disconnected,
    OfAnotherCluster,
}

/// What makes a plan wrong, whatever else is the case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    NoLeader,
    NoLease,
    CapiDown,
    CapiForbidden,
    NoClusterUid,
    ClusterPaused,
    PlanePaused,
    Restoring,
    PlaneForbidden,
    CapiClusterForbidden,
}

const OBSTACLES: [Obstacle; 10] = [
    Obstacle::NoLeader,
    Obstacle::NoLease,
    Obstacle::CapiDown,
    Obstacle::CapiForbidden,
    Obstacle::NoClusterUid,
    Obstacle::ClusterPaused,
    Obstacle::PlanePaused,
    Obstacle::Restoring,
    Obstacle::PlaneForbidden,
    Obstacle::CapiClusterForbidden,
];

impl Obstacle {
    /// Whether it concerns the removal of what a code is about: leftovers of a machine belong to no cluster any more, and
    /// of a copy of a Node Cluster API knows nothing.
    fn concerns(self, code: &str) -> bool {
        match self {
            Self::NoLeader | Self::NoLease | Self::NoClusterUid => true,
            Self::CapiDown | Self::CapiForbidden => code != "RG108",
            _ => !["RG105", "RG106", "RG108"].contains(&code),
        }
    }

    fn put(self, world: &mut World, namespace: &str, cluster: &str) {
        let ours = |object: &Value| object["metadata"]["namespace"] == namespace;
        match self {
            Self::NoLeader => world.renewed(HOUR),
            Self::NoLease => world.remove(&LEASES, |_| true),
            Self::CapiDown => {
                world.edit(&DEPLOYMENTS, "capi-controller-manager", |d| d["status"]["availableReplicas"] = json!(0));
            }
            Self::CapiForbidden => {
                world.forbidden.insert("list deployments");
            }
            Self::NoClusterUid => {
                world.forbidden.insert("get namespaces");
            }
            Self::ClusterPaused => world.edit(&CAPI_CLUSTERS, cluster, |object| {
                if ours(object) {
                    object["spec"]["paused"] = json!(true);
                    if let Some(condition) = object.pointer_mut("/status/conditions/0/status") {
                        *condition = json!("True");
                    }
                }
            }),
            Self::PlanePaused => world.edit(&RKE_CONTROL_PLANES, cluster, |object| {
                if ours(object) {
                    object["metadata"]["annotations"] = json!({PAUSED: "true"});
                }
            }),
            Self::Restoring => world.edit(&RKE_CONTROL_PLANES, cluster, |object| {
                if ours(object) {
                    object["status"]["etcdSnapshotRestorePhase"] = json!("Shutdown");
                }
            }),
            Self::PlaneForbidden => {
                world.forbidden.insert("get rkecontrolplanes");
            }
            Self::CapiClusterForbidden => {
                world.forbidden.extend(["get clusters.cluster.x-k8s.io", "list clusters.cluster.x-k8s.io"]);
            }
        }
    }
}

/// What is random about a cluster.
#[derive(Clone, Debug)]
struct Case {
    capi: Capi,
    fault: Fault,
    host: Host,
    connection: Connection,
    /// 0: the fleet, 1: the cluster, 2: the machine.
    target: usize,
    obstacles: Vec<Obstacle>,
    planner: Option<&'static str>,
    slow: bool,
    sick_member: bool,
    sibling_joined: bool,
    init_node: bool,
    forbidden: Vec<&'static str>,
}

impl Case {
    fn world(&self) -> World {
        let mut world = World::healthy(self.capi);
        let host = self.host;
        match self.fault {
            Fault::Nothing => world.join(&host),
            Fault::NotThere => {}
            Fault::Young => world.register(&host, false, Agent::Never, 2 * MINUTE),
            Fault::NeverJoined => world.register(&host, false, Agent::Never, 3 * DAY),
            Fault::Agent(agent) => {
                world.join(&host);
                world.put(SECRETS, host.secret(agent, 2 * HOUR));
            }
            Fault::Vanished => {
                world.join(&host);
                world.lose_node(host.hostname);
                let capi = self.capi;
                world.machine(host.machine, |machine| node_deleted(capi, machine, host.hostname));
            }
            Fault::Stuck(step) => {
                world.join(&host);
                world.put_at(&Place::Downstream, NODES, host.node(false));
                world.delete_machine(host.machine, 2 * HOUR, step, "Waiting");
                if self.slow {
                    let mut later = world.find(&MACHINES, host.machine).expect("it").clone();
                    let conditions = later["status"]["conditions"].as_array_mut().expect("conditions");
                    for condition in conditions.iter_mut().filter(|condition| condition["message"] == "Waiting") {
                        condition["message"] = json!("Waiting for less");
                    }
                    world.later(MACHINES, later);
                }
            }
            Fault::ClaimedTwice => {
                let live = HOSTS.iter().find(|live| live.roles == host.roles).expect("a host");
                world.register(&Host { hostname: live.hostname, ..host }, true, Agent::InSync, 90 * DAY);
            }
            Fault::LeftInfra | Fault::LeftBootstrap => {
                world.register(&host, true, Agent::InSync, 10 * DAY);
                world.remove(&MACHINES, |object| object["metadata"]["name"] == host.machine);
                let gone: BTreeSet<&str> = if self.fault == Fault::LeftInfra {
                    ["RKEBootstrap"].into()
                } else {
                    ["CustomMachine", "VmwarevsphereMachine"].into()
                };
                world.memory.objects.retain(|(_, object)| {
                    object["metadata"]["name"] != host.machine
                        || !object["kind"].as_str().is_some_and(|kind| gone.contains(kind))
                });
                world.edit(&RKE_BOOTSTRAPS, host.machine, |o| o["metadata"]["deletionTimestamp"] = json!(ago(DAY)));
            }
        }
        match self.connection {
            Connection::Own => {}
            Connection::Proxied => world.through_rancher(),
            Connection::None => world.no_downstream(),
            Connection::Disconnected => world.disconnect(),
            Connection::OfAnotherCluster => {
                world
                    .memory
                    .others
                    .insert(Place::Downstream, vec![(NODES, json!({"metadata": {"name": "elsewhere", "uid": "1"}}))]);
            }
        }
        if let Some(message) = self.planner {
            world.planner(message);
        }
        if self.sick_member {
            world.put(SECRETS, HOSTS[1].secret(Agent::SickProbes, 2 * HOUR));
        }
        if self.sibling_joined {
            world.put(SECRETS, HOSTS[3].secret(Agent::Silent, 2 * HOUR));
            world.plan_secret(host.machine, |secret| {
                secret["metadata"]["annotations"]["rke.cattle.io/join-url"] = json!("https://192.0.2.99:9345");
            });
            world.plan_secret(HOSTS[3].machine, |secret| {
                secret["metadata"]["annotations"]["rke.cattle.io/joined-to"] = json!("https://192.0.2.99:9345");
            });
        }
        if self.init_node {
            world.plan_secret(host.machine, |secret| {
                secret["metadata"]["labels"]["rke.cattle.io/init-node"] = json!("true");
            });
        }
        match self.target {
            0 => {}
            1 => world.ask(CLUSTER),
            _ => world.ask(&format!("{CLUSTER}/{}", host.machine)),
        }
        for obstacle in &self.obstacles {
            obstacle.put(&mut world, WORKSPACE, CLUSTER);
        }
        world.forbidden.extend(&self.forbidden);
        world
    }

    fn leftover(&self) -> bool {
        matches!(self.fault, Fault::LeftInfra | Fault::LeftBootstrap)
    }
}

/// All readings that can fail.
const READINGS: [&str; 16] = [
    "list clusters.provisioning.cattle.io",
    "list clusters.management.cattle.io",
    "list machines",
    "get machines",
    "list secrets",
    "get secrets",
    "list custommachines",
    "get custommachines",
    "list rkebootstraps",
    "get rkebootstraps",
    "list clusters.cluster.x-k8s.io",
    "get rkecontrolplanes",
    "list nodes",
    "list namespaces",
    "get settings",
    "get leases",
];

fn case() -> impl Strategy<Value = Case> {
    let steps =
        [Step::PreDrain, Step::Drain, Step::Volumes, Step::PreTerminate, Step::Infra, Step::Bootstrap, Step::Node];
    let agents = [Agent::Unnoticed, Agent::Failing, Agent::Silent, Agent::SickProbes, Agent::NotPlanned];
    let mut faults = vec![Fault::Nothing, Fault::NotThere, Fault::Young, Fault::LeftInfra, Fault::LeftBootstrap];
    faults.extend([Fault::NeverJoined; 4]);
    faults.extend([Fault::Vanished; 4]);
    faults.extend([Fault::ClaimedTwice; 3]);
    faults.extend(steps.map(Fault::Stuck));
    faults.extend(agents.map(Fault::Agent));
    let connections = vec![
        Connection::Own,
        Connection::Own,
        Connection::Own,
        Connection::Proxied,
        Connection::None,
        Connection::Disconnected,
        Connection::OfAnotherCluster,
    ];
    let planner = select(vec![
        None,
        None,
        Some("configuring bootstrap node(s) custom-2d74d4c9a104: waiting for agent to check in and apply initial plan"),
        Some("configuring etcd node(s) custom-898d97f03763: waiting for plan to be applied"),
        Some("non-ready worker machine(s) custom-2d74d4c9a104,custom-3524fa7f0d71"),
    ]);
    let obstacles = prop_oneof![4 => Just(Vec::new()), 1 => proptest::sample::subsequence(OBSTACLES.to_vec(), 1..3)];
    let forbidden = prop_oneof![4 => Just(Vec::new()), 1 => proptest::sample::subsequence(READINGS.to_vec(), 1..3)];
    let rare = || prop::bool::weighted(0.15);
    (
        (select(vec![Capi::New, Capi::New, Capi::Old]), select(faults), select(connections)),
        select(vec![GHOST_WORKER, GHOST_WORKER, GHOST_SERVER, POOL_WORKER]),
        (select(vec![0_usize, 1, 2, 2, 2]), obstacles, planner),
        (any::<bool>(), rare(), rare(), rare(), forbidden),
    )
        .prop_map(
            |(
                (capi, fault, connection),
                host,
                (target, obstacles, planner),
                (slow, sick_member, sibling_joined, init_node, forbidden),
            )| Case {
                capi,
                fault,
                host,
                connection,
                target,
                obstacles,
                planner,
                slow,
                sick_member,
                sibling_joined,
                init_node,
                forbidden,
            },
        )
}

fn prescribe(world: &World, snapshot: &Snapshot) -> (Verdict, Prescription) {
    let (diagnosis, plan) = look(world, snapshot);
    (judge(&diagnosis, FailOn::Error).0, plan)
}

/// Code and object of each finding.
fn told(diagnosis: &Diagnosis) -> BTreeSet<(&'static str, String)> {
    diagnosis.findings.iter().map(|finding| (finding.rule.code, finding.subject.to_string())).collect()
}

/// Whether a right is contained in another one.
fn covers(granted: &Right, asked: &Right) -> bool {
    let kind = granted.resource == asked.resource || granted.resource == "*";
    (&granted.verb, &granted.group) == (&asked.verb, &asked.group)
        && kind
        && (granted.namespace.is_none() || granted.namespace == asked.namespace)
        && (granted.name.is_none() || granted.name == asked.name)
}

/// What holds for every action of every plan.
fn check_plan(world: &World, snapshot: &Snapshot, plan: &Plan) -> Result<(), TestCaseError> {
    prop_assert!(!plan.actions.is_empty() && !plan.cluster_uid.is_empty());
    let rights = GhostsDoctor.repair_rights(&world.question);
    for (index, action) in plan.actions.iter().enumerate() {
        prop_assert!(action.object.uid.is_some(), "{action:?}");
        let kind = action.object.kind.as_str();
        let ours =
            ["Machine", "RKEBootstrap", "CustomMachine", "VmwarevsphereMachine", "Node", "Secret", "ServiceAccount"];
        prop_assert!(ours.contains(&kind), "{action:?}");
        let right = action.right();
        prop_assert!(rights.iter().any(|(granted, _)| covers(granted, &right)), "{right}");
        if let Operation::Patch { operations } = &action.operation {
            // A finalizer is removed by its name: the place in the list is tested first, and nothing is ever replaced.
            for (at, operation) in operations.iter().enumerate() {
                let path = operation["path"].as_str().expect("a path");
                prop_assert!(operation["op"] != "replace", "{operation}");
                if path.starts_with("/metadata/finalizers") {
                    prop_assert!(path.split('/').count() == 4, "{operation}");
                    if operation["op"] == "remove" {
                        let test = &operations[at - 1];
                        prop_assert!(
                            test["op"] == "test" && test["path"] == path && test["value"].is_string(),
                            "{test}"
                        );
                    }
                }
            }
        }
        // Later actions rest on what the earlier ones make.
        if index == 0 {
            let seen = snapshot.readings.iter().rev().filter(|r| r.place.is_here()).find_map(|reading| {
                let Content::Objects(objects) = &reading.content else { return None };
                objects.iter().find(|o| o["metadata"]["uid"].as_str() == action.object.uid.as_deref())
            });
            let object = seen.expect("the object was read");
            prop_assert_eq!(action.broken_facts(object), Vec::<String>::new());
        }
    }
    Ok(())
}

/// Everything that is ever shown of a diagnosis and its plan, in every format.
fn shown(world: &World, snapshot: &Snapshot) -> String {
    let (diagnosis, prescription) = look(world, snapshot);
    let invocation = Invocation::default();
    let mut report = Report::of(&GhostsDoctor.about(), &invocation, "live", snapshot, &diagnosis, FailOn::Error);
    let mut all = format!("{diagnosis:?} {prescription:?}");
    if let Prescription::Plan(plan) = prescription {
        all.push_str(&GhostsDoctor.afterwards(&world.question, snapshot, &plan).join("\n"));
        let plan = PlanReport {
            digest: plan.digest(),
            reversibility: plan.reversibility(),
            backup: None,
            checked: Vec::new(),
            plan,
        };
        all.push_str(&plan_text(&plan, "prod", &Styles::default(), 100));
        report.plan = Some(plan);
    }
    for output in Output::value_variants() {
        all.push_str(&report.render(*output, &Styles::default(), 100));
    }
    all
}

/// A fleet large enough that only rows are read of the machines that look well.
static PADDING: LazyLock<[World; 2]> = LazyLock::new(|| [Capi::Old, Capi::New].map(|capi| cluster_of(capi, 101)));

/// A cluster with so many machines that are well.
fn cluster_of(capi: Capi, machines: u32) -> World {
    let mut world = World::empty(capi);
    world.cluster(WORKSPACE, "large", "c-m-q2v8h5ts");
    for index in 0..machines {
        let machine: &'static str = format!("custom-{index:012x}").leak();
        let hostname: &'static str = format!("large-{index}.example.com").leak();
        let host = Host { cluster: "large", ..crate::world::host(machine, hostname, Roles::Worker) };
        world.register(&host, true, Agent::InSync, 80 * DAY);
    }
    world
}

fn in_a_large_fleet(world: &mut World) {
    beside(&PADDING[usize::from(world.capi == Capi::New)], world);
}

/// Adds the cluster of a padding.
fn beside(padding: &World, world: &mut World) {
    for (kind, object) in &padding.memory.objects {
        // The settings and the like are there already.
        let text = object["metadata"]["name"].as_str().unwrap_or_default();
        let new = object["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] == "large"
            || text == "large"
            || text == "c-m-q2v8h5ts"
            || object["metadata"]["namespace"] == "c-m-q2v8h5ts";
        if new {
            world.add(kind.clone(), object.clone());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// Without a required reading nothing is well and nothing is done.
    #[test]
    fn a_required_reading_that_fails_is_never_well(
        case in case(), which in any::<prop::sample::Index>(), missing in any::<bool>(), thorough in any::<bool>(),
    ) {
        let world = case.world();
        let (snapshot, needs) = world.collect_for(thorough);
        let required: Vec<_> = needs.iter().filter(|need| need.required).collect();
        let lost = which.get(&required);
        let mut spoilt = snapshot.clone();
        let is_lost = |reading: &Reading| reading.want == lost.want && reading.place == lost.place;
        if missing {
            spoilt.readings.retain(|reading| !is_lost(reading));
        } else {
            for reading in spoilt.readings.iter_mut().filter(|reading| is_lost(reading)) {
                reading.content = Content::Failed(forbidden(&reading.want));
            }
        }
        // A reading that a list of all of them, or another one, answers too is not missed.
        let still_needed = GhostsDoctor.needs(&world.question, &spoilt).into_iter().any(|need| {
            let view = spoilt.at(&need.place);
            let newest = view.answers_to(&need.want).next_back();
            need.required && newest.is_none_or(|reading| matches!(reading.content, Content::Failed(_)))
        });
        let (diagnosis, plan) = look(&world, &spoilt);
        // Where there is no such target `fix` ends at once.
        if still_needed && !diagnosis.wrong_target {
            let verdict = judge(&diagnosis, FailOn::Error).0;
            prop_assert!(!matches!(verdict, Verdict::OK | Verdict::Warning), "{verdict:?} without {}", lost.want);
            prop_assert!(matches!(plan, Prescription::Refused { .. }), "{plan:?} without {}", lost.want);
        }
    }

    /// No plan while anything stands in its way, whatever else is the case.
    #[test]
    fn obstacles_are_never_overlooked(case in case(), obstacles in proptest::sample::subsequence(OBSTACLES.to_vec(), 1..3)) {
        let case = Case { obstacles, target: 2, ..case };
        let world = case.world();
        let (_, plan) = prescribe(&world, &world.snapshot());
        let none_counts = case.leftover() && !case.obstacles.iter().any(|obstacle| obstacle.concerns("RG105"));
        if !none_counts {
            prop_assert!(!matches!(plan, Prescription::Plan(_)), "{plan:?}");
        }
    }

    /// Machines that are well, too young, or whose agent answers are never touched.
    #[test]
    fn what_is_no_ghost_stays(case in case()) {
        let world = case.world();
        let (_, plan) = prescribe(&world, &world.snapshot());
        if matches!(case.fault, Fault::Nothing | Fault::NotThere | Fault::Young | Fault::Agent(_)) {
            prop_assert!(!matches!(plan, Prescription::Plan(_)), "{plan:?}");
        }
    }

    /// No ordinary deletion where the Node is not proven gone, or belongs to another machine.
    #[test]
    fn a_live_node_is_never_in_the_way(case in case()) {
        let world = case.world();
        let (_, plan) = prescribe(&world, &world.snapshot());
        let Prescription::Plan(plan) = plan else { return Ok(()) };
        let deletes = plan.actions.iter().position(|a| a.resource == MACHINES && matches!(a.operation, Operation::Delete { .. }));
        if let Some(at) = deletes {
            let seen = matches!(case.connection, Connection::Own | Connection::Proxied);
            match case.fault {
                Fault::NeverJoined => {}
                Fault::Vanished => prop_assert!(seen, "{plan:?}"),
                Fault::ClaimedTwice => {
                    let first = format!("{:?}", plan.actions[0].operation);
                    prop_assert!(seen && at == 1 && first.contains("paused"), "{plan:?}");
                    prop_assert!(case.host.roles == Roles::Worker && case.host.pool.is_none() && case.capi == Capi::New);
                }
                fault => prop_assert!(false, "{fault:?} {plan:?}"),
            }
            let guarded = case.fault != Fault::ClaimedTwice;
            prop_assert!(!(guarded && case.sibling_joined), "{plan:?}");
        }
        prop_assert!(!(case.slow && matches!(case.fault, Fault::Stuck(Step::Drain | Step::Volumes))), "{plan:?}");
        prop_assert!(!(case.host.roles.etcd() && matches!(case.fault, Fault::Stuck(Step::Drain | Step::Volumes | Step::Bootstrap))), "{plan:?}");
    }

    /// The order in which the server lists objects means nothing.
    #[test]
    fn the_order_of_lists_means_nothing(case in case(), turn in 1..7_usize) {
        let world = case.world();
        let snapshot = world.snapshot();
        let other = reorder(&snapshot, turn);
        let (diagnosis, plan) = look(&world, &snapshot);
        let (other_diagnosis, other_plan) = look(&world, &other);
        prop_assert_eq!(&plan, &other_plan);
        prop_assert_eq!(diagnosis, other_diagnosis);
    }

    /// A plan is guarded, allowed by what `rbac --for=fix` prints, and there where a finding says so.
    #[test]
    fn a_plan_is_guarded(case in case()) {
        let world = case.world();
        let snapshot = world.snapshot();
        let (diagnosis, plan) = look(&world, &snapshot);
        let fixable = diagnosis.findings.iter().any(|finding| finding.fixable);
        if world.question.machine().is_some() {
            prop_assert_eq!(fixable, matches!(plan, Prescription::Plan(_)), "{:?} {:?}", plan, diagnosis.findings);
        }
        if let Prescription::Plan(plan) = plan {
            check_plan(&world, &snapshot, &plan)?;
            for code in &plan.repairs {
                prop_assert!(diagnosis.findings.iter().any(|finding| finding.rule.code == code && finding.fixable));
            }
        }
    }

    /// What `rbac` prints is enough for everything that is ever read.
    #[test]
    fn rights_cover_every_need(case in case(), whois in any::<bool>()) {
        let mut world = case.world();
        if whois {
            world.question = Question { whois: Some(case.host.hostname.to_owned()), ..Question::default() };
        }
        let (here, downstream) =
            (GhostsDoctor.rights(&world.question), GhostsDoctor.downstream_rights(&world.question));
        for need in world.collect_for(false).1 {
            let asked = need.want.right();
            if asked.resource.starts_with("/apis/") {
                continue;
            }
            let rights = if need.place.is_here() { &here } else { &downstream };
            let granted = rights.iter().find(|(granted, ..)| covers(granted, &asked));
            prop_assert!(granted.is_some(), "{asked}");
            // What is required must not be granted as something that can be left out.
            prop_assert!(!need.required || granted.is_some_and(|(.., required)| *required), "{asked} is required");
        }
    }

    /// What a saved snapshot tells is what a look at the cluster tells.
    #[test]
    fn a_saved_snapshot_tells_the_same(case in case()) {
        // Not every right to get is one to list: with some of them missing the two may differ.
        let world = Case { forbidden: Vec::new(), ..case }.world();
        let (diagnosis, plan) = look(&world, &world.snapshot());
        let (saved, saved_plan) = look(&world, &world.thorough_snapshot());
        prop_assert_eq!(told(&diagnosis), told(&saved));
        // A list of whole namespaces tells the UID of one that may not be read alone.
        if world.forbidden.is_empty() {
            prop_assert_eq!(plan, saved_plan);
        }
    }

    /// No secret of a plan, a token or a kubeconfig is ever shown.
    #[test]
    fn no_secret_is_shown(case in case(), thorough in any::<bool>()) {
        let mut world = case.world();
        world.question.tree = true;
        let snapshot = world.collect_for(thorough).0;
        let text = shown(&world, &snapshot);
        prop_assert!(!text.contains(MARKER), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// In a large fleet only rows are read of the machines that look well: the findings are the same.
    #[test]
    fn rows_tell_what_whole_objects_tell(case in case()) {
        // Not every right to get is one to list: with some of them missing the two may differ.
        let mut world = Case { target: 0, forbidden: Vec::new(), ..case }.world();
        in_a_large_fleet(&mut world);
        let snapshot = world.snapshot();
        let (diagnosis, _) = look(&world, &snapshot);
        let (whole, _) = look(&world, &world.thorough_snapshot());
        prop_assert_eq!(told(&diagnosis), told(&whole), "{:#?}", diagnosis.findings);
        let read = |snapshot: &Snapshot| {
            let whole = |o: &&Value| o["kind"] == "Machine" && o["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] == "large";
            snapshot.readings.iter().filter_map(|r| match &r.content { Content::Objects(o) => Some(o), _ => None })
                .flatten().filter(whole).count()
        };
        if world.capi == Capi::New {
            prop_assert_eq!(read(&snapshot), 0, "machines that are well were read whole");
        }
    }
}

/// The incidents of the catalogue in a large fleet.
#[test]
fn rows_tell_what_whole_objects_tell_in_the_catalogue() {
    for incident in catalogue::all() {
        // Not every right to get is one to list: with only one of them the two ways differ.
        if incident.world.question.namespace.is_some() || incident.world.forbidden.contains("get machines") {
            continue;
        }
        let mut world = incident.world.clone();
        world.question.target = None;
        in_a_large_fleet(&mut world);
        let (diagnosis, _) = look(&world, &world.snapshot());
        let (whole, _) = look(&world, &world.thorough_snapshot());
        assert_eq!(told(&diagnosis), told(&whole), "{}", incident.name);
    }
}

/// Beyond the size up to which leftovers are searched for, parts are counted first: that there are as many of each as
/// Machines shows that none is left over, unless a Machine lacks its own.
#[test]
fn in_a_very_large_fleet_parts_are_listed_only_where_one_may_be_left() {
    let padding = cluster_of(Capi::New, 2001);
    let listed = |snapshot: &Snapshot, asked: Form| {
        snapshot.readings.iter().any(|reading| {
            matches!(&reading.want, Want::List { resource, form, .. } if *resource == RKE_BOOTSTRAPS && *form == asked)
        })
    };
    let left = |world: &mut World, host: &Host, gone: &ResourceType| {
        world.register(host, true, Agent::InSync, 10 * DAY);
        world.remove(gone, |object| object["metadata"]["name"] == host.machine);
    };
    type Change<'a> = &'a dyn Fn(&mut World);
    let cases: [(&str, Change<'_>, bool, &[&str]); 4] = [
        ("all is well", &|_| {}, false, &[]),
        ("a ghost", &|world| world.register(&GHOST_WORKER, false, Agent::Never, 3 * DAY), false, &["RG101"]),
        ("parts without Machine", &|world| left(world, &POOL_WORKER, &MACHINES), true, &["RG105", "RG106"]),
        (
            "as many of each, but one RKEBootstrap is missing and another one left over",
            &|world| {
                world.register(&GHOST_WORKER, false, Agent::Never, 3 * DAY);
                world.remove(&RKE_BOOTSTRAPS, |object| object["metadata"]["name"] == GHOST_WORKER.machine);
                left(world, &POOL_WORKER, &MACHINES);
                world.remove(&POOL_WORKER.infra_kind(), |object| object["metadata"]["name"] == POOL_WORKER.machine);
            },
            true,
            &["RG101", "RG106"],
        ),
    ];
    for (name, change, rows, expected) in cases {
        let mut world = World::healthy(Capi::New);
        change(&mut world);
        beside(&padding, &mut world);
        let snapshot = world.snapshot();
        assert!(listed(&snapshot, Form::Count), "{name}");
        assert_eq!(listed(&snapshot, Form::Table), rows, "{name}");
        let (diagnosis, _) = look(&world, &snapshot);
        let found: Vec<&str> = codes(&diagnosis).into_iter().filter(|code| expected.contains(code)).collect();
        assert_eq!(found, expected, "{name}: {:#?}", diagnosis.findings);
    }
}

/// One guard's evidence at a time is taken from every plan of the catalogue.
#[test]
fn no_plan_without_each_of_its_guards() {
    let mut tried = 0;
    for incident in catalogue::all() {
        let (_, Prescription::Plan(plan)) = look(&incident.world, &incident.world.snapshot()) else { continue };
        let code = incident.code();
        let first = &plan.actions[0].object;
        let namespace = first.namespace.clone().expect("a namespace");
        let cluster = if namespace == "fleet-local" { "local" } else { CLUSTER };
        for obstacle in OBSTACLES.into_iter().filter(|obstacle| obstacle.concerns(&code)) {
            let world = from(incident.world.clone(), |world| obstacle.put(world, &namespace, cluster));
            let (diagnosis, plan) = look(&world, &world.snapshot());
            assert!(!matches!(plan, Prescription::Plan(_)), "{} with {obstacle:?}: {plan:?}", incident.name);
            assert!(!diagnosis.findings.iter().any(|finding| finding.fixable), "{} with {obstacle:?}", incident.name);
            tried += 1;
        }
        // Nothing that the plan needs to be read may fail.
        for forbidden in READINGS {
            let mut world = incident.world.clone();
            world.forbidden.insert(forbidden);
            let snapshot = world.snapshot();
            if let (_, Prescription::Plan(other)) = look(&world, &snapshot) {
                let missed = snapshot.failures().any(|(reading, _)| reading.required);
                assert!(!missed, "{} without «{forbidden}»: {other:?}", incident.name);
            }
        }
    }
    assert!(tried > 200, "{tried}");
}

/// Every plan of the catalogue is guarded.
#[test]
fn every_plan_of_the_catalogue_is_guarded() {
    for incident in catalogue::all() {
        let snapshot = incident.world.snapshot();
        if let (_, Prescription::Plan(plan)) = look(&incident.world, &snapshot) {
            check_plan(&incident.world, &snapshot, &plan).unwrap_or_else(|error| panic!("{}: {error}", incident.name));
        }
    }
}

/// No incident of the catalogue shows a secret; the registration token is shown to who asks for it, and only then.
#[test]
fn the_token_is_shown_to_who_asks_for_it() {
    for incident in catalogue::all() {
        let mut world = incident.world.clone();
        world.question.tree = true;
        let text = shown(&world, &world.snapshot());
        assert!(!text.contains(MARKER), "{}", incident.name);
    }
    let mut world = catalogue::never_joined(Capi::New, &GHOST_WORKER);
    world.question.show_token = true;
    let snapshot = world.snapshot();
    let (_, Prescription::Plan(plan)) = look(&world, &snapshot) else { panic!("no plan") };
    let lines = GhostsDoctor.afterwards(&world.question, &snapshot, &plan).join("\n");
    assert!(lines.contains(MARKER) && lines.contains("--worker"), "{lines}");
    // From 2.13.8 on the token is in a Secret of its own.
    let name = "crt-token-default-token";
    world.edit(&CLUSTER_REGISTRATION_TOKENS, "default-token", |token| {
        token["status"] = json!({"tokenSecretName": name});
    });
    world.put(
        SECRETS,
        json!({"metadata": {"name": name, "namespace": ID, "uid": "1"}, "data": {"token": "aHVudGVyMm1hcmtlcg=="}}),
    );
    let snapshot = world.snapshot();
    let (_, Prescription::Plan(plan)) = look(&world, &snapshot) else { panic!("no plan") };
    assert!(GhostsDoctor.afterwards(&world.question, &snapshot, &plan).join("\n").contains(MARKER));
    // The verb `snapshot` saves no token, whatever the flags.
    assert!(!format!("{:?}", world.thorough_snapshot()).contains(MARKER));
}

/// The random clusters are not all of one kind, so that the properties above say something.
#[test]
fn random_clusters_are_of_all_kinds() {
    let mut runner = TestRunner::deterministic();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..400 {
        let world = case().new_tree(&mut runner).expect("a case").current().world();
        let snapshot = world.snapshot();
        let (diagnosis, plan) = look(&world, &snapshot);
        let kind = match &plan {
            Prescription::Plan(plan) => format!("plan for {}", plan.repairs[0]),
            Prescription::NothingToDo(_) => "nothing".to_owned(),
            Prescription::Refused { .. } => "refused".to_owned(),
            Prescription::Wait(_) => "wait".to_owned(),
        };
        *seen.entry(kind).or_default() += 1;
        for code in codes(&diagnosis) {
            *seen.entry(code.to_owned()).or_default() += 1;
        }
    }
    for kind in ["plan for RG101", "plan for RG102", "plan for RG103", "plan for RG105", "nothing", "refused"] {
        assert!(seen.get(kind).is_some_and(|count| *count >= 4), "{kind}: {seen:?}");
    }
    for code in ["RG104", "RG106", "RG201", "RG202", "RG203", "RG204", "RG206", "RG208", "RG209", "RG210", "RX001"] {
        assert!(seen.get(code).is_some_and(|count| *count >= 2), "{code}: {seen:?}");
    }
}
