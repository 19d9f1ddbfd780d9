//! What was read from a cluster, or from a saved copy of one: raw objects as served, log tails, and what could not be
//! read with the reason. Diagnosis is a pure function of this.

mod bundle;
mod collect;
mod machine_plan;
mod need;
mod redact;
mod table;

pub use bundle::{BundleError, load, save};
pub use collect::{Collector, failure};
pub use machine_plan::{MACHINE_PLAN, MACHINE_PLAN_TYPE, MachinePlan, ProbeStatus};
pub use need::{Form, Need, Place, Right, Want};
pub use redact::{redact_object, redact_text};
pub use table::Table;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::resource::ResourceType;
use crate::time::Timestamp;

/// Where the snapshot was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Origin {
    /// kubeconfig context, if one was used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// URL of the API server.
    pub server: String,
    /// Id of the cluster when the connection passes through Rancher's own proxy (`…/k8s/clusters/<id>`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rancher_proxy: Option<String>,
    /// Other contexts of the kubeconfig, to name the ones that may have been meant.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_contexts: Vec<String>,
    /// The downstream cluster that was named on the command line, if one was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub downstream: Option<DownstreamOrigin>,
    /// Seconds the API server's clock is ahead of ours (negative: behind), from its `Date` header, which has whole
    /// seconds; below two seconds it is taken for none.
    #[serde(skip_serializing_if = "is_zero")]
    pub clock_skew_seconds: i64,
}

/// See [`Origin::downstream`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DownstreamOrigin {
    /// kubeconfig context, if one was used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// URL of its API server.
    pub server: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// Why something could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// Kind of the failure in one word, for instance `Forbidden`, `Timeout`, `NotInSnapshot`.
    pub kind: String,
    /// HTTP status, if an answer came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<u16>,
    /// One line for people; holds no secret.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// What a reading found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Content {
    /// The objects of a list, or the one object that was asked for.
    Objects(Vec<Value>),
    /// The rows of a list, without the objects.
    Table(Table),
    /// How many objects a list has, without them.
    Count(usize),
    /// The object does not exist: the server said 404 for it.
    Absent,
    /// The server does not know this kind of object.
    NotServed,
    /// Log lines.
    Text(String),
    /// It could not be read.
    Failed(Failure),
}

/// One thing that was asked, and the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reading {
    /// What was asked.
    pub want: Want,
    /// Which cluster was asked.
    #[serde(default, skip_serializing_if = "Place::is_here")]
    pub place: Place,
    /// When the answer came, on the API server's clock.
    pub at: Timestamp,
    /// Whether the diagnosis depends on it.
    pub required: bool,
    /// What it was asked for.
    pub why: String,
    /// The answer.
    pub content: Content,
}

/// Why a question to the snapshot has no answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Unread<'a> {
    /// Nobody has asked yet.
    NotAsked,
    /// It was asked and could not be read.
    Failed(&'a Failure),
    /// It was read, but does not have the shape it should have.
    Malformed(String),
}

impl std::fmt::Display for Unread<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotAsked => write!(f, "not read"),
            Self::Failed(failure) => write!(f, "{}", failure.message),
            Self::Malformed(message) => write!(f, "unexpected shape: {message}"),
        }
    }
}

/// An answer of three outcomes: there (`Ok(Some)`), proven absent (`Ok(None)`), unknown (`Err`).
pub type Seen<'a, T> = Result<Option<T>, Unread<'a>>;

/// A kind of object that can be read into a minimal struct: all fields optional, unknown fields ignored.
pub trait Kind: DeserializeOwned {
    /// The kind as the API server knows it.
    const RESOURCE: ResourceType;
}

/// Everything that was read, round by round; within a round in the order of the questions.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Where it was taken.
    pub origin: Origin,
    /// The moment the diagnosis is made for, on the API server's clock: «now» for a live cluster, the time of the last
    /// reading for a saved one unless `--as-of` says otherwise.
    pub as_of: Timestamp,
    /// All answers.
    pub readings: Vec<Reading>,
}

impl Snapshot {
    /// An empty snapshot.
    #[must_use]
    pub fn new(origin: Origin, as_of: Timestamp) -> Self {
        Self { origin, as_of, readings: Vec::new() }
    }

    /// What was read in one cluster.
    #[must_use]
    pub fn at<'a>(&'a self, place: &'a Place) -> View<'a> {
        View { readings: &self.readings, place }
    }

    /// What was read in the cluster of `--context`.
    #[must_use]
    pub fn here(&self) -> View<'_> {
        self.at(&Place::Here)
    }

    /// All answers to one question to the cluster of `--context`, oldest first.
    pub fn readings_of<'a>(&'a self, want: &'a Want) -> impl DoubleEndedIterator<Item = &'a Reading> {
        self.here().readings_of(want)
    }

    /// Whether this need has been answered, failures included: asked once, or, for a second look, asked again at least
    /// as long after the first look as it demands. Whole objects answer a question for a part of them too.
    #[must_use]
    pub fn answers(&self, need: &Need) -> bool {
        let view = self.at(&need.place);
        let mut readings = view.readings_of(&need.want);
        match (need.again_after, readings.next()) {
            (_, None) => {
                let full = need.want.in_full();
                need.again_after.is_none() && full != need.want && view.readings_of(&full).next().is_some()
            }
            (None, Some(_)) => true,
            (Some(pause), Some(first)) => {
                readings.next_back().is_some_and(|last| crate::time::between(first.at, last.at) >= pause)
            }
        }
    }

    /// See [`View::raw`], in the cluster of `--context`.
    ///
    /// # Errors
    /// When it was not asked for or could not be read.
    pub fn raw(&self, resource: &ResourceType, namespace: Option<&str>, name: &str) -> Seen<'_, &Value> {
        self.here().raw(resource, namespace, name)
    }

    /// See [`View::get`], in the cluster of `--context`.
    ///
    /// # Errors
    /// When it was not asked for, could not be read, or has another shape than its kind.
    pub fn get<K: Kind>(&self, namespace: Option<&str>, name: &str) -> Seen<'_, K> {
        self.here().get(namespace, name)
    }

    /// See [`View::list`], in the cluster of `--context`.
    ///
    /// # Errors
    /// When they were not asked for or could not be read.
    pub fn list<K: Kind>(&self, namespace: Option<&str>) -> Result<Listed<'_, K>, Unread<'_>> {
        self.here().list(namespace)
    }

    /// See [`View::raw_list`], in the cluster of `--context`.
    ///
    /// # Errors
    /// When they were not asked for or could not be read.
    pub fn raw_list(&self, resource: &ResourceType, namespace: Option<&str>) -> Result<Vec<&Value>, Unread<'_>> {
        self.here().raw_list(resource, namespace)
    }

    /// See [`View::not_served`], in the cluster of `--context`.
    #[must_use]
    pub fn not_served(&self, resource: &ResourceType) -> bool {
        self.here().not_served(resource)
    }

    /// See [`View::log`], in the cluster of `--context`.
    ///
    /// # Errors
    /// When it was not asked for or could not be read.
    pub fn log(&self, namespace: &str, pod: &str, container: &str, previous: bool) -> Seen<'_, &str> {
        self.here().log(namespace, pod, container, previous)
    }

    /// Every read that failed, newest answer per question only.
    pub fn failures(&self) -> impl Iterator<Item = (&Reading, &Failure)> {
        self.readings.iter().enumerate().filter_map(|(index, reading)| {
            let Content::Failed(failure) = &reading.content else {
                return None;
            };
            let superseded = self.readings[index + 1..]
                .iter()
                .any(|later| later.asks_the_same(reading) && !matches!(later.content, Content::Failed(_)));
            let repeated = self.readings[..index]
                .iter()
                .any(|earlier| earlier.asks_the_same(reading) && matches!(earlier.content, Content::Failed(_)));
            (!superseded && !repeated).then_some((reading, failure))
        })
    }
}

/// What was read in one cluster.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    readings: &'a [Reading],
    place: &'a Place,
}

impl<'a> View<'a> {
    /// All readings, oldest first.
    fn all(self) -> impl DoubleEndedIterator<Item = &'a Reading> {
        self.readings.iter().filter(move |reading| reading.place == *self.place)
    }

    /// All answers to one question, oldest first.
    pub fn readings_of(self, want: &Want) -> impl DoubleEndedIterator<Item = &'a Reading> {
        self.all().filter(move |reading| reading.want == *want)
    }

    /// The newest answer that covers this object: a `Get` of it, or a full `List` of its kind and namespace.
    fn newest_covering(
        self,
        resource: &ResourceType,
        namespace: Option<&str>,
        name: Option<&str>,
    ) -> Option<&'a Reading> {
        self.all()
            .rev()
            .filter(|reading| reading.want.covers(resource, namespace, name))
            // A failure does not hide an earlier or broader answer.
            .min_by_key(|reading| matches!(reading.content, Content::Failed(_)))
    }

    /// The raw object.
    ///
    /// # Errors
    /// When it was not asked for or could not be read.
    pub fn raw(self, resource: &ResourceType, namespace: Option<&str>, name: &str) -> Seen<'a, &'a Value> {
        let reading = self.newest_covering(resource, namespace, Some(name)).ok_or(Unread::NotAsked)?;
        match &reading.content {
            Content::Objects(objects) => Ok(objects.iter().find(|object| {
                object["metadata"]["name"].as_str() == Some(name)
                    && namespace.is_none_or(|ns| object["metadata"]["namespace"].as_str() == Some(ns))
            })),
            Content::Absent | Content::NotServed => Ok(None),
            Content::Text(_) | Content::Count(_) | Content::Table(_) => Err(Unread::NotAsked),
            Content::Failed(failure) => Err(Unread::Failed(failure)),
        }
    }

    /// The object, read into its struct.
    ///
    /// # Errors
    /// When it was not asked for, could not be read, or has another shape than its kind.
    pub fn get<K: Kind>(self, namespace: Option<&str>, name: &str) -> Seen<'a, K> {
        match self.raw(&K::RESOURCE, namespace, name)? {
            None => Ok(None),
            Some(object) => parse(object).map(Some),
        }
    }

    /// All objects of a kind in a namespace (or, with `None`, in the whole cluster). A malformed object is left out of
    /// the first list and named in the second.
    ///
    /// # Errors
    /// When they were not asked for or could not be read.
    pub fn list<K: Kind>(self, namespace: Option<&str>) -> Result<Listed<'a, K>, Unread<'a>> {
        let raw = self.raw_list(&K::RESOURCE, namespace)?;
        let mut listed = Listed { items: Vec::with_capacity(raw.len()), malformed: Vec::new() };
        for object in raw {
            match parse(object) {
                Ok(item) => listed.items.push(item),
                Err(problem) => listed.malformed.push((object, problem)),
            }
        }
        Ok(listed)
    }

    /// All raw objects of a kind in a namespace (or, with `None`, in the whole cluster).
    ///
    /// # Errors
    /// When they were not asked for or could not be read.
    pub fn raw_list(self, resource: &ResourceType, namespace: Option<&str>) -> Result<Vec<&'a Value>, Unread<'a>> {
        let reading = self.newest_covering(resource, namespace, None).ok_or(Unread::NotAsked)?;
        Ok(reading
            .objects()?
            .iter()
            .filter(|object| namespace.is_none_or(|ns| object["metadata"]["namespace"].as_str() == Some(ns)))
            .collect())
    }

    /// The objects of the newest answer to exactly this question (a selection, metadata), or to the same one for whole
    /// objects.
    ///
    /// # Errors
    /// When it was not asked or could not be read.
    pub fn answer(self, want: &Want) -> Result<&'a [Value], Unread<'a>> {
        self.newest_answer(want)?.objects()
    }

    /// The rows of the newest answer to this question for a table, or the whole objects of the same one.
    ///
    /// # Errors
    /// When it was not asked or could not be read.
    pub fn shown(self, want: &Want) -> Result<Shown<'a>, Unread<'a>> {
        let reading = self.newest_answer(want)?;
        match &reading.content {
            Content::Table(table) => Ok(Shown::Rows(table)),
            _ => reading.objects().map(Shown::Objects),
        }
    }

    /// An answer before a failure, the newest of them.
    fn newest_answer(self, want: &Want) -> Result<&'a Reading, Unread<'a>> {
        self.answers_to(want)
            .rev()
            .min_by_key(|reading| matches!(reading.content, Content::Failed(_)))
            .ok_or(Unread::NotAsked)
    }

    /// How many objects of a kind there are in a namespace: counted by the server, or the length of what was read.
    ///
    /// # Errors
    /// When it was not asked or could not be read.
    pub fn count(self, resource: &ResourceType, namespace: &str) -> Result<usize, Unread<'a>> {
        let want = Want::list(resource.clone(), Some(namespace), Form::Count);
        let reading = self.newest_answer(&want)?;
        match reading.content {
            Content::Count(count) => Ok(count),
            _ => reading.objects().map(<[Value]>::len),
        }
    }

    /// All answers to this question and to the same one for whole objects, oldest first.
    pub fn answers_to(self, want: &Want) -> impl DoubleEndedIterator<Item = &'a Reading> {
        let full = want.in_full();
        self.all().filter(move |reading| reading.want == *want || reading.want == full)
    }

    /// Whether the server said that it does not serve this kind at all. Unknown is `false`.
    #[must_use]
    pub fn not_served(self, resource: &ResourceType) -> bool {
        self.all()
            .any(|reading| matches!(reading.content, Content::NotServed) && reading.want.resource() == Some(resource))
    }

    /// The last lines of a container's log; `Ok(None)` when the server says there is no such log.
    ///
    /// # Errors
    /// When it was not asked for or could not be read.
    pub fn log(self, namespace: &str, pod: &str, container: &str, previous: bool) -> Seen<'a, &'a str> {
        let reading = self
            .all()
            .rev()
            .find(|reading| {
                matches!(&reading.want, Want::Log { namespace: ns, pod: p, container: c, previous: pr, .. }
                if ns == namespace && p == pod && c == container && *pr == previous)
            })
            .ok_or(Unread::NotAsked)?;
        match &reading.content {
            Content::Text(text) => Ok(Some(text)),
            Content::Failed(failure) => Err(Unread::Failed(failure)),
            _ => Ok(None),
        }
    }
}

impl Reading {
    fn asks_the_same(&self, other: &Self) -> bool {
        self.place == other.place && self.want == other.want
    }

    /// The objects it holds; none when the server has none or does not know the kind.
    fn objects(&self) -> Result<&[Value], Unread<'_>> {
        match &self.content {
            Content::Objects(objects) => Ok(objects),
            Content::Absent | Content::NotServed => Ok(&[]),
            Content::Text(_) | Content::Count(_) | Content::Table(_) => Err(Unread::NotAsked),
            Content::Failed(failure) => Err(Unread::Failed(failure)),
        }
    }
}

/// What was read of the objects of a list: their rows, or all of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shown<'a> {
    /// See [`Content::Table`].
    Rows(&'a Table),
    /// See [`Content::Objects`].
    Objects(&'a [Value]),
}

impl<'a> Shown<'a> {
    /// How many objects there are.
    #[must_use]
    pub fn count(self) -> usize {
        match self {
            Self::Rows(table) => table.rows.len(),
            Self::Objects(objects) => objects.len(),
        }
    }

    /// Their names.
    pub fn names(self) -> impl Iterator<Item = &'a str> {
        let (rows, objects) = match self {
            Self::Rows(table) => (Some(table.names()), [].as_slice()),
            Self::Objects(objects) => (None, objects),
        };
        rows.into_iter().flatten().chain(objects.iter().filter_map(|object| object["metadata"]["name"].as_str()))
    }
}

/// The objects of a list that could be read into their struct, and those that could not.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed<'a, K> {
    /// Readable objects in the order the server gave.
    pub items: Vec<K>,
    /// Raw objects of another shape, and what is wrong with each.
    pub malformed: Vec<(&'a Value, Unread<'a>)>,
}

/// Reads a raw object into its struct.
fn parse<'a, K: DeserializeOwned>(object: &Value) -> Result<K, Unread<'a>> {
    K::deserialize(object).map_err(|error| Unread::Malformed(error.to_string()))
}
