//! What must hold for every snapshot, tried on random ones.

use std::collections::BTreeMap;
use std::time::Duration;

use kubectl_rancher_lease::{LeaseDoctor, Question};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use rancher_common::doctor::{Doctor as _, Prescription};
use rancher_common::kinds::{LEASES, NODES, PODS};
use rancher_common::plan::{Action, Operation};
use rancher_common::report::{FailOn, Verdict, judge};
use rancher_common::snapshot::{Content, Reading, Right, Snapshot};
use rancher_common::time::after;
use rancher_testkit::memory::reorder;
use serde_json::json;

use crate::catalogue::{elsewhere, elsewhere_by_name};
use crate::recorded::codes;
use crate::world::{
    self, CLUSTERS, DAY, GONE, HOUR, MINUTE, NAMESPACE, NODE_NAMES, REPLICAS, World, config_map, crash_loop, lease,
    other_lease, pod, released_lease,
};

/// Who is in the Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    Missing,
    Released,
    Gone,
    Replica,
    HostNetwork,
    Foreign,
}

/// How the holder's pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Well,
    NotReady,
    Crashed,
    Terminating,
    Restarted,
    NodeLost,
}

/// What is random about a cluster.
#[derive(Clone, Debug)]
struct Case {
    holder: Holder,
    state: State,
    /// Whether the record changes between two looks.
    renewing: bool,
    seconds: i64,
    age: i64,
    /// How long the other replicas have run.
    others: i64,
    others_ready: bool,
    variables: Vec<(&'static str, &'static str)>,
    version: &'static str,
    legacy: bool,
    disconnected: usize,
    sick_node: bool,
    stale_fleet: bool,
    proxied: bool,
    with_uids: bool,
    forbidden: Vec<&'static str>,
}

impl Case {
    fn leads(&self) -> bool {
        self.renewing && matches!(self.holder, Holder::Replica | Holder::HostNetwork | Holder::Foreign)
    }

    fn identity(&self) -> &'static str {
        match self.holder {
            Holder::Missing | Holder::Released => "",
            Holder::Gone => GONE,
            Holder::Replica => REPLICAS[0],
            Holder::HostNetwork => NODE_NAMES[0],
            Holder::Foreign => "rancher-staging-5f8c7d-q7wz2",
        }
    }

    fn world(&self) -> World {
        let mut world = World::healthy();
        world.version(self.version);
        for (name, value) in &self.variables {
            world.variable(name, value);
        }
        for name in &REPLICAS[1..] {
            world.put(PODS, pod(NAMESPACE, name, NODE_NAMES[1], self.others));
            if !self.others_ready {
                world.edit(&PODS, name, world::not_ready);
            }
        }
        world.edit(&PODS, REPLICAS[0], |pod| match self.state {
            State::Well => {}
            State::NotReady | State::NodeLost => world::not_ready(pod),
            State::Crashed => crash_loop(pod),
            State::Terminating => world::terminating(pod, 20 - self.age),
            State::Restarted => {
                world::restarted(pod, 1, 1, "Error", 70);
                pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"] = json!(world::ago(60));
            }
        });
        if self.state == State::NodeLost {
            world.put(NODES, world::node_object(NODE_NAMES[0], false));
        }
        if self.sick_node {
            world.put(NODES, world::node_object(NODE_NAMES[2], false));
        }
        if self.holder == Holder::HostNetwork {
            for name in REPLICAS {
                world.edit(&PODS, name, world::host_network);
            }
        }
        match self.holder {
            Holder::Missing => world.remove(&LEASES, |lease| lease["metadata"]["name"] == "cattle-controllers"),
            Holder::Released => world.put(LEASES, released_lease(self.age)),
            _ => world.put(LEASES, lease(self.identity(), self.seconds, self.age)),
        }
        if self.renewing && !self.identity().is_empty() {
            world.later(LEASES, lease(self.identity(), self.seconds, self.age - 4));
        }
        if self.legacy {
            let (kind, map) = config_map(Some(self.identity()), self.age);
            world.add(kind, map);
        }
        let ids: Vec<&str> = CLUSTERS.iter().take(self.disconnected).map(|(id, _)| *id).collect();
        world.disconnect(&ids);
        if self.stale_fleet {
            world.add(
                LEASES,
                other_lease("cattle-fleet-system", "fleet-controller-leader-election-shard", "x_y", 30, HOUR),
            );
        }
        if self.proxied {
            world.origin.rancher_proxy = Some("local".to_owned());
        }
        if !self.with_uids {
            for (_, object) in &mut world.objects {
                if object["kind"] != "Namespace" {
                    object["metadata"].as_object_mut().expect("metadata").remove("uid");
                }
            }
        }
        world.forbidden.extend(&self.forbidden);
        world
    }
}

/// All readings that can fail.
const READINGS: [&str; 10] = [
    "get leases",
    "list leases",
    "list deployments",
    "list pods",
    "list clusters",
    "list nodes",
    "list events",
    "get settings",
    "get namespaces",
    "get pods/log",
];

fn case() -> impl Strategy<Value = Case> {
    let holder = select(vec![
        Holder::Missing,
        Holder::Released,
        Holder::Gone,
        Holder::Gone,
        Holder::Replica,
        Holder::Replica,
        Holder::HostNetwork,
        Holder::Foreign,
    ]);
    let state = select(vec![
        State::Well,
        State::Well,
        State::NotReady,
        State::Crashed,
        State::Terminating,
        State::Restarted,
        State::NodeLost,
    ]);
    let variables = select(vec![
        vec![],
        vec![],
        vec![("CATTLE_DEV_MODE", "true")],
        vec![("CATTLE_ELECTION_LEASE_DURATION", "4h"), ("CATTLE_ELECTION_RENEW_DEADLINE", "3h")],
        vec![("CATTLE_ELECTION_RETRY_PERIOD", "10s"), ("CATTLE_ELECTION_RENEW_DEADLINE", "40s")],
        vec![("CATTLE_ELECTION_LEASE_DURATION", "not a duration")],
    ]);
    let forbidden = prop_oneof![3 => Just(Vec::new()), 1 => proptest::sample::subsequence(READINGS.to_vec(), 0..3)];
    (
        (holder, state, any::<bool>(), select(vec![0, 1, 15, 45, 60, 61, 300, 4 * HOUR, 162_000])),
        select(vec![-HOUR, 1, 9, 12, 50, 100, 41 * MINUTE, 5 * HOUR, 31 * HOUR, 50 * HOUR]),
        (select(vec![10, 200, 39 * MINUTE, 5 * DAY]), any::<bool>(), variables),
        (select(vec!["v2.13.2", "v2.13.2", "v2.10.3", "v2.8.2", "dev"]), any::<bool>(), 0..6_usize, any::<bool>()),
        (any::<bool>(), prop::bool::weighted(0.1), prop::bool::weighted(0.9), forbidden),
    )
        .prop_map(
            |(
                (holder, state, renewing, seconds),
                age,
                (others, others_ready, variables),
                (version, legacy, disconnected, sick_node),
                (stale_fleet, proxied, with_uids, forbidden),
            )| Case {
                holder,
                state,
                renewing,
                seconds,
                age,
                others,
                others_ready,
                variables,
                version,
                legacy,
                disconnected,
                sick_node,
                stale_fleet,
                proxied,
                with_uids,
                forbidden,
            },
        )
}

fn prescribe(question: &Question, snapshot: &Snapshot) -> (Verdict, Prescription) {
    let diagnosis = LeaseDoctor.diagnose(question, snapshot);
    let plan = LeaseDoctor.plan(question, snapshot, &diagnosis);
    (judge(&diagnosis, FailOn::Error).0, plan)
}

fn deletes_a_lease(action: &Action) -> bool {
    action.resource == LEASES && matches!(action.operation, Operation::Delete { .. })
}

/// Whether a right is contained in another one.
fn covers(granted: &Right, asked: &Right) -> bool {
    (&granted.verb, &granted.group, &granted.resource) == (&asked.verb, &asked.group, &asked.resource)
        && (granted.namespace.is_none() || granted.namespace == asked.namespace)
        && (granted.name.is_none() || granted.name == asked.name)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// A Lease that is renewed is never deleted, whoever renews it.
    #[test]
    fn a_lease_that_is_renewed_stays(case in case()) {
        let world = case.world();
        let (_, plan) = prescribe(&world.question, &world.snapshot());
        if let Prescription::Plan(plan) = plan {
            prop_assert!(!case.leads() || !plan.actions.iter().any(deletes_a_lease), "{plan:?}");
        }
    }

    /// A process that may lead is ended before its Lease is deleted: it runs on a Ready node, as far as is known.
    #[test]
    fn a_lease_of_a_running_leader_stays(case in case()) {
        let world = case.world();
        let (_, plan) = prescribe(&world.question, &world.snapshot());
        let runs = matches!(case.holder, Holder::Replica | Holder::HostNetwork)
            && matches!(case.state, State::Well | State::NotReady | State::Restarted);
        if let Prescription::Plan(plan) = plan {
            prop_assert!(!runs || !plan.actions.iter().any(deletes_a_lease), "{plan:?}");
        }
    }

    /// While a node is cut off, the Lease of development mode stays until 30 hours have passed: its leader may be there.
    /// The second look comes up to two minutes later, so the oldest case ends that long before.
    #[test]
    fn a_lease_stays_while_its_leader_may_be_on_a_node_that_is_cut_off(
        case in case(), holder in select(vec![Holder::Gone, Holder::Foreign]), age in 60..30 * HOUR - 2 * MINUTE,
    ) {
        let case = Case { holder, age, seconds: world::DEV, renewing: false, sick_node: true, ..case };
        let world = case.world();
        let (_, plan) = prescribe(&world.question, &world.snapshot());
        prop_assert!(!matches!(plan, Prescription::Plan(_)), "{plan:?}");
    }

    /// Without a required reading nothing is well and nothing is done.
    #[test]
    fn a_required_reading_that_fails_is_never_well(
        case in case(), which in any::<prop::sample::Index>(), how in 0..4_usize,
    ) {
        let world = case.world();
        let (snapshot, needs) = world.snapshot_and_needs();
        let required: Vec<_> = needs.iter().filter(|need| need.required).collect();
        let lost = &which.get(&required).want;
        let failed = |reading: &Reading| Reading {
            content: Content::Failed(world::forbidden(&reading.want)), ..reading.clone()
        };
        let count = snapshot.readings_of(lost).count();
        let mut seen = 0;
        let mut spoilt = snapshot.clone();
        spoilt.readings = snapshot.readings.iter().filter_map(|reading| {
            if reading.want != *lost {
                return Some(reading.clone());
            }
            seen += 1;
            match how {
                // All of them fail, all are missing, only the newest fails, only the first fails.
                0 => Some(failed(reading)),
                1 => None,
                2 if seen == count => Some(failed(reading)),
                3 if seen == 1 => Some(failed(reading)),
                _ => Some(reading.clone()),
            }
        }).collect();
        let diagnosis = LeaseDoctor.diagnose(&world.question, &spoilt);
        let (verdict, plan) = prescribe(&world.question, &spoilt);
        prop_assert!(!matches!(verdict, Verdict::OK | Verdict::Warning), "{verdict:?} without {lost}: {diagnosis:#?}");
        prop_assert!(!matches!(plan, Prescription::Plan(_) | Prescription::NothingToDo(_) | Prescription::Wait(_)), "{plan:?} without {lost}");
    }

    /// Two looks that are too close to each other tell nothing.
    #[test]
    fn a_second_look_that_comes_too_early_is_none(case in case()) {
        let world = case.world();
        let mut snapshot = world.snapshot();
        let looks: Vec<usize> = (0..snapshot.readings.len())
            .filter(|index| snapshot.readings[*index].want.right().name.as_deref() == Some("cattle-controllers"))
            .filter(|index| snapshot.readings[*index].want.resource() == Some(&LEASES))
            .collect();
        if let [first, second] = looks[..] {
            snapshot.readings[second].at = after(snapshot.readings[first].at, Duration::from_secs(1));
            let (verdict, plan) = prescribe(&world.question, &snapshot);
            prop_assert!(!matches!(verdict, Verdict::OK | Verdict::Warning), "{verdict:?}");
            prop_assert!(matches!(plan, Prescription::Refused { .. }), "{plan:?}");
        }
    }

    /// The order in which the server lists objects means nothing.
    #[test]
    fn the_order_of_lists_means_nothing(case in case(), turn in 1..7_usize) {
        let world = case.world();
        let snapshot = world.snapshot();
        let other = reorder(&snapshot, turn);
        let (verdict, plan) = prescribe(&world.question, &snapshot);
        let (other_verdict, other_plan) = prescribe(&world.question, &other);
        prop_assert_eq!(verdict, other_verdict);
        prop_assert_eq!(&plan, &other_plan);
        let diagnosis = |snapshot: &Snapshot| LeaseDoctor.diagnose(&world.question, snapshot);
        prop_assert_eq!(codes(&diagnosis(&snapshot)), codes(&diagnosis(&other)));
        prop_assert_eq!(diagnosis(&snapshot), diagnosis(&other));
    }

    /// A plan names the object by UID, rests on facts that hold, and is allowed by what `rbac --for=fix` prints; and
    /// there is one where a finding says that it can be fixed.
    #[test]
    fn a_plan_is_guarded(case in case()) {
        let world = case.world();
        let snapshot = world.snapshot();
        let diagnosis = LeaseDoctor.diagnose(&world.question, &snapshot);
        let plan = LeaseDoctor.plan(&world.question, &snapshot, &diagnosis);
        let fixable = diagnosis.findings.iter().any(|finding| finding.fixable);
        prop_assert_eq!(fixable, matches!(plan, Prescription::Plan(_)), "{:?}", plan);
        let Prescription::Plan(plan) = plan else { return Ok(()) };
        prop_assert!(!plan.actions.is_empty());
        prop_assert!(!plan.cluster_uid.is_empty());
        let rights = LeaseDoctor.repair_rights(&world.question);
        for action in &plan.actions {
            prop_assert!(action.object.uid.is_some());
            prop_assert!(action.facts.iter().any(|fact| fact.pointer == "/metadata/uid" && fact.value.is_string()));
            prop_assert!(action.facts.len() > 1, "{action:?}");
            let right = action.right();
            prop_assert!(rights.iter().any(|(granted, _)| covers(granted, &right)), "{right}");
            let namespace = action.object.namespace.as_deref();
            let object = snapshot.raw(&action.resource, namespace, &action.object.name).expect("read").expect("exists");
            prop_assert_eq!(action.broken_facts(object), Vec::<String>::new());
        }
        for code in &plan.repairs {
            prop_assert!(diagnosis.findings.iter().any(|finding| finding.rule.code == code && finding.fixable));
        }
    }

    /// What `rbac` prints is enough for everything that is ever read.
    #[test]
    fn rights_cover_every_need(case in case()) {
        let world = case.world();
        let rights = LeaseDoctor.rights(&world.question);
        for need in world.snapshot_and_needs().1 {
            let asked = need.want.right();
            let granted = rights.iter().find(|(granted, ..)| covers(granted, &asked));
            prop_assert!(granted.is_some(), "{asked}");
            // What is required must not be granted as something that can be left out.
            prop_assert!(!need.required || granted.is_some_and(|(.., required)| *required), "{asked} is required");
        }
    }
}

/// The random clusters are not all of one kind, so that the properties above say something.
#[test]
fn random_clusters_are_of_all_kinds() {
    let mut runner = TestRunner::deterministic();
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for _ in 0..400 {
        let world = case().new_tree(&mut runner).expect("a case").current().world();
        let (verdict, plan) = prescribe(&world.question, &world.snapshot());
        let kind = match &plan {
            Prescription::Plan(plan) if plan.actions.iter().any(deletes_a_lease) => "deletes the Lease",
            Prescription::Plan(_) => "restarts a pod",
            Prescription::NothingToDo(_) => "nothing",
            Prescription::Refused { .. } => "refused",
            Prescription::Wait(_) => "wait",
        };
        *seen.entry(kind).or_default() += 1;
        *seen.entry(if verdict == Verdict::Inconclusive { "inconclusive" } else { "conclusive" }).or_default() += 1;
    }
    for kind in ["deletes the Lease", "restarts a pod", "nothing", "refused", "wait", "inconclusive", "conclusive"] {
        assert!(seen.get(kind).is_some_and(|count| *count >= 4), "{kind}: {seen:?}");
    }
}

/// The namespace that a setting names is known only after reading it: with `--rancher-namespace` all is granted.
#[test]
fn rights_cover_another_namespace() {
    let named = elsewhere_by_name();
    let mut by_setting = elsewhere();
    by_setting.setting("namespace", "rancher-system");
    let usual = LeaseDoctor.rights(&by_setting.question);
    let elsewhere = LeaseDoctor.rights(&named.question);
    for (world, rights) in [(&named, elsewhere.clone()), (&by_setting, usual.into_iter().chain(elsewhere).collect())] {
        for need in world.snapshot_and_needs().1 {
            let asked = need.want.right();
            assert!(rights.iter().any(|(granted, ..)| covers(granted, &asked)), "{asked}");
        }
        let diagnosis = LeaseDoctor.diagnose(&world.question, &world.snapshot());
        assert!(diagnosis.findings.is_empty(), "{:?}", diagnosis.findings);
    }
}
