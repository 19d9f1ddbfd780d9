//! Whether a leader works: without one nothing that Rancher does to machines happens, and its conditions say nothing.

use rancher_common::finding::Diagnosis;
use rancher_common::kinds::Lease;
use rancher_common::snapshot::{Content, Reading, Snapshot};
use rancher_common::time::{Timestamp, between, human};
use std::time::Duration;

use super::Scene;

/// A leader renews every two seconds, whatever duration the record names (rancher/wrangler pkg/leader/leader.go).
const FRESH: Duration = Duration::from_secs(60);

/// Whether a leader works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Leader {
    /// It renewed its Lease just now.
    Works(String),
    /// Nobody does; with what is seen instead.
    Missing(String),
    /// The Lease could not be read.
    Unknown(String),
}

/// Reads the Lease.
pub(crate) fn leader(snapshot: &Snapshot) -> Leader {
    match snapshot.get::<Lease>(Some("kube-system"), "cattle-controllers") {
        Err(why) => Leader::Unknown(why.to_string()),
        Ok(None) => Leader::Missing("the Lease kube-system/cattle-controllers does not exist".to_owned()),
        Ok(Some(lease)) => {
            let spec = lease.spec.unwrap_or_default();
            let holder = spec.holder_identity.filter(|holder| !holder.is_empty());
            match (holder, spec.renew_time) {
                (Some(holder), Some(renewed)) => {
                    let since = between(renewed.0, looked_at(snapshot));
                    if since <= FRESH {
                        Leader::Works(holder)
                    } else {
                        Leader::Missing(format!("{holder} has not renewed for {}", human(since)))
                    }
                }
                _ => Leader::Missing("nobody holds the Lease kube-system/cattle-controllers".to_owned()),
            }
        }
    }
}

/// When the Lease was read: by the end of a slow snapshot it is older than a leader lets it become.
fn looked_at(snapshot: &Snapshot) -> Timestamp {
    let want = crate::needs::lease();
    let read = |reading: &&Reading| !matches!(reading.content, Content::Failed(_));
    snapshot.readings_of(&want).rev().find(read).map_or(snapshot.as_of, |reading| reading.at)
}

/// Says so. A leader that does not work is the subject of another plugin.
pub(crate) fn judge(scene: &Scene<'_>, diagnosis: &mut Diagnosis) {
    match leader(scene.snapshot) {
        Leader::Works(holder) => diagnosis.pass("leader", format!("{holder} leads and renews")),
        Leader::Missing(why) => {
            diagnosis
                .skip("leader", format!("{why}: look with kubectl rancher-lease first; conditions may be out of date"));
        }
        Leader::Unknown(why) => diagnosis.skip("leader", format!("the Lease was not read ({why})")),
    }
}
