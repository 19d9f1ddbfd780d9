//! A cluster as a set of objects and logs, from which snapshots are taken in the way the plugin asks for them: needs are
//! answered until nothing new is wanted, and a second look sees what has changed since the first.
//!
//! All times are relative to [`START`], the moment of the first reading.

use std::ops::{Deref, DerefMut};

use kubectl_rancher_lease::{LeaseDoctor, Question};
use rancher_common::doctor::Doctor as _;
use rancher_common::kinds::{CONFIG_MAPS, DEPLOYMENTS, EVENTS, LEASES, NAMESPACES, NODES, PODS};
use rancher_common::rancher::{MANAGEMENT_CLUSTERS, SETTINGS};
use rancher_common::resource::ResourceType;
use rancher_common::snapshot::{Need, Origin, Snapshot};
use rancher_common::time::{Timestamp, rfc3339};
pub(crate) use rancher_testkit::memory::{Memory, forbidden, uid};
use serde_json::{Value, json};

/// The moment of the first reading.
pub(crate) const START: &str = "2026-12-01T00:00:00Z";
/// Where the chart's documentation puts Rancher.
pub(crate) const NAMESPACE: &str = "cattle-system";
/// The replicas of [`World::healthy`].
pub(crate) const REPLICAS: [&str; 3] =
    ["rancher-7d9c5b6f4d-5kq2n", "rancher-7d9c5b6f4d-8x4wd", "rancher-7d9c5b6f4d-tz7hm"];
/// A replica that is no more.
pub(crate) const GONE: &str = "rancher-7d9c5b6f4d-x2v9p";
/// The nodes of the management cluster.
pub(crate) const NODE_NAMES: [&str; 3] = ["node-1.example.com", "node-2.example.com", "node-3.example.com"];
/// The downstream clusters: id and display name.
pub(crate) const CLUSTERS: [(&str, &str); 5] = [
    ("c-m-8x2kq4wd", "shop"),
    ("c-m-b7n5tz9h", "warehouse"),
    ("c-m-f4kq8m2p", "office"),
    ("c-m-j9w3r6xd", "laboratory"),
    ("c-m-q2v8h5ts", "archive"),
];
/// Seconds in a Lease of development mode.
pub(crate) const DEV: i64 = 162_000;
/// A minute, an hour and a day in seconds.
pub(crate) const MINUTE: i64 = 60;
pub(crate) const HOUR: i64 = 3600;
pub(crate) const DAY: i64 = 86_400;

/// [`START`].
pub(crate) fn start() -> Timestamp {
    START.parse().expect("a time")
}

fn at(seconds_ago: i64) -> Timestamp {
    start().checked_sub(jiff::SignedDuration::from_secs(seconds_ago)).expect("a time")
}

/// As `metav1.Time` is written; negative is later than [`START`].
pub(crate) fn ago(seconds: i64) -> String {
    rfc3339(at(seconds))
}

/// As `metav1.MicroTime` is written.
pub(crate) fn micro(seconds_ago: i64) -> String {
    format!("{:.6}", at(seconds_ago))
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct World {
    /// The plugin's own flags.
    pub question: Question,
    /// The cluster.
    pub memory: Memory,
}

impl Deref for World {
    type Target = Memory;

    fn deref(&self) -> &Memory {
        &self.memory
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }
}

impl World {
    /// A cluster without anything.
    pub(crate) fn empty() -> Self {
        let origin = Origin {
            context: Some("management".to_owned()),
            server: "https://192.0.2.10:6443".to_owned(),
            ..Origin::default()
        };
        let mut memory = Memory::new(origin, start());
        memory.add(
            NAMESPACES,
            json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": "kube-system", "uid": uid("kube-system"), "creationTimestamp": ago(200 * DAY)},
            }),
        );
        Self { question: Question::default(), memory }
    }

    /// Three replicas of Rancher on three nodes, the first of them leads; five downstream clusters are connected.
    pub(crate) fn healthy() -> Self {
        let mut world = Self::empty();
        world.add(DEPLOYMENTS, deployment(NAMESPACE, "rancher", 3));
        for (name, node) in REPLICAS.into_iter().zip(NODE_NAMES) {
            world.add(PODS, pod(NAMESPACE, name, node, 5 * DAY));
            world.add(NODES, node_object(node, true));
        }
        world.add(LEASES, lease(REPLICAS[0], 45, 1));
        world.add(
            LEASES,
            other_lease("cattle-fleet-system", "fleet-agentmanagement-lock", "fleet-controller-6f7d-w5c2k", 45, 1),
        );
        world.add(MANAGEMENT_CLUSTERS, local_cluster());
        for (id, title) in CLUSTERS {
            world.add(MANAGEMENT_CLUSTERS, cluster(id, title, true));
        }
        world.setting("server-version", "v2.13.2");
        world
    }

    /// The healthy world, whose leader died 41 minutes ago: its record says `seconds`, and another pod has taken its
    /// place among the replicas.
    pub(crate) fn leader_gone(seconds: i64) -> Self {
        let mut world = Self::healthy();
        world.put(LEASES, lease(GONE, seconds, 41 * MINUTE));
        world.put(PODS, pod(NAMESPACE, REPLICAS[2], NODE_NAMES[2], 39 * MINUTE));
        world
    }

    /// Sets one of Rancher's settings.
    pub(crate) fn setting(&mut self, name: &str, value: &str) {
        self.put(
            SETTINGS,
            json!({
                "apiVersion": "management.cattle.io/v3", "kind": "Setting",
                "metadata": {"name": name, "uid": uid(name)}, "value": value, "default": "",
            }),
        );
    }

    /// Sets a variable of Rancher's container.
    pub(crate) fn variable(&mut self, name: &str, value: &str) {
        self.edit(&DEPLOYMENTS, "rancher", |deployment| {
            let container = &mut deployment["spec"]["template"]["spec"]["containers"][0];
            container["env"].as_array_mut().expect("variables").push(json!({"name": name, "value": value}));
        });
    }

    /// Another version of Rancher.
    pub(crate) fn version(&mut self, version: &str) {
        self.setting("server-version", version);
        self.edit(&DEPLOYMENTS, "rancher", |deployment| {
            deployment["metadata"]["labels"]["chart"] = json!(format!("rancher-{}", version.trim_start_matches('v')));
            deployment["spec"]["template"]["spec"]["containers"][0]["image"] =
                json!(format!("rancher/rancher:{version}"));
        });
    }

    /// Log of a pod's present run: seconds ago and text of each line.
    pub(crate) fn log(&mut self, pod: &str, lines: &[(i64, &str)]) {
        self.logs.insert((pod.to_owned(), false), log(lines));
    }

    /// Log of a pod's previous run.
    pub(crate) fn previous_log(&mut self, pod: &str, lines: &[(i64, &str)]) {
        self.logs.insert((pod.to_owned(), true), log(lines));
    }

    /// These clusters are not connected.
    pub(crate) fn disconnect(&mut self, ids: &[&str]) {
        for (id, title) in CLUSTERS.iter().filter(|(id, _)| ids.contains(id)) {
            self.put(MANAGEMENT_CLUSTERS, cluster(id, title, false));
        }
    }

    /// Answers what the plugin needs until it wants nothing new.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.snapshot_and_needs().0
    }

    /// The same, with everything that was asked for.
    pub(crate) fn snapshot_and_needs(&self) -> (Snapshot, Vec<Need>) {
        self.memory.collect(false, |snapshot| LeaseDoctor.needs(&self.question, snapshot))
    }
}

fn log(lines: &[(i64, &str)]) -> String {
    lines.iter().map(|(seconds, text)| format!("{} {text}\n", micro(*seconds))).collect()
}

/// Rancher's Lease.
pub(crate) fn lease(holder: &str, seconds: i64, renewed_ago: i64) -> Value {
    let mut lease = other_lease("kube-system", "cattle-controllers", holder, seconds, renewed_ago);
    lease["spec"]["leaseTransitions"] = json!(7);
    lease
}

/// A Lease.
pub(crate) fn other_lease(namespace: &str, name: &str, holder: &str, seconds: i64, renewed_ago: i64) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "name": name, "namespace": namespace, "uid": uid(&format!("{namespace}/{name}")),
            "resourceVersion": (9_000_000 - renewed_ago).to_string(), "creationTimestamp": ago(100 * DAY),
        },
        "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": seconds,
            "acquireTime": micro(4 * DAY), "renewTime": micro(renewed_ago), "leaseTransitions": 1,
        },
    })
}

/// What a leader leaves that ends in good order (kubernetes/client-go tools/leaderelection/leaderelection.go, `release`).
pub(crate) fn released_lease(seconds_ago: i64) -> Value {
    let mut lease = lease("", 1, seconds_ago);
    lease["spec"]["acquireTime"] = json!(micro(seconds_ago));
    lease
}

/// A Deployment with one container of its own name.
pub(crate) fn deployment(namespace: &str, name: &str, replicas: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": name, "namespace": namespace, "uid": uid(&format!("{namespace}/{name}")),
            "labels": {"app": name, "chart": "rancher-2.13.2", "heritage": "Helm", "release": name},
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name, "release": name}},
            "template": {
                "metadata": {"labels": {"app": name, "release": name}},
                "spec": {"containers": [{
                    "name": "rancher", "image": "rancher/rancher:v2.13.2",
                    "env": [{"name": "CATTLE_NAMESPACE", "value": namespace}],
                }]},
            },
        },
        "status": {"replicas": replicas, "readyReplicas": replicas},
    })
}

/// A Deployment of another controller.
pub(crate) fn other_deployment(namespace: &str, name: &str, replicas: i64) -> Value {
    let mut other = deployment(namespace, name, replicas);
    other["metadata"]["labels"] = json!({"app": name});
    other["spec"]["template"]["spec"]["containers"] =
        json!([{"name": name, "image": format!("registry.example.com/{name}:v1.0.0")}]);
    other
}

/// A replica of Rancher that is Ready and has run for a while.
pub(crate) fn pod(namespace: &str, name: &str, node: &str, started_ago: i64) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": namespace, "uid": uid(&format!("{namespace}/{name}")),
            "creationTimestamp": ago(started_ago + 20),
            "labels": {"app": "rancher", "release": "rancher", "pod-template-hash": "7d9c5b6f4d"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rancher-7d9c5b6f4d",
                "uid": uid("rancher-7d9c5b6f4d"), "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {"nodeName": node, "containers": [{"name": "rancher", "image": "rancher/rancher:v2.13.2"}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": ago(started_ago - 40)}],
            "containerStatuses": [{
                "name": "rancher", "ready": true, "restartCount": 0, "image": "rancher/rancher:v2.13.2", "imageID": "",
                "containerID": format!("containerd://{}", uid(&format!("container of {name}"))),
                "state": {"running": {"startedAt": ago(started_ago)}},
            }],
        },
    })
}

/// The pod is not Ready.
pub(crate) fn not_ready(pod: &mut Value) {
    pod["status"]["conditions"][0]["status"] = json!("False");
    pod["status"]["containerStatuses"][0]["ready"] = json!(false);
}

/// The pod's container crashes again and again.
pub(crate) fn crash_loop(pod: &mut Value) {
    not_ready(pod);
    restarted(pod, 11, 1, "Error", 100);
    pod["status"]["containerStatuses"][0]["state"] = json!({"waiting": {
        "reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container=rancher",
    }});
}

/// The pod's container has been started anew.
pub(crate) fn restarted(pod: &mut Value, times: i64, exit_code: i64, reason: &str, ended_ago: i64) {
    let status = &mut pod["status"]["containerStatuses"][0];
    status["restartCount"] = json!(times);
    status["lastState"] = json!({"terminated": {
        "exitCode": exit_code, "reason": reason, "startedAt": ago(ended_ago + 600), "finishedAt": ago(ended_ago),
    }});
}

/// The pod is on the network of its node, whose hostname is its identity.
pub(crate) fn host_network(pod: &mut Value) {
    pod["spec"]["hostNetwork"] = json!(true);
}

/// The pod is asked to end; its grace period is over in so many seconds.
pub(crate) fn terminating(pod: &mut Value, ends_in: i64) {
    pod["metadata"]["deletionTimestamp"] = json!(ago(-ends_in));
    pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
}

/// A node.
pub(crate) fn node_object(name: &str, ready: bool) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": uid(name)},
        "status": {"conditions": [{
            "type": "Ready", "status": if ready { "True" } else { "Unknown" },
            "reason": if ready { "KubeletReady" } else { "NodeStatusUnknown" },
        }]},
    })
}

/// The cluster Rancher runs in.
pub(crate) fn local_cluster() -> Value {
    let mut local = cluster("local", "local", true);
    local["spec"]["internal"] = json!(true);
    local
}

/// A downstream cluster that is provisioned.
pub(crate) fn cluster(id: &str, title: &str, connected: bool) -> Value {
    let mut conditions = vec![
        json!({"type": "Provisioned", "status": "True", "lastUpdateTime": ago(90 * DAY)}),
        json!({"type": "Connected", "status": if connected { "True" } else { "False" }, "lastUpdateTime": ago(42 * MINUTE)}),
    ];
    conditions.push(if connected {
        json!({"type": "Ready", "status": "True", "lastUpdateTime": ago(42 * MINUTE)})
    } else {
        json!({
            "type": "Ready", "status": "False", "reason": "Disconnected",
            "message": "Cluster agent is not connected", "lastUpdateTime": ago(42 * MINUTE),
        })
    });
    json!({
        "apiVersion": "management.cattle.io/v3", "kind": "Cluster",
        "metadata": {"name": id, "uid": uid(id), "creationTimestamp": ago(90 * DAY)},
        "spec": {"displayName": title, "internal": false},
        "status": {"conditions": conditions},
    })
}

/// The lock of Rancher before 2.8.3.
pub(crate) fn config_map(holder: Option<&str>, renewed_ago: i64) -> (ResourceType, Value) {
    let mut map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "cattle-controllers", "namespace": "kube-system", "uid": uid("config map")},
    });
    if let Some(holder) = holder {
        let record = json!({
            "holderIdentity": holder, "leaseDurationSeconds": 45, "acquireTime": ago(renewed_ago + DAY),
            "renewTime": ago(renewed_ago), "leaderTransitions": 3,
        });
        map["metadata"]["annotations"] = json!({"control-plane.alpha.kubernetes.io/leader": record.to_string()});
    }
    (CONFIG_MAPS, map)
}

/// A warning about an object.
pub(crate) fn event(about: &str, reason: &str, message: &str, seconds_ago: i64) -> (ResourceType, Value) {
    let name = format!("{about}.17f0{seconds_ago:04x}");
    let event = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": uid(&name)},
        "involvedObject": {"kind": "Pod", "name": about, "namespace": NAMESPACE},
        "type": "Warning", "reason": reason, "message": message, "lastTimestamp": ago(seconds_ago),
    });
    (EVENTS, event)
}
