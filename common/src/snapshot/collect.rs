//! Reading from a live cluster: concurrently, paged, tolerant. What fails becomes part of the snapshot.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use futures::StreamExt as _;
use serde_json::Value;

use super::{Content, Failure, Form, Need, Origin, Reading, Snapshot, Want, redact_object, redact_text};
use crate::kube::client::{ACCEPT_METADATA_LIST, Answer, Api};
use crate::kube::error::{ApiError, ApiErrorKind};
use crate::kube::path::{resource_path, with_query};
use crate::resource::ResourceType;
use crate::time::{Timestamp, after, between};

/// Reads under way at once. HTTP/1.1 carries one at a time on a connection, and each new connection costs a TLS
/// handshake.
const CONCURRENCY: usize = 8;
/// Objects per page of a list, as kubectl asks for.
const PAGE: usize = 500;
/// Largest log tail, in bytes.
const LOG_BYTES: usize = 2 << 20;
/// Rounds of asking after which something must be wrong with the questions.
const ROUNDS: usize = 16;
/// Below this many seconds the clocks count as equal: `Date` has whole seconds and the answer has travelled.
const SKEW_TOLERANCE: i64 = 2;

/// Reads what is needed. Remembers what it has learned of the server between snapshots: its clock and the versions of
/// the kinds it serves.
#[derive(Debug)]
pub struct Collector {
    api: Api,
    skew_seconds: Mutex<Option<i64>>,
    versions: Mutex<BTreeMap<String, Option<String>>>,
}

impl Collector {
    /// A collector for one server.
    #[must_use]
    pub fn new(api: Api) -> Self {
        Self { api, skew_seconds: Mutex::new(None), versions: Mutex::new(BTreeMap::new()) }
    }

    /// The client.
    #[must_use]
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// The time on the API server's clock, as far as it is known.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let skew = lock(&self.skew_seconds).unwrap_or(0);
        Timestamp::now().checked_add(jiff::SignedDuration::from_secs(skew)).unwrap_or_else(|_| Timestamp::now())
    }

    /// Takes a snapshot: asks `needs` what to read given what is known, reads it, and asks again until it wants nothing
    /// new. A second look waits until it is due.
    pub async fn snapshot(&self, origin: &Origin, needs: impl Fn(&Snapshot) -> Vec<Need>) -> Snapshot {
        let mut snapshot = Snapshot::new(origin.clone(), self.now());
        for _ in 0..ROUNDS {
            let open: Vec<Need> = needs(&snapshot).into_iter().filter(|need| !snapshot.answers(need)).fold(
                Vec::new(),
                |mut open, need| {
                    // The same question twice is asked once, and is required if it is required by one of them.
                    match open.iter_mut().find(|other: &&mut Need| other.want == need.want) {
                        Some(other) => {
                            other.required |= need.required;
                            other.again_after = other.again_after.max(need.again_after);
                        }
                        None => open.push(need),
                    }
                    open
                },
            );
            if open.is_empty() {
                break;
            }
            // What can be read now is read first, so that the pause before a second look is not lost time.
            let (due, later): (Vec<Need>, Vec<Need>) =
                open.into_iter().partition(|need| self.pause(&snapshot, need).is_zero());
            let batch = if due.is_empty() {
                let pause = later.iter().map(|need| self.pause(&snapshot, need)).max().unwrap_or_default();
                tokio::time::sleep(pause).await;
                later
            } else {
                due
            };
            let readings: Vec<Reading> =
                futures::stream::iter(batch.iter().map(|need| self.read(need))).buffered(CONCURRENCY).collect().await;
            snapshot.readings.extend(readings);
            snapshot.as_of = self.now();
        }
        snapshot.origin.clock_skew_seconds = lock(&self.skew_seconds).unwrap_or(0);
        snapshot
    }

    /// How long to wait before this may be read.
    fn pause(&self, snapshot: &Snapshot, need: &Need) -> Duration {
        let (Some(pause), Some(first)) = (need.again_after, snapshot.readings_of(&need.want).next()) else {
            return Duration::ZERO;
        };
        // A little more than asked for: the times compared are those of the answers.
        between(self.now(), after(first.at, pause + Duration::from_millis(50)))
    }

    /// Reads one thing.
    async fn read(&self, need: &Need) -> Reading {
        let content = self.content(&need.want).await.unwrap_or_else(|error| match (error.kind, &need.want) {
            (ApiErrorKind::NotFound, _) => Content::Absent,
            (ApiErrorKind::NoSuchResource, Want::Get { .. } | Want::List { .. }) => Content::NotServed,
            _ => Content::Failed(failure(&error)),
        });
        Reading {
            want: need.want.clone(),
            at: self.now(),
            required: need.required,
            why: need.why.clone().into_owned(),
            content,
        }
    }

    async fn content(&self, want: &Want) -> Result<Content, ApiError> {
        match want {
            Want::Get { resource, namespace, name } => {
                let Some(path) = self.path(resource, namespace.as_deref(), Some(name)).await? else {
                    return Ok(Content::NotServed);
                };
                let mut body = self.remember_clock(self.api.get(&path).await?);
                redact_object(resource, &mut body);
                Ok(Content::Objects(vec![body]))
            }
            Want::List { resource, namespace, selector, form } => {
                let Some(path) = self.path(resource, namespace.as_deref(), None).await? else {
                    return Ok(Content::NotServed);
                };
                let path = match selector {
                    Some(selector) => with_query(&path, &[("labelSelector", selector)]),
                    None => path,
                };
                let accept = match form {
                    Form::Full => None,
                    Form::Metadata => Some(ACCEPT_METADATA_LIST),
                };
                let mut body = self.remember_clock(self.api.list(&path, accept, PAGE).await?);
                let mut items = match body.get_mut("items").map(Value::take) {
                    Some(Value::Array(items)) => items,
                    _ => Vec::new(),
                };
                for item in &mut items {
                    redact_object(resource, item);
                }
                Ok(Content::Objects(items))
            }
            Want::Log { namespace, pod, container, previous, lines } => {
                let path = resource_path("", "v1", "pods", Some(namespace), Some(pod), Some("log"));
                let lines = lines.to_string();
                let mut query =
                    vec![("container", container.as_str()), ("tailLines", lines.as_str()), ("timestamps", "true")];
                if *previous {
                    query.push(("previous", "true"));
                }
                match self.api.text(&with_query(&path, &query), LOG_BYTES).await {
                    Ok((text, _)) => Ok(Content::Text(redact_text(&text))),
                    // 400 is how the server says that there is no such log: the container has not started, or has no
                    // previous run (kubernetes/kubernetes pkg/registry/core/pod/strategy.go, LogLocation).
                    Err(error) if error.code == Some(400) => Ok(Content::Absent),
                    Err(error) => Err(error),
                }
            }
        }
    }

    /// The URL path of an object or a collection; `None` when the server does not serve the kind.
    async fn path(
        &self,
        resource: &ResourceType,
        namespace: Option<&str>,
        name: Option<&str>,
    ) -> Result<Option<String>, ApiError> {
        Ok(self
            .version(resource)
            .await?
            .map(|version| resource_path(&resource.group, &version, &resource.plural, namespace, name, None)))
    }

    /// The version to ask for: the only one in use, or the first of several that the server serves.
    ///
    /// # Errors
    /// When the server's list of versions cannot be read.
    pub async fn version(&self, resource: &ResourceType) -> Result<Option<String>, ApiError> {
        if !resource.version.contains(',') {
            return Ok(Some(resource.version.clone().into_owned()));
        }
        let key = resource.full_name();
        if let Some(known) = lock(&self.versions).get(&key) {
            return Ok(known.clone());
        }
        let served = match self.api.get(&format!("/apis/{}", resource.group)).await {
            Ok(answer) => self.remember_clock(answer),
            Err(error) if matches!(error.kind, ApiErrorKind::NotFound | ApiErrorKind::NoSuchResource) => Value::Null,
            Err(error) => return Err(error),
        };
        let serves = |version: &str| {
            served["versions"].as_array().is_some_and(|all| all.iter().any(|v| v["version"].as_str() == Some(version)))
        };
        let version = resource.version.split(',').map(str::trim).find(|version| serves(version)).map(str::to_owned);
        lock(&self.versions).insert(key, version.clone());
        Ok(version)
    }

    /// Learns the server's clock from an answer and hands on its body.
    fn remember_clock(&self, answer: Answer) -> Value {
        let mut known = lock(&self.skew_seconds);
        if known.is_none()
            && let Some(date) = answer.date
        {
            // Half-way between sending and receiving; `Date` is cut to whole seconds, so half a second is missing.
            let local = answer.sent_at.as_millisecond().midpoint(answer.received_at.as_millisecond());
            let skew = (date.as_millisecond() + 500 - local).div_euclid(1000);
            *known = Some(if skew.abs() < SKEW_TOLERANCE { 0 } else { skew });
        }
        answer.body
    }
}

/// Poisoning would mean a panic while a number was stored: the number is still good.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A failed call as part of a snapshot.
#[must_use]
pub fn failure(error: &ApiError) -> Failure {
    Failure {
        kind: format!("{:?}", error.kind),
        code: error.code,
        message: error.message.clone(),
        hint: error.hint.clone(),
    }
}
