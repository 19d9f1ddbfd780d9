//! RG106 for plan Secrets and ServiceAccounts: what belonged to an RKEBootstrap that is gone, and is a valid credential.
//!
//! Garbage collection takes them away with their owner (rancher/rancher pkg/controllers/capr/bootstrap/controller.go); a
//! restore, or a hand, can take the owner reference away.

use std::collections::BTreeMap;
use std::time::Duration;

use rancher_common::finding::{Diagnosis, Evidence, Finding};
use rancher_common::kinds::{SECRETS, SERVICE_ACCOUNTS};
use rancher_common::rancher::{MACHINES, Metadata, RKE_BOOTSTRAPS};
use rancher_common::resource::ResourceType;
use rancher_common::snapshot::{Content, Form, MACHINE_PLAN_TYPE, Need, Place, Reading, Snapshot, Want};
use rancher_common::text::some_of;
use serde::Deserialize as _;

use super::Scene;
use super::orphans::{cluster_of, just_made};
use crate::findings;
use crate::model::fleet::{Cluster, Fleet};
use crate::model::objects::{MACHINE_NAME, PlanSecret, reference};
use crate::model::reading::Objects;
use crate::plan;

/// Between two looks at what an RKEBootstrap seems to have left.
pub(crate) const SECOND_LOOK: Duration = Duration::from_secs(10);

/// Label of a ServiceAccount: what it is for, `plan` or `bootstrap`.
const ACCOUNT_ROLE: &str = "rke.cattle.io/service-account-role";
/// Label with the name of the RKEBootstrap.
const BOOTSTRAP_NAME: &str = "rke.cattle.io/rkebootstrap-name";
/// End of the name of an RKEBootstrap's plan Secret, if it is not too long (pkg/capr/common.go).
const PLAN: &str = "-machine-plan";

/// Plan Secrets of a workspace, or of one machine, without what is in them.
pub(crate) fn secrets(namespace: &str, machine: Option<&str>) -> Want {
    Want::List {
        resource: SECRETS,
        namespace: Some(namespace.to_owned()),
        selector: machine.map(|machine| format!("{MACHINE_NAME}={machine}")),
        fields: Some(format!("type={MACHINE_PLAN_TYPE}")),
        form: Form::Metadata,
    }
}

/// ServiceAccounts of agents of a workspace, or of one machine.
pub(crate) fn accounts(namespace: &str, machine: Option<&str>) -> Want {
    let role = ACCOUNT_ROLE.to_owned();
    Want::List {
        resource: SERVICE_ACCOUNTS,
        namespace: Some(namespace.to_owned()),
        selector: Some(machine.map_or(role.clone(), |machine| format!("{role},{MACHINE_NAME}={machine}"))),
        fields: None,
        form: Form::Metadata,
    }
}

/// A plan Secret or a ServiceAccount.
#[derive(Clone, Debug)]
pub(crate) struct Credential {
    pub resource: ResourceType,
    pub metadata: Metadata,
    /// Name of the RKEBootstrap it belongs to.
    pub bootstrap: String,
    /// Name of the Machine it belongs to.
    pub machine: String,
}

impl Credential {
    fn of(resource: &ResourceType, metadata: Metadata) -> Option<Self> {
        let named = metadata.owner("RKEBootstrap").map(|owner| owner.name.as_str());
        let bootstrap = named
            .or_else(|| metadata.labels.get(BOOTSTRAP_NAME).map(String::as_str))
            .or_else(|| metadata.name.strip_suffix(PLAN))?
            .to_owned();
        let machine = metadata.labels.get(MACHINE_NAME).cloned().unwrap_or_else(|| bootstrap.clone());
        Some(Self { resource: resource.clone(), metadata, bootstrap, machine })
    }

    fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }
}

/// Whether a reading is one that shows plan Secrets or ServiceAccounts.
fn shows(want: &Want) -> bool {
    want.resource().is_some_and(|kind| *kind == SECRETS || *kind == SERVICE_ACCOUNTS)
}

/// Those that one reading shows, by their UIDs.
fn of_reading(reading: &Reading) -> BTreeMap<Option<String>, Credential> {
    let (Content::Objects(objects), Some(resource)) = (&reading.content, reading.want.resource()) else {
        return BTreeMap::new();
    };
    // A list of metadata was asked for by the type of the Secrets.
    let all = *resource == SERVICE_ACCOUNTS || matches!(reading.want, Want::List { form: Form::Metadata, .. });
    objects
        .iter()
        .filter(|object| all || PlanSecret::read(object).is_some())
        .filter_map(|object| Credential::of(resource, Metadata::deserialize(&object["metadata"]).ok()?))
        .map(|credential| (credential.metadata.uid.clone(), credential))
        .collect()
}

/// All that were read, in whichever form; where a second look was taken, those that are still there.
fn all(snapshot: &Snapshot) -> Vec<Credential> {
    let readings: Vec<&Reading> =
        snapshot.readings.iter().filter(|r| r.place == Place::Here && shows(&r.want)).collect();
    let mut found = BTreeMap::new();
    for (at, reading) in readings.iter().enumerate() {
        if readings[at + 1..].iter().any(|later| later.want == reading.want) {
            continue;
        }
        let before: Vec<_> =
            readings[..at].iter().filter(|r| r.want == reading.want).map(|look| of_reading(look)).collect();
        let still = of_reading(reading).into_iter().filter(|(uid, _)| before.iter().all(|look| look.contains_key(uid)));
        found.extend(still.map(|(_, credential)| {
            let key =
                (credential.namespace().to_owned(), credential.resource.kind.clone(), credential.metadata.name.clone());
            (key, credential)
        }));
    }
    found.into_values().collect()
}

/// The lists that want a second look: garbage collection takes a moment to follow an RKEBootstrap.
pub(crate) fn doubtful(scene: &Scene<'_>, needs: &[Need]) -> Vec<Want> {
    let left = left(scene);
    let here =
        |namespace: &Option<String>| left.iter().any(|credential| Some(credential.namespace()) == namespace.as_deref());
    let lists = needs.iter().map(|need| &need.want).filter(|want| shows(want));
    lists.filter(|want| matches!(want, Want::List { namespace, .. } if here(namespace))).cloned().collect()
}

/// Whether an object is proven absent: asked for by its name, or not among the rows of its workspace.
fn gone(snapshot: &Snapshot, whole: &Objects<'_>, kind: &ResourceType, namespace: &str, name: &str) -> bool {
    let rows = Want::list(kind.clone(), Some(namespace), Form::Table);
    match whole.get(namespace, name) {
        Ok(found) => found.is_none(),
        Err(_) => match snapshot.here().answer(&rows) {
            Ok(rows) => rows.iter().all(|row| row["metadata"]["name"] != name),
            Err(_) => false,
        },
    }
}

/// Whether a target can mean it: by the cluster that it, or another one of the same machine, names; or, where none names
/// one, by its workspace.
fn is_asked_for(scene: &Scene<'_>, all: &[Credential], credential: &Credential) -> bool {
    let Some(target) = &scene.question.target else { return true };
    let named = target.machine.as_deref();
    if named.is_some_and(|name| credential.machine != name && credential.metadata.name != name) {
        return false;
    }
    let cluster = match scene.fleet.targets(scene.question)[..] {
        [] => target.cluster.as_str(),
        [cluster] if cluster.namespace == credential.namespace() => cluster.name.as_str(),
        _ => return false,
    };
    let of_same_machine =
        |other: &&Credential| other.machine == credential.machine && other.namespace() == credential.namespace();
    all.iter().filter(of_same_machine).any(|other| cluster_of(&other.metadata) == Some(cluster))
}

/// What must be asked for by its name before anything of a cluster is called a leftover: a selection by labels proves no
/// absence. Kind, workspace and name.
pub(crate) fn in_doubt(
    snapshot: &Snapshot,
    fleet: &Fleet,
    cluster: Option<&Cluster>,
) -> Vec<(ResourceType, String, String)> {
    let bootstraps = Objects::of(snapshot, &Place::Here, &RKE_BOOTSTRAPS);
    let machines = Objects::of(snapshot, &Place::Here, &MACHINES);
    let concerns = |credential: &Credential| match cluster {
        Some(cluster) => cluster.namespace == credential.namespace() && cluster.machine(&credential.machine).is_none(),
        None => fleet.workspaces.iter().any(|workspace| workspace == credential.namespace()),
    };
    let mut doubts = Vec::new();
    for credential in all(snapshot).into_iter().filter(concerns) {
        let namespace = credential.namespace().to_owned();
        if bootstraps.get(&namespace, &credential.bootstrap).is_err() {
            doubts.push((RKE_BOOTSTRAPS, namespace.clone(), credential.bootstrap));
        }
        if machines.get(&namespace, &credential.machine).is_err() {
            doubts.push((MACHINES, namespace, credential.machine));
        }
    }
    doubts
}

/// Those whose RKEBootstrap and Machine are proven absent.
pub(crate) fn left(scene: &Scene<'_>) -> Vec<Credential> {
    let snapshot = scene.snapshot;
    if snapshot.not_served(&MACHINES) || snapshot.not_served(&RKE_BOOTSTRAPS) {
        return Vec::new();
    }
    let bootstraps = Objects::of(snapshot, &Place::Here, &RKE_BOOTSTRAPS);
    let machines = Objects::of(snapshot, &Place::Here, &MACHINES);
    let all = all(snapshot);
    all.iter()
        .filter(|credential| scene.fleet.workspaces.iter().any(|workspace| workspace == credential.namespace()))
        .filter(|credential| !just_made(scene, &credential.metadata) && is_asked_for(scene, &all, credential))
        .filter(|credential| {
            let namespace = credential.namespace();
            gone(snapshot, &bootstraps, &RKE_BOOTSTRAPS, namespace, &credential.bootstrap)
                && gone(snapshot, &machines, &MACHINES, namespace, &credential.machine)
        })
        .cloned()
        .collect()
}

pub(crate) fn judge(scene: &Scene<'_>, diagnosis: &mut Diagnosis) {
    let mut of_machine: BTreeMap<(String, String), Vec<Credential>> = BTreeMap::new();
    for credential in left(scene) {
        let key = (credential.namespace().to_owned(), credential.machine.clone());
        of_machine.entry(key).or_default().push(credential);
    }
    diagnosis.findings.extend(of_machine.into_values().filter_map(|left| finding(scene, &left)));
}

/// One finding for all that a machine left.
fn finding(scene: &Scene<'_>, left: &[Credential]) -> Option<Finding> {
    // The Secret names the cluster.
    let first = left.iter().find(|credential| credential.resource == SECRETS).or(left.first())?;
    let subject = reference(&first.resource, &first.metadata);
    let all: Vec<String> =
        left.iter().map(|credential| format!("{} {}", credential.resource.kind, credential.metadata.name)).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let mut finding = Finding::new(
        &findings::BOOTSTRAP_ORPHAN,
        "leftover",
        subject.clone(),
        format!("{subject} was left behind by RKEBootstrap {}", first.bootstrap),
    )
    .evidence([
        Evidence::new("owner", format!("RKEBootstrap {} does not exist", first.bootstrap))
            .from(RKE_BOOTSTRAPS.full_name()),
        Evidence::new("machine", format!("{} does not exist", first.machine)).from(MACHINES.full_name()),
        Evidence::new("left", some_of(&all, 5)),
    ]);
    if let Some(url) = first.metadata.annotations.get("rke.cattle.io/joined-to").filter(|url| !url.is_empty()) {
        finding = finding.evidence([Evidence::new("joined-to", url.clone()).from("Secret .metadata.annotations")]);
    }
    Some(plan::credentials::target_of(scene, first, finding))
}
