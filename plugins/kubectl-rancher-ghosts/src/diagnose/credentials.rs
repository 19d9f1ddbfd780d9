//! RG106 for plan Secrets and ServiceAccounts: what belonged to an RKEBootstrap that is gone, and is a valid credential.
//!
//! Garbage collection takes them away with their owner (rancher/rancher pkg/controllers/capr/bootstrap/controller.go); a
//! restore, or a hand, can take the owner reference away.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use rancher_common::finding::{Diagnosis, Evidence, Finding};
use rancher_common::kinds::{SECRETS, SERVICE_ACCOUNTS};
use rancher_common::rancher::{MACHINES, Metadata, RKE_BOOTSTRAPS};
use rancher_common::resource::ResourceType;
use rancher_common::snapshot::{Content, Form, MACHINE_PLAN_TYPE, Need, Place, Reading, Snapshot, Want};
use rancher_common::text::some_of;
use serde::Deserialize as _;
use serde_json::Value;

use super::Scene;
use super::orphans::{cluster_of, just_made};
use crate::findings;
use crate::model::fleet::{Cluster, Fleet};
use crate::model::objects::{MACHINE_NAME, reference};
use crate::model::reading::{Objects, Rows};
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
    fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }
}

/// The same as it was read: nearly all of them belong to a Machine that lives, and are looked at no further.
#[derive(Clone, Copy, Debug)]
struct Read<'a> {
    resource: &'a ResourceType,
    object: &'a Value,
    bootstrap: &'a str,
    machine: &'a str,
}

impl<'a> Read<'a> {
    fn of(resource: &'a ResourceType, object: &'a Value) -> Option<Self> {
        let metadata = &object["metadata"];
        let label = |name: &str| metadata["labels"][name].as_str();
        let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        let bootstrap = owners
            .filter(|owner| owner["kind"] == "RKEBootstrap")
            .find_map(|owner| owner["name"].as_str())
            .or_else(|| label(BOOTSTRAP_NAME))
            .or_else(|| metadata["name"].as_str()?.strip_suffix(PLAN))?;
        Some(Self { resource, object, bootstrap, machine: label(MACHINE_NAME).unwrap_or(bootstrap) })
    }

    fn text(&self, key: &str) -> &'a str {
        self.object["metadata"][key].as_str().unwrap_or_default()
    }

    fn namespace(&self) -> &'a str {
        self.text("namespace")
    }

    fn whole(&self) -> Option<Credential> {
        Some(Credential {
            resource: self.resource.clone(),
            metadata: Metadata::deserialize(&self.object["metadata"]).ok()?,
            bootstrap: self.bootstrap.to_owned(),
            machine: self.machine.to_owned(),
        })
    }
}

/// Whether a reading is one that shows plan Secrets or ServiceAccounts.
fn shows(want: &Want) -> bool {
    want.resource().is_some_and(|kind| *kind == SECRETS || *kind == SERVICE_ACCOUNTS)
}

/// Those that one reading shows.
fn of_reading(reading: &Reading) -> impl Iterator<Item = Read<'_>> {
    let resource = reading.want.resource();
    // A list of metadata was asked for by the type of the Secrets.
    let all = resource == Some(&SERVICE_ACCOUNTS) || matches!(reading.want, Want::List { form: Form::Metadata, .. });
    let objects = match &reading.content {
        Content::Objects(objects) => objects.as_slice(),
        _ => &[],
    };
    objects
        .iter()
        .filter(move |object| all || object["type"] == MACHINE_PLAN_TYPE)
        .filter_map(move |object| Read::of(resource?, object))
}

/// All that were read, in whichever form, by workspace, kind and name; where a second look was taken, those that are
/// still there.
fn all(snapshot: &Snapshot) -> Vec<Read<'_>> {
    let mut looks: Vec<(&Want, Vec<&Reading>)> = Vec::new();
    let mut at: HashMap<&Want, usize> = HashMap::new();
    for reading in snapshot.readings.iter().filter(|r| r.place == Place::Here && shows(&r.want)) {
        let index = *at.entry(&reading.want).or_insert(looks.len());
        match looks.get_mut(index) {
            Some((_, of_want)) => of_want.push(reading),
            None => looks.push((&reading.want, vec![reading])),
        }
    }
    let mut found = BTreeMap::new();
    for (_, of_want) in looks {
        let Some((last, before)) = of_want.split_last() else { continue };
        let before: Vec<HashSet<&str>> =
            before.iter().map(|look| of_reading(look).map(|read| read.text("uid")).collect()).collect();
        for read in of_reading(last).filter(|read| before.iter().all(|look| look.contains(read.text("uid")))) {
            found.insert((read.namespace(), read.resource.kind.as_ref(), read.text("name")), read);
        }
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

/// Whether a target can mean it: by the cluster that it, or another one of the same machine, names; or, where none names
/// one, by its workspace.
fn is_asked_for(scene: &Scene<'_>, all: &[Read<'_>], credential: &Read<'_>) -> bool {
    let Some(target) = &scene.question.target else { return true };
    let named = target.machine.as_deref();
    if named.is_some_and(|name| credential.machine != name && credential.text("name") != name) {
        return false;
    }
    let cluster = match scene.fleet.targets(scene.question)[..] {
        [] => target.cluster.as_str(),
        [cluster] if cluster.namespace == credential.namespace() => cluster.name.as_str(),
        _ => return false,
    };
    let of_same_machine =
        |other: &&Read<'_>| other.machine == credential.machine && other.namespace() == credential.namespace();
    all.iter().filter(of_same_machine).filter_map(Read::whole).any(|other| cluster_of(&other.metadata) == Some(cluster))
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
    let concerns = |credential: &Read<'_>| match cluster {
        Some(cluster) => cluster.namespace == credential.namespace() && cluster.machine(credential.machine).is_none(),
        None => fleet.workspaces.iter().any(|workspace| workspace == credential.namespace()),
    };
    let mut doubts = Vec::new();
    for credential in all(snapshot).into_iter().filter(concerns) {
        let namespace = credential.namespace().to_owned();
        if bootstraps.get(&namespace, credential.bootstrap).is_err() {
            doubts.push((RKE_BOOTSTRAPS, namespace.clone(), credential.bootstrap.to_owned()));
        }
        if machines.get(&namespace, credential.machine).is_err() {
            doubts.push((MACHINES, namespace, credential.machine.to_owned()));
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
    let all = all(snapshot);
    if all.is_empty() {
        return Vec::new();
    }
    let workspaces = &scene.fleet.workspaces;
    let bootstraps = Objects::of(snapshot, &Place::Here, &RKE_BOOTSTRAPS);
    let machines = Objects::of(snapshot, &Place::Here, &MACHINES);
    let bootstrap_rows = Rows::of(snapshot, &RKE_BOOTSTRAPS, workspaces);
    let machine_rows = Rows::of(snapshot, &MACHINES, workspaces);
    all.iter()
        .filter(|credential| {
            let namespace = credential.namespace();
            workspaces.iter().any(|workspace| workspace == namespace)
                && bootstraps.is_gone(&bootstrap_rows, namespace, credential.bootstrap)
                && machines.is_gone(&machine_rows, namespace, credential.machine)
        })
        .filter(|credential| is_asked_for(scene, &all, credential))
        .filter_map(Read::whole)
        .filter(|credential| !just_made(scene, &credential.metadata))
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
