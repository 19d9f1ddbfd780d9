//! `whois`: machine ↔ plan Secret ↔ node ↔ address ↔ infra, whichever end is in hand.

use rancher_common::finding::{Column, Diagnosis, Evidence, Finding, Inventory, Row as Line, shared};
use rancher_common::kinds::SECRETS;
use rancher_common::rancher::MACHINES;
use rancher_common::resource::ObjectRef;
use rancher_common::snapshot::{Form, Need, Place, Snapshot, Want};
use sha2::{Digest as _, Sha256};

use crate::Question;
use crate::diagnose::{Scene, host, roles};
use crate::findings;
use crate::model::fleet::{Cluster, Fleet, Picture, plan_secret_name};
use crate::model::objects::{MACHINE_ID, NODE_NAME};
use crate::model::reading::{Objects, Seen};
use crate::model::triage::Row;

const WHY_UIDS: &str = "which machine has this UID or cattle-id";

/// The end of a plan Secret's name (rancher/rancher pkg/capr/common.go, PlanSecretFromBootstrapName).
const PLAN_SUFFIX: &str = "-machine-plan";

/// The name of a custom machine from its host's cattle-id (pkg/capr/configserver/custom.go).
fn custom_name(cattle_id: &str) -> String {
    let sum: String = Sha256::digest(cattle_id.as_bytes()).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    format!("custom-{sum}")
}

/// Whether a row is what is asked for.
fn matches(asked: &str, row: &Row) -> bool {
    let name = asked.rsplit_once('/').map_or(asked, |(_, name)| name);
    row.name == name
        || Some(row.name.as_str()) == name.strip_suffix(PLAN_SUFFIX)
        || row.name == custom_name(asked)
        || row.node.as_deref() == Some(name)
        || row.provider_id.as_deref() == Some(asked)
        || row.addresses.iter().any(|address| address == asked)
}

/// Whether a row may be what is asked for, as far as its cells tell.
pub(crate) fn row_may_match(question: &Question, row: &Row) -> bool {
    question.whois.as_deref().is_some_and(|asked| matches(asked, row))
}

/// Whether a machine may be what is asked for, as far as it is known.
pub(crate) fn may_be(question: &Question, picture: &Picture) -> bool {
    question.whois.as_deref().is_some_and(|asked| is_it(asked, picture))
}

/// Whether a machine is what is asked for.
fn is_it(asked: &str, picture: &Picture) -> bool {
    let of_whole = picture.whole().is_some_and(|machine| {
        let label = |name: &str| machine.metadata.labels.get(name).map(String::as_str);
        machine.uid() == asked
            || label(NODE_NAME) == Some(asked)
            || label(MACHINE_ID) == Some(asked)
            || machine.addresses.iter().any(|address| address == asked)
            || plan_secret_name(machine).as_deref() == Some(asked)
            || [&machine.bootstrap, &machine.infra].into_iter().flatten().any(|part| part.name == asked)
    });
    let of_secret = picture.secret().is_some_and(|secret| secret.metadata.name == asked);
    matches(asked, &picture.row) || of_whole || of_secret || picture.provider_id() == Some(asked)
}

/// What is read besides the rows: when no row matches, the whole machines, whose labels say more.
pub(crate) fn needs(question: &Question, snapshot: &Snapshot, fleet: &Fleet, needs: &mut Vec<Need>) {
    let Some(asked) = question.whois.as_deref() else { return };
    let rows_known = fleet.workspaces.iter().all(|ns| crate::model::triage::count(snapshot, ns).is_some());
    let found = fleet.clusters.iter().flat_map(|cluster| &cluster.machines).any(|picture| matches(asked, &picture.row));
    if rows_known && !found && question.connection_info.is_none() {
        for namespace in &fleet.workspaces {
            needs.push(Need::required(Want::list(MACHINES, Some(namespace), Form::Full), WHY_UIDS));
        }
    }
}

/// Whose plan Secret this is.
pub(crate) fn owner_of_secret<'f>(
    fleet: &'f Fleet,
    namespace: &str,
    secret: &str,
) -> Option<(&'f Cluster, &'f Picture)> {
    let of = |cluster: &'f Cluster| cluster.machines.iter().map(move |picture| (cluster, picture));
    fleet.clusters.iter().filter(|cluster| cluster.namespace == namespace).flat_map(of).find(|(_, picture)| {
        picture.secret().is_some_and(|known| known.metadata.name == secret)
            || secret.strip_suffix(PLAN_SUFFIX) == Some(picture.row.name.as_str())
    })
}

/// The plan Secret a connection file names, as it was read.
pub(crate) fn secret_of_file(scene: &Scene<'_>) -> Option<Seen<()>> {
    let info = scene.question.connection_info.as_ref()?;
    let secrets = Objects::of(scene.snapshot, &Place::Here, &SECRETS);
    Some(secrets.get(&info.namespace, &info.secret).map(|found| found.map(|_| ())))
}

const COLUMNS: [Column; 9] = [
    Column { name: "CLUSTER", wide: false },
    Column { name: "MACHINE", wide: false },
    Column { name: "PLAN SECRET", wide: false },
    Column { name: "NODE", wide: false },
    Column { name: "ADDRESS", wide: false },
    Column { name: "INFRA", wide: false },
    Column { name: "ROLES", wide: false },
    Column { name: "PROVIDER ID", wide: true },
    Column { name: "UID", wide: true },
];

/// Answers. What is not found is not there only if all was read.
pub(crate) fn answer(scene: &Scene<'_>, all_read: bool, diagnosis: &mut Diagnosis) {
    let Some(asked) = scene.question.whois.as_deref() else { return };
    let found: Vec<(&Cluster, &Picture)> = scene
        .fleet
        .clusters
        .iter()
        .flat_map(|cluster| cluster.machines.iter().map(move |picture| (cluster, picture)))
        .filter(|(_, picture)| is_it(asked, picture))
        .collect();
    if let Some(info) = &scene.question.connection_info {
        let exists = secret_of_file(scene);
        match exists {
            Some(Ok(Some(()))) => diagnosis.pass("plan Secret", format!("{}/{} exists", info.namespace, info.secret)),
            Some(Ok(None)) => diagnosis.findings.push(
                Finding::new(
                    &findings::NODE_WITHOUT_MACHINE,
                    "plan Secret",
                    ObjectRef::new(&SECRETS, Some(&info.namespace), &info.secret),
                    format!("the agent behind this file looks for plan Secret {}, which does not exist", info.secret),
                )
                .evidence([Evidence::new("file", info.path.display().to_string()).from("secretName")])
                .advice("Its Machine was removed: register that host again. Which machine of Rancher is its ghost, check tells."),
            ),
            // RX001 tells why it is not known.
            _ => {}
        }
    }
    if found.is_empty() {
        if scene.question.connection_info.is_none() && all_read {
            diagnosis.wrong_target = true;
            diagnosis.findings.push(
                Finding::new(
                    &shared::NO_SUCH_TARGET,
                    "machine",
                    ObjectRef::new(&MACHINES, None, asked),
                    format!("no machine has {asked} as name, node, address, UID, provider id or cattle-id"),
                )
                .advice("A Node that no machine claims is found by check CLUSTER with a downstream connection."),
            );
        }
        return;
    }
    let rows = found.iter().map(|(cluster, picture)| line(cluster, picture)).collect();
    diagnosis.inventory = Some(Inventory { columns: COLUMNS.to_vec(), rows });
}

fn line(cluster: &Cluster, picture: &Picture) -> Line {
    let or_none = |text: Option<String>| text.filter(|text| !text.is_empty()).unwrap_or_else(|| "-".to_owned());
    let node_address = || {
        let node = picture.row.node.as_deref()?;
        cluster.node(node).ok()??.addresses.first().cloned()
    };
    let infra = picture.whole().and_then(|machine| machine.infra.as_ref()).map(|r| format!("{}/{}", r.kind, r.name));
    let secret = picture.secret().map(|secret| secret.metadata.name.clone()).or_else(|| match picture.plan {
        Ok(None) => Some("(none)".to_owned()),
        _ => None,
    });
    Line {
        object: picture.reference(),
        severity: None,
        cells: vec![
            cluster.title(),
            picture.row.name.clone(),
            or_none(secret),
            or_none(host(picture)),
            or_none(picture.row.addresses.first().cloned().or_else(node_address)),
            or_none(infra),
            roles(picture),
            or_none(picture.provider_id().map(str::to_owned)),
            or_none(picture.whole().map(|machine| machine.uid().to_owned())),
        ],
        below: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cattle_id_names_its_machine() {
        // sha256("a") begins with ca978112ca1b.
        assert_eq!(custom_name("a"), "custom-ca978112ca1b");
        let row = Row { name: "custom-ca978112ca1b".into(), node: Some("n1".into()), ..Row::default() };
        for asked in ["a", "custom-ca978112ca1b", "custom-ca978112ca1b-machine-plan", "n1", "prod/custom-ca978112ca1b"]
        {
            assert!(matches(asked, &row), "{asked}");
        }
        assert!(!matches("b", &row));
    }
}
