//! What is read, and when: rows for all machines, whole objects for those that do not look well, one cluster whole when
//! it is asked for.

use std::time::Duration;

use rancher_common::finding::access::KUBE_SYSTEM;
use rancher_common::kinds::{DEPLOYMENTS, LEASES, NAMESPACES, NODES, SECRETS, SERVICE_ACCOUNTS};
use rancher_common::rancher::{
    CAPI_CLUSTERS, CLUSTER_REGISTRATION_TOKENS, CUSTOM_MACHINES, DRIVER_MACHINES, ETCD_SNAPSHOTS, MACHINE_SETS,
    MACHINES, MANAGEMENT_CLUSTERS, MANAGEMENT_NODES, PROVISIONING_CLUSTERS, RKE_BOOTSTRAPS, RKE_CONTROL_PLANES,
    SETTINGS,
};
use rancher_common::resource::ResourceType;
use rancher_common::snapshot::{Form, MACHINE_PLAN_TYPE, Need, Right, Snapshot, Unread, Want};

use crate::Question;
use crate::diagnose::{Scene, controllers, credentials, management_nodes};
use crate::model::fleet::{Cluster, Fleet, LOCAL, Picture, WORKSPACES, plan_secret_name, plan_secrets_of};
use crate::model::machine::{CLUSTER_NAME, Machine, Role};
use crate::model::objects::MACHINE_NAME;
use crate::model::triage;

/// Whole objects asked for one by one; beyond that many of one namespace the list is cheaper.
const ONE_BY_ONE: usize = 200;
/// Fleets up to this many machines are searched for leftovers of clusters that are gone without being asked to.
const SMALL_FLEET: usize = 2000;
/// Up to this many machines of a namespace are read whole, well or not, and the Nodes of their clusters: then the table
/// shows their roles too, and Nodes without a machine are seen.
const SMALL_NAMESPACE: usize = 100;
/// Namespaces of Cluster API's controller: Turtles from Rancher 2.13 on, a chart of its own before
/// (rancher/turtles; rancher/charts rancher-provisioning-capi).
pub(crate) const CAPI_NAMESPACES: [&str; 2] = ["cattle-capi-system", "cattle-provisioning-capi-system"];

/// Between two looks at a drain: Cluster API comes back to it every 20 s at the latest
/// (kubernetes-sigs/cluster-api internal/controllers/machine, drainRetryInterval).
const SECOND_LOOK: Duration = Duration::from_secs(21);

const WHY_SECOND_LOOK: &str = "whether a drain that takes long moves";
const WHY_CLUSTERS: &str = "which clusters there are";
const WHY_MANAGEMENT: &str = "which clusters are connected";
const WHY_MACHINES: &str = "which machines there are and how they look";
const WHY_MACHINE: &str = "what a machine that does not look well is, and says of itself";
const WHY_BOOTSTRAPS: &str = "which RKEBootstraps have no Machine";
const WHY_INFRA: &str = "which infra machines have no Machine";
const WHY_PLAN: &str =
    "whether the machine's agent has ever answered, and what it did with its plan (no secret is kept)";
const WHY_JOINED: &str = "which machines are still joined to an etcd machine that is being deleted";
const WHY_PLANE: &str = "what the planner waits for, and whether a restore is under way";
const WHY_CAPI: &str = "what is paused";
const WHY_CONTROLLER: &str = "whether Cluster API's controller runs: without it no machine moves";
const WHY_NODES: &str = "which Nodes there are behind the machines, and whose they are";
const WHY_VERSION: &str = "Rancher's version";
const WHY_UID: &str = "the cluster's identity, under which backups are kept";
const WHY_LEASE: &str = "whether a leader works: it does the removing";
const WHY_KINDS: &str = "which node drivers have machines of their own";
const WHY_V3: &str = "which copies of Nodes belong to clusters that are gone";
const WHY_SECOND_COPY: &str = "whether Rancher takes the copy of a Node that is gone away by itself";
const WHY_CREDENTIALS: &str = "which plan Secrets and ServiceAccounts have no RKEBootstrap";
const WHY_SECOND_CREDENTIAL: &str = "whether garbage collection takes away what an RKEBootstrap left";
const WHY_NAMESPACES: &str = "which namespaces there are";
const WHY_TREE: &str = "what belongs to each machine";
const WHY_POOLS: &str = "how many machines a pool is to have: one that is removed is replaced";
const WHY_REGISTER: &str = "how to register a host again";
const WHY_SECRET: &str = "whether the plan Secret exists that a node's connection file names, and whose it is";
const WHY_TOKEN: &str = "the registration token that --show-token prints";

/// Rancher's Lease.
pub(crate) fn lease() -> Want {
    Want::get(LEASES, Some(KUBE_SYSTEM), "cattle-controllers")
}

/// Settings that the registration command is made of.
pub(crate) const REGISTRATION_SETTINGS: [&str; 3] = ["server-url", "cacerts", "agent-tls-mode"];

fn of_cluster(resource: ResourceType, cluster: &Cluster) -> Want {
    Want::labelled(resource, Some(&cluster.namespace), format!("{CLUSTER_NAME}={}", cluster.name))
}

/// The Machines of a cluster.
pub(crate) fn machines_of(cluster: &Cluster) -> Want {
    of_cluster(MACHINES, cluster)
}

fn secrets_by_machine(namespace: &str, machine: &str) -> Want {
    Want::List {
        resource: SECRETS,
        namespace: Some(namespace.to_owned()),
        selector: Some(format!("{MACHINE_NAME}={machine}")),
        fields: Some(format!("type={MACHINE_PLAN_TYPE}")),
        form: Form::Full,
    }
}

/// What to read, given what is known.
pub(crate) fn needs(question: &Question, snapshot: &Snapshot) -> Vec<Need> {
    of_fleet(question, snapshot, &Fleet::of(question, snapshot))
}

/// See [`needs`]: with what is known already joined.
pub(crate) fn of_fleet(question: &Question, snapshot: &Snapshot, fleet: &Fleet) -> Vec<Need> {
    let mut needs = Vec::new();
    if question.target.is_none() {
        // First of all, and before it is known which workspaces there are: the rows take the server longest.
        let usual = WORKSPACES.iter().filter(|ws| question.namespace.as_deref().is_none_or(|asked| asked == **ws));
        needs.extend(usual.flat_map(|namespace| rows(question, namespace)));
    }
    needs.extend([
        Need::required(Want::list(PROVISIONING_CLUSTERS, None, Form::Full), WHY_CLUSTERS),
        Need::required(Want::list(MANAGEMENT_CLUSTERS, None, Form::Full), WHY_MANAGEMENT),
        Need::optional(Want::get(SETTINGS, None, "server-version"), WHY_VERSION),
        Need::optional(Want::get(NAMESPACES, None, KUBE_SYSTEM), WHY_UID),
        Need::optional(lease(), WHY_LEASE),
        Need::optional(driver_kinds(), WHY_KINDS),
    ]);
    needs.extend(
        CAPI_NAMESPACES
            .iter()
            .map(|namespace| Need::optional(Want::list(DEPLOYMENTS, Some(namespace), Form::Full), WHY_CONTROLLER)),
    );
    if controllers::asks_for_feature(snapshot) {
        needs.push(Need::optional(controllers::embedded_feature(), WHY_CONTROLLER));
    }
    if let Some(info) = &question.connection_info {
        needs.push(Need::required(Want::get(SECRETS, Some(&info.namespace), &info.secret), WHY_SECRET));
    }
    if question.target.is_some() {
        match fleet.targets(question)[..] {
            [cluster] => one_cluster(question, snapshot, fleet, cluster, &mut needs),
            [] => a_cluster_that_is_gone(question, snapshot, fleet, &mut needs),
            _ => {}
        }
    } else {
        whole_fleet(question, snapshot, fleet, &mut needs);
    }
    let scene = Scene { question, snapshot, fleet };
    let again = credentials::doubtful(&scene, &needs);
    needs.extend(
        again.into_iter().map(|want| Need::optional(want, WHY_SECOND_CREDENTIAL).again_after(credentials::SECOND_LOOK)),
    );
    needs
}

fn driver_kinds() -> Want {
    Want::Kinds { group: DRIVER_MACHINES.0.into(), version: DRIVER_MACHINES.1.into() }
}

/// What may be left of a cluster that is gone, under the name that was asked for.
fn a_cluster_that_is_gone(question: &Question, snapshot: &Snapshot, fleet: &Fleet, needs: &mut Vec<Need>) {
    let (Some(target), Some(name)) = (&question.target, question.machine()) else { return };
    // Which clusters there are comes first; without it no workspace is known either.
    if snapshot.raw_list(&MANAGEMENT_CLUSTERS, None).is_err() || fleet.workspaces.is_empty() {
        return;
    }
    needs.push(Need::optional(Want::get(MANAGEMENT_NODES, Some(&target.cluster), name), WHY_V3));
    needs.push(Need::optional(Want::get(NAMESPACES, None, &target.cluster), WHY_NAMESPACES));
    for namespace in &fleet.workspaces {
        for kind in fleet.infra_kinds.iter().chain([&RKE_BOOTSTRAPS]) {
            needs.push(Need::optional(Want::get(kind.clone(), Some(namespace), name), WHY_INFRA));
        }
        needs.push(Need::optional(credentials::secrets(namespace, Some(name)), WHY_CREDENTIALS));
        needs.push(Need::optional(credentials::accounts(namespace, Some(name)), WHY_CREDENTIALS));
    }
    needs.extend(credentials_in_doubt(snapshot, fleet, None));
    needs.extend(
        crate::diagnose::orphans::owners_in_doubt(question, snapshot, fleet)
            .into_iter()
            .map(|(namespace, machine)| Need::optional(Want::get(MACHINES, Some(&namespace), &machine), WHY_MACHINE)),
    );
}

fn plane_of(cluster: &Cluster) -> Need {
    Need::optional(Want::get(RKE_CONTROL_PLANES, Some(&cluster.namespace), &cluster.name), WHY_PLANE)
}

/// Everything of one cluster.
fn one_cluster(question: &Question, snapshot: &Snapshot, fleet: &Fleet, cluster: &Cluster, needs: &mut Vec<Need>) {
    let (namespace, name) = (cluster.namespace.as_str(), cluster.name.as_str());
    needs.extend([
        Need::required(machines_of(cluster), WHY_MACHINES),
        Need::required(plan_secrets_of(namespace, name), WHY_PLAN),
        plane_of(cluster),
        Need::optional(Want::get(CAPI_CLUSTERS, Some(namespace), name), WHY_CAPI),
        Need::optional(of_cluster(RKE_BOOTSTRAPS, cluster), WHY_BOOTSTRAPS),
        Need::optional(of_cluster(MACHINE_SETS, cluster), WHY_POOLS),
    ]);
    needs.extend(fleet.infra_kinds.iter().map(|kind| Need::optional(of_cluster(kind.clone(), cluster), WHY_INFRA)));
    needs.extend(
        REGISTRATION_SETTINGS.iter().map(|setting| Need::optional(Want::get(SETTINGS, None, setting), WHY_REGISTER)),
    );
    if let Some(id) = cluster.id.as_deref() {
        needs.push(Need::optional(management_nodes::of_cluster(id), WHY_V3));
        needs.push(Need::optional(Want::get(NAMESPACES, None, id), WHY_NAMESPACES));
        if management_nodes::doubtful(snapshot, cluster, id) {
            let again = Need::optional(management_nodes::of_cluster(id), WHY_SECOND_COPY);
            needs.push(again.again_after(management_nodes::SECOND_LOOK));
        }
        let tokens = Want::list(CLUSTER_REGISTRATION_TOKENS, Some(id), Form::Full);
        needs.push(Need::optional(tokens, WHY_REGISTER));
        if question.show_token {
            needs.extend(
                crate::plan::registration::token_sources(snapshot, id)
                    .into_iter()
                    .map(|want| Need::optional(want, WHY_TOKEN).reveal()),
            );
        }
    }
    if question.tree || question.machine().is_some() {
        let snapshots = Want::list(ETCD_SNAPSHOTS, Some(namespace), Form::Metadata);
        needs.push(Need::optional(snapshots, WHY_TREE));
        needs.push(Need::optional(credentials::accounts(namespace, None), WHY_TREE));
    }
    needs.extend(credentials_in_doubt(snapshot, fleet, Some(cluster)));
    nodes(question, snapshot, fleet, cluster, needs);
    around(fleet, cluster, |_| true, needs);
    second_looks(question, snapshot, cluster, needs);
}

/// What tells whether a plan Secret or ServiceAccount was left behind.
fn credentials_in_doubt(
    snapshot: &Snapshot,
    fleet: &Fleet,
    cluster: Option<&Cluster>,
) -> impl Iterator<Item = Need> + use<> {
    credentials::in_doubt(snapshot, fleet, cluster)
        .into_iter()
        .take(ONE_BY_ONE)
        .map(|(kind, namespace, name)| Need::optional(Want::get(kind, Some(&namespace), &name), WHY_BOOTSTRAPS))
}

/// The bootstrap, infra machine and plan Secret of machines that are known whole, where a selection may have missed
/// them.
fn around(fleet: &Fleet, cluster: &Cluster, which: impl Fn(&Picture) -> bool, needs: &mut Vec<Need>) {
    for picture in cluster.machines.iter().filter(|picture| which(picture)) {
        let Some(machine) = picture.whole() else { continue };
        let namespace = Some(cluster.namespace.as_str());
        if let Some(bootstrap) = machine.bootstrap.as_ref().filter(|_| picture.bootstrap.is_err()) {
            needs.push(Need::optional(Want::get(RKE_BOOTSTRAPS, namespace, &bootstrap.name), WHY_BOOTSTRAPS));
        }
        if let Some(infra) = machine.infra.as_ref().filter(|_| picture.infra.is_err())
            && let Some(kind) = fleet.infra_kinds.iter().find(|kind| kind.kind == infra.kind)
        {
            needs.push(Need::optional(Want::get(kind.clone(), namespace, &infra.name), WHY_INFRA));
        }
        if picture.plan.is_err() {
            let want = match plan_secret_name(machine) {
                Some(name) => Want::get(SECRETS, namespace, &name),
                None => secrets_by_machine(&cluster.namespace, machine.name()),
            };
            needs.push(Need::required(want, WHY_PLAN));
        }
    }
}

/// A drain or a detach that takes long may be slow or stuck: only a second look tells.
fn second_looks(question: &Question, snapshot: &Snapshot, cluster: &Cluster, needs: &mut Vec<Need>) {
    for picture in &cluster.machines {
        let Some(machine) = picture.whole() else { continue };
        if crate::diagnose::deleting::may_be_slow(question, snapshot, machine) {
            let want = Want::get(MACHINES, Some(&cluster.namespace), machine.name());
            needs.push(Need::optional(want, WHY_SECOND_LOOK).again_after(SECOND_LOOK));
        }
    }
}

/// The downstream Nodes, where a connection is to be had. Not required: without one, what only they can prove is unknown.
fn nodes(question: &Question, snapshot: &Snapshot, fleet: &Fleet, cluster: &Cluster, needs: &mut Vec<Need>) {
    if let Some(place) = fleet.place(question, snapshot, cluster) {
        needs.push(Need::optional(Want::list(NODES, None, Form::Full), WHY_NODES).at(&place));
    }
}

/// The RKEBootstraps and infra machines of a workspace.
fn parts_of<'f>(fleet: &'f Fleet, namespace: &'f str, form: Form) -> impl Iterator<Item = Need> + 'f {
    let list = move |kind: &ResourceType| Want::list(kind.clone(), Some(namespace), form);
    let infra = fleet.infra_kinds.iter().map(move |kind| Need::optional(list(kind), WHY_INFRA));
    std::iter::once(Need::optional(list(&RKE_BOOTSTRAPS), WHY_BOOTSTRAPS)).chain(infra)
}

/// Whether parts without a Machine may hide among those of a large workspace. Each Machine has one RKEBootstrap and one
/// infra machine. If there are as many of each, one without Machine means a Machine without its part: that one is not
/// Ready (kubernetes-sigs/cluster-api internal/controllers/machine/machine_controller_status.go), so it was read whole
/// and its parts were asked for by name. `--orphans` does not rely on this.
fn parts_do_not_match(snapshot: &Snapshot, fleet: &Fleet, namespace: &str) -> bool {
    let count = |kind: &ResourceType| snapshot.here().count(kind, namespace);
    let Some(machines) = triage::count(snapshot, namespace) else { return false };
    let infra = fleet.infra_kinds.iter().map(count).sum::<Result<usize, _>>();
    let (bootstraps, infra) = match (count(&RKE_BOOTSTRAPS), infra) {
        (Ok(bootstraps), Ok(infra)) => (bootstraps, infra),
        // Not counted yet.
        (Err(Unread::NotAsked), _) => return false,
        // Not to be counted: the rows tell, or why not.
        _ => return true,
    };
    if fleet.strays.keys().any(|(workspace, _)| workspace == namespace) {
        // Whether they lack a part is not known: they are in no picture.
        return true;
    }
    let lacks_a_part = |picture: &Picture| picture.bootstrap == Ok(None) || picture.infra == Ok(None);
    let of_namespace = fleet.clusters.iter().filter(|cluster| cluster.namespace == namespace);
    bootstraps != machines || infra != machines || of_namespace.flat_map(|cluster| &cluster.machines).any(lacks_a_part)
}

/// The rows of a workspace: of its machines, and of Cluster API's Clusters. A machine keeps the roles it was made with.
fn rows(question: &Question, namespace: &str) -> impl Iterator<Item = Need> + use<> {
    let machines = Need::required(triage::rows_of(namespace), WHY_MACHINES).halved_by(Role::Worker.label());
    let clusters = Want::list(CAPI_CLUSTERS, Some(namespace), Form::Table);
    let clusters = (!question.asks_who()).then(|| Need::optional(clusters, WHY_CAPI));
    std::iter::once(machines).chain(clusters)
}

/// Rows of all machines, whole objects of the suspects.
fn whole_fleet(question: &Question, snapshot: &Snapshot, fleet: &Fleet, needs: &mut Vec<Need>) {
    let mut machines = 0;
    for namespace in &fleet.workspaces {
        let namespace = namespace.as_str();
        needs.extend(rows(question, namespace));
        if !question.asks_who() && triage::no_word_of_pauses(snapshot, namespace) {
            needs.push(Need::optional(Want::list(CAPI_CLUSTERS, Some(namespace), Form::Full), WHY_CAPI));
        }
        let Some(rows) = triage::count(snapshot, namespace) else { continue };
        machines += rows;
        if fleet.too_thin.contains(namespace) {
            needs.push(Need::required(Want::list(MACHINES, Some(namespace), Form::Full), WHY_MACHINE));
            continue;
        }
        let closer: Vec<String> = if question.asks_who() {
            let read = triage::rows(snapshot, namespace).unwrap_or_default();
            read.rows.into_iter().filter(|row| crate::whois::row_may_match(question, row)).map(|row| row.name).collect()
        } else {
            let here = fleet.clusters.iter().filter(|cluster| cluster.namespace == namespace);
            let suspects = here.flat_map(|cluster| &cluster.machines).filter(|picture| picture.suspect);
            suspects.map(|picture| picture.row.name.clone()).collect()
        };
        let small = !question.asks_who() && rows <= SMALL_NAMESPACE;
        if small || closer.len() > ONE_BY_ONE {
            needs.push(Need::required(Want::list(MACHINES, Some(namespace), Form::Full), WHY_MACHINE));
        } else {
            needs.extend(
                closer.iter().map(|name| Need::required(Want::get(MACHINES, Some(namespace), name), WHY_MACHINE)),
            );
        }
    }
    let asked = |want: &Want| snapshot.here().answers_to(want).next().is_some();
    let counted = asked(&Want::list(PROVISIONING_CLUSTERS, None, Form::Full))
        && fleet.workspaces.iter().all(|namespace| asked(&triage::rows_of(namespace)));
    if question.asks_who() {
        crate::whois::needs(question, snapshot, fleet, needs);
    } else if question.orphans || (counted && machines <= SMALL_FLEET) {
        needs.push(Need::optional(management_nodes::all(), WHY_V3));
        needs.push(Need::optional(Want::list(NAMESPACES, None, Form::Metadata), WHY_NAMESPACES));
        for namespace in &fleet.workspaces {
            needs.extend(parts_of(fleet, namespace, Form::Table));
            needs.push(Need::optional(credentials::secrets(namespace, None), WHY_CREDENTIALS));
            needs.push(Need::optional(credentials::accounts(namespace, None), WHY_CREDENTIALS));
        }
    } else if counted {
        for namespace in &fleet.workspaces {
            needs.extend(parts_of(fleet, namespace, Form::Count));
            if parts_do_not_match(snapshot, fleet, namespace) {
                needs.extend(parts_of(fleet, namespace, Form::Table));
            }
        }
    }
    // One of each tells whether they are Rancher's.
    if !question.asks_who() {
        let firsts = fleet.strays.iter().filter_map(|((namespace, _), rows)| Some((namespace, rows.first()?)));
        needs.extend(
            firsts
                .take(ONE_BY_ONE)
                .map(|(namespace, row)| Need::optional(Want::get(MACHINES, Some(namespace), &row.name), WHY_MACHINE)),
        );
    }
    let closer = |picture: &Picture| {
        if question.asks_who() { crate::whois::may_be(question, picture) } else { picture.suspect }
    };
    let mut planes = 0;
    for cluster in &fleet.clusters {
        // Rows without the column Ready leave every machine in doubt until the whole objects are there.
        if fleet.too_thin.contains(&cluster.namespace) {
            continue;
        }
        if !cluster.machines.iter().any(closer) {
            if question.asks_who() {
                continue;
            }
            if triage::count(snapshot, &cluster.namespace).is_some_and(|rows| rows <= SMALL_NAMESPACE) {
                nodes(question, snapshot, fleet, cluster, needs);
            }
            // What the planner waits for may be a pause or a restore, however well the machines are.
            if cluster.planner_message().is_some() && planes < ONE_BY_ONE {
                planes += 1;
                needs.push(plane_of(cluster));
            }
            continue;
        }
        if !question.asks_who() {
            needs.push(plane_of(cluster));
            if cluster.capi_paused.is_err() {
                needs.push(Need::optional(Want::get(CAPI_CLUSTERS, Some(&cluster.namespace), &cluster.name), WHY_CAPI));
            }
        }
        let held = |machine: &Machine| machine.deleting() && machine.is(Role::Etcd) && machine.node.is_some();
        if !question.asks_who() && cluster.machines.iter().filter_map(Picture::whole).any(held) {
            needs.push(Need::optional(plan_secrets_of(&cluster.namespace, &cluster.name), WHY_JOINED));
        }
        nodes(question, snapshot, fleet, cluster, needs);
        around(fleet, cluster, closer, needs);
        second_looks(question, snapshot, cluster, needs);
    }
    for (kind, namespace, name) in crate::diagnose::orphans::doubts(snapshot, fleet).into_iter().take(ONE_BY_ONE) {
        needs.push(Need::optional(Want::get(kind, Some(&namespace), &name), WHY_INFRA));
    }
}

fn everywhere(verb: &str, resource: &ResourceType) -> Right {
    Right {
        verb: verb.to_owned(),
        group: resource.group.clone().into_owned(),
        resource: resource.plural.clone().into_owned(),
        namespace: None,
        name: None,
    }
}

/// The infra machines of every node driver: their kinds are made as drivers are switched on.
fn any_driver(verb: &str) -> Right {
    Right {
        verb: verb.to_owned(),
        group: DRIVER_MACHINES.0.to_owned(),
        resource: "*".to_owned(),
        namespace: None,
        name: None,
    }
}

/// Every right that [`needs`] can ask for.
pub(crate) fn rights(_: &Question) -> Vec<(Right, &'static str, bool)> {
    let mut rights = vec![
        (everywhere("list", &PROVISIONING_CLUSTERS), WHY_CLUSTERS, true),
        (everywhere("list", &MANAGEMENT_CLUSTERS), WHY_MANAGEMENT, true),
        (everywhere("list", &MACHINES), WHY_MACHINES, true),
        (everywhere("get", &MACHINES), WHY_MACHINE, true),
        (everywhere("list", &SECRETS), WHY_PLAN, true),
        (everywhere("get", &SECRETS), WHY_PLAN, true),
        (any_driver("list"), WHY_INFRA, false),
        (any_driver("get"), WHY_INFRA, false),
        (lease().right(), WHY_LEASE, false),
        (everywhere("list", &MANAGEMENT_NODES), WHY_V3, false),
        (everywhere("get", &MANAGEMENT_NODES), WHY_V3, false),
        (everywhere("list", &NAMESPACES), WHY_NAMESPACES, false),
        (everywhere("get", &NAMESPACES), WHY_NAMESPACES, false),
        (Want::get(NAMESPACES, None, KUBE_SYSTEM).right(), WHY_UID, false),
        (everywhere("list", &MACHINE_SETS), WHY_POOLS, false),
        (everywhere("list", &ETCD_SNAPSHOTS), WHY_TREE, false),
        (everywhere("list", &SERVICE_ACCOUNTS), WHY_TREE, false),
        (everywhere("list", &CLUSTER_REGISTRATION_TOKENS), WHY_REGISTER, false),
        (everywhere("get", &CLUSTER_REGISTRATION_TOKENS), WHY_TOKEN, false),
        (everywhere("list", &NODES), WHY_NODES, false),
        (Want::get(SETTINGS, None, "server-version").right(), WHY_VERSION, false),
        (controllers::embedded_feature().right(), WHY_CONTROLLER, false),
    ];
    for kind in [&RKE_BOOTSTRAPS, &CUSTOM_MACHINES, &CAPI_CLUSTERS] {
        rights.push((everywhere("list", kind), WHY_INFRA, false));
        rights.push((everywhere("get", kind), WHY_INFRA, false));
    }
    rights.push((everywhere("get", &RKE_CONTROL_PLANES), WHY_PLANE, false));
    rights.extend(
        REGISTRATION_SETTINGS.iter().map(|name| (Want::get(SETTINGS, None, name).right(), WHY_REGISTER, false)),
    );
    rights.extend(
        CAPI_NAMESPACES
            .iter()
            .map(|namespace| (Want::list(DEPLOYMENTS, Some(namespace), Form::Full).right(), WHY_CONTROLLER, false)),
    );
    rights
}

/// Every right that [`needs`] can ask for in a downstream cluster.
pub(crate) fn downstream_rights(_: &Question) -> Vec<(Right, &'static str, bool)> {
    vec![(everywhere("list", &NODES), WHY_NODES, false)]
}

/// Every right that the actions of a plan take.
pub(crate) fn repair_rights(_: &Question) -> Vec<(Right, &'static str)> {
    vec![
        // Optional for a check; without them there is no place for the backup, no guard, and no plan.
        (Want::get(NAMESPACES, None, KUBE_SYSTEM).right(), WHY_UID),
        (lease().right(), WHY_LEASE),
        (Want::list(DEPLOYMENTS, Some(CAPI_NAMESPACES[0]), Form::Full).right(), WHY_CONTROLLER),
        (Want::list(DEPLOYMENTS, Some(CAPI_NAMESPACES[1]), Form::Full).right(), WHY_CONTROLLER),
        (controllers::embedded_feature().right(), WHY_CONTROLLER),
        (everywhere("get", &CAPI_CLUSTERS), WHY_CAPI),
        (everywhere("get", &RKE_CONTROL_PLANES), WHY_PLANE),
        (everywhere("delete", &MACHINES), "to delete a machine that has no node (RG101, RG102, RG104)"),
        (everywhere("patch", &MACHINES), "to unblock one step of a deletion, or to pause a machine (RG103, RG104)"),
        (everywhere("get", &SERVICE_ACCOUNTS), "to back up those of its agent"),
        (everywhere("get", &PROVISIONING_CLUSTERS), "to back up the cluster it belongs to"),
        (everywhere("get", &RKE_BOOTSTRAPS), "to back it up, and to see it go"),
        (everywhere("patch", &RKE_BOOTSTRAPS), "to remove a finalizer that nobody removes any more (RG103, RG106)"),
        (everywhere("delete", &RKE_BOOTSTRAPS), "to delete what a machine left behind (RG106)"),
        (everywhere("get", &CUSTOM_MACHINES), "to back it up, and to see it go"),
        (everywhere("patch", &CUSTOM_MACHINES), "to remove a finalizer that nobody removes any more (RG103, RG105)"),
        (everywhere("delete", &CUSTOM_MACHINES), "to delete what a machine left behind (RG105)"),
        (any_driver("patch"), "to remove a finalizer that nobody removes any more (RG105)"),
        (any_driver("delete"), "to delete what a machine left behind (RG105)"),
        (everywhere("delete", &SECRETS), "to delete a plan Secret that was left behind (RG106)"),
        (everywhere("delete", &SERVICE_ACCOUNTS), "to delete a ServiceAccount that was left behind (RG106)"),
        (everywhere("get", &MANAGEMENT_NODES), "to back it up, and to see it go"),
        (everywhere("patch", &MANAGEMENT_NODES), "to remove a finalizer that nobody removes any more (RG108)"),
        (everywhere("delete", &MANAGEMENT_NODES), "to delete the copy of a Node of a cluster that is gone (RG108)"),
    ]
}

/// Whether the cluster is Rancher's own.
pub(crate) fn is_local(cluster: &Cluster) -> bool {
    cluster.id.as_deref() == Some(LOCAL)
}
