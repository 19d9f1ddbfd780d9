//! Clusters in memory: objects and logs, from which snapshots are taken in the way a plugin asks for them. Needs are
//! answered until nothing new is wanted, and a second look sees what has changed since the first.
//!
//! No API server is imitated here: there is only what a reading of a good server would have held. What a server does with
//! a request is for the tests against a real one.

use std::collections::{BTreeMap, BTreeSet};

use rancher_common::kinds::PODS;
use rancher_common::resource::ResourceType;
use rancher_common::snapshot::{
    Content, Failure, Form, Need, Origin, Place, Reading, Snapshot, Table, Want, redact_object, redact_text,
};
use rancher_common::time::{Timestamp, after, between, human};
use serde_json::{Value, json};

/// Rounds of asking after which something must be wrong with the questions.
const ROUNDS: usize = 12;

/// Where a server takes a cell of `kubectl get` from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// A field, by JSON pointer.
    Field(&'static str),
    /// The status of a condition in `/status/conditions`.
    Condition(&'static str),
    /// The first of `/status/addresses` of this type.
    Address(&'static str),
    /// Time since the creation.
    Age,
}

/// The columns of a kind behind its name.
pub type Columns = &'static [(&'static str, Cell)];

/// One object of one cluster.
#[derive(Clone, Debug)]
struct Later {
    place: Place,
    resource: ResourceType,
    namespace: String,
    name: String,
    /// None when it has been deleted.
    object: Option<Value>,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Memory {
    /// The moment of the first reading.
    pub start: Timestamp,
    /// The connection.
    pub origin: Origin,
    /// Everything in the cluster of `--context`.
    pub objects: Vec<(ResourceType, Value)>,
    /// Everything in other clusters. A place that is not here cannot be reached.
    pub others: BTreeMap<Place, Vec<(ResourceType, Value)>>,
    /// What is different at a second look.
    later: Vec<Later>,
    /// Pod and whether it is the previous run's, with the log.
    pub logs: BTreeMap<(String, bool), String>,
    /// Kinds that the server does not know, by plural or by full name.
    pub not_served: BTreeSet<&'static str>,
    /// Readings that are forbidden: `verb plural` or `verb plural.group`.
    pub forbidden: BTreeSet<&'static str>,
    /// The discovery documents of API groups, by name.
    pub kinds: BTreeMap<&'static str, Vec<Value>>,
    /// Columns by full name of the kind; others have name and age only.
    pub columns: BTreeMap<&'static str, Columns>,
}

fn key(object: &Value) -> (Option<&str>, Option<&str>) {
    (object["metadata"]["namespace"].as_str(), object["metadata"]["name"].as_str())
}

impl Memory {
    /// A cluster without anything.
    #[must_use]
    pub fn new(origin: Origin, start: Timestamp) -> Self {
        Self {
            start,
            origin,
            objects: Vec::new(),
            others: BTreeMap::new(),
            later: Vec::new(),
            logs: BTreeMap::new(),
            not_served: BTreeSet::new(),
            forbidden: BTreeSet::new(),
            kinds: BTreeMap::new(),
            columns: BTreeMap::new(),
        }
    }

    /// Adds an object.
    pub fn add(&mut self, resource: ResourceType, object: Value) {
        self.objects.push((resource, object));
    }

    /// Adds an object, or replaces the one of that name.
    pub fn put(&mut self, resource: ResourceType, object: Value) {
        put(&mut self.objects, resource, object);
    }

    /// Adds an object to another cluster, or replaces the one of that name there.
    pub fn put_at(&mut self, place: &Place, resource: ResourceType, object: Value) {
        put(self.others.entry(place.clone()).or_default(), resource, object);
    }

    /// Removes all objects of this kind that `which` says.
    pub fn remove(&mut self, resource: &ResourceType, which: impl Fn(&Value) -> bool) {
        self.objects.retain(|(kind, object)| kind != resource || !which(object));
    }

    /// Removes all objects of this kind that `which` says from another cluster.
    pub fn remove_at(&mut self, place: &Place, resource: &ResourceType, which: impl Fn(&Value) -> bool) {
        if let Some(objects) = self.others.get_mut(place) {
            objects.retain(|(kind, object)| kind != resource || !which(object));
        }
    }

    /// Changes all objects of this kind with this name.
    pub fn edit(&mut self, resource: &ResourceType, name: &str, change: impl Fn(&mut Value)) {
        edit(&mut self.objects, resource, name, change);
    }

    /// Changes all objects of this kind with this name in another cluster.
    pub fn edit_at(&mut self, place: &Place, resource: &ResourceType, name: &str, change: impl Fn(&mut Value)) {
        edit(self.others.entry(place.clone()).or_default(), resource, name, change);
    }

    /// The object of this kind with this name, as it is at the first look.
    #[must_use]
    pub fn find(&self, resource: &ResourceType, name: &str) -> Option<&Value> {
        self.objects
            .iter()
            .find(|(kind, object)| kind == resource && object["metadata"]["name"] == name)
            .map(|(_, object)| object)
    }

    /// What the object is like at a second look.
    pub fn later(&mut self, resource: ResourceType, object: Value) {
        let (namespace, name) = key(&object);
        let (namespace, name) = (namespace.unwrap_or_default().to_owned(), name.unwrap_or_default().to_owned());
        self.later.push(Later { place: Place::Here, resource, namespace, name, object: Some(object) });
    }

    /// The object is gone at a second look.
    pub fn gone_later(&mut self, resource: ResourceType, namespace: Option<&str>, name: &str) {
        let namespace = namespace.unwrap_or_default().to_owned();
        self.later.push(Later { place: Place::Here, resource, namespace, name: name.to_owned(), object: None });
    }

    fn objects_of<'a>(&'a self, place: &Place, wanted: &ResourceType, second: bool) -> Vec<&'a Value> {
        let objects = if place.is_here() { Some(&self.objects) } else { self.others.get(place) };
        let concerns = |later: &&Later| second && later.place == *place && later.resource == *wanted;
        let changed = |object: &Value| {
            let (namespace, name) = key(object);
            self.later
                .iter()
                .filter(concerns)
                .any(|later| later.namespace == namespace.unwrap_or_default() && later.name == name.unwrap_or_default())
        };
        let stay = objects.into_iter().flatten().filter(|(kind, object)| kind == wanted && !changed(object));
        let come = self.later.iter().filter(concerns).filter_map(|later| later.object.as_ref());
        stay.map(|(_, object)| object).chain(come).collect()
    }

    /// The answer to one question to the cluster of `--context`.
    #[must_use]
    pub fn answer(&self, want: &Want, second: bool) -> Content {
        self.answer_at(&Place::Here, want, second, false)
    }

    /// The answer to one need.
    #[must_use]
    pub fn answer_need(&self, need: &Need, second: bool) -> Content {
        self.answer_at(&need.place, &need.want, second, need.reveal)
    }

    fn answer_at(&self, place: &Place, want: &Want, second: bool, reveal: bool) -> Content {
        if !place.is_here() && !self.others.contains_key(place) {
            return Content::Failed(unreachable(place));
        }
        let right = want.right();
        let said = |name: &str| self.forbidden.contains(format!("{} {name}", right.verb).as_str());
        if said(&right.resource) || want.resource().is_some_and(|resource| said(&resource.full_name())) {
            return Content::Failed(forbidden(want));
        }
        if let Some(resource) = want.resource()
            && (self.not_served.contains(resource.plural.as_ref())
                || self.not_served.contains(resource.full_name().as_str()))
        {
            return Content::NotServed;
        }
        let clean = |resource: &ResourceType, object: &Value| {
            let mut object = object.clone();
            if !reveal {
                redact_object(resource, &mut object);
            }
            object
        };
        match want {
            Want::Kinds { group, .. } => {
                self.kinds.get(group.as_ref()).map_or(Content::NotServed, |kinds| Content::Objects(kinds.clone()))
            }
            Want::Log { pod, previous, .. } => {
                let exists =
                    self.objects.iter().any(|(kind, object)| *kind == PODS && object["metadata"]["name"] == *pod);
                match self.logs.get(&(pod.clone(), *previous)) {
                    Some(log) => Content::Text(redact_text(log).into_owned()),
                    None if exists && !previous => Content::Text(String::new()),
                    None => Content::Absent,
                }
            }
            Want::Get { resource, namespace, name } => self
                .objects_of(place, resource, second)
                .into_iter()
                .find(|object| key(object) == (namespace.as_deref(), Some(name)))
                .map_or(Content::Absent, |object| Content::Objects(vec![clean(resource, object)])),
            Want::List { resource, namespace, selector, fields, form } => {
                let chosen = self.objects_of(place, resource, second).into_iter().filter(|object| {
                    (namespace.is_none() || key(object).0 == namespace.as_deref())
                        && selector.as_deref().is_none_or(|selector| labels_match(selector, object))
                        && fields.as_deref().is_none_or(|fields| fields_match(fields, object))
                });
                Content::Objects(match form {
                    Form::Count => return Content::Count(chosen.count()),
                    Form::Full => chosen.map(|object| clean(resource, object)).collect(),
                    Form::Metadata => {
                        chosen.map(|object| clean(resource, &json!({"metadata": object["metadata"]}))).collect()
                    }
                    Form::Table => return Content::Table(self.table(resource, chosen)),
                })
            }
        }
    }

    /// A Table without its objects, as the collector reads it.
    fn table<'o>(&self, resource: &ResourceType, objects: impl Iterator<Item = &'o Value>) -> Table {
        let columns = self.columns.get(resource.full_name().as_str()).copied().unwrap_or(&[("Age", Cell::Age)]);
        let names = std::iter::once("Name").chain(columns.iter().map(|(name, _)| *name));
        Table {
            columns: names.map(str::to_owned).collect(),
            rows: objects.map(|object| self.row(columns, object)).collect(),
        }
    }

    fn row(&self, columns: &[(&str, Cell)], object: &Value) -> Vec<Value> {
        let listed = |pointer: &str, kind: &str, value: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .find(|entry| entry["type"] == kind)
                .map_or(Value::Null, |entry| entry[value].clone())
        };
        let of_column = |(_, cell): &(&str, Cell)| {
            // A column of a CRD without a value is null, which kubectl prints as nothing.
            match cell {
                Cell::Field(pointer) => object.pointer(pointer).cloned().unwrap_or_default(),
                Cell::Condition(kind) => listed("/status/conditions", kind, "status"),
                Cell::Address(kind) => listed("/status/addresses", kind, "address"),
                Cell::Age => object["metadata"]["creationTimestamp"]
                    .as_str()
                    .and_then(|made| made.parse().ok())
                    .map_or(Value::Null, |made| json!(human(between(made, self.start)))),
            }
        };
        std::iter::once(object["metadata"]["name"].clone()).chain(columns.iter().map(of_column)).collect()
    }

    /// Answers what is needed until nothing new is wanted, with everything that was asked for. A thorough snapshot has
    /// whole objects where rows would do, as the verb `snapshot` takes it.
    ///
    /// # Panics
    /// When there is no end of questions.
    pub fn collect(&self, thorough: bool, needs: impl Fn(&Snapshot) -> Vec<Need>) -> (Snapshot, Vec<Need>) {
        let mut snapshot = Snapshot::new(self.origin.clone(), self.start);
        let mut asked = Vec::new();
        for _ in 0..ROUNDS {
            let open: Vec<Need> = needs(&snapshot)
                .into_iter()
                .map(|need| if thorough { in_full(need) } else { need })
                .filter(|need| !snapshot.answers(need))
                .collect();
            if open.is_empty() {
                return (snapshot, asked);
            }
            // What can be read now is read first, as the collector does.
            let first = |snapshot: &Snapshot, need: &Need| {
                snapshot.at(&need.place).readings_of(&need.want).next().map(|reading| reading.at)
            };
            let (due, waiting): (Vec<Need>, Vec<Need>) =
                open.into_iter().partition(|need| need.again_after.is_none() || first(&snapshot, need).is_none());
            for need in if due.is_empty() { waiting } else { due } {
                if snapshot.answers(&need) {
                    continue;
                }
                if let (Some(pause), Some(first)) = (need.again_after, first(&snapshot, &need)) {
                    snapshot.as_of = after(first, pause).max(snapshot.as_of);
                }
                let second = !between(self.start, snapshot.as_of).is_zero();
                snapshot.readings.push(self.reading(&need, snapshot.as_of, second));
                asked.push(need);
            }
        }
        panic!("the plugin never has enough: {:?}", needs(&snapshot));
    }

    /// The reading that answers a need.
    #[must_use]
    pub fn reading(&self, need: &Need, at: Timestamp, second: bool) -> Reading {
        Reading {
            content: self.answer_need(need, second),
            want: need.want.clone(),
            place: need.place.clone(),
            at,
            required: need.required,
            why: need.why.clone().into_owned(),
        }
    }
}

fn put(objects: &mut Vec<(ResourceType, Value)>, resource: ResourceType, object: Value) {
    let known = objects.iter_mut().find(|(kind, known)| *kind == resource && key(known) == key(&object));
    match known {
        Some((_, known)) => *known = object,
        None => objects.push((resource, object)),
    }
}

fn edit(objects: &mut [(ResourceType, Value)], resource: &ResourceType, name: &str, change: impl Fn(&mut Value)) {
    for (kind, object) in objects {
        if kind == resource && object["metadata"]["name"] == name {
            change(object);
        }
    }
}

fn in_full(mut need: Need) -> Need {
    if let Want::List { form, .. } = &mut need.want {
        *form = Form::Full;
    }
    need.reveal = false;
    need
}

/// `a=b,c`: equality and existence, which are the selectors that the plugins use.
fn labels_match(selector: &str, object: &Value) -> bool {
    let labels = &object["metadata"]["labels"];
    selector.split(',').all(|term| match term.split_once('=') {
        Some((name, value)) => labels[name] == value,
        None => !labels[term].is_null(),
    })
}

/// `type=x`, `metadata.name=y`.
fn fields_match(fields: &str, object: &Value) -> bool {
    fields.split(',').all(|term| {
        let (path, value) = term.split_once('=').expect("a field selector");
        object.pointer(&format!("/{}", path.replace('.', "/"))).is_some_and(|found| found == value)
    })
}

/// A 403 as the API server words it.
#[must_use]
pub fn forbidden(want: &Want) -> Failure {
    let right = want.right();
    Failure {
        kind: "Forbidden".to_owned(),
        code: Some(403),
        message: format!(
            "{} is forbidden: User \"viewer@example.com\" cannot {} resource \"{}\" in API group \"{}\"",
            right.resource, right.verb, right.resource, right.group
        ),
        hint: None,
    }
}

fn unreachable(place: &Place) -> Failure {
    Failure { kind: "Timeout".to_owned(), code: None, message: format!("{place}: no answer within 30s"), hint: None }
}

/// A UID that is the same in every run, and different for different words.
#[must_use]
pub fn uid(words: &str) -> String {
    // FNV-1a: nothing depends on it but that it is stable.
    let hash = words
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    format!(
        "{:08x}-{:04x}-4{:03x}-8000-{:012x}",
        hash >> 32,
        hash >> 16 & 0xffff,
        hash & 0xfff,
        hash & 0xffff_ffff_ffff
    )
}

/// The objects of each list the other way round, or turned by some places: what a server's order must not change.
#[must_use]
pub fn reorder(snapshot: &Snapshot, turn: usize) -> Snapshot {
    let mut other = snapshot.clone();
    for reading in &mut other.readings {
        match &mut reading.content {
            Content::Objects(objects) => turned(objects, turn),
            Content::Table(table) => turned(&mut table.rows, turn),
            _ => {}
        }
    }
    other
}

fn turned<T>(list: &mut [T], turn: usize) {
    if !list.is_empty() {
        list.rotate_left(turn % list.len());
        if turn % 2 == 1 {
            list.reverse();
        }
    }
}
