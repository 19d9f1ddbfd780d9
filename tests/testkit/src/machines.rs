//! The machines of a world: a downstream control plane, Cluster API's real controller, and Rancher's work played.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{ControlPlane, Output, Program, World, binary};

/// Where the objects of provisioned clusters lie.
const WORKSPACE: &str = "fleet-default";

/// A downstream cluster of a world that was started with `--downstream`.
#[derive(Clone, Debug)]
pub struct Downstream {
    name: String,
    ready: Value,
}

impl Downstream {
    /// The name of its provisioning Cluster, and of the context in its kubeconfig.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of its management Cluster, `c-m-…`.
    #[must_use]
    pub fn id(&self) -> &str {
        self.text("clusterId")
    }

    /// One text of what the world printed about it: `server`, `caFile`, `adminToken`, `auditLog` …
    #[must_use]
    pub fn text(&self, key: &str) -> &str {
        self.ready[key].as_str().unwrap()
    }

    /// The kubeconfig of its administrator.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        PathBuf::from(self.text("kubeconfig"))
    }

    /// `kubectl` as administrator, not run yet.
    #[must_use]
    pub fn kubectl_program<I: IntoIterator<Item: AsRef<OsStr>>>(&self, args: I) -> Program {
        Program::new(binary("kubectl")).env("KUBECONFIG", self.kubeconfig()).args(args)
    }

    /// What `kubectl` prints.
    ///
    /// # Panics
    /// When it fails.
    #[track_caller]
    pub fn kubectl(&self, args: &[&str]) -> String {
        self.kubectl_program(args).run().expect_code(0).stdout.clone()
    }

    /// What `kubectl get … -o json` prints, or null when there is no such object.
    #[must_use]
    #[track_caller]
    pub fn get(&self, args: &[&str]) -> Value {
        got(&self.kubectl_program(["get", "-o", "json", "--ignore-not-found"]).args(args).run())
    }

    /// `kubectl apply` of these objects.
    #[track_caller]
    pub fn apply(&self, manifests: impl Into<String>) -> Output {
        let output = self.kubectl_program(["apply", "-f", "-"]).input(manifests.into()).run();
        output.expect_code(0);
        output
    }
}

/// The object that `kubectl get --ignore-not-found` printed, or null.
#[track_caller]
pub(crate) fn got(output: &Output) -> Value {
    output.expect_code(0);
    if output.stdout.is_empty() { Value::Null } else { output.json() }
}

impl World {
    /// A downstream cluster.
    ///
    /// # Panics
    /// When the world was not started with it.
    #[must_use]
    #[track_caller]
    pub fn downstream(&self, name: &str) -> Downstream {
        let clusters = self.ready()["downstreams"].as_array().map(Vec::as_slice).unwrap_or_default();
        let Some(ready) = clusters.iter().find(|cluster| cluster["name"] == name) else {
            panic!("no `--downstream {name}` in this world");
        };
        Downstream { name: name.to_owned(), ready: ready.clone() }
    }

    /// A custom machine that has yet to join: Machine, `RKEBootstrap`, `CustomMachine`. Roles are `etcd`, `controlplane`,
    /// `worker`, with commas between. Answers the Machine's UID.
    #[track_caller]
    pub fn machine(&self, cluster: &str, machine: &str, roles: &str) -> String {
        self.uid(&format!("machine {cluster} {machine} {roles} custom"))
    }

    /// A machine of the vSphere node driver that has yet to join; its server was made.
    #[track_caller]
    pub fn vsphere_machine(&self, cluster: &str, machine: &str, roles: &str) -> String {
        self.uid(&format!("machine {cluster} {machine} {roles} vsphere"))
    }

    /// A machine pool of the vSphere node driver; the name of its `MachineDeployment`. Its machines, which have yet to
    /// join, come from Cluster API's real controller, and again when they are deleted.
    #[track_caller]
    pub fn pool(&self, cluster: &str, pool: &str, roles: &str, count: usize) -> String {
        let answer = self.command(&format!("pool {cluster} {pool} {roles} {count}"));
        answer["machineDeployment"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    fn uid(&self, line: &str) -> String {
        self.command(line)["uid"].as_str().unwrap().to_owned()
    }

    /// A host comes up as this machine: its Node appears, or is relabelled, and its agent applies every plan.
    #[track_caller]
    pub fn join(&self, cluster: &str, machine: &str, node: &str) {
        self.command(&format!("join {cluster} {machine} {node}"));
    }

    /// A machine's system agent falls silent, or works again.
    #[track_caller]
    pub fn agent(&self, machine: &str, on: bool) {
        self.command(&format!("agent {} {machine}", on_off(on)));
    }

    /// A host goes, its Node and its agent with it.
    #[track_caller]
    pub fn node_gone(&self, cluster: &str, node: &str) {
        self.command(&format!("node-gone {cluster} {node}"));
    }

    /// A node's kubelet falls silent, which makes it `NotReady`, or speaks again.
    #[track_caller]
    pub fn kubelet(&self, cluster: &str, node: &str, on: bool) {
        self.command(&format!("kubelet {} {cluster} {node}", on_off(on)));
    }

    /// Whether a downstream API server answers, and the cluster's tunnel stands.
    #[track_caller]
    pub fn reachable(&self, cluster: &str, reachable: bool) {
        self.command(&format!("downstream {} {cluster}", start_stop(reachable)));
    }

    /// Whether the etcd of a downstream cluster lets go of members.
    #[track_caller]
    pub fn etcd(&self, cluster: &str, on: bool) {
        self.command(&format!("etcd {} {cluster}", on_off(on)));
    }

    /// Whether Cluster API's controller runs.
    #[track_caller]
    pub fn capi(&self, running: bool) {
        self.command(&format!("capi {}", start_stop(running)));
    }

    /// Whether the machine work of Rancher's leader is done.
    #[track_caller]
    pub fn provisioner(&self, on: bool) {
        self.command(&format!("provisioner {}", on_off(on)));
    }

    /// Asks for new certificates; the generation asked for.
    #[track_caller]
    pub fn rotate(&self, cluster: &str) -> u64 {
        self.command(&format!("rotate {cluster}"))["generation"].as_u64().unwrap()
    }

    /// A Machine; null when there is none. Kubectl asks for the version the server prefers.
    #[must_use]
    #[track_caller]
    pub fn machine_object(&self, machine: &str) -> Value {
        self.get(&["machines.cluster.x-k8s.io", "-n", WORKSPACE, machine])
    }

    /// What the planner says a cluster waits for; empty when it waits for nothing.
    #[must_use]
    #[track_caller]
    pub fn waits_for(&self, cluster: &str) -> String {
        let plane = self.get(&["rkecontrolplanes.rke.cattle.io", "-n", WORKSPACE, cluster]);
        condition(&plane, "Ready")["message"].as_str().unwrap_or_default().to_owned()
    }

    /// One kubeconfig with the context `management`, which is current, and one for each downstream cluster by its name.
    #[must_use]
    pub fn kubeconfig_of_all(&self) -> PathBuf {
        let mut clusters = vec![Reach::of(self, "management")];
        for downstream in self.ready()["downstreams"].as_array().into_iter().flatten() {
            clusters.push(Reach {
                context: downstream["name"].as_str().unwrap(),
                server: downstream["server"].as_str().unwrap(),
                ca: downstream["caFile"].as_str().map(Path::new),
                token: downstream["adminToken"].as_str(),
            });
        }
        let path = self.files().join("all.kubeconfig");
        write_kubeconfig(&path, &clusters);
        path
    }
}

/// A condition of an object's status, or null.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}

fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

fn start_stop(start: bool) -> &'static str {
    if start { "start" } else { "stop" }
}

/// How a cluster is reached.
pub(crate) struct Reach<'a> {
    pub(crate) context: &'a str,
    pub(crate) server: &'a str,
    pub(crate) ca: Option<&'a Path>,
    pub(crate) token: Option<&'a str>,
}

impl<'a> Reach<'a> {
    fn of(plane: &'a ControlPlane, context: &'a str) -> Self {
        Self {
            context,
            server: plane.text("server"),
            ca: Some(Path::new(plane.text("caFile"))),
            token: Some(plane.text("adminToken")),
        }
    }
}

/// Writes a kubeconfig with a context for each; the first is current.
pub(crate) fn write_kubeconfig(path: &Path, clusters: &[Reach<'_>]) {
    let named = |part: &str, of: &dyn Fn(&Reach<'_>) -> Value| -> Value {
        clusters.iter().map(|reach| json!({"name": reach.context, part: of(reach)})).collect()
    };
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": clusters[0].context,
        "contexts": named("context", &|reach| json!({"cluster": reach.context, "user": reach.context})),
        "clusters": named("cluster", &|reach| match reach.ca {
            Some(ca) => json!({"server": reach.server, "certificate-authority": ca}),
            None => json!({"server": reach.server}),
        }),
        "users": named("user", &|reach| reach.token.map_or(json!({}), |token| json!({"token": token}))),
    });
    std::fs::write(path, config.to_string()).unwrap();
}
