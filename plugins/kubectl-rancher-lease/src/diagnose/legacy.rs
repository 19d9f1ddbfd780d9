//! The ConfigMap lock of Rancher before 2.8.3 (RL110).

use std::time::Duration;

use rancher_common::finding::{Evidence, Finding};
use rancher_common::kinds::{CONFIG_MAPS, ConfigMap};
use rancher_common::resource::ObjectRef;
use rancher_common::time::{Timestamp, between, human, rfc3339};

use super::Scene;
use super::election::{LEASE_NAME, LEASE_NAMESPACE};
use super::replicas::Version;
use crate::findings::LEGACY_LOCK;

/// The first version whose lock is the Lease alone; before, `configmapsleases` demands that both name the same holder
/// (rancher/rancher PR 43652; rancher/wrangler pkg/leader/leader.go; client-go up to 0.27
/// tools/leaderelection/resourcelock/multilock.go).
pub(crate) const LEASE_ONLY: Version = Version(2, 8, 3);
/// Where the ConfigMap keeps the record (client-go up to 0.27, resourcelock/interface.go).
const ANNOTATION: &str = "control-plane.alpha.kubernetes.io/leader";

/// Why nothing is repaired while it is in use.
pub(crate) const HINDRANCE: &str = "This Rancher also locks with the ConfigMap kube-system/cattle-controllers, whose record counts first: deleting the Lease alone changes nothing. Remove the annotation control-plane.alpha.kubernetes.io/leader from the ConfigMap by hand, or better upgrade to 2.8.3 or later.";

struct Lock {
    holder: String,
    renewed: Option<Timestamp>,
    uid: Option<String>,
}

fn lock(scene: &Scene<'_>) -> Option<Lock> {
    let map = scene.snapshot.get::<ConfigMap>(Some(LEASE_NAMESPACE), LEASE_NAME).ok().flatten()?;
    let record = map.metadata.annotations.as_ref()?.get(ANNOTATION)?;
    let record: serde_json::Value = serde_json::from_str(record).ok()?;
    Some(Lock {
        holder: record["holderIdentity"].as_str().unwrap_or_default().to_owned(),
        renewed: record["renewTime"].as_str().and_then(|time| time.parse().ok()),
        uid: map.metadata.uid,
    })
}

/// Whether the ConfigMap counts: by the version, or, where that is not known, when its record names the Lease's holder
/// and was written with the Lease's. A ConfigMap that was left over is far older.
pub(crate) fn in_use(scene: &Scene<'_>) -> bool {
    match scene.version {
        Some(version) => version < LEASE_ONLY,
        None => lock(scene).is_some_and(|lock| {
            let lease = scene.record();
            let close = |a: Timestamp, b: Timestamp| between(a, b).max(between(b, a)) <= Duration::from_secs(60);
            lock.renewed.zip(lease.and_then(|record| record.renewed)).is_some_and(|(here, there)| close(here, there))
        }),
    }
}

/// RL110.
pub(crate) fn finding(scene: &Scene<'_>) -> Option<Finding> {
    let lock = lock(scene);
    let version = scene.version_text.as_deref().unwrap_or("of unknown version");
    let mut subject = ObjectRef::new(&CONFIG_MAPS, Some(LEASE_NAMESPACE), LEASE_NAME);
    subject.uid = lock.as_ref().and_then(|lock| lock.uid.clone());
    let facts = lock.as_ref().map(|lock| {
        let renewed = lock.renewed.map_or_else(
            || "never renewed".to_owned(),
            |at| format!("renewed {} ({} ago)", rfc3339(at), human(between(at, scene.snapshot.as_of))),
        );
        Evidence::new("record", format!("holder {}, {renewed}", lock.holder))
            .from(format!("ConfigMap {LEASE_NAMESPACE}/{LEASE_NAME} annotation {ANNOTATION}"))
    });
    if in_use(scene) {
        return Some(
            Finding::new(
                &LEGACY_LOCK,
                "lock",
                subject,
                format!("Rancher {version} locks with a ConfigMap and a Lease of the same name, and both must be free"),
            )
            .evidence(facts)
            .advice("Upgrade Rancher to 2.8.3 or later, which uses the Lease alone."),
        );
    }
    let lock = lock?;
    Some(
        Finding::new(
            &LEGACY_LOCK,
            "lock",
            subject,
            format!(
                "a ConfigMap of an earlier version still names {} as leader; Rancher {version} does not read it",
                lock.holder
            ),
        )
        .evidence(facts)
        .advice("Nothing to do: it is left over and harmless."),
    )
}
