//! What is read, and when: a healthy Rancher takes one round of few readings; only a doubt asks for more.

use std::time::Duration;

use rancher_common::kinds::{CONFIG_MAPS, DEPLOYMENTS, EVENTS, LEASES, NAMESPACES, NODES, PODS, Pod};
use rancher_common::rancher::{MANAGEMENT_CLUSTERS, SETTINGS};
use rancher_common::resource::ResourceType;
use rancher_common::snapshot::{Form, Need, Right, Snapshot, Want};

use crate::Question;
use crate::diagnose::Scene;
use crate::diagnose::election::{Election, LEASE_NAME, LEASE_NAMESPACE};
use crate::diagnose::replicas::{self, DEFAULT_NAMESPACE, Installation, Presence};
use crate::diagnose::{legacy, logs, other_leases};

/// Lines at the end of a log: some minutes of a busy server; `leaderelection lost` stands at the very end.
const LOG_LINES: u32 = 2000;
/// Between two looks at leases of other controllers, which are renewed every 2 to 10 s.
const OTHER_PAUSE: Duration = Duration::from_secs(11);

fn get(resource: ResourceType, namespace: Option<&str>, name: &str) -> Want {
    Want::Get { resource, namespace: namespace.map(str::to_owned), name: name.to_owned() }
}

fn list(resource: ResourceType, namespace: Option<&str>) -> Want {
    Want::list(resource, namespace, Form::Full)
}

/// Rancher's Lease.
pub(crate) fn lease() -> Want {
    get(LEASES, Some(LEASE_NAMESPACE), LEASE_NAME)
}

/// All leases.
pub(crate) fn all_leases() -> Want {
    list(LEASES, None)
}

fn log(pod: &Pod, previous: bool) -> Want {
    Want::Log {
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        pod: replicas::name(pod).to_owned(),
        container: replicas::container_name(pod).to_owned(),
        previous,
        lines: LOG_LINES,
    }
}

/// Why the Lease is read.
pub(crate) const WHY_LEASE: &str = "who leads, since when, and whether the Lease is renewed";
const WHY_DEPLOYMENTS: &str = "to find Rancher's Deployment, and how its replicas elect";
const WHY_PODS: &str = "whether the holder is one of Rancher's pods, and who could take over";
const WHY_CLUSTERS: &str = "which clusters are not connected";
const WHY_VERSION: &str = "Rancher's version, which decides on locks and log lines";
const WHY_NAMESPACE_SETTING: &str = "the namespace Rancher runs in, when it is not the usual one";
const WHY_UID: &str = "the cluster's identity, under which backups are kept";
const WHY_OTHERS: &str = "whether Rancher's other controllers renew their leases";
const WHY_NODES: &str = "whether a node that is cut off may still run the old leader";
const WHY_CONFIG_MAP: &str = "the lock of Rancher before 2.8.3, or what is left of it";
const WHY_LOG: &str = "why nobody leads, or why clusters are not connected";
const WHY_PREVIOUS_LOG: &str = "why the container ended";
const WHY_EVENTS: &str = "why no pod of Rancher gets Ready";
const WHY_OTHER_PODS: &str = "whether a controller with a stale lease is expected to run, and where its holder is";

/// What to read, given what is known.
pub(crate) fn needs(question: &Question, snapshot: &Snapshot) -> Vec<Need> {
    let namespaces = replicas::namespaces(question, snapshot);
    let mut needs = vec![Need::required(lease(), WHY_LEASE)];
    for namespace in &namespaces {
        needs.push(Need::required(list(DEPLOYMENTS, Some(namespace)), WHY_DEPLOYMENTS));
        needs.push(Need::required(list(PODS, Some(namespace)), WHY_PODS));
    }
    needs.extend([
        Need::required(list(MANAGEMENT_CLUSTERS, None), WHY_CLUSTERS),
        Need::optional(get(SETTINGS, None, "server-version"), WHY_VERSION),
        Need::optional(get(NAMESPACES, None, LEASE_NAMESPACE), WHY_UID),
        Need::optional(all_leases(), WHY_OTHERS),
    ]);
    let scene = Scene::of(question, snapshot);
    match &scene.presence {
        Presence::Unknown => {}
        Presence::Absent(_) => {
            if question.rancher_namespace.is_none() {
                needs.push(Need::optional(get(SETTINGS, None, "namespace"), WHY_NAMESPACE_SETTING));
            }
            if scene.in_docker()
                && let Ok(Some(looks)) = &scene.looks
                && looks.doubtful(&scene.timing(), |_| true)
            {
                needs.push(Need::required(lease(), WHY_LEASE).again_after(scene.timing().pause()));
            }
        }
        Presence::Here(installation) => further(&scene, installation, &mut needs),
    }
    needs
}

/// What a doubt or a fault asks for.
fn further(scene: &Scene<'_>, installation: &Installation, needs: &mut Vec<Need>) {
    let snapshot = scene.snapshot;
    if let Ok(Some(looks)) = &scene.looks
        && looks.doubtful(&installation.timing, |holder| installation.replica(holder).is_some())
    {
        needs.push(Need::required(lease(), WHY_LEASE).again_after(installation.timing.pause()));
    }
    let stuck = matches!(scene.election, Election::Free(_) | Election::Still(_));
    if let Election::Still(record) = &scene.election
        && (installation.replica(&record.holder).is_some() || !scene.deadline_over(record))
    {
        needs.push(Need::required(list(NODES, None), WHY_NODES));
    }
    if stuck || scene.version.is_none_or(|version| version < legacy::LEASE_ONLY) {
        needs.push(Need::optional(get(CONFIG_MAPS, Some(LEASE_NAMESPACE), LEASE_NAME), WHY_CONFIG_MAP));
    }
    let down = installation.ready().is_empty();
    let suspicious = stuck || down || scene.fleet.as_ref().is_ok_and(|fleet| !fleet.disconnected.is_empty());
    for pod in &installation.pods {
        if suspicious && (replicas::runs(pod) || replicas::ended(pod)) {
            needs.push(Need::optional(log(pod, false), WHY_LOG));
        }
        if logs::ended_badly(pod, snapshot.as_of) || ((stuck || down) && replicas::restarts(pod) > 0) {
            needs.push(Need::optional(log(pod, true), WHY_PREVIOUS_LOG));
        }
    }
    if down {
        needs.push(Need::optional(list(EVENTS, Some(&installation.namespace)), WHY_EVENTS));
    }
    if other_leases::doubtful(snapshot) {
        needs.push(Need::optional(all_leases(), WHY_OTHERS).again_after(OTHER_PAUSE));
    }
    for namespace in other_leases::stale_namespaces(snapshot) {
        needs.push(Need::optional(list(DEPLOYMENTS, Some(namespace)), WHY_OTHER_PODS));
        needs.push(Need::optional(list(PODS, Some(namespace)), WHY_OTHER_PODS));
    }
}

/// Every right that [`needs`] can ask for.
pub(crate) fn rights(question: &Question) -> Vec<(Right, &'static str, bool)> {
    let namespace = question.rancher_namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
    let any_log = Right {
        verb: "get".into(),
        group: String::new(),
        resource: "pods/log".into(),
        namespace: Some(namespace.to_owned()),
        name: None,
    };
    let mut rights = vec![
        (lease().right(), WHY_LEASE, true),
        (list(DEPLOYMENTS, Some(namespace)).right(), WHY_DEPLOYMENTS, true),
        (list(PODS, Some(namespace)).right(), WHY_PODS, true),
        (list(MANAGEMENT_CLUSTERS, None).right(), WHY_CLUSTERS, true),
        (list(NODES, None).right(), WHY_NODES, true),
        (get(SETTINGS, None, "server-version").right(), WHY_VERSION, false),
        (get(NAMESPACES, None, LEASE_NAMESPACE).right(), WHY_UID, false),
        (all_leases().right(), WHY_OTHERS, false),
        (any_log, WHY_LOG, false),
        (list(EVENTS, Some(namespace)).right(), WHY_EVENTS, false),
        (get(CONFIG_MAPS, Some(LEASE_NAMESPACE), LEASE_NAME).right(), WHY_CONFIG_MAP, false),
    ];
    if question.rancher_namespace.is_none() {
        rights.push((get(SETTINGS, None, "namespace").right(), WHY_NAMESPACE_SETTING, false));
    }
    for other in other_leases::NAMESPACES.iter().filter(|other| **other != namespace) {
        rights.push((list(DEPLOYMENTS, Some(other)).right(), WHY_OTHER_PODS, false));
        rights.push((list(PODS, Some(other)).right(), WHY_OTHER_PODS, false));
    }
    rights
}

/// Every right that the actions of a plan take.
pub(crate) fn repair_rights(question: &Question) -> Vec<(Right, &'static str)> {
    let namespace = question.rancher_namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
    let right = |verb: &str, group: &str, resource: &str, namespace: &str, name: Option<&str>| Right {
        verb: verb.to_owned(),
        group: group.to_owned(),
        resource: resource.to_owned(),
        namespace: Some(namespace.to_owned()),
        name: name.map(str::to_owned),
    };
    vec![
        // Optional for a check; without it there is no place for the backup, and no plan.
        (get(NAMESPACES, None, LEASE_NAMESPACE).right(), WHY_UID),
        (lease().right(), "to read the Lease once more just before it is deleted"),
        (
            right("delete", "coordination.k8s.io", "leases", LEASE_NAMESPACE, Some(LEASE_NAME)),
            "to delete the Lease of a leader that is gone (RL101, RL102)",
        ),
        (right("get", "", "pods", namespace, None), "to read the leader's pod once more just before it is restarted"),
        (right("delete", "", "pods", namespace, None), "to restart the pod of a leader that hangs (RL102, RL108)"),
    ]
}

/// What is read again and again after a repair.
pub(crate) fn after_repair(namespace: &str) -> Vec<Need> {
    vec![
        Need::required(lease(), WHY_LEASE),
        Need::required(list(PODS, Some(namespace)), WHY_PODS),
        Need::required(list(MANAGEMENT_CLUSTERS, None), WHY_CLUSTERS),
    ]
}
