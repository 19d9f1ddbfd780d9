//! What a plan Secret tells without its secrets.
//!
//! The Secret of type `rke.cattle.io/machine-plan` is where Rancher and a node's rancher-system-agent talk to each
//! other: Rancher writes `plan`, the agent answers with checksums, counts and probes (rancher/rancher
//! pkg/capr/planner/store.go; rancher/system-agent pkg/k8splan/watcher.go). A plan holds join tokens and registry
//! passwords, so redaction keeps only what is listed here, under the key [`MACHINE_PLAN`] of the object.

use std::collections::BTreeMap;
use std::io::Read as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::redact_text;

/// Type of a plan Secret.
pub const MACHINE_PLAN_TYPE: &str = "rke.cattle.io/machine-plan";
/// The key under which redaction leaves what a plan Secret tells.
pub const MACHINE_PLAN: &str = "machinePlan";

/// Largest output that is unpacked, in bytes.
const MAX_OUTPUT: u64 = 1 << 20;
/// How much is kept of it, at its end, in bytes.
const KEPT_OUTPUT: usize = 4000;

/// What a plan Secret tells. Every field is absent when the Secret's key is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachinePlan {
    /// Hex SHA-256 of `plan`, which is what the agent compares; absent when there is no plan or an empty one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// How many instructions the plan has; a planned Secret without any has not been planned yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<usize>,
    /// Hex SHA-256 of `appliedPlan`, the copy that Rancher's leader makes once it has noticed that the plan is applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied_plan: Option<String>,
    /// `applied-checksum`, from the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied_checksum: Option<String>,
    /// `failed-checksum`, from the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_checksum: Option<String>,
    /// `failure-count`, from the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_count: Option<i64>,
    /// `failure-threshold`: failures before the plan counts as failed (missing: 1; -1: never).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_threshold: Option<i64>,
    /// `max-failures`: failures after which the agent gives up (missing or -1: never).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_failures: Option<i64>,
    /// `last-apply-time`, from the agent, in the layout of `date` (Go's `time.UnixDate`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_apply_time: Option<String>,
    /// `plan-state` (Rancher 2.15 and later): pending, in-progress, succeeded, failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_state: Option<String>,
    /// `probe-statuses` by name; absent when the agent has never written any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probes: Option<BTreeMap<String, ProbeStatus>>,
    /// The end of `failed-output`, unpacked and redacted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_output: Option<String>,
}

/// One probe's status as the agent writes it (rancher/system-agent pkg/prober).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProbeStatus {
    /// Whether it has succeeded often enough.
    pub healthy: bool,
    /// Successes in a row.
    pub success_count: i64,
    /// Failures in a row.
    pub failure_count: i64,
}

impl MachinePlan {
    /// Reads what redaction has left of a plan Secret.
    #[must_use]
    pub fn of(secret: &Value) -> Option<Self> {
        Self::deserialize(secret.get(MACHINE_PLAN)?).ok()
    }

    /// Reads the data of a plan Secret as the API server gives it.
    pub(super) fn of_data(data: &Map<String, Value>) -> Self {
        let bytes = |key: &str| {
            let value = BASE64_STANDARD.decode(data.get(key)?.as_str()?).ok()?;
            (!value.is_empty()).then_some(value)
        };
        let text = |key: &str| Some(String::from_utf8_lossy(&bytes(key)?).into_owned());
        let number = |key: &str| text(key)?.trim().parse().ok();
        let checksum = |key: &str| Some(hex(&Sha256::digest(bytes(key)?)));
        let instructions = bytes("plan").and_then(|plan| {
            let plan: Value = serde_json::from_slice(&plan).ok()?;
            let count = |key: &str| plan[key].as_array().map_or(0, Vec::len);
            Some(count("instructions") + count("oneTimeInstructions") + count("periodicInstructions"))
        });
        Self {
            plan: checksum("plan"),
            instructions,
            applied_plan: checksum("appliedPlan"),
            applied_checksum: text("applied-checksum"),
            failed_checksum: text("failed-checksum"),
            failure_count: number("failure-count"),
            failure_threshold: number("failure-threshold"),
            max_failures: number("max-failures"),
            last_apply_time: text("last-apply-time"),
            plan_state: text("plan-state"),
            probes: bytes("probe-statuses").map(|json| serde_json::from_slice(&json).unwrap_or_default()),
            failed_output: bytes("failed-output").map(|packed| output(&packed)),
        }
    }

    /// Whether the agent has ever written anything: then a machine is no stranger.
    #[must_use]
    pub fn agent_has_answered(&self) -> bool {
        self.applied_checksum.is_some()
            || self.failed_checksum.is_some()
            || self.probes.is_some()
            || self.last_apply_time.is_some()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The end of a plan's output: gzip around either text or a map from instruction to base64 text.
fn output(packed: &[u8]) -> String {
    let mut unpacked = Vec::new();
    let gzip = packed.starts_with(&[0x1f, 0x8b]);
    if gzip {
        // What could be unpacked of a broken stream is still worth showing.
        let _ = flate2::read::GzDecoder::new(packed).take(MAX_OUTPUT).read_to_end(&mut unpacked);
    } else {
        unpacked.extend_from_slice(&packed[..packed.len().min(usize::try_from(MAX_OUTPUT).unwrap_or(usize::MAX))]);
    }
    let text = match serde_json::from_slice::<BTreeMap<String, String>>(&unpacked) {
        Ok(outputs) => outputs
            .into_iter()
            .map(|(name, encoded)| {
                let text = BASE64_STANDARD
                    .decode(&encoded)
                    .map_or(encoded, |bytes| String::from_utf8_lossy(&bytes).into_owned());
                format!("{name}: {}", text.trim_end())
            })
            .collect::<Vec<_>>()
            .join("\n"),
        Err(_) => String::from_utf8_lossy(&unpacked).into_owned(),
    };
    let clean = redact_text(text.trim_end());
    let mut start = clean.len().saturating_sub(KEPT_OUTPUT);
    while !clean.is_char_boundary(start) {
        start += 1;
    }
    clean[start..].to_owned()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use serde_json::json;

    use super::*;

    fn data(pairs: &[(&str, &[u8])]) -> Map<String, Value> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), json!(BASE64_STANDARD.encode(value)))).collect()
    }

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text.as_bytes()).expect("memory");
        encoder.finish().expect("memory")
    }

    #[test]
    fn a_secret_without_an_answer_of_the_agent() {
        let plan = br#"{"instructions":[{"name":"install","env":["TOKEN=x"]}]}"#;
        let read = MachinePlan::of_data(&data(&[("plan", plan), ("appliedPlan", b"")]));
        assert_eq!(read.plan.as_deref().map(str::len), Some(64));
        assert_eq!((read.instructions, read.applied_plan.as_deref()), (Some(1), None));
        assert!(!read.agent_has_answered());
        assert_eq!(MachinePlan::of_data(&Map::new()), MachinePlan::default());
    }

    #[test]
    fn answers_of_the_agent() {
        let outputs = json!({"install": BASE64_STANDARD.encode("error while staging: no route\npassword=hunter2")});
        let read = MachinePlan::of_data(&data(&[
            ("plan", b"{}"),
            ("failed-checksum", b"abc"),
            ("failure-count", b"3"),
            ("failure-threshold", b"-1"),
            ("failed-output", &gzip(&outputs.to_string())),
            ("probe-statuses", br#"{"etcd":{"healthy":true,"successCount":1},"kubelet":{"failureCount":4}}"#),
        ]));
        assert!(read.agent_has_answered());
        assert_eq!((read.failure_count, read.failure_threshold, read.instructions), (Some(3), Some(-1), Some(0)));
        let output = read.failed_output.expect("output");
        assert!(output.starts_with("install: error while staging: no route"), "{output}");
        assert!(!output.contains("hunter2"), "{output}");
        let probes = read.probes.expect("probes");
        assert!(probes["etcd"].healthy && !probes["kubelet"].healthy);
    }

    #[test]
    fn hostile_outputs_are_bounded() {
        let long = "é".repeat(100_000);
        for packed in [gzip(&long), long.clone().into_bytes(), gzip("x")[..8].to_vec(), vec![0x1f, 0x8b, 0, 1]] {
            assert!(output(&packed).len() <= KEPT_OUTPUT);
        }
    }
}
