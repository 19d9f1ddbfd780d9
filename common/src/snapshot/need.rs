//! What a plugin must read, declared as data. The same list is collected, printed as RBAC, checked for permission, and
//! saved by `snapshot`.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::resource::ResourceType;

/// In which form objects of a list are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Form {
    /// Whole objects.
    #[default]
    Full,
    /// `PartialObjectMetadata`: names, labels, annotations, owners, finalizers.
    Metadata,
    /// The columns `kubectl get` shows, as the server makes them, without the objects: a tenth of the bytes and of the
    /// server's work. Enough to call most objects of a large fleet healthy; a row has the name only, so it is asked for
    /// one namespace at a time. `snapshot` takes whole objects instead, since it must answer later questions.
    Table,
    /// How many there are, without any of them: the cheapest question about a large fleet.
    Count,
}

/// Which cluster is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Place {
    /// The cluster of `--context`.
    #[default]
    Here,
    /// The cluster of `--downstream-context` or `--downstream-kubeconfig`.
    Downstream,
    /// A downstream cluster through Rancher's own proxy, by its id (`c-m-…`), with the caller's rights there.
    Proxied(String),
}

impl Place {
    /// Whether it is the cluster of `--context`.
    #[must_use]
    pub fn is_here(&self) -> bool {
        *self == Self::Here
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Here => write!(f, "this cluster"),
            Self::Downstream => write!(f, "the downstream cluster"),
            Self::Proxied(id) => write!(f, "cluster {id} through Rancher's proxy"),
        }
    }
}

/// Something to read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Want {
    /// One object.
    Get {
        /// Its kind.
        resource: ResourceType,
        /// Its namespace, if the kind has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        namespace: Option<String>,
        /// Its name.
        name: String,
    },
    /// All objects of a kind.
    List {
        /// Their kind.
        resource: ResourceType,
        /// One namespace, or the whole cluster.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        namespace: Option<String>,
        /// Label selector.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        selector: Option<String>,
        /// Field selector.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fields: Option<String>,
        /// Form of the answer.
        #[serde(default)]
        form: Form,
    },
    /// The last lines of a container's log.
    Log {
        /// Namespace of the pod.
        namespace: String,
        /// The pod.
        pod: String,
        /// Its container.
        container: String,
        /// The log of the container's previous run.
        #[serde(default)]
        previous: bool,
        /// How many lines at the end.
        lines: u32,
    },
    /// Which kinds an API group has, as its discovery document lists them.
    Kinds {
        /// The group.
        group: Cow<'static, str>,
        /// The version.
        version: Cow<'static, str>,
    },
}

impl Want {
    /// One object, whole.
    #[must_use]
    pub fn get(resource: ResourceType, namespace: Option<&str>, name: &str) -> Self {
        Self::Get { resource, namespace: namespace.map(str::to_owned), name: name.to_owned() }
    }

    /// All objects of a kind, in one namespace or in the whole cluster, in this form.
    #[must_use]
    pub fn list(resource: ResourceType, namespace: Option<&str>, form: Form) -> Self {
        Self::List { resource, namespace: namespace.map(str::to_owned), selector: None, fields: None, form }
    }

    /// The objects that carry these labels, whole.
    #[must_use]
    pub fn labelled(resource: ResourceType, namespace: Option<&str>, selector: String) -> Self {
        let namespace = namespace.map(str::to_owned);
        Self::List { resource, namespace, selector: Some(selector), fields: None, form: Form::Full }
    }

    /// The same question for whole objects.
    #[must_use]
    pub(super) fn in_full(&self) -> Self {
        let mut want = self.clone();
        if let Self::List { form, .. } = &mut want {
            *form = Form::Full;
        }
        want
    }

    /// The kind that is asked for, if objects are.
    #[must_use]
    pub fn resource(&self) -> Option<&ResourceType> {
        match self {
            Self::Get { resource, .. } | Self::List { resource, .. } => Some(resource),
            Self::Log { .. } | Self::Kinds { .. } => None,
        }
    }

    /// Whether the answer to this tells about the named object, or, without a name, about all objects of the kind in
    /// the namespace. A list by selector or of metadata only answers no such question.
    pub(super) fn covers(&self, asked: &ResourceType, in_namespace: Option<&str>, named: Option<&str>) -> bool {
        match self {
            Self::Get { resource, namespace, name } => {
                resource == asked && namespace.as_deref() == in_namespace && Some(name.as_str()) == named
            }
            Self::List { resource, namespace, selector: None, fields: None, form: Form::Full } => {
                resource == asked && (namespace.is_none() || namespace.as_deref() == in_namespace)
            }
            Self::List { .. } | Self::Log { .. } | Self::Kinds { .. } => false,
        }
    }

    /// The permission it takes: verb, resource (with subresource), namespace and name.
    #[must_use]
    pub fn right(&self) -> Right {
        match self {
            Self::Get { resource, namespace, name } => Right {
                verb: "get".into(),
                group: resource.group.clone().into_owned(),
                resource: resource.plural.clone().into_owned(),
                namespace: namespace.clone(),
                name: Some(name.clone()),
            },
            Self::List { resource, namespace, .. } => Right {
                verb: "list".into(),
                group: resource.group.clone().into_owned(),
                resource: resource.plural.clone().into_owned(),
                namespace: namespace.clone(),
                name: None,
            },
            // No object: everybody who is logged in may (ClusterRole system:discovery).
            Self::Kinds { group, version } => Right {
                verb: "get".into(),
                group: String::new(),
                resource: format!("/apis/{group}/{version}"),
                namespace: None,
                name: None,
            },
            Self::Log { namespace, .. } => Right {
                verb: "get".into(),
                group: String::new(),
                resource: "pods/log".into(),
                namespace: Some(namespace.clone()),
                name: None,
            },
        }
    }
}

impl std::fmt::Display for Want {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Get { resource, namespace: Some(ns), name } => write!(f, "{} {ns}/{name}", resource.full_name()),
            Self::Get { resource, namespace: None, name } => write!(f, "{} {name}", resource.full_name()),
            Self::List { resource, namespace: Some(ns), .. } => write!(f, "{} in {ns}", resource.full_name()),
            Self::List { resource, namespace: None, .. } => write!(f, "{}", resource.full_name()),
            Self::Kinds { group, version } => write!(f, "the kinds of {group}/{version}"),
            Self::Log { namespace, pod, container, previous, .. } => {
                write!(f, "{}log of {namespace}/{pod} ({container})", if *previous { "previous " } else { "" })
            }
        }
    }
}

/// One permission, as RBAC and access reviews name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Right {
    /// `get`, `list`, `delete` …
    pub verb: String,
    /// API group, empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Plural, with the subresource behind a slash: `pods/log`.
    pub resource: String,
    /// Namespace, or none for the whole cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name, where one object is enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl std::fmt::Display for Right {
    /// `get leases.coordination.k8s.io "cattle-controllers" in kube-system`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if let Some(name) = &self.name {
            write!(f, " {name:?}")?;
        }
        match &self.namespace {
            Some(namespace) => write!(f, " in {namespace}"),
            None => write!(f, " in the whole cluster"),
        }
    }
}

/// Something to read, and what for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// What to read.
    pub want: Want,
    /// What it is read for, shown with `rbac` and when it could not be read.
    pub why: Cow<'static, str>,
    /// Whether the diagnosis depends on it: without a required reading nothing is reported as healthy.
    pub required: bool,
    /// Which cluster is asked.
    pub place: Place,
    /// Read it a second time, at least this long after the first look, to see whether it changes.
    pub again_after: Option<Duration>,
    /// Keep secrets in it, because the user has asked for one to be shown. Such a reading is never saved.
    pub reveal: bool,
    /// Ask for the rows of a table in two selections side by side: of those objects that have this label, and of the
    /// others.
    pub halved_by: Option<&'static str>,
}

impl Need {
    fn new(want: Want, why: Cow<'static, str>, required: bool) -> Self {
        Self { want, why, required, place: Place::Here, again_after: None, reveal: false, halved_by: None }
    }

    /// A reading without which there is no verdict.
    #[must_use]
    pub fn required(want: Want, why: impl Into<Cow<'static, str>>) -> Self {
        Self::new(want, why.into(), true)
    }

    /// A reading that adds to the verdict.
    #[must_use]
    pub fn optional(want: Want, why: impl Into<Cow<'static, str>>) -> Self {
        Self::new(want, why.into(), false)
    }

    /// The same reading once more, at least `pause` after the first.
    #[must_use]
    pub fn again_after(mut self, pause: Duration) -> Self {
        self.again_after = Some(pause);
        self
    }

    /// The same reading in another cluster.
    #[must_use]
    pub fn at(mut self, place: &Place) -> Self {
        self.place = place.clone();
        self
    }

    /// The same reading in two halves, told apart by a label that an object keeps as long as it lives: the server makes
    /// the rows of one answer on one core, and for many rows that is what takes time.
    #[must_use]
    pub fn halved_by(mut self, label: &'static str) -> Self {
        self.halved_by = Some(label);
        self
    }

    /// The same reading with its secrets.
    #[must_use]
    pub fn reveal(mut self) -> Self {
        self.reveal = true;
        self
    }
}
