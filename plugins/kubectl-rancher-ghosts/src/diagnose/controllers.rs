//! RG208: Cluster API's controller and webhooks, without which no machine moves.

use rancher_common::finding::{Diagnosis, Evidence, Finding};
use rancher_common::kinds::{DEPLOYMENTS, Deployment};
use rancher_common::rancher::{FEATURES, MACHINES, RKE_BOOTSTRAPS};
use rancher_common::resource::ObjectRef;
use rancher_common::snapshot::{Content, Snapshot, Want};

use super::Scene;
use crate::findings;
use crate::needs::CAPI_NAMESPACES;

/// The Deployment of Cluster API's controller.
const CONTROLLER: &str = "capi-controller-manager";
const EMBEDDED: &str = "embedded-cluster-api";

/// Whether Cluster API's controller works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Capi {
    Works(String),
    /// What is missing, and where.
    Down {
        message: String,
        subject: ObjectRef,
        evidence: Vec<Evidence>,
    },
    /// No Deployment: embedded into Rancher (before 2.13).
    Unknown(String),
    /// It could not be looked for.
    Unread(String),
}

/// Looks for the controller.
pub(crate) fn capi(snapshot: &Snapshot) -> Capi {
    // A conversion webhook that does not answer fails every read of the kind.
    if let Some((message, subject)) = webhook_failure(snapshot) {
        return Capi::Down {
            message: "Cluster API's webhook does not answer, so that machines can be neither read nor changed"
                .to_owned(),
            evidence: vec![Evidence::new("answer", message).from(MACHINES.full_name())],
            subject,
        };
    }
    match deployment(snapshot) {
        Err(why) => return Capi::Unread(why),
        Ok(Some((namespace, found))) => return runs(namespace, &found),
        Ok(None) => {}
    }
    if asks_for_feature(snapshot) {
        match embedded(snapshot) {
            Err(why) => return Capi::Unread(why),
            Ok(true) => return Capi::Unknown(format!("it is part of Rancher itself: feature {EMBEDDED}")),
            Ok(false) => {}
        }
    }
    // From 2.13 on Turtles brings it as a Deployment; before, Rancher's leader may have it inside (pkg/features/feature.go).
    match super::version(snapshot).as_deref().and_then(minor) {
        Some(version) if version >= (2, 13) => Capi::Down {
            message: "Cluster API's controller is not installed: no machine moves".to_owned(),
            subject: ObjectRef::new(&DEPLOYMENTS, Some(CAPI_NAMESPACES[0]), CONTROLLER),
            evidence: vec![Evidence::new("deployments", format!("no {CONTROLLER} in {}", CAPI_NAMESPACES.join(", ")))],
        },
        _ => Capi::Unknown("it may be part of Rancher itself in this version".to_owned()),
    }
}

/// Its Deployment, and the namespace of it.
fn deployment(snapshot: &Snapshot) -> Result<Option<(&'static str, Deployment)>, String> {
    let mut unread = None;
    for namespace in CAPI_NAMESPACES {
        match snapshot.list::<Deployment>(Some(namespace)) {
            Err(why) => unread = Some(why.to_string()),
            Ok(listed) => {
                let found = listed.items.into_iter().find(|d| d.metadata.name.as_deref() == Some(CONTROLLER));
                if let Some(found) = found {
                    return Ok(Some((namespace, found)));
                }
            }
        }
    }
    unread.map_or(Ok(None), Err)
}

/// Whether a Deployment has a replica that works.
fn runs(namespace: &str, found: &Deployment) -> Capi {
    let mut subject = ObjectRef::new(&DEPLOYMENTS, Some(namespace), CONTROLLER);
    subject.uid.clone_from(&found.metadata.uid);
    let available = found.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0);
    let wanted = found.spec.replicas.unwrap_or(1);
    if available > 0 {
        return Capi::Works(format!("{namespace}/{CONTROLLER} is available"));
    }
    Capi::Down {
        message: "Cluster API's controller has no available replica: no machine moves".to_owned(),
        evidence: vec![
            Evidence::new("available", format!("{available} of {wanted}"))
                .from(format!("{subject} .status.availableReplicas")),
        ],
        subject,
    }
}

/// The feature that keeps the controller inside Rancher; off by default from 2.13 on, gone in 2.14
/// (rancher/rancher pkg/features/feature.go).
pub(crate) fn embedded_feature() -> Want {
    Want::get(FEATURES, None, EMBEDDED)
}

/// Whether only the feature tells if the controller is missing: in 2.13, where there is no Deployment.
pub(crate) fn asks_for_feature(snapshot: &Snapshot) -> bool {
    super::version(snapshot).as_deref().and_then(minor) == Some((2, 13)) && matches!(deployment(snapshot), Ok(None))
}

fn embedded(snapshot: &Snapshot) -> Result<bool, String> {
    let feature = snapshot.raw(&FEATURES, None, EMBEDDED).map_err(|why| why.to_string())?;
    Ok(feature.is_some_and(|feature| feature["spec"]["value"] == true))
}

/// `v2.13.2` as (2, 13).
pub(crate) fn minor(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.trim_start_matches('v').split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn webhook_failure(snapshot: &Snapshot) -> Option<(String, ObjectRef)> {
    snapshot.failures().find_map(|(reading, failure)| {
        let resource = reading.want.resource().filter(|resource| resource.group == MACHINES.group)?;
        let text = failure.message.to_lowercase();
        (text.contains("conversion webhook") || (failure.kind == "Webhook"))
            .then(|| (failure.message.clone(), ObjectRef::new(resource, None, "*")))
    })
}

/// RG208.
pub(crate) fn judge(scene: &Scene<'_>, diagnosis: &mut Diagnosis) {
    let machines_read =
        scene.snapshot.readings.iter().any(|reading| {
            reading.want.resource() == Some(&MACHINES) && !matches!(reading.content, Content::NotServed)
        });
    // Parts of machines outlive the kind of the Machines themselves.
    let parts = scene.snapshot.readings.iter().any(|reading| {
        let resource = reading.want.resource();
        (resource == Some(&RKE_BOOTSTRAPS) || scene.fleet.infra_kinds.iter().any(|kind| resource == Some(kind)))
            && match &reading.content {
                Content::Objects(objects) => !objects.is_empty(),
                Content::Table(table) => !table.rows.is_empty(),
                _ => false,
            }
    });
    match capi(scene.snapshot) {
        Capi::Works(message) => diagnosis.pass("capi", message),
        Capi::Down { .. } if !machines_read && !parts && scene.fleet.clusters.iter().all(|c| c.machines.is_empty()) => {
            diagnosis.skip("capi", "there are no machines of Cluster API");
        }
        Capi::Down { message, subject, evidence } => diagnosis.findings.push(
            Finding::new(&findings::CAPI_DOWN, "capi", subject, message).evidence(evidence).advice(
                "Bring Cluster API's controller and its webhook Service back first: until then deletions hang and conditions are old.",
            ),
        ),
        Capi::Unknown(why) => diagnosis.skip("capi", why),
        Capi::Unread(why) => diagnosis.skip("capi", format!("its Deployment was not read ({why})")),
    }
}
