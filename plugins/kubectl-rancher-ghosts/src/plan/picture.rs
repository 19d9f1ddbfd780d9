//! What belongs to a machine, for the backup: what goes with it, and what it hangs on.

use rancher_common::kinds::{SECRETS, SERVICE_ACCOUNTS};
use rancher_common::plan::{Dependent, Fact};
use rancher_common::rancher::{CAPI_CLUSTERS, Metadata, PROVISIONING_CLUSTERS, RKE_CONTROL_PLANES};
use rancher_common::resource::ObjectRef;
use rancher_common::snapshot::Content;
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::diagnose::Scene;
use crate::model::fleet::{Cluster, Picture};
use crate::model::machine::Machine;
use crate::model::objects::MACHINE_NAME;

/// Everything to be saved besides the Machine.
pub(crate) fn dependents(scene: &Scene<'_>, cluster: &Cluster, picture: &Picture) -> Vec<Dependent> {
    let mut all = Vec::new();
    let parts = [&picture.infra, &picture.bootstrap].into_iter().filter_map(|part| part.as_ref().ok()?.as_ref());
    all.extend(parts.map(|part| Dependent { resource: part.resource.clone(), object: part.reference(), goes: true }));
    if let Some(secret) = picture.secret() {
        all.push(Dependent { resource: SECRETS, object: secret.reference(), goes: true });
    }
    for reading in scene.snapshot.readings.iter().filter(|r| r.want.resource() == Some(&SERVICE_ACCOUNTS)) {
        let Content::Objects(objects) = &reading.content else { continue };
        all.extend(objects.iter().filter_map(|object| {
            let metadata = Metadata::deserialize(&object["metadata"]).ok()?;
            let mine = metadata.labels.get(MACHINE_NAME) == Some(&picture.row.name)
                && metadata.namespace.as_deref() == Some(picture.row.namespace.as_str());
            mine.then(|| Dependent {
                resource: SERVICE_ACCOUNTS,
                object: ObjectRef::of(&SERVICE_ACCOUNTS, object),
                goes: true,
            })
        }));
    }
    let stays = |resource: &rancher_common::resource::ResourceType, uid: Option<&str>| {
        let mut object = ObjectRef::new(resource, Some(&cluster.namespace), &cluster.name);
        object.uid = uid.map(str::to_owned);
        Dependent { resource: resource.clone(), object, goes: false }
    };
    all.push(stays(&PROVISIONING_CLUSTERS, cluster.metadata.uid.as_deref()));
    if let Some(plane) = cluster.plane() {
        all.push(stays(&RKE_CONTROL_PLANES, plane.metadata.uid.as_deref()));
    }
    if matches!(cluster.capi_paused, Ok(Some(_))) {
        all.push(stays(&CAPI_CLUSTERS, None));
    }
    all
}

/// The facts of a Machine that every verdict on it rests on.
pub(crate) fn facts(machine: &Machine) -> Vec<Fact> {
    let or_null = |text: Option<&str>| text.map_or(Value::Null, |text| json!(text));
    let mut facts = vec![
        Fact { pointer: "/status/nodeRef/name".to_owned(), value: or_null(machine.node.as_deref()) },
        Fact { pointer: "/spec/providerID".to_owned(), value: or_null(machine.provider_id.as_deref()) },
        Fact { pointer: "/metadata/annotations/cluster.x-k8s.io~1paused".to_owned(), value: Value::Null },
    ];
    if !machine.deleting() {
        facts.push(Fact { pointer: "/metadata/deletionTimestamp".to_owned(), value: Value::Null });
    }
    facts
}
