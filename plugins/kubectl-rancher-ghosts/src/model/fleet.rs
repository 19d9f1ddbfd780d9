//! Clusters and machines joined from all objects that belong to them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use rancher_common::kinds::{NODES, SECRETS};
use rancher_common::rancher::{
    CAPI_CLUSTERS, CUSTOM_MACHINES, DRIVER_MACHINES, MACHINES, MANAGEMENT_CLUSTERS, ManagementCluster, Metadata,
    PROVISIONING_CLUSTERS, RKE_BOOTSTRAPS, RKE_CONTROL_PLANES,
};
use rancher_common::resource::{ObjectRef, ResourceType};
use rancher_common::snapshot::{Form, Place, Shown, Snapshot, Want};
use serde::Deserialize as _;
use serde_json::Value;

use super::machine::{Condition, Machine, PAUSED, Reference, Role, conditions_of};
use super::objects::{ControlPlane, MACHINE_NAME, Node, Part, PlanSecret, reference};
use super::reading::{NOT_READ, Objects, Seen};
use super::triage::{self, Row};
use crate::Question;

/// Workspaces that every Rancher has: of downstream clusters and of the cluster Rancher itself runs in.
pub(crate) const WORKSPACES: [&str; 2] = ["fleet-default", "fleet-local"];

/// The cluster Rancher itself runs in.
pub(crate) const LOCAL: &str = "local";

/// Conditions of the provisioning Cluster that carry a copy of the planner's message, the most telling first.
const PLANNER_COPIES: [&str; 3] = ["Updated", "Provisioned", "Ready"];
/// The condition of a provisioning Cluster that is being removed.
pub(crate) const REMOVED: &str = "Removed";

/// One machine and all that belongs to it.
#[derive(Clone, Debug)]
pub(crate) struct Picture {
    pub row: Row,
    /// Whether its row leaves a doubt.
    pub suspect: bool,
    /// The whole Machine; unknown for those whose row says that they are well.
    pub machine: Seen<Box<Machine>>,
    pub bootstrap: Seen<Box<Part>>,
    pub infra: Seen<Box<Part>>,
    pub plan: Seen<Box<PlanSecret>>,
}

impl Picture {
    /// The whole Machine, if it was read.
    pub(crate) fn whole(&self) -> Option<&Machine> {
        self.machine.as_ref().ok()?.as_deref()
    }

    pub(crate) fn reference(&self) -> ObjectRef {
        match self.whole() {
            Some(machine) => reference(&MACHINES, &machine.metadata),
            None => ObjectRef::new(&MACHINES, Some(&self.row.namespace), &self.row.name),
        }
    }

    pub(crate) fn secret(&self) -> Option<&PlanSecret> {
        self.plan.as_ref().ok()?.as_deref()
    }

    /// Where the infra machine says the host is.
    pub(crate) fn provider_id(&self) -> Option<&str> {
        let of_infra = || self.infra.as_ref().ok()?.as_ref()?.provider_id.as_deref();
        self.row.provider_id.as_deref().or_else(of_infra)
    }
}

/// One provisioned cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub namespace: String,
    pub name: String,
    /// Id of the management Cluster (`c-m-…`).
    pub id: Option<String>,
    pub metadata: Metadata,
    /// Those conditions of the provisioning Cluster that say what is waited for: [`PLANNER_COPIES`] and [`REMOVED`].
    pub conditions: Vec<Condition>,
    /// The management Cluster; `None` if there is none of that id.
    pub management: Option<Arc<ManagementCluster>>,
    /// `spec.paused` or the annotation of the Cluster API Cluster.
    pub capi_paused: Seen<bool>,
    pub control_plane: Seen<ControlPlane>,
    pub machines: Vec<Picture>,
    /// The downstream Nodes, or why they are not known.
    pub nodes: Result<Vec<Node>, String>,
    /// Where those were read.
    pub place: Option<Place>,
    /// Infra machines and bootstraps that name this cluster, by what they are.
    pub parts: Vec<Part>,
    /// Plan Secrets that name this cluster.
    pub secrets: Vec<PlanSecret>,
}

impl Cluster {
    pub(crate) fn reference(&self) -> ObjectRef {
        reference(&PROVISIONING_CLUSTERS, &self.metadata)
    }

    /// As people name it: the name, with the workspace where that is not the usual one.
    pub(crate) fn title(&self) -> String {
        if self.namespace == WORKSPACES[0] { self.name.clone() } else { format!("{}/{}", self.namespace, self.name) }
    }

    /// Whether Rancher counts it as connected; unknown without a management Cluster or condition.
    pub(crate) fn connected(&self) -> Option<bool> {
        if self.id.as_deref() == Some(LOCAL) {
            return Some(true);
        }
        let condition = self.management.as_ref()?.condition("Connected")?;
        Some(condition.status == "True")
    }

    /// What the planner says: RKEControlPlane where it was read, else its copy on the provisioning Cluster.
    pub(crate) fn planner_message(&self) -> Option<&str> {
        let of_plane = self.control_plane.as_ref().ok().and_then(Option::as_ref).and_then(ControlPlane::message);
        of_plane.or_else(|| {
            PLANNER_COPIES.iter().find_map(|kind| {
                let condition = self.conditions.iter().find(|c| c.kind == *kind && !c.is("True"))?;
                Some(condition.message()).filter(|text| !text.is_empty())
            })
        })
    }

    pub(crate) fn plane(&self) -> Option<&ControlPlane> {
        self.control_plane.as_ref().ok()?.as_ref()
    }

    pub(crate) fn machine(&self, name: &str) -> Option<&Picture> {
        self.machines.iter().find(|picture| picture.row.name == name)
    }

    /// The whole machines of a role that are not being deleted.
    pub(crate) fn of_role(&self, role: Role) -> impl Iterator<Item = (&Picture, &Machine)> {
        self.machines
            .iter()
            .filter_map(|picture| Some((picture, picture.whole()?)))
            .filter(move |(_, machine)| machine.is(role) && !machine.deleting())
    }

    /// A row may say that a machine is well while its Node is gone, or is another machine's.
    fn suspect_by_nodes(&mut self) {
        let Ok(nodes) = &self.nodes else { return };
        let owner_of = |node: &Node| {
            let uid = node.machine_uid()?;
            let owner = self.machines.iter().find(|p| p.whole().is_some_and(|machine| machine.uid() == uid))?;
            Some(owner.row.name.clone())
        };
        let owners: BTreeMap<&str, Option<String>> = nodes.iter().map(|node| (node.name(), owner_of(node))).collect();
        let doubtful = |picture: &Picture| match picture.row.node.as_deref().map(|node| owners.get(node)) {
            Some(None) => true,
            Some(Some(Some(owner))) => *owner != picture.row.name,
            Some(Some(None)) | None => false,
        };
        let doubtful: Vec<bool> = self.machines.iter().map(doubtful).collect();
        for (picture, doubtful) in self.machines.iter_mut().zip(doubtful) {
            picture.suspect |= doubtful;
        }
    }

    /// The other machines that refer to the Node of this name.
    pub(crate) fn rivals<'c>(&'c self, picture: &'c Picture, node: &'c str) -> impl Iterator<Item = &'c Picture> {
        self.machines
            .iter()
            .filter(move |other| other.row.name != picture.row.name && other.row.node.as_deref() == Some(node))
    }

    /// The Node that says it belongs to this machine, whatever it is called.
    pub(crate) fn node_of(&self, machine: &Machine) -> Option<&Node> {
        self.nodes.as_ref().ok()?.iter().find(|node| node.machine_uid() == Some(machine.uid()))
    }

    /// Whether the Nodes were proven to be those of this cluster: through Rancher by the cluster's id, otherwise because
    /// one of them carries the UID of one of its machines, or Cluster API's marks of this cluster.
    pub(crate) fn node(&self, name: &str) -> Result<Option<&Node>, &str> {
        match &self.nodes {
            Ok(nodes) => Ok(nodes.iter().find(|node| node.name() == name)),
            Err(why) => Err(why),
        }
    }
}

/// All that is looked at.
#[derive(Debug, Default)]
pub(crate) struct Fleet {
    pub clusters: Vec<Cluster>,
    /// Management Clusters, provisioned or not.
    pub management: Vec<Arc<ManagementCluster>>,
    /// Management Clusters that could not be read, and why.
    pub malformed: Vec<(ObjectRef, String)>,
    /// Namespaces that may hold machines.
    pub workspaces: Vec<String>,
    /// Machines of no provisioning Cluster: workspace and name of the cluster they name, and their rows.
    pub strays: BTreeMap<(String, String), Vec<Row>>,
    /// Those of them whose rows lack what a verdict needs.
    pub too_thin: BTreeSet<String>,
    /// Kinds of infra machines, CustomMachine first.
    pub infra_kinds: Vec<ResourceType>,
}

impl Fleet {
    pub(crate) fn of(question: &Question, snapshot: &Snapshot) -> Self {
        let (mut management, mut malformed) = (Vec::new(), Vec::new());
        if let Ok(listed) = snapshot.list::<ManagementCluster>(None) {
            management.extend(listed.items.into_iter().map(Arc::new));
            malformed.extend(
                listed
                    .malformed
                    .iter()
                    .map(|(object, problem)| (ObjectRef::of(&MANAGEMENT_CLUSTERS, object), problem.to_string())),
            );
        }
        let Ok(provisioning) = snapshot.raw_list(&PROVISIONING_CLUSTERS, None) else {
            return Self { malformed, ..Self::default() };
        };
        let mut workspaces: BTreeSet<String> = WORKSPACES.iter().map(|name| (*name).to_owned()).collect();
        workspaces.extend(
            provisioning.iter().filter_map(|object| object["metadata"]["namespace"].as_str().map(str::to_owned)),
        );
        let infra_kinds = infra_kinds(snapshot);
        let by_id: HashMap<&str, &Arc<ManagementCluster>> =
            management.iter().map(|cluster| (cluster.metadata.name.as_str(), cluster)).collect();
        let mut clusters: Vec<Cluster> = provisioning.iter().filter_map(|object| cluster(object, &by_id)).collect();
        if let Some(namespace) = &question.namespace {
            workspaces.retain(|workspace| workspace == namespace);
            clusters.retain(|cluster| cluster.namespace == *namespace);
        }
        // The order in which a server lists means nothing.
        clusters.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        management.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        let workspaces: Vec<String> = workspaces.into_iter().collect();
        let mut fleet = Self { clusters, management, malformed, workspaces, infra_kinds, ..Self::default() };
        fleet.join(question, snapshot);
        fleet
    }

    /// The clusters that the question's target can mean.
    pub(crate) fn targets<'f>(&'f self, question: &Question) -> Vec<&'f Cluster> {
        let Some(target) = &question.target else { return self.clusters.iter().collect() };
        let named = |exact: bool| -> Vec<&Cluster> {
            self.clusters
                .iter()
                .filter(|cluster| {
                    if exact {
                        cluster.name == target.cluster
                    } else {
                        let shown = cluster.management.as_ref().and_then(|m| m.spec.display_name.as_deref());
                        cluster.id.as_deref() == Some(target.cluster.as_str()) || shown == Some(target.cluster.as_str())
                    }
                })
                .collect()
        };
        let exact = named(true);
        if exact.is_empty() { named(false) } else { exact }
    }

    fn join(&mut self, question: &Question, snapshot: &Snapshot) {
        let here = Place::Here;
        let machines = Objects::of(snapshot, &here, &MACHINES);
        let bootstraps = Objects::of(snapshot, &here, &RKE_BOOTSTRAPS);
        let infras: Vec<(&ResourceType, Objects<'_>)> =
            self.infra_kinds.iter().map(|kind| (kind, Objects::of(snapshot, &here, kind))).collect();
        let secrets = Objects::of(snapshot, &here, &SECRETS);
        let planes = Objects::of(snapshot, &here, &RKE_CONTROL_PLANES);
        let capi = Objects::of(snapshot, &here, &CAPI_CLUSTERS);
        let plan_secrets: Vec<PlanSecret> = secrets.all().filter_map(PlanSecret::read).collect();
        let mut secret_of: BTreeMap<(&str, &str), &PlanSecret> = BTreeMap::new();
        for secret in &plan_secrets {
            let namespace = secret.metadata.namespace.as_deref().unwrap_or_default();
            if let Some(machine) = secret.metadata.labels.get(MACHINE_NAME) {
                secret_of.insert((namespace, machine), secret);
            }
        }

        let (rows, too_thin) = self.rows(question, snapshot, &machines);
        let index_of: HashMap<(&str, &str), usize> = self
            .clusters
            .iter()
            .enumerate()
            .map(|(index, cluster)| ((cluster.namespace.as_str(), cluster.name.as_str()), index))
            .collect();
        let mut strays: BTreeMap<(String, String), Vec<Row>> = BTreeMap::new();
        // In the order of `self.clusters`.
        let mut pictures: Vec<Vec<Picture>> = vec![Vec::new(); self.clusters.len()];
        let suspects: BTreeSet<usize> = triage::suspects(&rows).into_iter().collect();
        for (index, row) in rows.into_iter().enumerate() {
            let suspect = suspects.contains(&index);
            let Some(cluster) = index_of.get(&(row.namespace.as_str(), row.cluster.as_str())).copied() else {
                strays.entry((row.namespace.clone(), row.cluster.clone())).or_default().push(row);
                continue;
            };
            let machine = typed(machines.get(&row.namespace, &row.name), Machine::read);
            let whole = machine.as_ref().ok().and_then(Option::as_ref);
            let part = |wanted: Option<&Reference>| match wanted {
                None => whole.map_or_else(|| Err(NOT_READ), |_| Ok(None)),
                Some(wanted) if wanted.kind == RKE_BOOTSTRAPS.kind => {
                    typed(bootstraps.get(&row.namespace, &wanted.name), |o| Part::read(&RKE_BOOTSTRAPS, o))
                }
                Some(wanted) => match infras.iter().find(|(kind, _)| kind.kind == wanted.kind) {
                    Some((kind, objects)) => typed(objects.get(&row.namespace, &wanted.name), |o| Part::read(kind, o)),
                    None => Err(format!("the kind {} is not known", wanted.kind).into()),
                },
            };
            let bootstrap = part(whole.and_then(|machine| machine.bootstrap.as_ref()));
            let infra = part(whole.and_then(|machine| machine.infra.as_ref()));
            let plan = match secret_of.get(&(row.namespace.as_str(), row.name.as_str())) {
                Some(secret) => Ok(Some((*secret).clone())),
                None => match whole.and_then(plan_secret_name) {
                    // A selection by the cluster's label that was read holds it, if it exists.
                    Some(name) => match secrets.get(&row.namespace, &name) {
                        Err(_) if selected(snapshot, &row.namespace, &row.cluster) => Ok(None),
                        other => typed(other, PlanSecret::read),
                    },
                    None => Err(NOT_READ),
                },
            };
            pictures[cluster].push(Picture {
                row,
                suspect,
                machine: boxed(machine),
                bootstrap: boxed(bootstrap),
                infra: boxed(infra),
                plan: boxed(plan),
            });
        }

        self.too_thin = too_thin;
        if !snapshot.not_served(&PROVISIONING_CLUSTERS) {
            self.strays = strays;
        }
        let bootstrap_kind = RKE_BOOTSTRAPS;
        let of_infra = infras.iter().flat_map(|(kind, objects)| objects.all().map(move |object| (*kind, object)));
        let mut parts = by_named_cluster(
            of_infra
                .chain(bootstraps.all().map(|object| (&bootstrap_kind, object)))
                .filter_map(|(kind, object)| Part::read(kind, object)),
            |part| &part.metadata,
        );
        let paused = paused_rows(snapshot, &self.workspaces);
        let mut named_secrets = by_named_cluster(plan_secrets.iter().cloned(), |secret| &secret.metadata);
        for (cluster, machines) in self.clusters.iter_mut().zip(pictures) {
            let key = (cluster.namespace.clone(), cluster.name.clone());
            cluster.machines = machines;
            cluster.machines.sort_by(|a, b| a.row.name.cmp(&b.row.name));
            cluster.control_plane = typed(planes.get(&cluster.namespace, &cluster.name), ControlPlane::read);
            cluster.capi_paused = capi_paused(&paused, &capi, &cluster.namespace, &cluster.name);
            cluster.parts = parts.remove(&key).unwrap_or_default();
            cluster.secrets = named_secrets.remove(&key).unwrap_or_default();
        }
        for index in 0..self.clusters.len() {
            let (place, nodes) = self.nodes_of(question, snapshot, &self.clusters[index]);
            self.clusters[index].place = place;
            self.clusters[index].nodes = nodes;
            self.clusters[index].suspect_by_nodes();
        }
        // In a fleet the plans of suspects are judged, however many others a saved snapshot holds.
        if question.target.is_none() && !question.asks_who() {
            let well = self.clusters.iter_mut().flat_map(|cluster| &mut cluster.machines).filter(|p| !p.suspect);
            for picture in well {
                picture.plan = Err(NOT_READ);
            }
        }
    }

    /// The rows of the workspaces, or of the one cluster that was asked for; and the workspaces whose rows say too little.
    fn rows(&self, question: &Question, snapshot: &Snapshot, machines: &Objects<'_>) -> (Vec<Row>, BTreeSet<String>) {
        if question.target.is_some() {
            let targets: BTreeSet<(&str, &str)> =
                self.targets(question).iter().map(|c| (c.namespace.as_str(), c.name.as_str())).collect();
            let rows = machines
                .all()
                .filter_map(Machine::read)
                .map(|machine| triage::row_of(&machine))
                .filter(|row| targets.contains(&(row.namespace.as_str(), row.cluster.as_str())))
                .collect();
            return (rows, BTreeSet::new());
        }
        let (mut rows, mut too_thin) = (Vec::new(), BTreeSet::new());
        for namespace in &self.workspaces {
            let Ok(read) = triage::rows(snapshot, namespace) else { continue };
            if read.too_thin {
                too_thin.insert(namespace.clone());
            }
            rows.extend(read.rows);
        }
        (rows, too_thin)
    }

    /// Which connection leads to a cluster, if one does.
    pub(crate) fn place(&self, question: &Question, snapshot: &Snapshot, cluster: &Cluster) -> Option<Place> {
        if cluster.id.as_deref() == Some(LOCAL) {
            return Some(Place::Here);
        }
        if snapshot.origin.downstream.is_some() {
            // One connection was given: it is for the cluster that was asked for, or for the only one.
            let only = self.clusters.iter().filter(|c| c.id.as_deref() != Some(LOCAL)).count() == 1;
            let targets = self.targets(question);
            let asked = question.target.is_some() && targets.len() == 1 && std::ptr::eq(targets[0], cluster);
            return (asked || only).then_some(Place::Downstream);
        }
        let id = cluster.id.as_ref()?;
        (snapshot.origin.rancher_proxy.is_some() && cluster.connected() == Some(true))
            .then(|| Place::Proxied(id.clone()))
    }

    fn nodes_of(
        &self,
        question: &Question,
        snapshot: &Snapshot,
        cluster: &Cluster,
    ) -> (Option<Place>, Result<Vec<Node>, String>) {
        let Some(place) = self.place(question, snapshot, cluster) else {
            return (None, Err("no connection to the downstream cluster was given".to_owned()));
        };
        let nodes = snapshot
            .at(&place)
            .answer(&Want::list(NODES, None, Form::Full))
            .map(|objects| objects.iter().filter_map(Node::read).collect::<Vec<_>>())
            .map_err(|why| why.to_string());
        let nodes = nodes.and_then(|mut nodes| {
            nodes.sort_by(|a, b| a.name().cmp(b.name()));
            if place == Place::Downstream && !belongs(&nodes, cluster) {
                return Err(format!(
                    "none of the Nodes behind the downstream connection is marked as one of cluster {}",
                    cluster.name
                ));
            }
            Ok(nodes)
        });
        (Some(place), nodes)
    }
}

/// Sorts objects by the cluster that their labels name.
fn by_named_cluster<T>(
    objects: impl Iterator<Item = T>,
    metadata: impl Fn(&T) -> &Metadata,
) -> BTreeMap<(String, String), Vec<T>> {
    let mut sorted: BTreeMap<(String, String), Vec<T>> = BTreeMap::new();
    for object in objects {
        let labels = &metadata(&object).labels;
        let cluster = labels.get(super::machine::CLUSTER_NAME).or_else(|| labels.get("rke.cattle.io/cluster-name"));
        if let (Some(namespace), Some(cluster)) = (metadata(&object).namespace.clone(), cluster.cloned()) {
            sorted.entry((namespace, cluster)).or_default().push(object);
        }
    }
    sorted
}

/// Whether these Nodes are proven to be those of the cluster: one of them carries the UID of one of its machines, or
/// Cluster API's marks of this cluster and of one of its machines. Names prove nothing.
fn belongs(nodes: &[Node], cluster: &Cluster) -> bool {
    nodes.iter().any(|node| {
        let by_uid = node
            .machine_uid()
            .is_some_and(|uid| cluster.machines.iter().filter_map(Picture::whole).any(|machine| machine.uid() == uid));
        by_uid
            || node.claimed_by().is_some_and(|(namespace, name, machine)| {
                namespace == cluster.namespace && name == cluster.name && cluster.machine(machine).is_some()
            })
    })
}

fn cluster(object: &Value, management: &HashMap<&str, &Arc<ManagementCluster>>) -> Option<Cluster> {
    let metadata = Metadata::deserialize(object.get("metadata")?).ok()?;
    let id = object["status"]["clusterName"].as_str().filter(|id| !id.is_empty()).map(str::to_owned);
    Some(Cluster {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone(),
        management: id.as_ref().and_then(|id| management.get(id.as_str()).copied().cloned()),
        id,
        conditions: conditions_of(&object["status"]["conditions"], |kind| {
            kind == REMOVED || PLANNER_COPIES.contains(&kind)
        }),
        metadata,
        capi_paused: Err(NOT_READ),
        control_plane: Err(NOT_READ),
        machines: Vec::new(),
        nodes: Err(NOT_READ.into_owned()),
        place: None,
        parts: Vec::new(),
        secrets: Vec::new(),
    })
}

/// Of most machines nothing but the row is known: what is not there shall take no room.
fn boxed<T>(seen: Seen<T>) -> Seen<Box<T>> {
    seen.map(|found| found.map(Box::new))
}

fn typed<T>(seen: Seen<&Value>, read: impl Fn(&Value) -> Option<T>) -> Seen<T> {
    match seen? {
        None => Ok(None),
        Some(object) => read(object).map(Some).ok_or_else(|| "it has another shape than its kind".into()),
    }
}

/// Name of the plan Secret of a machine, unless it is one of the long names that Rancher shortens by a hash
/// (rancher/wrangler pkg/name, SafeConcatName: 63 characters).
pub(crate) fn plan_secret_name(machine: &Machine) -> Option<String> {
    let name = format!("{}-machine-plan", machine.bootstrap.as_ref()?.name);
    (name.len() < 64).then_some(name)
}

/// The plan Secrets of one cluster.
pub(crate) fn plan_secrets_of(namespace: &str, cluster: &str) -> Want {
    Want::List {
        resource: SECRETS,
        namespace: Some(namespace.to_owned()),
        selector: Some(format!("rke.cattle.io/cluster-name={cluster}")),
        fields: Some(format!("type={}", rancher_common::snapshot::MACHINE_PLAN_TYPE)),
        form: Form::Full,
    }
}

fn selected(snapshot: &Snapshot, namespace: &str, cluster: &str) -> bool {
    snapshot.here().answer(&plan_secrets_of(namespace, cluster)).is_ok()
}

/// What the rows of Cluster API's Clusters say of pauses, by workspace and name; of a workspace that was not read, why.
fn paused_rows<'a>(
    snapshot: &'a Snapshot,
    workspaces: &[String],
) -> BTreeMap<String, Result<HashMap<&'a str, Option<&'a str>>, String>> {
    let rows_of = |namespace: &String| {
        let want = Want::list(CAPI_CLUSTERS, Some(namespace), Form::Table);
        match snapshot.here().shown(&want).map_err(|why| why.to_string())? {
            Shown::Rows(table) => {
                let names_and_pauses = table.texts("Name").zip(table.texts("Paused"));
                Ok(names_and_pauses.filter_map(|(name, paused)| Some((name?, paused))).collect())
            }
            // Those that were read whole say it themselves.
            Shown::Objects(_) => Ok(HashMap::new()),
        }
    };
    workspaces.iter().map(|namespace| (namespace.clone(), rows_of(namespace))).collect()
}

fn capi_paused(
    rows: &BTreeMap<String, Result<HashMap<&str, Option<&str>>, String>>,
    whole: &Objects<'_>,
    namespace: &str,
    name: &str,
) -> Seen<bool> {
    if let Ok(found) = whole.get(namespace, name) {
        return Ok(found
            .map(|object| object["spec"]["paused"] == true || !object["metadata"]["annotations"][PAUSED].is_null()));
    }
    match rows.get(namespace) {
        None => Err(NOT_READ),
        Some(Err(why)) => Err(why.clone().into()),
        Some(Ok(rows)) => match rows.get(name) {
            None => Ok(None),
            Some(Some(paused)) => Ok(Some(*paused == "True")),
            Some(None) => Err("the server has no column Paused".into()),
        },
    }
}

/// Kinds of infra machines: Rancher's own, and one per node driver that the server has.
fn infra_kinds(snapshot: &Snapshot) -> Vec<ResourceType> {
    let (group, version) = DRIVER_MACHINES;
    let want = Want::Kinds { group: group.into(), version: version.into() };
    let mut kinds = vec![CUSTOM_MACHINES];
    if let Ok(listed) = snapshot.here().answer(&want) {
        kinds.extend(listed.iter().filter_map(|entry| {
            let (kind, plural) = (entry["kind"].as_str()?, entry["name"].as_str()?);
            // `…machinetemplates` are patterns, `…/status` is a part.
            (kind.ends_with("Machine") && !plural.contains('/')).then(|| ResourceType {
                group: group.into(),
                version: version.into(),
                kind: kind.to_owned().into(),
                plural: plural.to_owned().into(),
                namespaced: true,
            })
        }));
    }
    kinds
}

/// The management Clusters whose provisioning Cluster is gone are told by the subject they name.
pub(crate) fn management_reference(cluster: &ManagementCluster) -> ObjectRef {
    reference(&MANAGEMENT_CLUSTERS, &cluster.metadata)
}
