//! Finding one object among the readings: asked for by name, in a list, or in a selection.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use rancher_common::resource::ResourceType;
use rancher_common::snapshot::{Content, Form, Place, Shown, Snapshot, Want};
use serde_json::Value;

/// An object that is there, proven absent, or unknown for a reason.
pub(crate) type Seen<T> = Result<Option<T>, Cow<'static, str>>;

/// Why something that nobody asked for is unknown.
pub(crate) const NOT_READ: Cow<'static, str> = Cow::Borrowed("not read");

/// All whole objects of a kind that were read, and what is known of the others.
#[derive(Debug, Default)]
pub(crate) struct Objects<'a> {
    by_name: BTreeMap<(&'a str, &'a str), &'a Value>,
    absent: BTreeSet<(&'a str, &'a str)>,
    failed: BTreeMap<(&'a str, &'a str), &'a str>,
    /// Namespaces of which all objects were read; `None` stands for all of them.
    complete: BTreeSet<Option<&'a str>>,
    /// The server does not know the kind.
    not_served: bool,
    /// Why a list could not be read.
    lists_failed: Option<&'a str>,
}

/// The names of all objects of a kind, in the namespaces whose rows were read. They are sorted out when first asked for:
/// mostly nobody asks.
#[derive(Debug, Default)]
pub(crate) struct Rows<'a> {
    read: BTreeMap<&'a str, (Shown<'a>, OnceCell<HashSet<&'a str>>)>,
}

impl<'a> Rows<'a> {
    pub(crate) fn of(snapshot: &'a Snapshot, resource: &ResourceType, namespaces: &'a [String]) -> Self {
        let rows_of = |namespace: &'a String| {
            let want = Want::list(resource.clone(), Some(namespace), Form::Table);
            Some((namespace.as_str(), (snapshot.here().shown(&want).ok()?, OnceCell::new())))
        };
        Self { read: namespaces.iter().filter_map(rows_of).collect() }
    }

    /// The names in one namespace, if its rows were read.
    pub(crate) fn names(&self, namespace: &str) -> Option<&HashSet<&'a str>> {
        let (rows, names) = self.read.get(namespace)?;
        Some(names.get_or_init(|| rows.names().collect()))
    }
}

impl<'a> Objects<'a> {
    pub(crate) fn of(snapshot: &'a Snapshot, place: &Place, resource: &ResourceType) -> Self {
        let mut objects = Self::default();
        for reading in snapshot.readings.iter().filter(|r| r.place == *place && r.want.resource() == Some(resource)) {
            match (&reading.want, &reading.content) {
                (_, Content::NotServed) => objects.not_served = true,
                (Want::Get { namespace, name, .. }, Content::Absent) => {
                    let key = (namespace.as_deref().unwrap_or_default(), name.as_str());
                    objects.by_name.remove(&key);
                    objects.absent.insert(key);
                }
                (Want::Get { namespace, name, .. }, Content::Failed(failure)) => {
                    objects.failed.insert((namespace.as_deref().unwrap_or_default(), name), &failure.message);
                }
                (Want::List { form: Form::Full, .. }, Content::Failed(failure)) => {
                    objects.lists_failed = Some(&failure.message);
                }
                (Want::Get { .. }, Content::Objects(found)) => objects.take(found),
                (Want::List { form: Form::Full, namespace, selector, fields, .. }, Content::Objects(found)) => {
                    objects.take(found);
                    if selector.is_none() && fields.is_none() {
                        objects.complete.insert(namespace.as_deref());
                    }
                }
                _ => {}
            }
        }
        objects
    }

    fn take(&mut self, found: &'a [Value]) {
        for object in found {
            let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
            let key = (text("namespace"), text("name"));
            self.absent.remove(&key);
            self.by_name.insert(key, object);
        }
    }

    /// One object.
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Seen<&'a Value> {
        let key = (namespace, name);
        if let Some(object) = self.by_name.get(&key) {
            return Ok(Some(object));
        }
        let complete = self.complete.contains(&None) || self.complete.contains(&Some(namespace));
        if self.not_served || complete || self.absent.contains(&key) {
            return Ok(None);
        }
        match self.failed.get(&key).copied().or(self.lists_failed) {
            Some(why) => Err(why.to_owned().into()),
            // Of most machines of a fleet.
            None => Err(NOT_READ),
        }
    }

    /// Whether an object is proven absent: asked for by its name, or not among the rows of its namespace.
    pub(crate) fn is_gone(&self, rows: &Rows<'_>, namespace: &str, name: &str) -> bool {
        match self.get(namespace, name) {
            Ok(found) => found.is_none(),
            Err(_) => rows.names(namespace).is_some_and(|names| !names.contains(name)),
        }
    }

    /// All that were read.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'a Value> {
        self.by_name.values().copied()
    }
}
