//! Somebody renews, takes or recreates the Lease in the moment between the plan and the write. Its deletion must not
//! happen then, ever.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rancher_common::kinds::LEASES;
use rancher_common::kube::{self, Api, ConnectionFlags, Environment, Timeouts};
use rancher_common::plan::apply::{apply, preflight};
use rancher_common::plan::backup::{self, Backup};
use rancher_common::plan::consent::{self, Consent, Given};
use rancher_common::plan::{Action, Fact, Operation, Plan, Reversibility};
use rancher_common::resource::ObjectRef;
use rancher_common::snapshot::Collector;
use rancher_common::ui::{ColorChoice, Ui};
use rancher_testkit::{ControlPlane, Fault, FaultProxy, Gate, Match, World};
use serde_json::{Value, json};

use super::{PLUGIN, at_once};

const COLLECTION: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
const ROUNDS: usize = 200;
const FACTS: [&str; 4] = ["/metadata/uid", "/spec/holderIdentity", "/spec/renewTime", "/spec/leaseDurationSeconds"];

/// What the other one does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rival {
    /// The old leader is alive after all.
    Renews,
    /// A replica takes over.
    Takes,
    /// The Lease is deleted and made anew, by a replica.
    Recreates,
}

/// Where the plugin is stopped meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// Before its last look.
    Look,
    /// Between its last look and the deletion.
    Delete,
}

fn lease(name: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {
            "holderIdentity": "rancher-5d7c8f9b64-q2xvz", "leaseDurationSeconds": 162_000, "leaseTransitions": 17,
            "acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": "2026-01-01T00:00:00.000000Z",
        },
    })
}

fn api(kubeconfig: std::path::PathBuf) -> Api {
    let flags = ConnectionFlags { kubeconfig: Some(kubeconfig), ..ConnectionFlags::default() };
    let (_, config) = kube::resolve(&flags, &Environment::from_variables::<&str, &str>([])).unwrap();
    kube::connect(config, "kubectl-rancher-races", Timeouts::default()).unwrap()
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// Does it, and hands back the Lease as it is then.
async fn interfere(api: &Api, name: &str, rival: Rival) -> Value {
    let path = format!("{COLLECTION}/{name}");
    let patch = |operations: Value| serde_json::from_value(operations).unwrap();
    let renew = json!({"op": "replace", "path": "/spec/renewTime", "value": "2026-06-01T12:00:00.000000Z"});
    let take = json!({"op": "replace", "path": "/spec/holderIdentity", "value": "rancher-6f74c75b7f-6sct8"});
    match rival {
        Rival::Renews => api.patch_json(&path, &patch(json!([renew]))).await.unwrap().body,
        Rival::Takes => api.patch_json(&path, &patch(json!([renew, take]))).await.unwrap().body,
        Rival::Recreates => {
            api.delete(&path, &json!({"apiVersion": "v1", "kind": "DeleteOptions"})).await.unwrap();
            let mut new = lease(name);
            new["spec"]["holderIdentity"] = json!("rancher-6f74c75b7f-6sct8");
            api.create(COLLECTION, &new).await.unwrap().body
        }
    }
}

/// One race: the plan is made, agreed to and under way when the rival comes in between.
fn race(plane: &ControlPlane, proxy: &FaultProxy, home: &std::path::Path, name: &str, rival: Rival, held: Held) {
    let before = block_on(async { api(plane.kubeconfig()).create(COLLECTION, &lease(name)).await.unwrap().body });
    let plan = Plan {
        tool: "rancher-lease".into(),
        cluster_uid: "races".into(),
        repairs: vec!["RL101".into()],
        actions: vec![Action {
            resource: LEASES,
            object: ObjectRef::of(&LEASES, &before),
            operation: Operation::Delete { grace_period_seconds: None },
            why: "it is a race".into(),
            changes: Vec::new(),
            facts: FACTS
                .map(|pointer| Fact { pointer: pointer.into(), value: before.pointer(pointer).unwrap().clone() })
                .into(),
            wait: None,
            dependents: Vec::new(),
            reversibility: Reversibility::Reversible,
            leaves: Vec::new(),
        }],
        then: "nothing".into(),
    };
    let (gate, path) = (Gate::default(), format!("{COLLECTION}/{name}"));
    let rule = match held {
        // The first look is that of the preflight.
        Held::Look => Match::of("GET", &path).exactly().after(1),
        Held::Delete => Match::of("DELETE", &path).exactly().dry_run(false),
    };
    proxy.rule(rule, Fault::Hold(gate.clone()));
    let (applied, after) = std::thread::scope(|scope| {
        let applying = scope.spawn(|| {
            block_on(async {
                let collector = Collector::new(api(proxy.kubeconfig()));
                let checked = preflight(&collector, &plan).await.unwrap();
                let given = Given { yes: false, confirm: Some(plan.digest()) };
                let ui = Ui::new(ColorChoice::Never, true, true);
                let Consent::Confirmed(confirmed) = consent::ask(&plan, "here", &given, &ui) else {
                    panic!("a digest is consent");
                };
                let id = backup::id(&plan, collector.now());
                let mut backup = Backup::create(&home.join(name), &plan, &id, &checked.objects).unwrap();
                apply(&collector, &plan, confirmed, &mut backup, || false, |_| ()).await.unwrap()
            })
        });
        gate.wait(Duration::from_secs(60));
        let after = block_on(async { interfere(&api(plane.kubeconfig()), name, rival).await });
        gate.open();
        (applying.join().unwrap(), after)
    });
    let what = format!("{name} {rival:?} {held:?}: {applied:?}");
    assert_eq!((applied.done, applied.unknown), (0, 0), "{what}");
    assert!(applied.stopped.is_some(), "{what}");
    let now = block_on(async { api(plane.kubeconfig()).get(&path).await.unwrap().body });
    for pointer in FACTS.into_iter().chain(["/metadata/resourceVersion"]) {
        assert_eq!(now.pointer(pointer), after.pointer(pointer), "{pointer} of {what}");
    }
    // Held before the look, it must not even have tried.
    let tried = proxy.seen().iter().filter(|seen| seen.method == "DELETE" && seen.uri == path).count();
    assert_eq!(tried, usize::from(held == Held::Delete), "{what}");
}

#[test]
fn two_hundred_races_delete_nothing() {
    let plane = ControlPlane::start();
    let home = tempfile::tempdir().unwrap();
    let won = AtomicUsize::new(0);
    let rivals = [Rival::Renews, Rival::Takes, Rival::Recreates];
    let rounds: Vec<usize> = (0..ROUNDS).collect();
    // One proxy for each thread: rules and records are searched by every request.
    let proxies: Vec<FaultProxy> = (0..8).map(|_| FaultProxy::start(&plane)).collect();
    at_once(proxies.len(), &proxies, |proxy| {
        let mine = proxies.iter().position(|other| std::ptr::eq(other, proxy)).unwrap();
        for round in rounds.iter().skip(mine).step_by(proxies.len()) {
            let held = if round % 2 == 0 { Held::Delete } else { Held::Look };
            proxy.reset();
            race(&plane, proxy, home.path(), &format!("race-{round}"), rivals[round % 3], held);
            won.fetch_add(1, Ordering::Relaxed);
        }
    });
    assert_eq!(won.into_inner(), ROUNDS);
}

/// Whole runs of `fix`, many at once against one Lease: all stand before the same deletion when a rival touches it.
#[test]
fn two_hundred_runs_that_lose_the_race_refuse() {
    const AT_ONCE: usize = 25;
    let world = World::start(&["--holder", "dead", "--clusters", "1", "--start-replicas=false"]);
    let proxy = FaultProxy::start(&world);
    let name = "cattle-controllers";
    let path = format!("{COLLECTION}/{name}");
    let spec = json!({"spec": world.lease()["spec"]}).to_string();
    let rivals = [Rival::Renews, Rival::Takes, Rival::Recreates];
    for round in 0..ROUNDS / AT_ONCE {
        let rival = rivals[round % rivals.len()];
        proxy.reset();
        let gate = Gate::default();
        proxy.rule(Match::of("DELETE", &path).exactly().dry_run(false), Fault::Hold(gate.clone()));
        let programs: Vec<_> = (0..AT_ONCE)
            .map(|_| {
                let program = rancher_testkit::Program::new(PLUGIN).env("KUBECONFIG", proxy.kubeconfig());
                program.args(["fix", "--yes", "-o", "json", "--request-timeout", "2m"])
            })
            .collect();
        let runs: Vec<_> = programs.iter().map(rancher_testkit::Program::start).collect();
        gate.wait_for(AT_ONCE, Duration::from_secs(90));
        let after = block_on(async { interfere(&api(world.kubeconfig()), name, rival).await });
        gate.open();
        for run in runs {
            let run = run.wait();
            run.expect_code(6);
            assert_eq!(run.json()["changed"], false, "{rival:?}: {run}");
        }
        let now = world.lease();
        assert_eq!(now["metadata"]["uid"], after["metadata"]["uid"], "{rival:?}");
        assert_eq!(now["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"], "{rival:?}");
        // As it was, for the next round.
        world.kubectl(&["patch", "lease", "-n", "kube-system", name, "--type", "merge", "-p", &spec]);
    }
}

#[test]
fn a_whole_run_that_loses_a_race_refuses() {
    let world = World::start(&["--holder", "dead", "--clusters", "1", "--start-replicas=false"]);
    let proxy = FaultProxy::start(&world);
    let name = "cattle-controllers";
    let path = format!("{COLLECTION}/{name}");
    let original = world.lease();
    for (rival, held) in [
        (Rival::Renews, Held::Delete),
        (Rival::Takes, Held::Look),
        (Rival::Recreates, Held::Look),
        (Rival::Takes, Held::Delete),
    ] {
        proxy.reset();
        let gate = Gate::default();
        let rule = match held {
            // Two looks of the diagnosis, one of the preflight.
            Held::Look => Match::of("GET", &path).exactly().after(3),
            Held::Delete => Match::of("DELETE", &path).exactly().dry_run(false),
        };
        proxy.rule(rule, Fault::Hold(gate.clone()));
        let fix = rancher_testkit::Program::new(PLUGIN).env("KUBECONFIG", proxy.kubeconfig());
        let fix = fix.args(["fix", "--yes", "-o", "json"]).start();
        gate.wait(Duration::from_secs(60));
        let after = block_on(async { interfere(&api(world.kubeconfig()), name, rival).await });
        gate.open();
        let fix = fix.wait();
        fix.expect_code(6);
        let report = fix.json();
        assert_eq!((report["changed"].as_bool(), report["exitCode"].as_i64()), (Some(false), Some(6)), "{report:#}");
        assert_eq!(proxy.count("DELETE", &path), usize::from(held == Held::Delete), "{rival:?} {held:?}");
        let now = world.lease();
        assert_eq!(now["metadata"]["uid"], after["metadata"]["uid"]);
        assert_eq!(now["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"]);
        // As it was, for the next round.
        let spec = json!({"spec": original["spec"]}).to_string();
        world.kubectl(&["patch", "lease", "-n", "kube-system", name, "--type", "merge", "-p", &spec]);
    }
}
