//! The Rancher server in this cluster: its Deployment, its pods, who each pod is in the election, and whether any pod is
//! Ready (RL120).

use std::time::Duration;

use rancher_common::finding::{Evidence, Finding};
use rancher_common::kinds::{Container, ContainerStatus, DEPLOYMENTS, Deployment, Event, Node, PODS, Pod, PodSpec};
use rancher_common::rancher::Setting;
use rancher_common::resource::{ObjectRef, ResourceType};
use rancher_common::snapshot::{Snapshot, Unread};
use rancher_common::text::{count, shorten, some_of};
use rancher_common::time::{Timestamp, between, human, rfc3339};
use serde_json::Value;

use super::election::Timing;
use super::logs;
use crate::Question;
use crate::findings::NO_READY_REPLICA;

/// The namespace of the chart's documentation; Rancher's own code takes it for granted in places
/// (rancher/rancher pkg/controllers/capr/bootstrap/controller.go).
pub(crate) const DEFAULT_NAMESPACE: &str = "cattle-system";
/// Name of Rancher's container (rancher/rancher chart/templates/deployment.yaml).
pub(crate) const CONTAINER: &str = "rancher";
/// How long a replica may take from the start of its container until it takes part in the election: before that come
/// CRDs, caches and migrations (rancher/rancher pkg/wrangler/context.go, `Start`).
pub(crate) const STARTUP: Duration = Duration::from_secs(180);

/// A version of Rancher, as far as rules depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(pub u32, pub u32, pub u32);

impl Version {
    /// Of `v2.13.2` or `v2.14.0-rc1`; none for development builds without numbers.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().trim_start_matches('v').split(['.', '-', '+']);
        let mut number = || parts.next()?.parse().ok();
        Some(Self(number()?, number()?, number()?))
    }
}

/// The Rancher server as it is installed.
#[derive(Clone, Debug)]
pub(crate) struct Installation {
    /// Namespace of the Helm release.
    pub namespace: String,
    /// Its Deployment.
    pub deployment: Deployment,
    /// Its pods, by name.
    pub pods: Vec<Pod>,
    /// How its replicas elect.
    pub timing: Timing,
}

/// What is known of the installation.
#[derive(Clone, Debug)]
pub(crate) enum Presence {
    /// Found.
    Here(Box<Installation>),
    /// Not where it was looked for: these namespaces.
    Absent(Vec<String>),
    /// Not known yet, or not readable.
    Unknown,
}

/// Where to look: the given namespace, or the usual one and the one that the setting `namespace` names
/// (rancher/rancher pkg/settings/setting.go; its value comes from `CATTLE_NAMESPACE`).
pub(crate) fn namespaces(question: &Question, snapshot: &Snapshot) -> Vec<String> {
    if let Some(namespace) = &question.rancher_namespace {
        return vec![namespace.clone()];
    }
    let mut namespaces = vec![DEFAULT_NAMESPACE.to_owned()];
    if let Ok(Some(setting)) = snapshot.get::<Setting>(None, "namespace")
        && !setting.effective().is_empty()
        && setting.effective() != DEFAULT_NAMESPACE
    {
        namespaces.push(setting.effective().to_owned());
    }
    namespaces
}

impl Presence {
    /// Looks for Rancher's Deployment and its pods.
    pub(crate) fn of(question: &Question, snapshot: &Snapshot) -> Self {
        let namespaces = namespaces(question, snapshot);
        for namespace in &namespaces {
            let Ok(deployments) = snapshot.list::<Deployment>(Some(namespace)) else {
                return Self::Unknown;
            };
            let mut found: Vec<Deployment> = deployments.items.into_iter().filter(is_rancher).collect();
            // The one that is called like the chart comes first, so that the choice does not depend on list order.
            found.sort_by_key(|deployment| {
                let name = deployment.metadata.name.clone().unwrap_or_default();
                (name != CONTAINER, name)
            });
            let Some(deployment) = found.into_iter().next() else {
                continue;
            };
            let Ok(listed) = snapshot.list::<Pod>(Some(namespace)) else {
                return Self::Unknown;
            };
            if !listed.malformed.is_empty() {
                return Self::Unknown;
            }
            let pods = own_pods(&deployment, listed.items);
            let timing = Timing::of(&deployment);
            return Self::Here(Box::new(Installation { namespace: namespace.clone(), deployment, pods, timing }));
        }
        Self::Absent(namespaces)
    }
}

/// Whether this is the Deployment of Rancher's chart: label `chart: rancher-<version>` and a container `rancher`
/// (rancher/rancher chart/templates/_helpers.tpl, deployment.yaml). Rendered by other means it may lack the label, but
/// keeps its name.
fn is_rancher(deployment: &Deployment) -> bool {
    let chart = deployment.metadata.labels.as_ref().and_then(|labels| labels.get("chart"));
    let of_chart = chart
        .and_then(|chart| chart.strip_prefix("rancher-"))
        .is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()));
    let has_container = deployment
        .spec
        .template
        .spec
        .as_ref()
        .is_some_and(|spec| spec.containers.iter().any(|container| container.name == CONTAINER));
    has_container && (of_chart || deployment.metadata.name.as_deref() == Some(CONTAINER))
}

fn selects(deployment: &Deployment, pod: &Pod) -> bool {
    let selector = deployment.spec.selector.match_labels.as_ref();
    let labels = pod.metadata.labels.as_ref();
    selector.is_some_and(|selector| {
        !selector.is_empty()
            && selector.iter().all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
    })
}

/// The Deployment's pods, by name.
fn own_pods(deployment: &Deployment, pods: Vec<Pod>) -> Vec<Pod> {
    let mut own: Vec<Pod> = pods.into_iter().filter(|pod| selects(deployment, pod)).collect();
    own.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    own
}

/// Rancher's container in a pod's or Deployment's specification.
pub(crate) fn container(spec: &PodSpec) -> Option<&Container> {
    spec.containers.iter().find(|container| container.name == CONTAINER).or(spec.containers.first())
}

impl Installation {
    /// The same installation with the pods of a later reading.
    pub(crate) fn with_pods(&self, pods: Vec<Pod>) -> Self {
        Self { pods: own_pods(&self.deployment, pods), ..self.clone() }
    }

    /// Name of the Deployment, which is the chart's full name.
    pub(crate) fn name(&self) -> &str {
        self.deployment.metadata.name.as_deref().unwrap_or_default()
    }

    /// The Deployment as the subject of a finding.
    pub(crate) fn subject(&self) -> ObjectRef {
        let mut subject = ObjectRef::new(&DEPLOYMENTS, Some(&self.namespace), self.name());
        subject.uid.clone_from(&self.deployment.metadata.uid);
        subject
    }

    /// Replicas the Deployment wants.
    pub(crate) fn wanted(&self) -> usize {
        let replicas = self.deployment.spec.replicas.unwrap_or(1);
        usize::try_from(replicas).unwrap_or_default()
    }

    /// Version by the image's tag.
    pub(crate) fn image_version(&self) -> Option<&str> {
        let spec = self.deployment.spec.template.spec.as_ref()?;
        let image = container(spec)?.image.as_deref()?;
        // A digest behind the tag is no part of it.
        let image = image.split('@').next()?;
        image.rsplit('/').next()?.split_once(':').map(|(_, tag)| tag)
    }

    /// The pod that this identity stands for.
    pub(crate) fn replica(&self, identity: &str) -> Option<&Pod> {
        // A pod whose process runs comes before one that has ended: with hostNetwork both may bear the node's name.
        let mut named: Vec<&Pod> = self.pods.iter().filter(|pod| is_identity(pod, identity)).collect();
        named.sort_by_key(|pod| (!runs(pod), deleted_at(pod).is_some(), name(pod).to_owned()));
        named.first().copied()
    }

    /// A pod of this identity in Rancher's namespace that the Deployment does not select, for instance after a
    /// reinstallation under another release name.
    pub(crate) fn stray(&self, snapshot: &Snapshot, identity: &str) -> Option<Pod> {
        let mut pods = snapshot.list::<Pod>(Some(&self.namespace)).ok()?.items;
        pods.retain(|pod| !selects(&self.deployment, pod) && is_identity(pod, identity));
        pods.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        pods.into_iter().next()
    }

    /// Pods that are Ready.
    pub(crate) fn ready(&self) -> Vec<&Pod> {
        self.pods.iter().filter(|pod| is_ready(pod)).collect()
    }

    /// Pods whose process runs and is not asked to end, other than the one named.
    pub(crate) fn candidates(&self, except: Option<&Pod>) -> Vec<Candidate<'_>> {
        self.pods
            .iter()
            .filter(|pod| except.is_none_or(|other| name(other) != name(pod)))
            .filter(|pod| deleted_at(pod).is_none() && runs(pod))
            .map(|pod| Candidate { pod, started: running_since(pod) })
            .collect()
    }
}

/// A replica that may take the Lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate<'a> {
    /// Its pod.
    pub pod: &'a Pod,
    /// Start of its container; before that it cannot have seen the Lease.
    pub started: Option<Timestamp>,
}

impl Candidate<'_> {
    /// The moment from which its waiting counts at the earliest: a candidate counts from its own first sight of the
    /// record, and from each change of it (kubernetes/client-go tools/leaderelection/leaderelection.go, `observedTime`).
    pub(crate) fn first_sight(&self, changed: Option<Timestamp>) -> Option<Timestamp> {
        self.started.max(changed)
    }

    /// Whether it may still be on its way to the election.
    pub(crate) fn starting(&self, now: Timestamp) -> bool {
        self.started.is_none_or(|started| between(started, now) < STARTUP)
    }
}

/// Name of a pod.
pub(crate) fn name(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}

/// A pod as the subject of a finding.
pub(crate) fn subject(pod: &Pod) -> ObjectRef {
    let mut subject = ObjectRef::new(&PODS, pod.metadata.namespace.as_deref(), name(pod));
    subject.uid.clone_from(&pod.metadata.uid);
    subject
}

/// The node a pod runs on.
pub(crate) fn node(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// When the pod was to be gone at the latest: the API server puts the end of the grace period there.
pub(crate) fn deleted_at(pod: &Pod) -> Option<Timestamp> {
    pod.metadata.deletion_timestamp.as_ref().map(|time| time.0)
}

/// The hostname that Rancher's process sees, which is its identity (rancher/wrangler pkg/leader/leader.go): with
/// hostNetwork the node's, otherwise `spec.hostname` or the pod's name, cut to 63 characters
/// (kubernetes/kubernetes pkg/kubelet/util/util.go, `GetNodenameForKernel` and `truncatePodHostnameIfNeeded`).
pub(crate) fn identity(pod: &Pod) -> String {
    let spec = pod.spec.as_ref();
    if spec.and_then(|spec| spec.host_network) == Some(true) {
        return node(pod).unwrap_or_default().to_owned();
    }
    let hostname = spec.and_then(|spec| spec.hostname.as_deref()).filter(|hostname| !hostname.is_empty());
    let full = hostname.unwrap_or_else(|| name(pod));
    let cut: String = full.chars().take(63).collect();
    if cut.len() < full.len() { cut.trim_end_matches(['-', '.']).to_owned() } else { cut }
}

/// Whether the holder's identity is that of this pod. A node's hostname may be the fully qualified name where the
/// Node's name is the short one, and the reverse.
pub(crate) fn is_identity(pod: &Pod, holder: &str) -> bool {
    let own = identity(pod);
    if own.is_empty() || holder.is_empty() {
        return false;
    }
    if pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true) {
        let short = |name: &str| name.split('.').next().unwrap_or_default().to_ascii_lowercase();
        let qualified = own.contains('.') && holder.contains('.');
        return own.eq_ignore_ascii_case(holder) || (!qualified && short(&own) == short(holder));
    }
    own == holder
}

/// Whether the pod's condition Ready is True.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|(status, ..)| status == "True") && deleted_at(pod).is_none()
}

fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<(&'a str, Option<&'a str>, Option<&'a str>)> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let found = conditions.iter().find(|condition| condition.type_ == kind)?;
    Some((&found.status, found.reason.as_deref(), found.message.as_deref()))
}

/// State of Rancher's container.
pub(crate) fn status(pod: &Pod) -> Option<&ContainerStatus> {
    let name = container(pod.spec.as_ref()?)?.name.as_str();
    pod.status.as_ref()?.container_statuses.as_ref()?.iter().find(|status| status.name == name)
}

/// Name of Rancher's container in this pod.
pub(crate) fn container_name(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(container).map_or(CONTAINER, |container| container.name.as_str())
}

/// When Rancher's container started, if it runs.
pub(crate) fn running_since(pod: &Pod) -> Option<Timestamp> {
    status(pod)?.state.as_ref()?.running.as_ref()?.started_at.as_ref().map(|time| time.0)
}

/// Whether Rancher's process runs, as far as the kubelet has said.
pub(crate) fn runs(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    !matches!(phase, Some("Failed" | "Succeeded"))
        && status(pod).and_then(|status| status.state.as_ref()).is_some_and(|state| state.running.is_some())
}

/// Whether the kubelet has said that Rancher's process has ended (or that the pod has failed for good).
pub(crate) fn ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Failed" | "Succeeded"))
        || status(pod).and_then(|status| status.state.as_ref()).is_some_and(|state| {
            state.terminated.is_some()
                || state.waiting.as_ref().is_some_and(|waiting| waiting.reason.as_deref() == Some("CrashLoopBackOff"))
        })
}

/// How often Rancher's container has been started anew.
pub(crate) fn restarts(pod: &Pod) -> i32 {
    status(pod).map(|status| status.restart_count).unwrap_or_default()
}

/// End of the container's previous run: exit code, reason, time.
pub(crate) fn last_end(pod: &Pod) -> Option<(i32, Option<&str>, Option<Timestamp>)> {
    let ended = status(pod)?.last_state.as_ref()?.terminated.as_ref()?;
    Some((ended.exit_code, ended.reason.as_deref(), ended.finished_at.as_ref().map(|time| time.0)))
}

/// Whether a node is Ready; none when the node does not exist or was not read.
pub(crate) fn node_ready(snapshot: &Snapshot, name: &str) -> Option<bool> {
    let node = snapshot.get::<Node>(None, name).ok().flatten()?;
    Some(ready(&node))
}

/// Nodes that are not Ready, by name; none when they were not read.
pub(crate) fn sick_nodes(snapshot: &Snapshot) -> Option<Vec<String>> {
    let nodes = snapshot.list::<Node>(None).ok()?;
    let mut sick: Vec<String> =
        nodes.items.iter().filter(|node| !ready(node)).filter_map(|node| node.metadata.name.clone()).collect();
    sick.sort();
    Some(sick)
}

fn ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|conditions| conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
}

/// Why a pod is not Ready, in a few words.
pub(crate) fn state_words(pod: &Pod, now: Timestamp) -> String {
    let mut words = Vec::new();
    if let Some(end) = deleted_at(pod) {
        words.push(format!("terminating, to be gone by {}", rfc3339(end)));
    }
    let reason = |reason: Option<&str>, message: Option<&str>| match (reason, message) {
        (Some(reason), Some(message)) if !message.is_empty() => format!("{reason}: {}", shorten(message, 200)),
        (Some(reason), _) => reason.to_owned(),
        (None, Some(message)) => shorten(message, 200).into_owned(),
        (None, None) => "no reason given".to_owned(),
    };
    let pod_status = pod.status.as_ref();
    if pod_status.and_then(|status| status.phase.as_deref()) == Some("Failed") {
        words.push(format!(
            "failed ({})",
            reason(pod_status.and_then(|s| s.reason.as_deref()), pod_status.and_then(|s| s.message.as_deref()))
        ));
    }
    if let Some(state) = status(pod).and_then(|status| status.state.as_ref()) {
        if let Some(waiting) = &state.waiting {
            words.push(format!("waiting ({})", reason(waiting.reason.as_deref(), waiting.message.as_deref())));
        }
        if let Some(ended) = &state.terminated {
            words.push(format!(
                "ended with exit code {} ({})",
                ended.exit_code,
                reason(ended.reason.as_deref(), ended.message.as_deref())
            ));
        }
        if let Some(started) = running_since(pod) {
            let ready = if is_ready(pod) { "and Ready" } else { "but not Ready" };
            words.push(format!("running for {} {ready}", human(between(started, now))));
        }
    } else if let Some(("False", why, message)) = condition(pod, "PodScheduled") {
        words.push(format!("not scheduled ({})", reason(why, message)));
    }
    if let Some((code, why, at)) = last_end(pod) {
        let at = at.map(|at| format!(" {} ago", human(between(at, now)))).unwrap_or_default();
        words.push(format!("last run ended{at} with exit code {code} ({})", why.unwrap_or("no reason given")));
    }
    if restarts(pod) > 0 {
        words.push(count(usize::try_from(restarts(pod)).unwrap_or_default(), "restart", "restarts"));
    }
    if words.is_empty() { "no state reported".to_owned() } else { words.join(", ") }
}

/// RL120: no pod of Rancher is Ready.
pub(crate) fn no_ready_replica(snapshot: &Snapshot, installation: &Installation) -> Option<Finding> {
    if !installation.ready().is_empty() {
        return None;
    }
    let now = snapshot.as_of;
    let (namespace, wanted) = (&installation.namespace, installation.wanted());
    let message = if wanted == 0 {
        format!("Deployment {namespace}/{} is scaled to 0: no Rancher server runs", installation.name())
    } else if installation.pods.is_empty() {
        format!("no pod of Deployment {namespace}/{} exists, though it wants {wanted}", installation.name())
    } else {
        format!(
            "no replica of Rancher is Ready: {}",
            match installation.pods.len() {
                1 => "the only pod is not".to_owned(),
                many => format!("none of {many} pods is"),
            }
        )
    };
    let mut evidence = Vec::new();
    for pod in &installation.pods {
        evidence.push(
            Evidence::new("pod", format!("{}: {}", name(pod), state_words(pod, now)))
                .from(format!("{} .status", subject(pod))),
        );
        evidence.extend(logs::tail(snapshot, pod));
    }
    for condition in
        installation.deployment.status.as_ref().and_then(|s| s.conditions.as_ref()).into_iter().flatten().filter(|c| {
            matches!(
                (c.type_.as_deref(), c.status.as_deref()),
                (Some("ReplicaFailure"), Some("True")) | (Some("Progressing"), Some("False"))
            )
        })
    {
        evidence.push(
            Evidence::new(
                "deployment",
                format!(
                    "{} {}: {}",
                    condition.type_.as_deref().unwrap_or_default(),
                    condition.reason.as_deref().unwrap_or_default(),
                    shorten(condition.message.as_deref().unwrap_or_default(), 200)
                ),
            )
            .from(format!("{} .status.conditions", installation.subject())),
        );
    }
    evidence.extend(events(snapshot, installation));
    evidence.extend(webhook(snapshot, namespace));
    let cause = logs::causes(snapshot, installation.pods.iter()).into_iter().next();
    let advice = match cause {
        Some(cause) => cause.advice().to_owned(),
        None if wanted == 0 => {
            "Scale the Deployment up again, to the number of replicas of the Helm release.".to_owned()
        }
        None => "Make a pod Ready first: the reasons above come from the pods, their logs and events.".to_owned(),
    };
    Some(Finding::new(&NO_READY_REPLICA, "replicas", installation.subject(), message).evidence(evidence).advice(advice))
}

/// Warnings about Rancher's pods and ReplicaSets, newest first.
fn events(snapshot: &Snapshot, installation: &Installation) -> Vec<Evidence> {
    let Ok(events) = snapshot.list::<Event>(Some(&installation.namespace)) else {
        return Vec::new();
    };
    let mut warnings: Vec<(Option<Timestamp>, String, String)> = events
        .items
        .into_iter()
        .filter(|event| event.type_.as_deref() == Some("Warning"))
        .filter_map(|event| {
            let about = event.involved_object.name.clone()?;
            let own = about == installation.name()
                || about.strip_prefix(installation.name()).is_some_and(|rest| {
                    rest.starts_with('-') && installation.pods.iter().any(|pod| name(pod).starts_with(&about))
                });
            let at = event.last_timestamp.as_ref().map(|time| time.0).or(event.event_time.as_ref().map(|time| time.0));
            let text = format!(
                "{about}: {}: {}",
                event.reason.as_deref().unwrap_or_default(),
                shorten(event.message.as_deref().unwrap_or_default(), 200)
            );
            own.then(|| (at, text, event.metadata.name.unwrap_or_default()))
        })
        .collect();
    warnings.sort_by(|a, b| b.cmp(a));
    warnings
        .into_iter()
        .take(3)
        .map(|(at, text, name)| {
            let when = at.map(|at| format!(" ({} ago)", human(between(at, snapshot.as_of)))).unwrap_or_default();
            Evidence::new("event", format!("{text}{when}")).from(format!("Event {}/{name}", installation.namespace))
        })
        .collect()
}

/// Rancher's webhook, when it has no ready replica: many of Rancher's own writes fail then (R26).
fn webhook(snapshot: &Snapshot, namespace: &str) -> Option<Evidence> {
    let webhook = snapshot.get::<Deployment>(Some(namespace), "rancher-webhook").ok().flatten()?;
    let ready = webhook.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or_default();
    let wanted = webhook.spec.replicas.unwrap_or(1);
    (wanted > 0 && ready == 0).then(|| {
        Evidence::new(
            "webhook",
            format!("0 of {wanted} replicas of rancher-webhook are ready; writes it must admit fail"),
        )
        .from(format!("Deployment {namespace}/rancher-webhook .status.readyReplicas"))
    })
}

/// Objects of these kinds that have not the shape of their kind.
pub(crate) fn malformed<'a>(
    snapshot: &'a Snapshot,
    namespaces: &[String],
) -> Vec<(ResourceType, &'a Value, Unread<'a>)> {
    let mut all = Vec::new();
    for namespace in namespaces {
        if let Ok(listed) = snapshot.list::<Pod>(Some(namespace)) {
            all.extend(listed.malformed.into_iter().map(|(object, problem)| (PODS, object, problem)));
        }
        if let Ok(listed) = snapshot.list::<Deployment>(Some(namespace)) {
            all.extend(listed.malformed.into_iter().map(|(object, problem)| (DEPLOYMENTS, object, problem)));
        }
    }
    all
}

/// Names of pods for a sentence.
pub(crate) fn names<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> String {
    let names: Vec<&str> = pods.into_iter().map(name).collect();
    some_of(&names, 3)
}
