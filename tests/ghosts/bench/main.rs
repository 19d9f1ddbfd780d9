//! `make bench`: a check of a fleet against curl and kubectl moving the same fleet whole, on the same real API server, in
//! turn, in one run. What is printed are medians and ratios; absolute times belong to the machine.
#![expect(clippy::unwrap_used, reason = "a benchmark without its world is none")]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use futures::StreamExt as _;
use rancher_common::kube::{self, Api, ConnectionFlags, Environment, Timeouts};
use rancher_testkit::bench::{Command, measure_child};
use rancher_testkit::{ControlPlane, binary};
use serde_json::{Value, json};

/// Sizes of the fleet in machines; a tenth as many clusters. 20 of the machines are ghosts.
const FLEETS: [usize; 3] = [100, 1_000, 10_000];
const GHOSTS: usize = 20;
/// Runs of each command; an odd number has a median.
const RUNS: usize = 7;
/// kubectl takes long enough for fewer.
const KUBECTL_RUNS: usize = 3;
/// Bounds that a change must not break, for the largest fleet.
const OF_CURL: f64 = 0.6;
const OF_KUBECTL: f64 = 1.0 / 15.0;
const PEAK_MIB: f64 = 150.0;
/// Ten times as many machines may take this many times as long.
const GROWTH: f64 = 13.0;
/// The five lists: group, version, plural.
const LISTS: [(&str, &str, &str); 5] = [
    ("cluster.x-k8s.io", "v1beta2", "machines"),
    ("rke.cattle.io", "v1", "rkebootstraps"),
    ("rke.cattle.io", "v1", "custommachines"),
    ("provisioning.cattle.io", "v1", "clusters"),
    ("management.cattle.io", "v3", "clusters"),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().map(String::as_str) == Some("--measure") {
        measure_child(&arguments[1..]);
        return;
    }
    let mut broken = Vec::new();
    let mut before: Option<f64> = None;
    for machines in FLEETS {
        let (seconds, problems) = fleet(machines);
        // Below a tenth of a second the start of the process counts more than the fleet.
        if let Some(smaller) = before.filter(|smaller| *smaller > 0.1)
            && seconds / smaller > GROWTH
        {
            broken.push(format!("{machines} machines take {:.1} times as long as a tenth of them", seconds / smaller));
        }
        before = Some(seconds);
        if Some(&machines) == FLEETS.last() {
            broken.extend(problems);
        }
    }
    assert!(broken.is_empty(), "bounds broken: {}", broken.join("; "));
}

fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Measures one fleet; seconds of a check, and the bounds that are broken.
fn fleet(machines: usize) -> (f64, Vec<String>) {
    let plane = ControlPlane::start();
    let started = Instant::now();
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(populate(&plane, machines));
    say(&format!(
        "{machines:>6} machines in {} clusters, made in {:.0} s",
        machines / 10,
        started.elapsed().as_secs_f64()
    ));

    let (server, ca, token) = (plane.text("server"), plane.text("caFile"), plane.text("adminToken"));
    let kubeconfig = plane.kubeconfig();
    let check = Command::new(plugin(), &["check", "--grace", "1s", "-o", "json"]).env("KUBECONFIG", &kubeconfig);
    let curl = |more: &[&str]| {
        let mut words = vec!["-sS", "--fail", "--cacert", ca, "-H"].into_iter().map(str::to_owned).collect::<Vec<_>>();
        words.push(format!("Authorization: Bearer {token}"));
        words.extend(more.iter().map(|word| (*word).to_owned()));
        for (group, version, plural) in LISTS {
            words.extend([format!("{server}/apis/{group}/{version}/{plural}"), "-o".into(), "/dev/null".into()]);
        }
        Command::new(PathBuf::from("curl"), &words)
    };
    let plain = curl(&["--parallel"]);
    let compressed = curl(&["--parallel", "--compressed"]);
    let names: Vec<String> = LISTS.iter().map(|(group, _, plural)| format!("{plural}.{group}")).collect();
    let kubectl = Command::new(binary("kubectl"), &["get", &names.join(","), "-A"]).env("KUBECONFIG", &kubeconfig);

    let times = medians(&[(&check, RUNS), (&plain, RUNS), (&compressed, RUNS), (&kubectl, KUBECTL_RUNS)]);
    let [ours, plain_time, compressed_time, kubectl_time] = times[..] else { unreachable!("four were measured") };
    let peak = check.peak_mib();
    say(&format!(
        "         check {:.0} ms = {:.2} x curl --parallel = {:.2} x curl --parallel --compressed = 1/{:.0} x kubectl get",
        ours * 1000.0,
        ours / plain_time,
        ours / compressed_time,
        kubectl_time / ours
    ));
    say(&format!("         memory {peak:.0} MiB against {:.0} MiB of kubectl get", kubectl.peak_mib()));

    let report: Value = serde_json::from_slice(&check.output().stdout).unwrap();
    let found = report["findings"].as_array().unwrap().iter().filter(|finding| finding["code"] == "RG101").count();
    let relay = Relay::start(server);
    let through = plane.kubeconfig_of("relayed", &relay.address, token);
    let moved = relay.count(&Command::new(plugin(), &["check", "--grace", "1s"]).env("KUBECONFIG", &through));
    let whole: u64 = LISTS.iter().map(|(g, v, p)| size(&format!("{server}/apis/{g}/{v}/{p}"), ca, token, false)).sum();
    let packed: u64 = LISTS.iter().map(|(g, v, p)| size(&format!("{server}/apis/{g}/{v}/{p}"), ca, token, true)).sum();
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    say(&format!(
        "         bytes {:.1} MiB on the wire against {:.1} MiB of the five lists ({:.1} MiB with gzip); {found} ghosts found",
        mib(moved),
        mib(whole),
        mib(packed)
    ));

    let mut broken = Vec::new();
    if found != GHOSTS {
        broken.push(format!("{found} of {GHOSTS} ghosts found"));
    }
    if ours > OF_CURL * plain_time {
        broken.push(format!("check takes {:.2} x curl --parallel, not {OF_CURL}", ours / plain_time));
    }
    if ours > OF_KUBECTL * kubectl_time {
        broken.push(format!("check is {:.1} times faster than kubectl get, not 15", kubectl_time / ours));
    }
    if peak > PEAK_MIB {
        broken.push(format!("check takes {peak:.0} MiB, not {PEAK_MIB}"));
    }
    (ours, broken)
}

/// The release build of the plugin.
fn plugin() -> PathBuf {
    PathBuf::from(std::env::var_os("PLUGIN_GHOSTS").expect("PLUGIN_GHOSTS names the release binary"))
}

/// Medians in seconds, the commands in turn, so that what the machine does besides hits all of them.
fn medians(commands: &[(&Command, usize)]) -> Vec<f64> {
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); commands.len()];
    for (command, _) in commands {
        command.output();
    }
    for round in 0..RUNS {
        for ((command, _), times) in commands.iter().zip(&mut times).filter(|((_, runs), _)| round < *runs) {
            let started = Instant::now();
            command.output();
            times.push(started.elapsed().as_secs_f64());
        }
    }
    times
        .into_iter()
        .map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        })
        .collect()
}

/// Bytes that curl gets for one list.
fn size(url: &str, ca: &str, token: &str, gzip: bool) -> u64 {
    let mut words =
        vec!["-sS".to_owned(), "--cacert".into(), ca.into(), "-H".into(), format!("Authorization: Bearer {token}")];
    if gzip {
        words.extend(["-H".into(), "Accept-Encoding: gzip".into()]);
    }
    words.extend([url.to_owned(), "-o".into(), "/dev/null".into(), "-w".into(), "%{size_download}".into()]);
    let output = Command::new(PathBuf::from("curl"), &words).output();
    String::from_utf8_lossy(&output.stdout).trim().parse().unwrap()
}

/// Passes connections on and counts what comes back. TLS goes through it untouched.
struct Relay {
    address: String,
    bytes: Arc<AtomicU64>,
}

impl Relay {
    fn start(server: &str) -> Self {
        let upstream = server.trim_start_matches("https://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("https://{}", listener.local_addr().unwrap());
        let bytes = Arc::<AtomicU64>::default();
        let counted = Arc::clone(&bytes);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(&upstream).unwrap();
                let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || std::io::copy(&mut from_client, &mut to_server));
                let (counted, mut from_server, mut to_client) = (Arc::clone(&counted), server, client);
                std::thread::spawn(move || {
                    let mut buffer = [0; 64 << 10];
                    while let Ok(count @ 1..) = from_server.read(&mut buffer) {
                        counted.fetch_add(count as u64, Ordering::Relaxed);
                        if to_client.write_all(&buffer[..count]).is_err() {
                            break;
                        }
                    }
                });
            }
        });
        Self { address, bytes }
    }

    fn count(&self, command: &Command) -> u64 {
        let before = self.bytes.load(Ordering::Relaxed);
        command.output();
        self.bytes.load(Ordering::Relaxed) - before
    }
}

/// Makes the fleet.
async fn populate(plane: &ControlPlane, machines: usize) {
    let api = {
        let flags = ConnectionFlags { kubeconfig: Some(plane.kubeconfig()), ..ConnectionFlags::default() };
        let (_, config) = kube::resolve(&flags, &Environment::from_variables::<&str, &str>([])).unwrap();
        kube::connect(config, "kubectl-rancher-bench", Timeouts::default()).unwrap()
    };
    definitions(&api).await;
    create(&api, vec![("/api/v1/namespaces".into(), json!({"metadata": {"name": "fleet-default"}}))]).await;
    let clusters = machines / 10;
    create(&api, (0..clusters).flat_map(cluster).collect()).await;
    // One ghost in each of the first clusters, or two where there are few.
    let ghosts: Vec<usize> = (0..GHOSTS).map(|index| (index % clusters) * 10 + index / clusters).collect();
    create(&api, (0..machines).flat_map(|index| machine(index, ghosts.contains(&index))).collect()).await;
}

/// Many at once: the server is the bottleneck.
async fn create(api: &Api, objects: Vec<(String, Value)>) {
    futures::stream::iter(objects)
        .for_each_concurrent(64, async |(path, object)| {
            api.create(&path, &object).await.unwrap_or_else(|error| panic!("{error}"));
        })
        .await;
}

/// Cluster API's real CRDs, and Rancher's kinds without a schema. A status is taken as part of the object, so that each
/// takes one request.
async fn definitions(api: &Api) {
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let crds = Path::new(&binary("control-plane")).parent().unwrap().join("cluster-api/crds");
    for plural in ["machines", "clusters"] {
        let text = std::fs::read_to_string(crds.join(format!("cluster.x-k8s.io_{plural}.yaml"))).unwrap();
        let mut crd: Value = rancher_common::yaml::read(&text).unwrap();
        crd["spec"].as_object_mut().unwrap().shift_remove("conversion");
        for version in crd["spec"]["versions"].as_array_mut().unwrap() {
            version.as_object_mut().unwrap().shift_remove("subresources");
        }
        api.create(path, &crd).await.unwrap();
    }
    let kinds = [
        ("management.cattle.io", "v3", "Cluster", "clusters", "Cluster"),
        ("provisioning.cattle.io", "v1", "Cluster", "clusters", "Namespaced"),
        ("rke.cattle.io", "v1", "RKEBootstrap", "rkebootstraps", "Namespaced"),
        ("rke.cattle.io", "v1", "CustomMachine", "custommachines", "Namespaced"),
        ("rke.cattle.io", "v1", "RKEControlPlane", "rkecontrolplanes", "Namespaced"),
    ];
    for (group, version, kind, plural, scope) in kinds {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group, "scope": scope, "names": {"kind": kind, "plural": plural, "listKind": format!("{kind}List")},
                "versions": [{"name": version, "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            },
        });
        api.create(path, &crd).await.unwrap();
    }
    for (group, version, plural) in LISTS {
        let list = format!("/apis/{group}/{version}/{plural}");
        while api.get(&list).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    }
}

fn conditions(kinds: &[&str], status: &str) -> Value {
    kinds
        .iter()
        .map(|kind| {
            json!({"type": kind, "status": status, "reason": format!("{kind}Reason"), "observedGeneration": 1,
                   "message": kind, "lastTransitionTime": "2026-01-01T00:00:00Z"})
        })
        .collect()
}

fn cluster(index: usize) -> Vec<(String, Value)> {
    let (name, id) = (format!("cluster-{index:04}"), format!("c-m-{index:08}"));
    let config = json!({
        "kubernetesVersion": "v1.33.5+rke2r1",
        "rkeConfig": {
            "chartValues": {"rke2-calico": {}}, "dataDirectories": {},
            "etcd": {"snapshotRetention": 5, "snapshotScheduleCron": "0 */5 * * *"},
            "machineGlobalConfig": {"cni": "calico", "disable-kube-proxy": false, "etcd-expose-metrics": false},
            "machineSelectorConfig": [{"config": {"protect-kernel-defaults": false}}], "registries": {},
            "upgradeStrategy": {"controlPlaneConcurrency": "1", "workerConcurrency": "1",
                                "controlPlaneDrainOptions": {"enabled": false, "timeout": 120, "gracePeriod": -1},
                                "workerDrainOptions": {"enabled": false, "timeout": 120, "gracePeriod": -1}},
        },
    });
    let of_rancher =
        ["Ready", "Created", "RKECluster", "Provisioned", "Updated", "Stable", "Reconciled", "Connected", "Waiting"];
    vec![
        (
            "/apis/provisioning.cattle.io/v1/namespaces/fleet-default/clusters".into(),
            json!({
                "apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster",
                "metadata": {"name": name, "namespace": "fleet-default",
                             "annotations": {"field.cattle.io/creatorId": "user-abcde"},
                             "finalizers": ["wrangler.cattle.io/provisioning-cluster-remove", "wrangler.cattle.io/rke-cluster-remove"]},
                "spec": config,
                "status": {"clusterName": id, "ready": true, "agentDeployed": true, "clientSecretName": format!("{name}-kubeconfig"),
                           "fleetWorkspaceName": "fleet-default", "observedGeneration": 2, "conditions": conditions(&of_rancher, "True")},
            }),
        ),
        (
            "/apis/management.cattle.io/v3/clusters".into(),
            json!({
                "apiVersion": "management.cattle.io/v3", "kind": "Cluster",
                "metadata": {"name": id, "annotations": {"provisioning.cattle.io/administrated": "true"},
                             "finalizers": ["wrangler.cattle.io/mgmt-cluster-remove", "controller.cattle.io/cluster-agent-controller-cleanup"]},
                "spec": {"displayName": name, "fleetWorkspaceName": "fleet-default", "internal": false,
                         "desiredAgentImage": "rancher/rancher-agent:v2.14.2", "agentEnvVars": []},
                "status": {"driver": "rke2", "provider": "rke2", "nodeCount": 10, "capacity": {"cpu": "80", "memory": "320Gi", "pods": "1100"},
                           "allocatable": {"cpu": "80", "memory": "320Gi", "pods": "1100"}, "version": {"gitVersion": "v1.33.5+rke2r1"},
                           "conditions": conditions(&of_rancher, "True")},
            }),
        ),
        (
            "/apis/cluster.x-k8s.io/v1beta2/namespaces/fleet-default/clusters".into(),
            json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
                "metadata": {"name": name, "namespace": "fleet-default"},
                "spec": {
                    "controlPlaneRef": {"apiGroup": "rke.cattle.io", "kind": "RKEControlPlane", "name": name},
                    "infrastructureRef": {"apiGroup": "rke.cattle.io", "kind": "RKECluster", "name": name},
                },
                "status": {"phase": "Provisioned", "conditions": [
                    {"type": "Paused", "status": "False", "reason": "NotPaused", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
            }),
        ),
        (
            "/apis/rke.cattle.io/v1/namespaces/fleet-default/rkecontrolplanes".into(),
            json!({
                "apiVersion": "rke.cattle.io/v1", "kind": "RKEControlPlane",
                "metadata": {"name": name, "namespace": "fleet-default"},
                "spec": config, "status": {"conditions": conditions(&of_rancher, "True")},
            }),
        ),
    ]
}

fn machine(index: usize, ghost: bool) -> Vec<(String, Value)> {
    let (name, cluster) = (format!("custom-{index:012x}"), format!("cluster-{:04}", index / 10));
    let role = if index % 10 < 3 { "etcd-role" } else { "worker-role" };
    let labels = json!({
        "cluster.x-k8s.io/cluster-name": cluster, "rke.cattle.io/cluster-name": cluster, "rke.cattle.io/machine-name": name,
        format!("rke.cattle.io/{role}"): "true", "cattle.io/os": "linux",
        "rke.cattle.io/machine-id": format!("{index:063x}"), "rke.cattle.io/node-name": format!("node-{index}"),
    });
    let new = ["Available", "Ready", "BootstrapConfigReady", "InfrastructureReady", "NodeHealthy", "NodeReady"];
    let old = ["Ready", "BootstrapReady", "InfrastructureReady", "NodeHealthy", "PlanApplied", "Reconciled"];
    let state = if ghost { "Unknown" } else { "True" };
    let mut current = conditions(&new, state);
    if let (Some(current), Value::Array(calm)) = (current.as_array_mut(), conditions(&["Deleting", "Paused"], "False"))
    {
        current.extend(calm);
    }
    let mut status = json!({
        "phase": if ghost { "Provisioning" } else { "Running" },
        "conditions": current, "observedGeneration": 2,
        "initialization": {"bootstrapDataSecretCreated": true, "infrastructureProvisioned": !ghost},
        "deprecated": {"v1beta1": {"conditions": conditions(&old, state)}},
        "lastUpdated": "2026-01-01T00:00:00Z",
    });
    let mut spec = json!({
        "clusterName": cluster,
        "bootstrap": {"configRef": {"apiGroup": "rke.cattle.io", "kind": "RKEBootstrap", "name": name},
                      "dataSecretName": format!("{name}-machine-bootstrap")},
        "infrastructureRef": {"apiGroup": "rke.cattle.io", "kind": "CustomMachine", "name": name},
        "deletion": {"nodeDeletionTimeoutSeconds": 10},
    });
    if !ghost {
        let provider = format!("rke2://node-{index}");
        spec["providerID"] = json!(provider);
        status["nodeRef"] = json!({"name": format!("node-{index}")});
        status["addresses"] = json!([{"type": "InternalIP", "address": format!("10.{}.{}.{}", index / 65536, index / 256 % 256, index % 256)},
                                      {"type": "Hostname", "address": format!("node-{index}")}]);
        status["nodeInfo"] = json!({
            "architecture": "amd64", "bootID": format!("{index:036x}"), "containerRuntimeVersion": "containerd://2.1.4-k3s2",
            "kernelVersion": "6.4.0-150600.23.47-default", "kubeProxyVersion": "v1.33.5+rke2r1", "kubeletVersion": "v1.33.5+rke2r1",
            "machineID": format!("{index:032x}"), "operatingSystem": "linux", "osImage": "SUSE Linux Enterprise Server 15 SP6",
            "systemUUID": format!("{index:036x}"),
        });
    }
    let metadata = |finalizer: &str| {
        json!({"name": name, "namespace": "fleet-default", "labels": labels, "finalizers": [finalizer],
               "annotations": {"rke.cattle.io/address": "192.0.2.1", "rke.cattle.io/internal-address": "10.0.0.1",
                               "rke.cattle.io/labels": "{}", "rke.cattle.io/taints": "[]"}})
    };
    let mut objects = vec![
        (
            "/apis/cluster.x-k8s.io/v1beta2/namespaces/fleet-default/machines".into(),
            json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
                   "metadata": metadata("machine.cluster.x-k8s.io"), "spec": spec, "status": status}),
        ),
        (
            "/apis/rke.cattle.io/v1/namespaces/fleet-default/rkebootstraps".into(),
            json!({"apiVersion": "rke.cattle.io/v1", "kind": "RKEBootstrap",
                   "metadata": metadata("wrangler.cattle.io/rke-bootstrap-etcd-removal"), "spec": {"clusterName": cluster},
                   "status": {"dataSecretName": format!("{name}-machine-bootstrap"), "ready": true}}),
        ),
        (
            "/apis/rke.cattle.io/v1/namespaces/fleet-default/custommachines".into(),
            json!({"apiVersion": "rke.cattle.io/v1", "kind": "CustomMachine",
                   "metadata": metadata("wrangler.cattle.io/unmanaged-machine"), "spec": {},
                   "status": {"ready": true, "conditions": conditions(&["Ready"], "True")}}),
        ),
    ];
    if ghost {
        objects.push((
            "/api/v1/namespaces/fleet-default/secrets".into(),
            json!({"metadata": {"name": format!("{name}-machine-plan"), "namespace": "fleet-default", "labels": labels},
                   "type": "rke.cattle.io/machine-plan", "stringData": {"plan": "{\"instructions\":[{\"name\":\"install\"}]}"}}),
        ));
    }
    objects
}
