//! What holds for every snapshot.

use proptest::prelude::*;
use rancher_common::doctor::Prescription;
use rancher_common::finding::Severity;
use rancher_common::kinds::LEASES;
use rancher_common::snapshot::{Content, Snapshot};
use serde_json::{Value, json};

use crate::build::*;
use crate::{codes, diagnose, kind, prescribe};

const NAMES: [&str; 3] = [LEADER, "rancher-6f9d5c7b8-bbbbb", "rancher-6f9d5c7b8-ccccc"];

fn any_pod(index: usize) -> impl Strategy<Value = Value> {
    (0..7_u8, 1..4_u8, prop::sample::select(vec![5_i64, 100, 200, 4000, 259_000]), any::<bool>()).prop_map(
        move |(state, node, started, host)| {
            let pod = pod(NAMES[index], node).started(started);
            let pod = if host { pod.host_network() } else { pod };
            match state {
                0 => pod.not_ready(),
                1 => pod.waiting("CrashLoopBackOff", "back-off").ended_before(1, 60, 3),
                2 => pod.terminating(-20),
                3 => pod.terminating(4000).not_ready(),
                4 => pod.not_ready().change("/status/phase", json!("Failed")),
                _ => pod,
            }
        },
    )
}

fn any_lease() -> impl Strategy<Value = Option<Value>> {
    let holder = prop::sample::select(vec![
        NAMES[0],
        NAMES[1],
        GONE,
        "",
        "node-1",
        "node-2.example.com",
        "cattle-cluster-agent-x",
    ]);
    let seconds = prop::sample::select(vec![0_i64, 1, 45, 60, 61, 300, 900, 162_000]);
    let renewed = prop::sample::select(vec![-30_i64, 1, 12, 20, 46, 70, 600, 2460, 110_000, 200_000]);
    prop::option::weighted(0.9, (holder, seconds, renewed).prop_map(|(h, s, r)| lease(h, s, ago(r))))
}

/// How the second look relates to the first.
#[derive(Clone, Debug)]
enum Second {
    None,
    Same,
    Other(Option<Value>),
}

fn any_world() -> impl Strategy<Value = World> {
    let second =
        prop_oneof![1 => Just(Second::None), 6 => Just(Second::Same), 2 => any_lease().prop_map(Second::Other)];
    (
        any_lease(),
        second,
        prop::collection::vec(0..3_usize, 0..4).prop_flat_map(|mut which| {
            which.sort_unstable();
            which.dedup();
            which.into_iter().map(any_pod).collect::<Vec<_>>()
        }),
        (any::<bool>(), any::<bool>()),
        prop::option::of(prop::collection::vec(any::<bool>(), 3)),
        prop::sample::select(vec![None, Some("v2.7.9"), Some("v2.13.2"), Some("v2.10.0")]),
        0..8_usize,
    )
        .prop_map(|(lease, second, pods, (connected, dev), nodes, version, forbidden)| {
            let mut world = World::healthy().pods(pods);
            world.lease = lease;
            world.second = match second {
                Second::None => None,
                Second::Same => Some(world.lease.clone()),
                Second::Other(other) => Some(other),
            };
            world.clusters = Some(vec![local(), cluster("c-m-11111", "shop", connected)]);
            if dev {
                world.deployments = vec![deployment("rancher", "rancher-2.13.2", 3, &[("CATTLE_DEV_MODE", "1")])];
            }
            world.nodes = nodes.map(|ready| ready.into_iter().zip(1..).map(|(ready, n)| node(n, ready)).collect());
            world.version = version.map(str::to_owned);
            if let Some(reading) = world.clone().snapshot().readings.get(forbidden).filter(|_| forbidden < 4) {
                world.forbidden = vec![reading.want.clone()];
            }
            world
        })
}

fn has_unknown(snapshot: &Snapshot) -> bool {
    diagnose(snapshot).findings.iter().any(|finding| finding.severity == Severity::Unknown)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// A Lease is deleted only if two looks, one pause apart, saw the same dead record, and the old leader cannot lead.
    #[test]
    fn never_a_plan_without_its_guards(world in any_world()) {
        let snapshot = world.snapshot();
        let Prescription::Plan(plan) = prescribe(&snapshot) else { return Ok(()) };
        prop_assert!(!has_unknown(&snapshot));
        prop_assert!(!plan.cluster_uid.is_empty());
        let want = lease_want();
        let looks: Vec<_> = snapshot.readings_of(&want).collect();
        prop_assert_eq!(looks.len(), 2);
        prop_assert!(rancher_common::time::between(looks[0].at, looks[1].at) >= PAUSE);
        for action in &plan.actions {
            prop_assert!(action.object.uid.is_some());
            prop_assert!(!action.facts.is_empty());
            if action.resource == LEASES {
                // Nobody has renewed between the looks, and it is a record of more than a minute.
                prop_assert_eq!(&looks[0].content, &looks[1].content);
                let record = world.lease.as_ref().expect("a lease");
                prop_assert!(record["spec"]["leaseDurationSeconds"].as_i64() > Some(60));
                prop_assert!(record["spec"]["holderIdentity"] != "");
                // A version that locks with the ConfigMap too is left alone.
                prop_assert!(world.version.as_deref() != Some("v2.7.9"));
                // Somebody is there to take it.
                prop_assert!(world.pods.iter().any(|pod| pod["status"]["conditions"][0]["status"] == "True"));
                // Within the RenewDeadline of development mode no node may be cut off, unless the process is known to have ended.
                let age = record["spec"]["renewTime"].as_str().and_then(|at| at.parse().ok()).map(|at| rancher_common::time::between(at, now()));
                if record["spec"]["leaseDurationSeconds"] == 162_000 && age.is_some_and(|age| age.as_secs() < 108_000) && record["spec"]["holderIdentity"] == GONE {
                    let nodes = world.nodes.as_ref().expect("nodes");
                    prop_assert!(nodes.iter().all(|node| node["status"]["conditions"][0]["status"] == "True"));
                }
                // A running, reachable holder is restarted, its Lease is not taken away.
                let holder = record["spec"]["holderIdentity"].as_str().unwrap_or_default();
                let alive = world.pods.iter().any(|pod| {
                    pod["metadata"]["name"] == holder && pod["spec"]["hostNetwork"] != json!(true)
                        && pod["metadata"]["deletionTimestamp"].is_null()
                        && pod["status"]["phase"] == "Running"
                        && !pod["status"]["containerStatuses"][0]["state"]["running"].is_null()
                        && world.nodes.as_ref().is_some_and(|nodes| nodes.iter().any(|node| {
                            node["metadata"]["name"] == pod["spec"]["nodeName"]
                                && node["status"]["conditions"][0]["status"] == "True"
                        }))
                });
                prop_assert!(!alive);
            }
        }
    }

    /// A holder that renews is never robbed of its Lease, whoever it is.
    #[test]
    fn a_renewing_holder_keeps_its_lease(world in any_world(), holder in prop::sample::select(vec![LEADER, GONE, "node-1"]), seconds in prop::sample::select(vec![45_i64, 162_000])) {
        let world = world.edit(|w| {
            w.lease = Some(lease(holder, seconds, ago(13)));
            w.second = Some(Some(lease(holder, seconds, ago(1))));
        });
        prop_assert!(!matches!(prescribe(&world.snapshot()), Prescription::Plan(plan) if plan.actions.iter().any(|a| a.resource == LEASES)));
    }

    /// The generator does make worlds that are repaired; a holder that is alive and Ready is restarted at most.
    #[test]
    fn a_dead_holder_with_a_long_record_is_repaired(seconds in 61_i64..162_000, renewed in 700_i64..2460) {
        let world = World::dead(GONE, seconds.max(3000), renewed);
        prop_assert!(matches!(prescribe(&world.snapshot()), Prescription::Plan(_)));
    }

    /// Nothing is green while a required reading is missing or has failed.
    #[test]
    fn never_green_without_a_required_reading(world in any_world(), drop in 0..12_usize) {
        let mut snapshot = world.snapshot();
        if let Some(index) = (drop < snapshot.readings.len()).then_some(drop).filter(|index| snapshot.readings[*index].required) {
            let want = snapshot.readings[index].want.clone();
            snapshot.readings.retain(|reading| reading.want != want);
        }
        let needs = rancher_common::doctor::Doctor::needs(&kubectl_rancher_lease::LeaseDoctor, &kubectl_rancher_lease::Question::default(), &snapshot);
        let open = needs.iter().any(|need| need.required && (!snapshot.answers(need)
            || snapshot.readings_of(&need.want).next_back().is_some_and(|r| matches!(r.content, Content::Failed(_)))));
        prop_assert_eq!(open, has_unknown(&snapshot));
        if open {
            prop_assert!(!matches!(prescribe(&snapshot), Prescription::Plan(_) | Prescription::NothingToDo(_)));
        }
    }

    /// The order in which the server lists objects changes nothing.
    #[test]
    fn list_order_does_not_matter(world in any_world(), seed in any::<u64>()) {
        let snapshot = world.snapshot();
        let mut shuffled = snapshot.clone();
        for reading in &mut shuffled.readings {
            if let Content::Objects(objects) = &mut reading.content {
                objects.reverse();
                if !objects.is_empty() {
                    let by = usize::try_from(seed % 7).unwrap_or_default() % objects.len();
                    objects.rotate_left(by);
                }
            }
        }
        let (one, other) = (diagnose(&snapshot), diagnose(&shuffled));
        prop_assert_eq!(codes(&one), codes(&other));
        prop_assert_eq!(one, other);
        prop_assert_eq!(kind(&prescribe(&snapshot)), kind(&prescribe(&shuffled)));
    }
}
