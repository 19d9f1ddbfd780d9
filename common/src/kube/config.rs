//! From flags, environment and kubeconfig files to one server, one user and one namespace, as kubectl does it.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    path::{Path, PathBuf},
};

use thiserror::Error;

use super::flags::ConnectionFlags;

/// Where a pod finds its service account.
const SERVICE_ACCOUNT_DIR: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// What the process environment says about connections, read once at the start.
///
/// Nothing else in the suite looks at these variables, so tests never have to change the process environment.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: BTreeMap<String, OsString>,
    service_account: PathBuf,
    stdin_is_terminal: bool,
}

impl Environment {
    /// The environment of this process.
    pub fn from_process() -> Self {
        Self::default()
    }

    /// An environment with these variables and nothing else; stdin is no terminal, and there is no service account.
    pub fn from_variables<K: Into<String>, V: Into<OsString>>(variables: impl IntoIterator<Item = (K, V)>) -> Self {
        Self {
            variables: variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            service_account: PathBuf::new(),
            stdin_is_terminal: false,
        }
    }
}

/// One context of the merged kubeconfig.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextRef {
    /// Its name.
    pub name: String,
    /// The server of its cluster, if the cluster is there.
    pub server: Option<String>,
    /// Whether it is the current one of the kubeconfig (whatever `--context` says).
    pub current: bool,
}

/// Where the command goes: shown in the first line of every report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The context in use; none with `--server` or `--cluster` alone, or inside a cluster.
    pub context: Option<String>,
    /// What chose it: `flag` (a connection flag), `kubeconfig` (its current-context) or `in-cluster`.
    pub context_from: &'static str,
    /// The server's URL, without user and password.
    pub server: String,
    /// The namespace of `-n`, else of the context, else `default`.
    pub namespace: String,
    /// The cluster's id, when the URL goes through Rancher's own proxy (`…/k8s/clusters/<id>`).
    pub rancher_proxy: Option<String>,
    /// All contexts of the kubeconfig, in its order.
    pub contexts: Vec<ContextRef>,
    /// The files that were read, in order.
    pub kubeconfig: Vec<PathBuf>,
    /// Whether the server's certificate is not checked.
    pub insecure: bool,
}

/// Why flags, environment and kubeconfig name no usable target. Nothing was sent, no credential plugin was run.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// There is no kubeconfig at all and no `--server`.
    #[error("no kubeconfig found ({})", .tried.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "))]
    NoKubeconfig {
        /// The files that were looked for.
        tried: Vec<PathBuf>,
    },
    /// A file named by `--kubeconfig` is not there.
    #[error("the kubeconfig {} does not exist", .path.display())]
    FileMissing {
        /// The file.
        path: PathBuf,
    },
    /// A kubeconfig, or a file that it or a flag names, cannot be read.
    #[error("cannot read {what} {}: {source}", .path.display())]
    Unreadable {
        /// What the file is for.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A kubeconfig is no YAML, or not what a kubeconfig looks like. The text itself is never shown.
    #[error("{}{}: {problem}", .path.display(), .position.map(|(line, column)| format!(", line {line}, column {column}")).unwrap_or_default())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Line and column, from 1.
        position: Option<(u64, u64)>,
        /// What is wrong, without quoting the file.
        problem: String,
    },
    /// A context, cluster or user is named that is not there.
    #[error("no {kind} {name:?} in the kubeconfig (named by {named_by})")]
    Unknown {
        /// `context`, `cluster` or `user`.
        kind: &'static str,
        /// The name.
        name: String,
        /// `--context`, `current-context`, `context "x"` …
        named_by: String,
        /// The names that are there, sorted.
        available: Vec<String>,
    },
    /// There are contexts, but none is chosen.
    #[error("the kubeconfig has no current-context and no --context is given")]
    NoContext {
        /// The contexts that are there.
        available: Vec<String>,
    },
    /// A cluster entry without a server.
    #[error("cluster {cluster:?} of the kubeconfig has no server")]
    NoServer {
        /// The cluster's name.
        cluster: String,
    },
    /// The server's URL is none.
    #[error("{server:?} is no URL of a server: {problem}")]
    BadServer {
        /// The URL, without user and password.
        server: String,
        /// What is wrong.
        problem: String,
    },
    /// A flag with a value, or a combination, that makes no sense.
    #[error("{flag}: {problem}")]
    BadFlag {
        /// The flag.
        flag: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// A setting of the kubeconfig that makes no sense.
    #[error("{setting} of {of}: {problem}")]
    BadSetting {
        /// The key.
        setting: &'static str,
        /// Whose: `cluster "x"`, `user "y"`, the environment.
        of: String,
        /// What is wrong.
        problem: String,
    },
    /// Inside a cluster, but the service account is not usable.
    #[error("the service account of this pod cannot be used: {0}")]
    InCluster(String),
}

impl ConfigError {
    /// Whether the person named something wrong (exit code 2), as opposed to something broken around them (1).
    pub fn is_usage(&self) -> bool {
        true
    }

    /// What a person could do about it, if that is known.
    pub fn hint(&self) -> Option<String> {
        None
    }
}

/// Decides where to go.
///
/// Reads files and the given environment only; runs no credential plugin and sends nothing.
///
/// # Errors
/// [`ConfigError`]; see there. A kubeconfig that cannot be read is an error even inside a cluster.
pub fn resolve(flags: &ConnectionFlags, environment: &Environment) -> Result<(Target, ::kube::Config), ConfigError> {
    let _ = (
        flags,
        environment,
        Path::new(SERVICE_ACCOUNT_DIR),
        environment.stdin_is_terminal,
        &environment.service_account,
        &environment.variables,
    );
    Err(ConfigError::NoKubeconfig { tried: Vec::new() })
}

/// The contexts that a person could mean, for completion: never fails, runs nothing, sends nothing.
pub fn contexts(flags: &ConnectionFlags, environment: &Environment) -> Vec<ContextRef> {
    let _ = (flags, environment);
    Vec::new()
}
