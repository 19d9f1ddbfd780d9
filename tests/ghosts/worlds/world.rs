//! A Rancher with one provisioned cluster in memory, whole: Machines of either version of Cluster API with all that
//! belongs to them, and the Nodes downstream.
//!
//! All times are relative to [`START`], the moment of the first reading.

use std::ops::{Deref, DerefMut};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kubectl_rancher_ghosts::{GhostsDoctor, Question};
use rancher_common::doctor::Doctor as _;
use rancher_common::kinds::{DEPLOYMENTS, LEASES, NAMESPACES, NODES, SECRETS, SERVICE_ACCOUNTS};
use rancher_common::rancher::{
    CAPI_CLUSTERS, CLUSTER_REGISTRATION_TOKENS, CUSTOM_MACHINES, ETCD_SNAPSHOTS, MACHINE_SETS, MACHINES,
    MANAGEMENT_CLUSTERS, MANAGEMENT_NODES, PROVISIONING_CLUSTERS, RKE_BOOTSTRAPS, RKE_CONTROL_PLANES, SETTINGS,
};
use rancher_common::resource::ResourceType;
use rancher_common::snapshot::{DownstreamOrigin, Need, Origin, Place, Snapshot};
use rancher_common::time::{Timestamp, rfc3339};
use rancher_testkit::Memory;
use rancher_testkit::memory::{Cell, Columns, uid};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The moment of the first reading.
pub(crate) const START: &str = "2026-12-01T00:00:00Z";
/// A minute, an hour and a day in seconds.
pub(crate) const MINUTE: i64 = 60;
pub(crate) const HOUR: i64 = 3600;
pub(crate) const DAY: i64 = 86_400;
/// The workspace that every Rancher has.
pub(crate) const WORKSPACE: &str = "fleet-default";
/// The provisioned cluster, and its id.
pub(crate) const CLUSTER: &str = "prod";
pub(crate) const ID: &str = "c-m-8x2kq4wd";
/// The machine that is in trouble.
pub(crate) const GHOST: &str = "custom-2d74d4c9a104";
/// Stands wherever a real cluster has a secret; must never be told.
pub(crate) const MARKER: &str = "hunter2marker";
/// The infra machines of one node driver.
pub(crate) const VSPHERE_MACHINES: ResourceType =
    ResourceType::namespaced("rke-machine.cattle.io", "v1", "VmwarevsphereMachine", "vmwarevspheremachines");
/// Rancher's hook on etcd machines.
pub(crate) const ETCD_HOOK: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/rke-bootstrap-cleanup";
/// See there.
pub(crate) const PAUSED: &str = "cluster.x-k8s.io/paused";
/// What the planner says of a machine that has never answered.
pub(crate) const CHECK_IN: &str = "waiting for agent to check in and apply initial plan";

/// additionalPrinterColumns of the CRD of Machines in v1beta2.
const MACHINE_COLUMNS_NEW: Columns = &[
    ("Cluster", Cell::Field("/spec/clusterName")),
    ("Node Name", Cell::Field("/status/nodeRef/name")),
    ("Provider ID", Cell::Field("/spec/providerID")),
    ("Failure domain", Cell::Field("/status/failureDomain")),
    ("Ready", Cell::Condition("Ready")),
    ("Available", Cell::Condition("Available")),
    ("Up-to-date", Cell::Condition("UpToDate")),
    ("Internal-IP", Cell::Address("InternalIP")),
    ("External-IP", Cell::Address("ExternalIP")),
    ("OS-Image", Cell::Field("/status/nodeInfo/osImage")),
    ("Paused", Cell::Condition("Paused")),
    ("Phase", Cell::Field("/status/phase")),
    ("Age", Cell::Age),
    ("Version", Cell::Field("/spec/version")),
];
/// The same in v1beta1.
const MACHINE_COLUMNS_OLD: Columns = &[
    ("Cluster", Cell::Field("/spec/clusterName")),
    ("NodeName", Cell::Field("/status/nodeRef/name")),
    ("ProviderID", Cell::Field("/spec/providerID")),
    ("Phase", Cell::Field("/status/phase")),
    ("Age", Cell::Age),
    ("Version", Cell::Field("/spec/version")),
];
const CLUSTER_COLUMNS_NEW: Columns = &[
    ("Available", Cell::Condition("Available")),
    ("Paused", Cell::Condition("Paused")),
    ("Phase", Cell::Field("/status/phase")),
    ("Age", Cell::Age),
];
const CLUSTER_COLUMNS_OLD: Columns = &[("Phase", Cell::Field("/status/phase")), ("Age", Cell::Age)];

/// Which version of Cluster API the server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capi {
    /// Rancher before 2.14.
    Old,
    /// Rancher 2.14 and later.
    New,
}

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

/// What a host is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Roles {
    Server,
    Worker,
}

impl Roles {
    fn labels(self) -> Vec<&'static str> {
        match self {
            Self::Server => vec!["etcd", "control-plane"],
            Self::Worker => vec!["worker"],
        }
    }

    pub(crate) fn etcd(self) -> bool {
        self.labels().contains(&"etcd")
    }
}

/// A host, and where its objects are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    pub namespace: &'static str,
    pub cluster: &'static str,
    pub machine: &'static str,
    /// The name it gives itself.
    pub hostname: &'static str,
    pub roles: Roles,
    /// Made by a node driver: its pool.
    pub pool: Option<&'static str>,
}

/// A custom host of the usual cluster.
pub(crate) const fn host(machine: &'static str, hostname: &'static str, roles: Roles) -> Host {
    Host { namespace: WORKSPACE, cluster: CLUSTER, machine, hostname, roles, pool: None }
}

/// The hosts of [`World::healthy`].
pub(crate) const HOSTS: [Host; 5] = [
    host("custom-898d97f03763", "server-1.example.com", Roles::Server),
    host("custom-f489526f114a", "server-2.example.com", Roles::Server),
    host("custom-40e383a8d1da", "server-3.example.com", Roles::Server),
    host("custom-3524fa7f0d71", "worker-1.example.com", Roles::Worker),
    host("custom-3b154219b4e1", "worker-2.example.com", Roles::Worker),
];

impl Host {
    pub(crate) fn infra_kind(&self) -> ResourceType {
        if self.pool.is_some() { VSPHERE_MACHINES } else { CUSTOM_MACHINES }
    }

    pub(crate) fn uid(&self) -> String {
        uid(&format!("Machine {}/{}", self.namespace, self.machine))
    }

    fn labels(&self) -> Value {
        let mut labels = json!({
            "cluster.x-k8s.io/cluster-name": self.cluster,
            "rke.cattle.io/cluster-name": self.cluster,
        });
        for role in self.roles.labels() {
            labels[format!("rke.cattle.io/{role}-role")] = json!("true");
        }
        match self.pool {
            Some(pool) => labels["rke.cattle.io/rke-machine-pool-name"] = json!(pool),
            None => {
                labels["rke.cattle.io/node-name"] = json!(self.hostname);
                labels["rke.cattle.io/machine-id"] = json!(self.cattle_id());
            }
        }
        labels
    }

    /// What stands in /etc/rancher/agent/cattle-id.
    pub(crate) fn cattle_id(&self) -> String {
        format!("{:x}", Sha256::digest(self.hostname.as_bytes()))[..63].to_owned()
    }

    fn provider_id(&self) -> String {
        format!("rke2://{}", self.hostname)
    }

    fn address(&self) -> String {
        let number: u32 = self.machine.bytes().map(u32::from).sum();
        format!("192.0.2.{}", number % 200 + 20)
    }

    /// The Machine, with a Node if it has joined.
    pub(crate) fn machine(&self, capi: Capi, joined: bool, age: i64) -> Value {
        let owner = match self.pool {
            Some(pool) => json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet", "name": format!("{}-{pool}-7d9c5", self.cluster),
                "uid": uid(pool), "controller": true,
            }),
            None => json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": self.cluster,
                "uid": uid(&format!("CAPI {}", self.cluster)),
            }),
        };
        let mut annotations = json!({"objectset.rio.cattle.io/id": "unmanaged-machine"});
        if self.roles.etcd() {
            annotations[ETCD_HOOK] = json!("rke-bootstrap-controller");
        }
        if self.pool.is_some() {
            annotations["machine.cluster.x-k8s.io/exclude-node-draining"] = json!("true");
        }
        let infra = self.infra_kind();
        let reference = |group: &str, kind: &str| match capi {
            Capi::New => json!({"apiGroup": group, "kind": kind, "name": self.machine}),
            Capi::Old => json!({
                "apiVersion": format!("{group}/v1"), "kind": kind, "name": self.machine, "namespace": self.namespace,
            }),
        };
        let mut spec = json!({
            "clusterName": self.cluster,
            "bootstrap": {
                "configRef": reference("rke.cattle.io", "RKEBootstrap"),
                "dataSecretName": format!("{}-machine-bootstrap", self.machine),
            },
            "infrastructureRef": reference(&infra.group, &infra.kind),
        });
        match capi {
            Capi::New => spec["deletion"] = json!({"nodeDeletionTimeoutSeconds": 10}),
            Capi::Old => spec["nodeDeletionTimeout"] = json!("10s"),
        }
        if joined {
            spec["providerID"] = json!(self.provider_id());
        }
        json!({
            "apiVersion": match capi { Capi::New => "cluster.x-k8s.io/v1beta2", Capi::Old => "cluster.x-k8s.io/v1beta1" },
            "kind": "Machine",
            "metadata": {
                "name": self.machine, "namespace": self.namespace, "uid": self.uid(), "creationTimestamp": ago(age),
                "labels": self.labels(), "annotations": annotations, "ownerReferences": [owner],
                "finalizers": ["machine.cluster.x-k8s.io"],
            },
            "spec": spec,
            "status": self.status(capi, joined, age),
        })
    }

    fn status(&self, capi: Capi, joined: bool, age: i64) -> Value {
        let since = ago(age - 4 * MINUTE);
        let yes_or = |kind: &str, otherwise: Value| {
            if joined {
                json!({"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": since})
            } else {
                otherwise
            }
        };
        let waiting = json!({
            "type": "Reconciled", "status": "Unknown", "reason": "Waiting", "message": CHECK_IN, "lastTransitionTime": since,
        });
        let infra = &self.infra_kind().kind;
        let old = json!([
            yes_or("Ready", json!({"type": "Ready", "status": "False", "severity": "Info", "reason": "WaitingForNodeRef", "lastTransitionTime": since})),
            {"type": "BootstrapReady", "status": "True", "lastTransitionTime": since},
            {"type": "InfrastructureReady", "status": "True", "lastTransitionTime": since},
            yes_or("NodeHealthy", json!({"type": "NodeHealthy", "status": "False", "severity": "Info", "reason": "WaitingForNodeRef", "lastTransitionTime": since})),
            yes_or("Reconciled", waiting.clone()),
        ]);
        let mut status = json!({"phase": if joined { "Running" } else { "Provisioning" }});
        if joined {
            status["addresses"] = json!([{"type": "InternalIP", "address": self.address()}, {"type": "Hostname", "address": self.hostname}]);
        }
        match capi {
            Capi::Old => {
                status["bootstrapReady"] = json!(true);
                status["infrastructureReady"] = json!(joined);
                if joined {
                    status["nodeRef"] =
                        json!({"apiVersion": "v1", "kind": "Node", "name": self.hostname, "uid": uid(self.hostname)});
                }
                status["conditions"] = old;
            }
            Capi::New => {
                status["initialization"] =
                    json!({"bootstrapDataSecretCreated": true, "infrastructureProvisioned": joined});
                if joined {
                    status["nodeRef"] = json!({"name": self.hostname});
                }
                let told = format!("Waiting for {infra} to report spec.providerID");
                status["conditions"] = json!([
                    yes_or("Available", json!({"type": "Available", "status": "False", "reason": "NotReady", "message": told, "lastTransitionTime": since})),
                    yes_or("Ready", json!({"type": "Ready", "status": "Unknown", "reason": "ReadyUnknown", "message": format!("* NodeHealthy: {told}"), "lastTransitionTime": since})),
                    {"type": "BootstrapConfigReady", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": since},
                    {"type": "InfrastructureReady", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": since},
                    yes_or("NodeHealthy", json!({"type": "NodeHealthy", "status": "Unknown", "reason": "InspectionFailed", "message": told, "lastTransitionTime": since})),
                    {"type": "Deleting", "status": "False", "reason": "NotDeleting", "message": "", "lastTransitionTime": since},
                    {"type": "Paused", "status": "False", "reason": "NotPaused", "message": "", "lastTransitionTime": since},
                    yes_or("Reconciled", waiting),
                ]);
                status["deprecated"] = json!({"v1beta1": {"conditions": old}});
            }
        }
        status
    }

    fn owned_by_machine(&self) -> Value {
        json!([{
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": self.machine, "uid": self.uid(),
            "controller": true, "blockOwnerDeletion": true,
        }])
    }

    pub(crate) fn bootstrap(&self, age: i64) -> Value {
        json!({
            "apiVersion": "rke.cattle.io/v1", "kind": "RKEBootstrap",
            "metadata": {
                "name": self.machine, "namespace": self.namespace, "uid": uid(&format!("RKEBootstrap {}", self.machine)),
                "creationTimestamp": ago(age), "labels": self.labels(), "ownerReferences": self.owned_by_machine(),
                "finalizers": ["wrangler.cattle.io/rke-bootstrap-etcd-removal"],
            },
            "spec": {"clusterName": self.cluster},
            "status": {"ready": true, "dataSecretName": format!("{}-machine-bootstrap", self.machine)},
        })
    }

    pub(crate) fn infra(&self, joined: bool, age: i64) -> Value {
        let kind = self.infra_kind();
        let mut infra = json!({
            "apiVersion": format!("{}/v1", kind.group), "kind": kind.kind,
            "metadata": {
                "name": self.machine, "namespace": self.namespace, "uid": uid(&format!("infra {}", self.machine)),
                "creationTimestamp": ago(age), "labels": self.labels(), "ownerReferences": self.owned_by_machine(),
                "finalizers": [if self.pool.is_some() {
                    "wrangler.cattle.io/machine-provision-remove"
                } else {
                    "wrangler.cattle.io/unmanaged-machine"
                }],
            },
            "spec": {},
            "status": {"ready": true, "conditions": [{"type": "Ready", "status": "True"}]},
        });
        if self.pool.is_some() {
            infra["metadata"]["labels"]["rke.cattle.io/capi-machine-name"] = json!(self.machine);
            infra["spec"]["providerID"] = json!(format!("vsphere://{}", uid(&format!("VM {}", self.machine))));
            infra["spec"]["password"] = json!(MARKER);
        } else if joined {
            infra["spec"]["providerID"] = json!(self.provider_id());
        }
        infra
    }

    /// The Node of a host that has joined.
    pub(crate) fn node(&self, ready: bool) -> Value {
        let mut labels = json!({"rke.cattle.io/machine": self.uid(), "kubernetes.io/hostname": self.hostname});
        for role in self.roles.labels() {
            labels[format!("node-role.kubernetes.io/{role}")] = json!("true");
        }
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": self.hostname, "uid": uid(self.hostname), "creationTimestamp": ago(80 * DAY), "labels": labels,
                "annotations": {
                    "cluster.x-k8s.io/cluster-name": self.cluster,
                    "cluster.x-k8s.io/cluster-namespace": self.namespace,
                    "cluster.x-k8s.io/machine": self.machine,
                },
            },
            "spec": {"providerID": self.provider_id()},
            "status": {
                "addresses": [{"type": "InternalIP", "address": self.address()}, {"type": "Hostname", "address": self.hostname}],
                "conditions": [{"type": "Ready", "status": if ready { "True" } else { "Unknown" }}],
            },
        })
    }

    /// Rancher's copy of the Node.
    pub(crate) fn copy(&self, id: &str) -> Value {
        let name = format!("machine-{}", &uid(&format!("copy {}", self.machine))[..5]);
        json!({
            "apiVersion": "management.cattle.io/v3", "kind": "Node",
            "metadata": {
                "name": name, "namespace": id, "uid": uid(&name), "creationTimestamp": ago(80 * DAY),
                "labels": {"management.cattle.io/nodename": self.hostname},
            },
            "status": {"nodeName": self.hostname},
        })
    }

    /// The plan Secret.
    pub(crate) fn secret(&self, agent: Agent, planned_ago: i64) -> Value {
        let plan = json!({
            "instructions": [{"name": "install", "image": "rancher/system-agent-installer-rke2:v1.33.5-rke2r1",
                              "env": [format!("RKE2_TOKEN={MARKER}")]}],
            "files": [{"path": "/etc/rancher/rke2/config.yaml.d/50-rancher.yaml", "content": BASE64_STANDARD.encode(format!("token: {MARKER}"))}],
            "probes": {"kubelet": {}},
        });
        let plan = match agent {
            Agent::NotPlanned => String::new(),
            Agent::NothingToDo => json!({"files": [], "instructions": []}).to_string(),
            _ => plan.to_string(),
        };
        let sum = format!("{:x}", Sha256::digest(plan.as_bytes()));
        let encode = |text: &str| json!(BASE64_STANDARD.encode(text));
        let mut data = json!({"plan": encode(&plan), "appliedPlan": encode("")});
        let probes =
            json!({"etcd": {"healthy": true, "successCount": 1}, "kubelet": {"healthy": true, "successCount": 1}});
        let mut answer = |pairs: &[(&str, &str)]| {
            for (key, value) in pairs {
                data[*key] = encode(value);
            }
        };
        match agent {
            Agent::Never | Agent::NotPlanned | Agent::NothingToDo => {}
            Agent::InSync => answer(&[
                ("appliedPlan", &plan),
                ("applied-checksum", &sum),
                ("applied-output", &format!("joined with token {MARKER}")),
                ("probe-statuses", &probes.to_string()),
                ("last-apply-time", "Mon Nov 30 12:00:00 UTC 2026"),
            ]),
            Agent::Unnoticed => answer(&[
                ("applied-checksum", &sum),
                ("probe-statuses", &probes.to_string()),
                ("last-apply-time", "Mon Nov 30 23:00:00 UTC 2026"),
            ]),
            Agent::Failing => answer(&[
                ("failed-checksum", &sum),
                ("failure-count", "7"),
                ("failed-output", &format!("error while staging: no route to host\ntoken: {MARKER}\n")),
                ("last-apply-time", "Mon Nov 30 23:00:00 UTC 2026"),
            ]),
            Agent::Silent => answer(&[
                ("appliedPlan", "an older plan"),
                ("applied-checksum", &format!("{:x}", Sha256::digest("an older plan"))),
                ("last-apply-time", "Sun Nov 29 12:00:00 UTC 2026"),
            ]),
            Agent::SickProbes => answer(&[
                ("appliedPlan", &plan),
                ("applied-checksum", &sum),
                (
                    "probe-statuses",
                    &json!({"etcd": {"healthy": false, "failureCount": 12}, "kubelet": {"healthy": true}}).to_string(),
                ),
                ("last-apply-time", "Mon Nov 30 12:00:00 UTC 2026"),
            ]),
        }
        let name = format!("{}-machine-plan", self.machine);
        let mut labels = self.labels();
        labels["rke.cattle.io/machine-name"] = json!(self.machine);
        let mut annotations = json!({"rke.cattle.io/plan-last-updated": ago(planned_ago)});
        let first = &HOSTS[0];
        if !matches!(agent, Agent::Never | Agent::NotPlanned | Agent::NothingToDo) {
            if self.roles.etcd() {
                annotations["rke.cattle.io/join-url"] = json!(format!("https://{}:9345", self.address()));
            }
            if self.machine != first.machine {
                annotations["rke.cattle.io/joined-to"] = json!(format!("https://{}:9345", first.address()));
            }
        }
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "rke.cattle.io/machine-plan",
            "metadata": {
                "name": name, "namespace": self.namespace, "uid": uid(&name), "creationTimestamp": ago(80 * DAY),
                "labels": labels,
                "annotations": annotations,
                "ownerReferences": [{
                    "apiVersion": "rke.cattle.io/v1", "kind": "RKEBootstrap", "name": self.machine,
                    "uid": uid(&format!("RKEBootstrap {}", self.machine)), "controller": true,
                }],
            },
            "data": data,
        })
    }

    fn account(&self) -> Value {
        let name = format!("{}-machine-plan", self.machine);
        json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {
                "name": name, "namespace": self.namespace, "uid": uid(&format!("account {name}")),
                "creationTimestamp": ago(80 * DAY),
                "labels": {
                    "rke.cattle.io/machine-name": self.machine, "rke.cattle.io/rkebootstrap-name": self.machine,
                    "rke.cattle.io/service-account-role": "plan", "rke.cattle.io/plan-secret-name": name,
                },
            },
        })
    }
}

/// What the agent of a host has done with its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Agent {
    /// It has never written a word.
    Never,
    /// There is no plan.
    NotPlanned,
    /// There is a plan without instructions.
    NothingToDo,
    /// It has applied the plan, and Rancher knows.
    InSync,
    /// It has applied the plan, and Rancher does not know.
    Unnoticed,
    /// It has tried the plan and failed.
    Failing,
    /// It has applied an older plan only.
    Silent,
    /// In sync, but a probe fails.
    SickProbes,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub question: Question,
    pub memory: Memory,
    pub capi: Capi,
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
    /// A Rancher without clusters.
    pub(crate) fn empty(capi: Capi) -> Self {
        let origin = Origin {
            context: Some("management".to_owned()),
            server: "https://192.0.2.10:6443".to_owned(),
            ..Origin::default()
        };
        let mut world = Self { question: Question::default(), memory: Memory::new(origin, start()), capi };
        let (version, controller) = match capi {
            Capi::New => ("v2.14.2", "cattle-capi-system"),
            Capi::Old => ("v2.12.4", "cattle-provisioning-capi-system"),
        };
        for name in ["kube-system", "cattle-system", WORKSPACE, "fleet-local", "local", controller] {
            world.namespace(name);
        }
        world.setting("server-version", version);
        world.setting("server-url", "https://rancher.example.com");
        world.setting("cacerts", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----");
        world.setting("agent-tls-mode", "strict");
        world.renewed(2);
        world.put(
            DEPLOYMENTS,
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": "capi-controller-manager", "namespace": controller, "uid": uid("capi")},
                "spec": {
                    "replicas": 1, "selector": {"matchLabels": {"app": "capi"}},
                    "template": {"metadata": {"labels": {"app": "capi"}}, "spec": {"containers": [{"name": "manager"}]}},
                },
                "status": {"replicas": 1, "availableReplicas": 1},
            }),
        );
        world.memory.kinds.insert(
            "rke-machine.cattle.io",
            vec![
                json!({"name": "vmwarevspheremachines", "kind": "VmwarevsphereMachine", "namespaced": true}),
                json!({"name": "vmwarevspheremachines/status", "kind": "VmwarevsphereMachine", "namespaced": true}),
                json!({"name": "vmwarevspheremachinetemplates", "kind": "VmwarevsphereMachineTemplate", "namespaced": true}),
            ],
        );
        let (machines, clusters) = match capi {
            Capi::New => (MACHINE_COLUMNS_NEW, CLUSTER_COLUMNS_NEW),
            Capi::Old => (MACHINE_COLUMNS_OLD, CLUSTER_COLUMNS_OLD),
        };
        world.memory.columns.insert("machines.cluster.x-k8s.io", machines);
        world.memory.columns.insert("clusters.cluster.x-k8s.io", clusters);
        world.cluster("fleet-local", "local", "local");
        world
    }

    /// One provisioned cluster of three servers and two workers, all well, with a connection to it.
    pub(crate) fn healthy(capi: Capi) -> Self {
        let mut world = Self::empty(capi);
        world.cluster(WORKSPACE, CLUSTER, ID);
        world.memory.others.insert(Place::Downstream, Vec::new());
        world.memory.origin.downstream =
            Some(DownstreamOrigin { context: Some("prod".to_owned()), server: "https://192.0.2.30:6443".to_owned() });
        for host in HOSTS {
            world.join(&host);
        }
        world
    }

    pub(crate) fn namespace(&mut self, name: &str) {
        self.put(
            NAMESPACES,
            json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": name, "uid": uid(name), "creationTimestamp": ago(200 * DAY)},
            }),
        );
    }

    pub(crate) fn setting(&mut self, name: &str, value: &str) {
        self.put(
            SETTINGS,
            json!({
                "apiVersion": "management.cattle.io/v3", "kind": "Setting",
                "metadata": {"name": name, "uid": uid(name)}, "value": value, "default": "",
            }),
        );
    }

    /// Rancher's leader renewed its Lease so many seconds ago.
    pub(crate) fn renewed(&mut self, seconds_ago: i64) {
        self.put(
            LEASES,
            json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": "cattle-controllers", "namespace": "kube-system", "uid": uid("lease")},
                "spec": {
                    "holderIdentity": "rancher-7d9c5b6f4d-5kq2n", "leaseDurationSeconds": 45,
                    "renewTime": format!("{:.6}", at(seconds_ago)),
                },
            }),
        );
    }

    /// A provisioned cluster without machines.
    pub(crate) fn cluster(&mut self, namespace: &str, name: &str, id: &str) {
        self.namespace(id);
        self.put(
            PROVISIONING_CLUSTERS,
            json!({
                "apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster",
                "metadata": {
                    "name": name, "namespace": namespace, "uid": uid(&format!("prov {namespace}/{name}")),
                    "creationTimestamp": ago(90 * DAY),
                    "finalizers": ["wrangler.cattle.io/provisioning-cluster-remove", "wrangler.cattle.io/rke-cluster-remove"],
                },
                "spec": {"rkeConfig": {}},
                "status": {"clusterName": id, "ready": true, "conditions": [{"type": "Ready", "status": "True"}]},
            }),
        );
        self.put(
            MANAGEMENT_CLUSTERS,
            json!({
                "apiVersion": "management.cattle.io/v3", "kind": "Cluster",
                "metadata": {
                    "name": id, "uid": uid(id), "creationTimestamp": ago(90 * DAY),
                    "annotations": {"provisioning.cattle.io/administrated": "true"},
                    "finalizers": ["wrangler.cattle.io/mgmt-cluster-remove"],
                },
                "spec": {"displayName": name, "internal": id == "local"},
                "status": {"conditions": [
                    {"type": "Connected", "status": "True", "lastUpdateTime": ago(80 * DAY)},
                    {"type": "Ready", "status": "True", "lastUpdateTime": ago(80 * DAY)},
                ]},
            }),
        );
        let mut capi = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": name, "namespace": namespace, "uid": uid(&format!("CAPI {name}")), "creationTimestamp": ago(90 * DAY)},
            "spec": {}, "status": {"phase": "Provisioned"},
        });
        if self.capi == Capi::New {
            capi["status"]["conditions"] = json!([{"type": "Paused", "status": "False", "reason": "NotPaused"}]);
        }
        self.put(CAPI_CLUSTERS, capi);
        self.put(
            RKE_CONTROL_PLANES,
            json!({
                "apiVersion": "rke.cattle.io/v1", "kind": "RKEControlPlane",
                "metadata": {"name": name, "namespace": namespace, "uid": uid(&format!("plane {namespace}/{name}")), "creationTimestamp": ago(90 * DAY)},
                "spec": {"kubernetesVersion": "v1.33.5+rke2r1", "clusterName": name},
                "status": {"ready": true, "conditions": [{"type": "Ready", "status": "True"}]},
            }),
        );
        let token = format!("{MARKER}{}", "x".repeat(40));
        self.put(
            CLUSTER_REGISTRATION_TOKENS,
            json!({
                "apiVersion": "management.cattle.io/v3", "kind": "ClusterRegistrationToken",
                "metadata": {"name": "default-token", "namespace": id, "uid": uid(&format!("token {id}"))},
                "status": {
                    "token": token, "manifestUrl": format!("https://rancher.example.com/v3/import/{token}_{id}.yaml"),
                    "nodeCommand": format!("curl -fL https://rancher.example.com/system-agent-install.sh | sudo sh -s - --token {token}"),
                },
            }),
        );
    }

    /// The objects of a machine on the management side.
    pub(crate) fn register(&mut self, host: &Host, joined: bool, agent: Agent, age: i64) {
        let machine = host.machine(self.capi, joined, age);
        self.put(MACHINES, machine);
        self.put(RKE_BOOTSTRAPS, host.bootstrap(age));
        self.put(host.infra_kind(), host.infra(joined, age));
        self.put(SECRETS, host.secret(agent, age.min(12 * HOUR)));
        self.put(SERVICE_ACCOUNTS, host.account());
        if let Some(pool) = host.pool {
            self.put(
                MACHINE_SETS,
                json!({
                    "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet",
                    "metadata": {
                        "name": format!("{}-{pool}-7d9c5", host.cluster), "namespace": host.namespace, "uid": uid(pool),
                        "labels": {"cluster.x-k8s.io/cluster-name": host.cluster},
                    },
                    "spec": {"clusterName": host.cluster, "replicas": 2}, "status": {"replicas": 2},
                }),
            );
        }
    }

    /// A machine that has joined, with its Node.
    pub(crate) fn join(&mut self, host: &Host) {
        self.register(host, true, Agent::InSync, 80 * DAY);
        let id = if host.cluster == "local" { "local" } else { ID };
        self.put(MANAGEMENT_NODES, host.copy(id));
        if host.roles.etcd() {
            self.put(ETCD_SNAPSHOTS, host.snapshot_of_etcd());
        }
        if id == "local" {
            self.put(NODES, host.node(true));
        } else {
            self.put_at(&Place::Downstream, NODES, host.node(true));
        }
    }

    /// The Node of this host is gone, and its copy with it: Rancher takes that away while the cluster is connected.
    pub(crate) fn lose_node(&mut self, hostname: &str) {
        self.remove_at(&Place::Downstream, &NODES, |node| node["metadata"]["name"] == hostname);
        self.remove(&MANAGEMENT_NODES, |copy| copy["status"]["nodeName"] == hostname);
    }

    /// No connection to the downstream cluster.
    pub(crate) fn no_downstream(&mut self) {
        self.memory.others.clear();
        self.memory.origin.downstream = None;
    }

    /// The connection is Rancher's own, and so leads to every cluster that is connected.
    pub(crate) fn through_rancher(&mut self) {
        let nodes = self.memory.others.remove(&Place::Downstream).unwrap_or_default();
        self.memory.others.insert(Place::Proxied(ID.to_owned()), nodes);
        self.memory.origin.downstream = None;
        self.memory.origin.rancher_proxy = Some("local".to_owned());
    }

    /// The agent of the cluster is not connected, and nothing else leads there.
    pub(crate) fn disconnect(&mut self) {
        self.edit(&MANAGEMENT_CLUSTERS, ID, |cluster| cluster["status"]["conditions"][0]["status"] = json!("False"));
        self.no_downstream();
    }

    /// Cluster API is paused, and says so where it can.
    pub(crate) fn pause_cluster(&mut self) {
        self.edit(&CAPI_CLUSTERS, CLUSTER, |cluster| {
            cluster["spec"]["paused"] = json!(true);
            if let Some(condition) = cluster.pointer_mut("/status/conditions/0/status") {
                *condition = json!("True");
            }
        });
    }

    /// What the planner says.
    pub(crate) fn planner(&mut self, message: &str) {
        self.edit(&RKE_CONTROL_PLANES, CLUSTER, |plane| {
            plane["status"]["conditions"] =
                json!([{"type": "Ready", "status": "Unknown", "reason": "Waiting", "message": message}]);
        });
    }

    /// Changes the Machine of a host.
    pub(crate) fn machine(&mut self, name: &str, change: impl Fn(&mut Value)) {
        self.edit(&MACHINES, name, change);
    }

    /// Changes the plan Secret of a machine.
    pub(crate) fn plan_secret(&mut self, machine: &str, change: impl Fn(&mut Value)) {
        self.edit(&SECRETS, &format!("{machine}-machine-plan"), change);
    }

    /// All machines of a host are asked to go; Cluster API stands at a step of its order.
    pub(crate) fn delete_machine(&mut self, name: &str, deleted_ago: i64, step: Step, message: &str) {
        let capi = self.capi;
        self.machine(name, |machine| deleting(capi, machine, deleted_ago, step, message));
        let gone: &[&str] = match step {
            Step::Infra => &[],
            Step::Bootstrap => &["infra"],
            Step::Node => &["infra", "bootstrap"],
            _ => return,
        };
        for (kind, word) in [(CUSTOM_MACHINES, "infra"), (VSPHERE_MACHINES, "infra"), (RKE_BOOTSTRAPS, "bootstrap")] {
            if gone.contains(&word) {
                self.remove(&kind, |object| object["metadata"]["name"] == name);
            }
        }
        if gone.contains(&"bootstrap") {
            self.remove(&SECRETS, |object| object["metadata"]["name"] == format!("{name}-machine-plan"));
        }
        let being_deleted = |object: &mut Value| object["metadata"]["deletionTimestamp"] = json!(ago(deleted_ago - 60));
        match step {
            Step::Infra => {
                self.edit(&CUSTOM_MACHINES, name, being_deleted);
                self.edit(&VSPHERE_MACHINES, name, being_deleted);
            }
            Step::Bootstrap => self.edit(&RKE_BOOTSTRAPS, name, being_deleted),
            _ => {}
        }
    }

    /// Asks about one cluster or machine.
    pub(crate) fn ask(&mut self, target: &str) {
        self.question.target = Some(target.parse().expect("a target"));
    }

    /// What the plugin reads.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.collect_for(false).0
    }

    /// What the verb `snapshot` saves.
    pub(crate) fn thorough_snapshot(&self) -> Snapshot {
        self.collect_for(true).0
    }

    pub(crate) fn collect_for(&self, thorough: bool) -> (Snapshot, Vec<Need>) {
        self.memory.collect(thorough, |snapshot| GhostsDoctor.needs(&self.question, snapshot))
    }
}

impl Host {
    fn snapshot_of_etcd(&self) -> Value {
        let name = format!("{}-etcd-snapshot", self.machine);
        json!({
            "apiVersion": "rke.cattle.io/v1", "kind": "ETCDSnapshot",
            "metadata": {
                "name": name, "namespace": self.namespace, "uid": uid(&name), "ownerReferences": self.owned_by_machine(),
            },
        })
    }
}

/// A step of Cluster API's deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    PreDrain,
    Drain,
    Volumes,
    PreTerminate,
    Infra,
    Bootstrap,
    Node,
}

/// Marks a Machine as being deleted, as either version of Cluster API tells it.
pub(crate) fn deleting(capi: Capi, machine: &mut Value, deleted_ago: i64, step: Step, message: &str) {
    machine["metadata"]["deletionTimestamp"] = json!(ago(deleted_ago));
    machine["metadata"]["deletionGracePeriodSeconds"] = json!(0);
    machine["status"]["phase"] = json!("Deleting");
    let since = ago(deleted_ago - 5);
    match capi {
        Capi::New => {
            let reason = match step {
                Step::PreDrain => "WaitingForPreDrainHook",
                Step::Drain => "DrainingNode",
                Step::Volumes => "WaitingForVolumeDetach",
                Step::PreTerminate => "WaitingForPreTerminateHook",
                Step::Infra => "WaitingForInfrastructureDeletion",
                Step::Bootstrap => "WaitingForBootstrapDeletion",
                Step::Node => "DeletingNode",
            };
            set_condition(machine, "Deleting", |condition| {
                *condition = json!({
                    "type": "Deleting", "status": "True", "reason": reason, "message": message, "lastTransitionTime": since,
                });
            });
            set_condition(machine, "Ready", |condition| condition["status"] = json!("False"));
        }
        Capi::Old => {
            let order = [
                ("PreDrainDeleteHookSucceeded", Step::PreDrain),
                ("DrainingSucceeded", Step::Drain),
                ("VolumeDetachSucceeded", Step::Volumes),
                ("PreTerminateDeleteHookSucceeded", Step::PreTerminate),
            ];
            let reached = order.iter().position(|(_, known)| *known == step);
            let conditions = machine["status"]["conditions"].as_array_mut().expect("conditions");
            for (index, (kind, _)) in order.iter().enumerate() {
                match reached {
                    Some(at) if index == at => conditions.push(json!({
                        "type": kind, "status": "False", "severity": "Info", "reason": "Waiting", "message": message,
                        "lastTransitionTime": since,
                    })),
                    Some(at) if index > at => {}
                    _ => conditions.push(json!({"type": kind, "status": "True", "lastTransitionTime": since})),
                }
            }
        }
    }
}

/// Changes a condition in the object's own list.
pub(crate) fn set_condition(object: &mut Value, kind: &str, change: impl FnOnce(&mut Value)) {
    let conditions = object["status"]["conditions"].as_array_mut().expect("conditions");
    let found = conditions.iter_mut().find(|condition| condition["type"] == kind).expect("the condition");
    change(found);
}

/// Cluster API says that the Node is gone.
pub(crate) fn node_deleted(capi: Capi, machine: &mut Value, hostname: &str) {
    set_condition(machine, "NodeHealthy", |condition| {
        condition["status"] = json!("False");
        condition["reason"] = json!(match capi {
            Capi::New => "NodeDeleted",
            Capi::Old => "NodeNotFound",
        });
        condition["message"] = json!(format!("Node {hostname} has been deleted while the Machine still exists"));
    });
    set_condition(machine, "Ready", |condition| condition["status"] = json!("False"));
}
