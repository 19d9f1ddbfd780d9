//! Rancher's leader election as it stands in the snapshot: the record in the Lease, how it moved between two looks, and
//! the timings the Deployment configures.

use std::time::Duration;

use rancher_common::kinds::{Deployment, LEASES, Lease};
use rancher_common::resource::ObjectRef;
use rancher_common::snapshot::{Content, Snapshot};
use rancher_common::time::{Timestamp, between, parse_duration};
use serde::Deserialize as _;
use serde_json::Value;

use super::replicas;
use crate::needs;

/// Namespace of Rancher's Lease (rancher/rancher pkg/wrangler/context.go: an empty namespace becomes `kube-system`,
/// rancher/wrangler pkg/leader/manager.go).
pub(crate) const LEASE_NAMESPACE: &str = "kube-system";
/// Name of Rancher's Lease (rancher/rancher pkg/wrangler/context.go).
pub(crate) const LEASE_NAME: &str = "cattle-controllers";

/// Largest factor by which client-go stretches the pause between two attempts to acquire: 1 + `JitterFactor` 1.2
/// (kubernetes/client-go tools/leaderelection/leaderelection.go).
const JITTER: f64 = 2.2;
/// `leaseDurationSeconds` that `CATTLE_DEV_MODE` leads to: 45 h (rancher/wrangler pkg/leader/leader.go).
const DEV_LEASE: Duration = Duration::from_secs(45 * 3600);
/// Renew deadline that `CATTLE_DEV_MODE` leads to: 30 h (rancher/wrangler pkg/leader/leader.go).
const DEV_DEADLINE: Duration = Duration::from_secs(30 * 3600);
const DEFAULT_LEASE: Duration = Duration::from_secs(45);
const DEFAULT_DEADLINE: Duration = Duration::from_secs(30);
const DEFAULT_RETRY: Duration = Duration::from_secs(2);

/// The environment variables that wrangler reads (rancher/wrangler pkg/leader/leader.go).
const DEV_MODE: &str = "CATTLE_DEV_MODE";
const LEASE_DURATION: &str = "CATTLE_ELECTION_LEASE_DURATION";
const RENEW_DEADLINE: &str = "CATTLE_ELECTION_RENEW_DEADLINE";
const RETRY_PERIOD: &str = "CATTLE_ELECTION_RETRY_PERIOD";

/// The timings a replica started from this Deployment elects with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Timing {
    /// How long a record is good for.
    pub lease: Duration,
    /// How long a leader tries to renew before it gives up and exits.
    pub deadline: Duration,
    /// Pause between two renewals, and the least pause between two attempts to acquire.
    pub retry: Duration,
    /// The variables that are set, with their values.
    pub variables: Vec<(String, String)>,
}

impl Timing {
    /// As wrangler computes it from the environment; a value it cannot parse counts as not set.
    pub(crate) fn of(deployment: &Deployment) -> Self {
        let mut timing =
            Self { lease: DEFAULT_LEASE, deadline: DEFAULT_DEADLINE, retry: DEFAULT_RETRY, variables: Vec::new() };
        let container = deployment.spec.template.spec.as_ref().and_then(replicas::container);
        let Some(variables) = container.and_then(|container| container.env.as_ref()) else {
            return timing;
        };
        for name in [DEV_MODE, LEASE_DURATION, RENEW_DEADLINE, RETRY_PERIOD] {
            // The last of several wins, as in a process's environment that the kubelet builds.
            let value = variables.iter().rev().find(|variable| variable.name == name).and_then(|v| v.value.as_deref());
            let Some(value) = value.filter(|value| !value.is_empty()) else {
                continue;
            };
            timing.variables.push((name.to_owned(), value.to_owned()));
            if name == DEV_MODE {
                (timing.lease, timing.deadline) = (DEV_LEASE, DEV_DEADLINE);
            } else if let Ok(duration) = parse_duration(value)
                && !duration.is_zero()
            {
                match name {
                    LEASE_DURATION => timing.lease = duration,
                    RENEW_DEADLINE => timing.deadline = duration,
                    _ => timing.retry = duration,
                }
            }
        }
        timing
    }

    /// Age of the last renewal from which a second look is worth its time.
    fn doubtful_age(&self) -> Duration {
        self.retry.saturating_mul(5).max(Duration::from_secs(10))
    }

    /// Pause between two looks in which a live leader must have renewed and a live candidate must have tried.
    pub(crate) fn pause(&self) -> Duration {
        if self.retry == DEFAULT_RETRY {
            // One renewal takes 2 s, the longest pause of a candidate is 4.4 s.
            return Duration::from_secs(6);
        }
        self.retry.mul_f64(2.5 * JITTER).clamp(Duration::from_secs(6), Duration::from_secs(120))
    }

    /// After a record has run out: how long a candidate may still sleep, and a little for the request itself.
    pub(crate) fn grace(&self) -> Duration {
        self.retry.mul_f64(JITTER) + Duration::from_secs(5)
    }

    /// The longest that the leader who wrote this record goes on leading after its last renewal. What its environment
    /// was is known only from the record; client-go demands that the deadline is below the duration
    /// (kubernetes/client-go tools/leaderelection/leaderelection.go, `NewLeaderElector`).
    pub(crate) fn deadline_of(&self, record: &Record) -> Duration {
        let Some(duration) = record.duration() else {
            return DEFAULT_DEADLINE;
        };
        if duration == self.lease {
            self.deadline.min(duration)
        } else if duration == DEV_LEASE {
            DEV_DEADLINE
        } else if duration == DEFAULT_LEASE {
            DEFAULT_DEADLINE
        } else {
            duration
        }
    }
}

/// What the Lease says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    /// Who holds it; empty when it was released.
    pub holder: String,
    /// Seconds it is good for after a candidate saw it change.
    pub seconds: Option<i32>,
    /// Since when the holder leads.
    pub acquired: Option<Timestamp>,
    /// Last renewal, on the holder's clock.
    pub renewed: Option<Timestamp>,
    /// How often the leader changed.
    pub transitions: i32,
    /// The object itself.
    pub raw: Value,
}

impl Record {
    fn of(raw: &Value) -> Result<Self, String> {
        let lease = Lease::deserialize(raw).map_err(|error| error.to_string())?;
        let spec = lease.spec.unwrap_or_default();
        Ok(Self {
            holder: spec.holder_identity.unwrap_or_default(),
            seconds: spec.lease_duration_seconds,
            acquired: spec.acquire_time.map(|time| time.0),
            renewed: spec.renew_time.map(|time| time.0),
            transitions: spec.lease_transitions.unwrap_or_default(),
            raw: raw.clone(),
        })
    }

    /// The recorded duration; none or zero means that the record has run out at once
    /// (kubernetes/client-go tools/leaderelection/leaderelection.go, `isLeaseValid`).
    pub(crate) fn duration(&self) -> Option<Duration> {
        self.seconds.and_then(|seconds| u64::try_from(seconds).ok()).filter(|s| *s > 0).map(Duration::from_secs)
    }

    /// UID of the Lease.
    pub(crate) fn uid(&self) -> Option<&str> {
        self.raw["metadata"]["uid"].as_str()
    }

    /// Whether both are the same record: what candidates compare is the serialised record, which is these fields.
    fn same(&self, other: &Self) -> bool {
        (&self.holder, self.seconds, self.acquired, self.renewed, self.transitions, self.uid())
            == (&other.holder, other.seconds, other.acquired, other.renewed, other.transitions, other.uid())
    }
}

/// One reading of the Lease.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Look {
    /// When, on the API server's clock.
    pub at: Timestamp,
    /// What it said; none when there is no Lease.
    pub record: Option<Record>,
}

/// The first and the newest reading of the Lease, the same one if there is only one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Looks {
    pub first: Look,
    pub last: Look,
}

impl Looks {
    /// From the snapshot. `None` when the Lease was not read or its newest reading failed; a Lease of another shape is
    /// an error.
    pub(crate) fn of(snapshot: &Snapshot) -> Result<Option<Self>, String> {
        let want = needs::lease();
        let mut looks = Vec::new();
        for reading in snapshot.readings_of(&want) {
            let record = match &reading.content {
                Content::Objects(objects) => objects.first().map(Record::of).transpose()?,
                Content::Absent | Content::NotServed => None,
                Content::Text(_) | Content::Count(_) | Content::Table(_) | Content::Failed(_) => {
                    looks.clear();
                    continue;
                }
            };
            looks.push(Look { at: reading.at, record });
        }
        let failed_last = snapshot.readings_of(&want).next_back().is_some_and(|reading| {
            matches!(reading.content, Content::Failed(_) | Content::Text(_) | Content::Count(_) | Content::Table(_))
        });
        Ok(match (failed_last, looks.first(), looks.last()) {
            (false, Some(first), Some(last)) => Some(Self { first: first.clone(), last: last.clone() }),
            _ => None,
        })
    }

    /// Whether the first look leaves a doubt that only a second one resolves.
    pub(crate) fn doubtful(&self, timing: &Timing, is_replica: impl Fn(&str) -> bool) -> bool {
        let Some(record) = &self.first.record else {
            return true;
        };
        let Some(renewed) = record.renewed else {
            return true;
        };
        record.holder.is_empty()
            || !is_replica(&record.holder)
            || between(renewed, self.first.at) > timing.doubtful_age()
            || between(self.first.at, renewed) > Duration::from_secs(5)
    }

    /// Time between the two looks.
    pub(crate) fn apart(&self) -> Duration {
        between(self.first.at, self.last.at)
    }

    /// Whether both looks saw the same.
    fn unmoved(&self) -> bool {
        match (&self.first.record, &self.last.record) {
            (None, None) => true,
            (Some(first), Some(last)) => first.same(last),
            _ => false,
        }
    }
}

/// How the election stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Election {
    /// Not to be judged from what was read.
    Unknown,
    /// The Lease is missing (`None`) or released, and both looks saw it so.
    Free(Option<Record>),
    /// The Lease has become free between the two looks.
    JustFreed,
    /// Somebody holds and renews it.
    Renewing(Record),
    /// Somebody is named as holder, and both looks saw the same record.
    Still(Record),
}

impl Election {
    /// What two looks say, or one look without a doubt.
    pub(crate) fn of(looks: &Looks, timing: &Timing, is_replica: impl Fn(&str) -> bool) -> Self {
        let doubtful = looks.doubtful(timing, is_replica);
        if doubtful && looks.apart() < timing.pause() {
            return Self::Unknown;
        }
        match (&looks.last.record, looks.unmoved()) {
            (None, true) => Self::Free(None),
            (Some(record), true) if record.holder.is_empty() => Self::Free(Some(record.clone())),
            (Some(record), false) if record.holder.is_empty() => {
                let was_free = looks.first.record.as_ref().is_none_or(|first| first.holder.is_empty());
                if was_free { Self::Free(Some(record.clone())) } else { Self::JustFreed }
            }
            (None, false) => {
                let was_free = looks.first.record.as_ref().is_some_and(|first| first.holder.is_empty());
                if was_free { Self::Free(None) } else { Self::JustFreed }
            }
            (Some(record), true) if doubtful || looks.apart() >= timing.pause() => Self::Still(record.clone()),
            (Some(record), _) => Self::Renewing(record.clone()),
        }
    }
}

/// The Lease as the subject of a finding.
pub(crate) fn subject(record: Option<&Record>) -> ObjectRef {
    let mut subject = ObjectRef::new(&LEASES, Some(LEASE_NAMESPACE), LEASE_NAME);
    subject.uid = record.and_then(|record| record.uid()).map(str::to_owned);
    subject
}
