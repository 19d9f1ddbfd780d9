//! Builds snapshots of a Rancher installation, healthy until told otherwise. Names and addresses are examples.

use std::time::Duration;

use rancher_common::kinds::{CONFIG_MAPS, DEPLOYMENTS, EVENTS, LEASES, NAMESPACES, NODES, PODS};
use rancher_common::rancher::{MANAGEMENT_CLUSTERS, SETTINGS};
use rancher_common::resource::ResourceType;
use rancher_common::snapshot::{Content, Failure, Form, Origin, Place, Reading, Snapshot, Want};
use rancher_common::time::{Timestamp, rfc3339};
use serde_json::{Value, json};

/// The moment of every snapshot.
pub(crate) fn now() -> Timestamp {
    "2026-12-01T00:00:00Z".parse().expect("a time")
}

/// So many seconds before the snapshot.
pub(crate) fn ago(seconds: i64) -> Timestamp {
    now().checked_sub(jiff::SignedDuration::from_secs(seconds)).expect("a time")
}

pub(crate) const NS: &str = "cattle-system";
/// The pod that leads in a healthy world.
pub(crate) const LEADER: &str = "rancher-6f9d5c7b8-aaaaa";
pub(crate) const GONE: &str = "rancher-5d7c8f9b64-zzzzz";

fn get(resource: &ResourceType, namespace: Option<&str>, name: &str) -> Want {
    Want::Get { resource: resource.clone(), namespace: namespace.map(str::to_owned), name: name.to_owned() }
}

fn list(resource: &ResourceType, namespace: Option<&str>) -> Want {
    Want::list(resource.clone(), namespace, Form::Full)
}

pub(crate) fn lease_want() -> Want {
    get(&LEASES, Some("kube-system"), "cattle-controllers")
}

/// A Lease.
pub(crate) fn lease(holder: &str, seconds: i64, renewed: Timestamp) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "cattle-controllers", "namespace": "kube-system", "uid": "lease-uid-1", "resourceVersion": "4711"},
        "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": seconds, "leaseTransitions": 17,
            "acquireTime": "2026-11-27T08:00:00.000000Z", "renewTime": format!("{renewed:.6}"),
        }
    })
}

/// The world as it is built.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) origin: Origin,
    /// First and second look at the Lease; the second only where it is taken.
    pub(crate) lease: Option<Value>,
    pub(crate) second: Option<Option<Value>>,
    pub(crate) deployments: Vec<Value>,
    pub(crate) pods: Vec<Value>,
    pub(crate) clusters: Option<Vec<Value>>,
    pub(crate) version: Option<String>,
    pub(crate) nodes: Option<Vec<Value>>,
    pub(crate) logs: Vec<(String, bool, String)>,
    pub(crate) events: Option<Vec<Value>>,
    pub(crate) config_map: Option<Option<Value>>,
    pub(crate) other_leases: Option<(Vec<Value>, Option<Vec<Value>>)>,
    pub(crate) extra: Vec<Reading>,
    pub(crate) forbidden: Vec<Want>,
    pub(crate) namespace: String,
}

impl World {
    /// Three replicas, the first of which leads; two connected clusters.
    pub(crate) fn healthy() -> Self {
        Self {
            origin: Origin {
                context: Some("rancher-mgmt".into()),
                server: "https://192.0.2.10:6443".into(),
                ..Origin::default()
            },
            lease: Some(lease(LEADER, 45, ago(1))),
            second: None,
            deployments: vec![deployment("rancher", "rancher-2.13.2", 3, &[])],
            pods: vec![pod(LEADER, 1), pod("rancher-6f9d5c7b8-bbbbb", 2), pod("rancher-6f9d5c7b8-ccccc", 3)],
            clusters: Some(vec![local(), cluster("c-m-11111", "shop", true), cluster("c-m-22222", "factory", true)]),
            version: Some("v2.13.2".into()),
            nodes: None,
            logs: Vec::new(),
            events: None,
            config_map: None,
            other_leases: None,
            extra: Vec::new(),
            forbidden: Vec::new(),
            namespace: NS.into(),
        }
    }

    /// A dead holder, seen twice.
    pub(crate) fn dead(holder: &str, seconds: i64, renewed: i64) -> Self {
        let mut world = Self::healthy();
        world.lease = Some(lease(holder, seconds, ago(renewed)));
        world.still()
    }

    /// The second look sees what the first saw.
    pub(crate) fn still(mut self) -> Self {
        self.second = Some(self.lease.clone());
        self.nodes.get_or_insert_with(|| (1..=3).map(|n| node(n, true)).collect());
        self
    }

    /// The second look sees this.
    pub(crate) fn then(mut self, lease: Option<Value>) -> Self {
        self.second = Some(lease);
        self
    }

    pub(crate) fn pods(mut self, pods: Vec<Value>) -> Self {
        self.pods = pods;
        self
    }

    pub(crate) fn edit(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub(crate) fn log(mut self, pod: &str, previous: bool, text: &str) -> Self {
        self.logs.push((pod.into(), previous, text.into()));
        self
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::new(self.origin.clone(), now());
        let first = if self.second.is_some() || self.other_leases.as_ref().is_some_and(|(_, s)| s.is_some()) {
            ago(12)
        } else {
            now()
        };
        let one =
            |object: &Option<Value>| object.clone().map_or(Content::Absent, |object| Content::Objects(vec![object]));
        let mut add = |want: Want, at: Timestamp, required: bool, content: Content| {
            let content = if self.forbidden.contains(&want) {
                Content::Failed(Failure {
                    kind: "Forbidden".into(),
                    code: Some(403),
                    message: "forbidden: User \"viewer\" has not this right".into(),
                    hint: None,
                })
            } else {
                content
            };
            snapshot.readings.push(Reading { want, place: Place::Here, at, required, why: "test".into(), content });
        };
        add(lease_want(), first, true, one(&self.lease));
        add(list(&DEPLOYMENTS, Some(&self.namespace)), first, true, Content::Objects(self.deployments.clone()));
        add(list(&PODS, Some(&self.namespace)), first, true, Content::Objects(self.pods.clone()));
        let clusters = self.clusters.clone().map_or(Content::NotServed, Content::Objects);
        add(list(&MANAGEMENT_CLUSTERS, None), first, true, clusters);
        let setting = self
            .version
            .as_ref()
            .map(|version| json!({"metadata": {"name": "server-version"}, "value": version, "default": ""}));
        add(get(&SETTINGS, None, "server-version"), first, false, one(&setting));
        let kube_system = json!({"metadata": {"name": "kube-system", "uid": "00000000-0000-4000-8000-000000000001"}});
        add(get(&NAMESPACES, None, "kube-system"), first, false, Content::Objects(vec![kube_system]));
        if let Some((leases, _)) = &self.other_leases {
            add(list(&LEASES, None), first, false, Content::Objects(leases.clone()));
        }
        if let Some(nodes) = &self.nodes {
            add(list(&NODES, None), now(), true, Content::Objects(nodes.clone()));
        }
        if let Some(map) = &self.config_map {
            add(get(&CONFIG_MAPS, Some("kube-system"), "cattle-controllers"), now(), false, one(map));
        }
        if let Some(events) = &self.events {
            add(list(&EVENTS, Some(&self.namespace)), now(), false, Content::Objects(events.clone()));
        }
        for (pod, previous, text) in &self.logs {
            let want = Want::Log {
                namespace: self.namespace.clone(),
                pod: pod.clone(),
                container: "rancher".into(),
                previous: *previous,
                lines: 2000,
            };
            add(want, now(), false, Content::Text(text.clone()));
        }
        if let Some(second) = &self.second {
            add(lease_want(), now(), true, one(second));
        }
        if let Some((_, Some(second))) = &self.other_leases {
            add(list(&LEASES, None), now(), false, Content::Objects(second.clone()));
        }
        snapshot.readings.extend(self.extra.iter().cloned());
        snapshot
    }
}

/// Rancher's Deployment.
pub(crate) fn deployment(name: &str, chart: &str, replicas: i64, env: &[(&str, &str)]) -> Value {
    let env: Vec<Value> = env.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
    json!({
        "metadata": {"name": name, "namespace": NS, "uid": format!("deployment-{name}"),
            "labels": {"app": name, "chart": chart, "heritage": "Helm", "release": name}},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [
                {"name": "rancher", "image": "registry.example.com/rancher/rancher:v2.13.2", "env": env}]}},
        },
        "status": {"replicas": replicas, "readyReplicas": replicas}
    })
}

/// Some other Deployment.
pub(crate) fn plain_deployment(namespace: &str, name: &str, replicas: i64) -> Value {
    json!({
        "metadata": {"name": name, "namespace": namespace, "uid": format!("deployment-{name}")},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"spec": {"containers": [{"name": name, "image": "registry.example.com/x:1"}]}}},
        "status": {"readyReplicas": replicas}
    })
}

/// A Ready pod of Rancher, running for three days on this node.
pub(crate) fn pod(name: &str, node: u8) -> Value {
    json!({
        "metadata": {"name": name, "namespace": NS, "uid": format!("pod-{name}"), "labels": {"app": "rancher", "release": "rancher"},
            "creationTimestamp": rfc3339(ago(259_200)),
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rancher-6f9d5c7b8", "uid": "rs-1", "controller": true}]},
        "spec": {"nodeName": format!("node-{node}"), "containers": [{"name": "rancher", "image": "registry.example.com/rancher/rancher:v2.13.2"}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}],
            "containerStatuses": [{"name": "rancher", "image": "rancher", "imageID": "", "ready": true, "restartCount": 0,
                "containerID": format!("containerd://{name}"), "state": {"running": {"startedAt": rfc3339(ago(259_000))}}}]
        }
    })
}

/// Changes a pod.
pub(crate) trait PodExt: Sized {
    fn change(self, pointer: &str, value: Value) -> Self;
    fn not_ready(self) -> Self {
        self.change("/status/conditions/0/status", json!("False"))
            .change("/status/containerStatuses/0/ready", json!(false))
    }
    fn started(self, seconds: i64) -> Self {
        self.change("/status/containerStatuses/0/state", json!({"running": {"startedAt": rfc3339(ago(seconds))}}))
    }
    fn waiting(self, reason: &str, message: &str) -> Self {
        self.not_ready()
            .change("/status/containerStatuses/0/state", json!({"waiting": {"reason": reason, "message": message}}))
    }
    fn ended_before(self, code: i64, seconds: i64, restarts: i64) -> Self {
        let reason = if code == 0 { "Completed" } else { "Error" };
        self.change("/status/containerStatuses/0/restartCount", json!(restarts)).change(
            "/status/containerStatuses/0/lastState",
            json!({"terminated": {"exitCode": code, "reason": reason, "finishedAt": rfc3339(ago(seconds))}}),
        )
    }
    fn host_network(self) -> Self {
        self.change("/spec/hostNetwork", json!(true))
    }
    fn terminating(self, seconds_ago: i64) -> Self {
        self.change("/metadata/deletionTimestamp", json!(rfc3339(ago(seconds_ago))))
    }
}

impl PodExt for Value {
    fn change(mut self, pointer: &str, value: Value) -> Self {
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        self.pointer_mut(parent).expect("a parent")[key] = value;
        self
    }
}

/// A node.
pub(crate) fn node(number: u8, ready: bool) -> Value {
    json!({
        "metadata": {"name": format!("node-{number}")},
        "status": {"conditions": [{"type": "Ready", "status": if ready { "True" } else { "Unknown" }}]}
    })
}

/// The local cluster.
pub(crate) fn local() -> Value {
    json!({"metadata": {"name": "local", "uid": "cluster-local"}, "spec": {"displayName": "local", "internal": true},
        "status": {"conditions": [{"type": "Connected", "status": "True"}, {"type": "Provisioned", "status": "True"}]}})
}

/// A downstream cluster.
pub(crate) fn cluster(id: &str, name: &str, connected: bool) -> Value {
    let mut conditions = vec![
        json!({"type": "Provisioned", "status": "True"}),
        json!({"type": "Connected", "status": if connected { "True" } else { "False" }, "lastUpdateTime": "2026-11-30T20:00:00Z"}),
    ];
    if !connected {
        conditions.push(json!({"type": "Ready", "status": "False", "reason": "Disconnected", "message": "Cluster agent is not connected"}));
    }
    json!({"metadata": {"name": id, "uid": format!("cluster-{id}")}, "spec": {"displayName": name, "internal": false},
        "status": {"conditions": conditions}})
}

/// A lease of another controller.
pub(crate) fn other_lease(namespace: &str, name: &str, holder: &str, seconds: i64, renewed: i64) -> Value {
    json!({"metadata": {"name": name, "namespace": namespace, "uid": format!("lease-{name}")},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": format!("{:.6}", ago(renewed))}})
}

/// One log line as the kubelet serves it.
pub(crate) fn line(seconds_ago: i64, text: &str) -> String {
    let at = ago(seconds_ago);
    format!("{at:.9} {} {text}\n", at.strftime("%Y/%m/%d %H:%M:%S"))
}

/// A reading on top.
pub(crate) fn reading(want: Want, content: Content) -> Reading {
    Reading { want, place: Place::Here, at: now(), required: false, why: "test".into(), content }
}

pub(crate) fn list_want(resource: &ResourceType, namespace: Option<&str>) -> Want {
    list(resource, namespace)
}

pub(crate) fn get_want(resource: &ResourceType, namespace: Option<&str>, name: &str) -> Want {
    get(resource, namespace, name)
}

/// As long as two looks are apart at least.
pub(crate) const PAUSE: Duration = Duration::from_secs(12);
