//! Reading from a live cluster: concurrently, paged, tolerant. What fails becomes part of the snapshot.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt as _;
use serde_json::Value;

use super::{Content, Failure, Form, Need, Origin, Place, Reading, Snapshot, Table, Want, redact_object, redact_text};
use crate::kube::client::{ACCEPT_METADATA_LIST, ACCEPT_TABLE, Answer, Api};
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

/// Reads what is needed, here and in downstream clusters. Remembers what it has learned of the servers between
/// snapshots: the clock of this one and the versions of the kinds each serves.
#[derive(Debug)]
pub struct Collector {
    here: Endpoint,
    downstream: Option<Endpoint>,
    /// By cluster id, made when first asked for.
    proxied: Mutex<BTreeMap<String, Arc<Endpoint>>>,
    skew_seconds: Mutex<Option<i64>>,
    thorough: bool,
}

/// One API server.
#[derive(Debug)]
struct Endpoint {
    api: Api,
    versions: Mutex<BTreeMap<String, Option<String>>>,
}

impl Endpoint {
    fn new(api: Api) -> Self {
        Self { api, versions: Mutex::new(BTreeMap::new()) }
    }
}

impl Collector {
    /// A collector for the cluster of `--context`.
    #[must_use]
    pub fn new(api: Api) -> Self {
        Self {
            here: Endpoint::new(api),
            downstream: None,
            proxied: Mutex::new(BTreeMap::new()),
            skew_seconds: Mutex::new(None),
            thorough: false,
        }
    }

    /// Also knows the downstream cluster that was named on the command line.
    #[must_use]
    pub fn with_downstream(mut self, api: Api) -> Self {
        self.downstream = Some(Endpoint::new(api));
        self
    }

    /// Takes whole objects where less would do, and no secrets: a saved snapshot must answer questions that nobody has
    /// asked yet, and is handed on.
    #[must_use]
    pub fn thorough(mut self) -> Self {
        self.thorough = true;
        self
    }

    /// The client of the cluster of `--context`.
    #[must_use]
    pub fn api(&self) -> &Api {
        &self.here.api
    }

    /// The time on the API server's clock, as far as it is known.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let skew = lock(&self.skew_seconds).unwrap_or(0);
        Timestamp::now().checked_add(jiff::SignedDuration::from_secs(skew)).unwrap_or_else(|_| Timestamp::now())
    }

    /// Does something with the server of a place.
    async fn with<T>(
        &self,
        place: &Place,
        work: impl AsyncFnOnce(&Endpoint) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let unreachable = |why: &str| ApiError::new(ApiErrorKind::Unreachable, place.to_string(), why);
        match place {
            Place::Here => work(&self.here).await,
            Place::Downstream => match &self.downstream {
                Some(endpoint) => work(endpoint).await,
                None => Err(unreachable("no --downstream-context was given")),
            },
            Place::Proxied(id) => {
                let known = lock(&self.proxied).get(id).cloned();
                let endpoint = match known {
                    Some(endpoint) => endpoint,
                    None => {
                        let api = self
                            .here
                            .api
                            .behind_rancher(id)
                            .ok_or_else(|| unreachable("this connection does not pass through Rancher's proxy"))?;
                        let endpoint = Arc::new(Endpoint::new(api));
                        lock(&self.proxied).insert(id.clone(), Arc::clone(&endpoint));
                        endpoint
                    }
                };
                work(&endpoint).await
            }
        }
    }

    /// A need as this collector meets it.
    fn as_collected(&self, mut need: Need) -> Need {
        if self.thorough {
            need.want = need.want.in_full();
            need.reveal = false;
        }
        need
    }

    /// Takes a snapshot: asks `needs` what to read given what is known, reads it, and asks again until it wants nothing
    /// new. A second look waits until it is due.
    pub async fn snapshot(&self, origin: &Origin, needs: impl Fn(&Snapshot) -> Vec<Need>) -> Snapshot {
        let mut snapshot = Snapshot::new(origin.clone(), self.now());
        for _ in 0..ROUNDS {
            let open: Vec<Need> = needs(&snapshot).into_iter().map(|need| self.as_collected(need)).collect();
            let open = distinct(open.into_iter().filter(|need| !snapshot.answers(need)));
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
            // A long answer does not keep the next question waiting; the order of the questions is that of the snapshot.
            let reads = batch.iter().enumerate().map(|(index, need)| async move { (index, self.read(need).await) });
            let mut readings: Vec<(usize, Reading)> =
                futures::stream::iter(reads).buffer_unordered(CONCURRENCY).collect().await;
            readings.sort_by_key(|(index, _)| *index);
            snapshot.readings.extend(readings.into_iter().map(|(_, reading)| reading));
            snapshot.as_of = self.now();
        }
        snapshot.origin.clock_skew_seconds = lock(&self.skew_seconds).unwrap_or(0);
        snapshot
    }

    /// How long to wait before this may be read.
    fn pause(&self, snapshot: &Snapshot, need: &Need) -> Duration {
        let (Some(pause), Some(first)) = (need.again_after, snapshot.at(&need.place).readings_of(&need.want).next())
        else {
            return Duration::ZERO;
        };
        // A little more than asked for: the times compared are those of the answers.
        between(self.now(), after(first.at, pause + Duration::from_millis(50)))
    }

    /// Reads one thing.
    async fn read(&self, need: &Need) -> Reading {
        let content = self.content(need).await.unwrap_or_else(|error| match (error.kind, &need.want) {
            (ApiErrorKind::NotFound, _) => Content::Absent,
            (ApiErrorKind::NoSuchResource, Want::Get { .. } | Want::List { .. } | Want::Kinds { .. }) => {
                Content::NotServed
            }
            _ => Content::Failed(failure(&error)),
        });
        Reading {
            want: need.want.clone(),
            place: need.place.clone(),
            at: self.now(),
            required: need.required,
            why: need.why.clone().into_owned(),
            content,
        }
    }

    async fn content(&self, need: &Need) -> Result<Content, ApiError> {
        self.with(&need.place, async |endpoint| self.content_from(endpoint, need).await).await
    }

    async fn content_from(&self, endpoint: &Endpoint, need: &Need) -> Result<Content, ApiError> {
        let api = &endpoint.api;
        let body_of = |answer: Answer| self.body(&need.place, answer);
        match &need.want {
            Want::Get { resource, namespace, name } => {
                let Some(path) = self.path(endpoint, resource, namespace.as_deref(), Some(name)).await? else {
                    return Ok(Content::NotServed);
                };
                let mut body = body_of(api.get(&path).await?);
                if !need.reveal {
                    redact_object(resource, &mut body);
                }
                Ok(Content::Objects(vec![body]))
            }
            Want::List { resource, namespace, selector, fields, form } => {
                let Some(path) = self.path(endpoint, resource, namespace.as_deref(), None).await? else {
                    return Ok(Content::NotServed);
                };
                let mut query = Vec::new();
                query.extend(selector.as_deref().map(|selector| ("labelSelector", selector)));
                query.extend(fields.as_deref().map(|fields| ("fieldSelector", fields)));
                let accept = match form {
                    Form::Count => return Ok(Content::Count(api.count(&with_query(&path, &query)).await?)),
                    Form::Full => None,
                    Form::Metadata => Some(ACCEPT_METADATA_LIST),
                    Form::Table => {
                        query.push(("includeObject", "None"));
                        let rows_of = async |selector: Option<&str>| {
                            let mut query = query.clone();
                            query.extend(selector.map(|selector| ("labelSelector", selector)));
                            // In one piece: rows are small, and the server makes each page from a list of its own.
                            let answer = api.get_as(&with_query(&path, &query), ACCEPT_TABLE).await?;
                            Ok::<_, ApiError>(Table::of_answer(self.body(&need.place, answer)))
                        };
                        let Some(label) = need.halved_by.filter(|_| selector.is_none()) else {
                            return Ok(Content::Table(rows_of(None).await?));
                        };
                        let without = format!("!{label}");
                        let (with, without) =
                            futures::try_join!(rows_of(Some(label)), rows_of(Some(without.as_str())))?;
                        // A server that was exchanged in between may show other columns.
                        return Ok(Content::Table(match with.joined(without) {
                            Some(joined) => joined,
                            None => rows_of(None).await?,
                        }));
                    }
                };
                let mut body = body_of(api.list(&with_query(&path, &query), accept, PAGE).await?);
                let mut items = match body.get_mut("items").map(Value::take) {
                    Some(Value::Array(items)) => items,
                    _ => Vec::new(),
                };
                for item in &mut items {
                    redact_object(resource, item);
                }
                Ok(Content::Objects(items))
            }
            Want::Kinds { group, version } => {
                let mut body = body_of(api.get(&format!("/apis/{group}/{version}")).await?);
                Ok(Content::Objects(match body["resources"].take() {
                    Value::Array(kinds) => kinds,
                    _ => Vec::new(),
                }))
            }
            Want::Log { namespace, pod, container, previous, lines } => {
                let path = resource_path("", "v1", "pods", Some(namespace), Some(pod), Some("log"));
                let lines = lines.to_string();
                let mut query =
                    vec![("container", container.as_str()), ("tailLines", lines.as_str()), ("timestamps", "true")];
                if *previous {
                    query.push(("previous", "true"));
                }
                match api.text(&with_query(&path, &query), LOG_BYTES).await {
                    Ok((text, _)) => Ok(Content::Text(redact_text(&text).into_owned())),
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
        endpoint: &Endpoint,
        resource: &ResourceType,
        namespace: Option<&str>,
        name: Option<&str>,
    ) -> Result<Option<String>, ApiError> {
        Ok(self
            .version_at(endpoint, resource)
            .await?
            .map(|version| resource_path(&resource.group, &version, &resource.plural, namespace, name, None)))
    }

    /// The version to ask the cluster of `--context` for: the only one in use, or the first of several that it serves.
    ///
    /// # Errors
    /// When the server's list of versions cannot be read.
    pub async fn version(&self, resource: &ResourceType) -> Result<Option<String>, ApiError> {
        self.version_at(&self.here, resource).await
    }

    async fn version_at(&self, endpoint: &Endpoint, resource: &ResourceType) -> Result<Option<String>, ApiError> {
        if !resource.version.contains(',') {
            return Ok(Some(resource.version.clone().into_owned()));
        }
        let key = resource.full_name();
        if let Some(known) = lock(&endpoint.versions).get(&key) {
            return Ok(known.clone());
        }
        let served = match endpoint.api.get(&format!("/apis/{}", resource.group)).await {
            Ok(answer) => answer.body,
            Err(error) if matches!(error.kind, ApiErrorKind::NotFound | ApiErrorKind::NoSuchResource) => Value::Null,
            Err(error) => return Err(error),
        };
        let serves = |version: &str| {
            served["versions"].as_array().is_some_and(|all| all.iter().any(|v| v["version"].as_str() == Some(version)))
        };
        let version = resource.version.split(',').map(str::trim).find(|version| serves(version)).map(str::to_owned);
        lock(&endpoint.versions).insert(key, version.clone());
        Ok(version)
    }

    /// Learns the clock of the cluster of `--context`, which ages are told by, from an answer and hands on its body.
    fn body<T>(&self, place: &Place, answer: Answer<T>) -> T {
        let mut known = lock(&self.skew_seconds);
        if place.is_here()
            && known.is_none()
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

/// The same question twice is asked once, and is required if it is required by one of them.
fn distinct(needs: impl Iterator<Item = Need>) -> Vec<Need> {
    let mut at: HashMap<(Place, Want), usize> = HashMap::new();
    let mut open: Vec<Need> = Vec::new();
    for need in needs {
        match at.entry((need.place.clone(), need.want.clone())) {
            Entry::Occupied(known) => {
                let other = &mut open[*known.get()];
                other.required |= need.required;
                other.reveal |= need.reveal;
                other.again_after = other.again_after.max(need.again_after);
                other.halved_by = other.halved_by.or(need.halved_by);
            }
            Entry::Vacant(new) => {
                new.insert(open.len());
                open.push(need);
            }
        }
    }
    open
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::PODS;

    #[test]
    fn the_same_question_to_two_clusters_is_asked_twice() {
        let need = || Need::optional(Want::list(PODS, None, Form::Full), "why");
        let downstream = Place::Proxied("c-m-1".into());
        let open = distinct([need(), need().at(&downstream), Need { required: true, ..need() }].into_iter());
        assert_eq!(open.len(), 2);
        assert!(open[0].required && !open[1].required);
        assert_eq!(open[1].place, downstream);
    }
}
