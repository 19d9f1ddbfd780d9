//! From flags, environment and kubeconfig files to one server, one user and one namespace, as kubectl does it.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt,
    io::{self, IsTerminal as _},
    path::PathBuf,
};

use http::Uri;
use thiserror::Error;

use super::{
    error::bounded,
    flags::ConnectionFlags,
    kubeconfig::{Cluster, Context, Kubeconfig, Loaded, User, find, names, nonempty, trusted},
    no_proxy,
};

/// Where a pod finds its service account.
const SERVICE_ACCOUNT_DIR: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The variables that decide about connections; nothing else is read.
const VARIABLES: [&str; 15] = [
    "KUBECONFIG",
    "HOME",
    "HOMEDRIVE",
    "HOMEPATH",
    "USERPROFILE",
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "NO_PROXY",
    "no_proxy",
    "REQUEST_METHOD",
    "POD_NAMESPACE",
    "KUBERNETES_SERVICE_HOST",
    "KUBERNETES_SERVICE_PORT",
];

/// What the process environment says about connections, read once at the start.
///
/// Nothing else in the suite looks at these variables, so tests never have to change the process environment.
/// `Debug` names the variables without their values: a proxy's URL may hold a password.
#[derive(Clone, Default)]
pub struct Environment {
    pub(super) variables: BTreeMap<String, OsString>,
    service_account: Option<PathBuf>,
    pub(super) stdin_is_terminal: bool,
}

impl Environment {
    /// The environment of this process.
    pub fn from_process() -> Self {
        let set = VARIABLES.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var_os(name)?)));
        Self {
            variables: set.collect(),
            service_account: Some(PathBuf::from(SERVICE_ACCOUNT_DIR)),
            stdin_is_terminal: io::stdin().is_terminal(),
        }
    }

    /// An environment with these variables and nothing else; stdin is no terminal, and there is no service account.
    pub fn from_variables<K: Into<String>, V: Into<OsString>>(variables: impl IntoIterator<Item = (K, V)>) -> Self {
        Self {
            variables: variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            service_account: None,
            stdin_is_terminal: false,
        }
    }

    /// The same with a pod's service account in `directory` (`token`, `ca.crt`, `namespace`).
    #[must_use]
    pub fn with_service_account(mut self, directory: impl Into<PathBuf>) -> Self {
        self.service_account = Some(directory.into());
        self
    }

    /// A variable as text; unset, empty and undecodable are all `None`, as client-go treats them.
    fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name)?.to_str().filter(|value| !value.is_empty())
    }

    /// The first of these variables that is set and not empty.
    fn first(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.get(name))
    }

    /// `~/.kube/config`, where `~` is what client-go takes it to be.
    pub(super) fn default_kubeconfig(&self) -> Option<PathBuf> {
        let below = |home: PathBuf| home.join(".kube").join("config");
        if !cfg!(windows) {
            return self.get("HOME").map(PathBuf::from).map(below);
        }
        let drive = self.get("HOMEDRIVE").zip(self.get("HOMEPATH")).map(|(drive, path)| format!("{drive}{path}"));
        let homes: Vec<PathBuf> = [self.get("HOME"), drive.as_deref(), self.get("USERPROFILE")]
            .into_iter()
            .flatten()
            .map(PathBuf::from)
            .collect();
        let with_file = homes.iter().cloned().map(below).find(|file| file.exists());
        with_file.or_else(|| homes.into_iter().next().map(below))
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment")
            .field("variables", &self.variables.keys().collect::<Vec<_>>())
            .field("service_account", &self.service_account)
            .field("stdin_is_terminal", &self.stdin_is_terminal)
            .finish()
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

/// Line and column in a file, from 1.
pub type Position = (u64, u64);

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
        position: Option<Position>,
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
    /// The credential plugin must ask the person something, and there is no terminal to ask at.
    #[error("the credential plugin {command:?} needs a terminal (interactiveMode: Always), and stdin is none")]
    ExecNeedsTerminal {
        /// The program named in the kubeconfig.
        command: String,
    },
    /// Inside a cluster, but the service account is not usable.
    #[error("the service account of this pod cannot be used: {0}")]
    InCluster(String),
}

impl ConfigError {
    /// Whether the person named something wrong (exit code 2), as opposed to something broken around them (1).
    pub fn is_usage(&self) -> bool {
        match self {
            Self::NoKubeconfig { .. }
            | Self::FileMissing { .. }
            | Self::Unknown { .. }
            | Self::NoContext { .. }
            | Self::NoServer { .. }
            | Self::BadServer { .. }
            | Self::BadFlag { .. }
            | Self::ExecNeedsTerminal { .. } => true,
            Self::Unreadable { .. } | Self::Parse { .. } | Self::BadSetting { .. } | Self::InCluster(_) => false,
        }
    }

    /// What a person could do about it, if that is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoKubeconfig { .. } => Some(
                "set KUBECONFIG or give --kubeconfig FILE; on a server node that is /etc/rancher/rke2/rke2.yaml or \
                 /etc/rancher/k3s/k3s.yaml"
                    .into(),
            ),
            Self::Unknown { kind, available, .. } if available.is_empty() => {
                Some(format!("the kubeconfig has no {kind} at all"))
            }
            Self::Unknown { available, .. } => Some(format!("there are: {}", listed(available))),
            Self::NoContext { available } if available.is_empty() => {
                Some("the kubeconfig has no contexts at all: is it the right file?".into())
            }
            Self::NoContext { available } => Some(format!("give --context NAME; there are: {}", listed(available))),
            Self::ExecNeedsTerminal { .. } => Some("run the command in a terminal, or use other credentials".into()),
            _ => None,
        }
    }
}

/// Names for a hint: all of a few, the first of many.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 20;
    let mut text = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text.push_str(&format!(" and {} more", names.len() - SHOWN));
    }
    bounded(&text, 1000)
}

/// Decides where to go.
///
/// Reads files and the given environment only; runs no credential plugin and sends nothing. As kubectl does, it leaves
/// the credentials of the kubeconfig out when the server is plain `http`.
///
/// # Errors
/// [`ConfigError`]; see there. A kubeconfig that cannot be read is an error even inside a cluster.
pub fn resolve(flags: &ConnectionFlags, environment: &Environment) -> Result<(Target, ::kube::Config), ConfigError> {
    check_flags(flags)?;
    let loaded = Kubeconfig::load(flags, environment)?;
    let kubeconfig = match loaded {
        Loaded::Files(kubeconfig) => kubeconfig,
        Loaded::Nothing { tried, may_be_in_cluster } => {
            if may_be_in_cluster
                && !names_a_target(flags)
                && let Some(found) = in_cluster(flags, environment)?
            {
                return Ok(found);
            }
            if given(flags.server.as_ref()).is_none() {
                return Err(ConfigError::NoKubeconfig { tried });
            }
            Kubeconfig::default()
        }
    };
    kubeconfig.resolve(flags, environment)
}

/// The contexts that a person could mean, for completion: never fails, runs nothing, sends nothing.
pub fn contexts(flags: &ConnectionFlags, environment: &Environment) -> Vec<ContextRef> {
    match Kubeconfig::load(flags, environment) {
        Ok(Loaded::Files(kubeconfig)) => kubeconfig.context_refs(),
        Ok(Loaded::Nothing { .. }) | Err(_) => Vec::new(),
    }
}

/// Combinations that make no sense whatever the kubeconfig says.
fn check_flags(flags: &ConnectionFlags) -> Result<(), ConfigError> {
    if flags.insecure_skip_tls_verify && flags.certificate_authority.is_some() {
        return Err(ConfigError::BadFlag {
            flag: "--insecure-skip-tls-verify",
            problem: "cannot be used together with --certificate-authority".into(),
        });
    }
    flags.request_timeout().map(|_| ())
}

/// Whether flags ask for a certain server or user, so that a pod's service account cannot be what is meant.
fn names_a_target(flags: &ConnectionFlags) -> bool {
    flags.insecure_skip_tls_verify
        || [&flags.context, &flags.cluster, &flags.user, &flags.server, &flags.tls_server_name]
            .iter()
            .any(|flag| given(flag.as_ref()).is_some())
        || [&flags.kubeconfig, &flags.certificate_authority, &flags.client_certificate, &flags.client_key]
            .iter()
            .any(|flag| flag.is_some())
}

/// kubectl treats an empty flag as one that was not given.
pub(super) fn given(flag: Option<&String>) -> Option<&str> {
    flag.map(String::as_str).filter(|value| !value.is_empty())
}

impl Kubeconfig {
    fn resolve(
        self,
        flags: &ConnectionFlags,
        environment: &Environment,
    ) -> Result<(Target, ::kube::Config), ConfigError> {
        let contexts = self.context_refs();

        // Which context.
        let flag_context = given(flags.context.as_ref());
        let context_name = flag_context.or(self.current_context.as_deref());
        let context = match context_name {
            None => Context::default(),
            Some(name) => find(&self.contexts, name).cloned().ok_or_else(|| ConfigError::Unknown {
                kind: "context",
                name: name.to_owned(),
                named_by: if flag_context.is_some() { "--context".into() } else { "current-context".into() },
                available: names(&self.contexts),
            })?,
        };

        // Which cluster, and what the flags change of it.
        let flag_cluster = given(flags.cluster.as_ref());
        let flag_server = given(flags.server.as_ref());
        let cluster_name = flag_cluster.or(context.cluster.as_deref());
        let mut cluster = match cluster_name {
            None if flag_server.is_some() => Cluster::default(),
            None => {
                return Err(match context_name {
                    None => ConfigError::NoContext { available: names(&self.contexts) },
                    Some(name) => ConfigError::BadSetting {
                        setting: "cluster",
                        of: format!("context {name:?}"),
                        problem: "is missing".into(),
                    },
                });
            }
            Some(name) => match find(&self.clusters, name) {
                Some(cluster) => cluster.clone(),
                // With --server the context's cluster would only add its CA; kubectl does without it.
                None if flag_cluster.is_none() && flag_server.is_some() => Cluster::default(),
                None => {
                    return Err(ConfigError::Unknown {
                        kind: "cluster",
                        name: name.to_owned(),
                        named_by: named_by("--cluster", flag_cluster, context_name),
                        available: names(&self.clusters),
                    });
                }
            },
        };
        cluster.apply(flags);
        let of_cluster = match cluster_name {
            Some(name) => format!("cluster {name:?}"),
            None => "the flags".to_owned(),
        };
        let server = match cluster.server.as_deref() {
            Some(server) => parse_server(server)?,
            None => return Err(ConfigError::NoServer { cluster: cluster_name.unwrap_or_default().to_owned() }),
        };
        let https = server.scheme_str() == Some("https");

        // Which user.
        let mut user = User::default();
        let flag_user = given(flags.user.as_ref());
        if let Some(name) = flag_user.or(context.user.as_deref()) {
            match find(&self.users, name) {
                Some(found) => user = found.clone(),
                // The flags bring credentials of their own, or none are sent.
                None if flag_user.is_none() && (!https || brings_credentials(flags)) => {}
                None => {
                    return Err(ConfigError::Unknown {
                        kind: "user",
                        name: name.to_owned(),
                        named_by: named_by("--user", flag_user, context_name),
                        available: names(&self.users),
                    });
                }
            }
        }
        let of_user = format!("user {:?}", flag_user.or(context.user.as_deref()).unwrap_or_default());
        user.apply(flags);

        let mut config = base_config(server.clone());
        config.default_namespace =
            given(flags.namespace.as_ref()).or(context.namespace.as_deref()).unwrap_or("default").to_owned();
        config.disable_compression = cluster.disable_compression.unwrap_or(false);
        config.tls_server_name = cluster.tls_server_name.clone();
        config.proxy_url = proxy(&cluster, &of_cluster, &server, environment)?;
        if https {
            config.accept_invalid_certs = cluster.insecure_skip_tls_verify.unwrap_or(false);
            let ca = cluster.load_ca(&of_cluster)?;
            if config.accept_invalid_certs && ca.is_some() {
                return Err(ConfigError::BadSetting {
                    setting: "insecure-skip-tls-verify",
                    of: of_cluster,
                    problem: "cannot be used together with a certificate authority".into(),
                });
            }
            if let Some(pem) = &ca {
                config.root_cert = Some(trusted(pem).ok_or_else(|| ConfigError::BadSetting {
                    setting: "certificate-authority",
                    of: of_cluster.clone(),
                    problem: "holds no certificate in PEM".into(),
                })?);
            }
            config.auth_info = user.auth_info(&of_user, flags, environment)?;
            if let Some(exec) = config.auth_info.exec.as_mut().filter(|exec| exec.provide_cluster_info) {
                exec.cluster = Some(cluster.for_exec(&server, ca.as_deref(), &of_cluster)?);
            }
        } else if flags.token.is_some() || flags.r#as.is_some() || flags.client_certificate.is_some() {
            return Err(ConfigError::BadFlag {
                flag: if flags.token.is_some() {
                    "--token"
                } else if flags.r#as.is_some() {
                    "--as"
                } else {
                    "--client-certificate"
                },
                problem: format!("is not sent to {}, which is not https", without_credentials(&server.to_string())),
            });
        }

        let target = Target {
            context: context_name.map(str::to_owned),
            context_from: if flag_context.or(flag_cluster).or(flag_server).is_some() { "flag" } else { "kubeconfig" },
            server: display_server(&server),
            namespace: config.default_namespace.clone(),
            rancher_proxy: rancher_proxy(&server),
            contexts,
            kubeconfig: self.files,
            insecure: config.accept_invalid_certs,
        };
        Ok((target, config))
    }
}

/// A pod's own service account, if this is a pod.
fn in_cluster(
    flags: &ConnectionFlags,
    environment: &Environment,
) -> Result<Option<(Target, ::kube::Config)>, ConfigError> {
    let (Some(directory), Some(host), Some(port)) = (
        environment.service_account.as_deref(),
        environment.get("KUBERNETES_SERVICE_HOST"),
        environment.get("KUBERNETES_SERVICE_PORT"),
    ) else {
        return Ok(None);
    };
    let token = directory.join("token");
    if !token.is_file() {
        return Ok(None);
    }
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let server = parse_server(&format!("https://{host}:{port}"))?;
    let ca_file = directory.join("ca.crt");
    let pem = std::fs::read(&ca_file)
        .map_err(|error| ConfigError::InCluster(format!("cannot read {}: {error}", ca_file.display())))?;
    let mut config = base_config(server.clone());
    config.root_cert = Some(
        trusted(&pem).ok_or_else(|| ConfigError::InCluster(format!("{} holds no certificate", ca_file.display())))?,
    );
    // Read again as it changes, like the token.
    config.root_cert_file = Some(ca_file);
    let namespace = given(flags.namespace.as_ref())
        .map(str::to_owned)
        .or_else(|| environment.get("POD_NAMESPACE").map(str::to_owned))
        .or_else(|| {
            nonempty(std::fs::read_to_string(directory.join("namespace")).ok().map(|text| text.trim().to_owned()))
        })
        .unwrap_or_else(|| "default".to_owned());
    config.default_namespace = namespace.clone();
    let mut user = User { token_file: Some(token.to_string_lossy().into_owned()), ..User::default() };
    user.apply(flags);
    config.auth_info = user.auth_info("the service account", flags, environment)?;
    let target = Target {
        context: None,
        context_from: "in-cluster",
        server: display_server(&server),
        namespace,
        rancher_proxy: None,
        contexts: Vec::new(),
        kubeconfig: Vec::new(),
        insecure: false,
    };
    Ok(Some((target, config)))
}

/// A configuration without kube's own retries, which would repeat writes.
fn base_config(server: Uri) -> ::kube::Config {
    let mut config = ::kube::Config::new(server);
    config.default_retry = false;
    config
}

fn brings_credentials(flags: &ConnectionFlags) -> bool {
    given(flags.token.as_ref()).is_some() || (flags.client_certificate.is_some() && flags.client_key.is_some())
}

fn named_by(flag: &str, flag_value: Option<&str>, context: Option<&str>) -> String {
    match (flag_value, context) {
        (None, Some(context)) => format!("context {context:?}"),
        _ => flag.to_owned(),
    }
}

/// A server's URL as kubectl reads it: without a scheme it is plain `http`.
fn parse_server(text: &str) -> Result<Uri, ConfigError> {
    let bad = |problem: &str| ConfigError::BadServer { server: without_credentials(text), problem: problem.to_owned() };
    let url = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let uri: Uri = url.parse().map_err(|_| bad("it cannot be read"))?;
    if !matches!(uri.scheme_str(), Some("https" | "http")) {
        return Err(bad("its scheme is not https or http"));
    }
    if uri.host().is_none_or(str::is_empty) {
        return Err(bad("it has no host"));
    }
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(bad("user and password in the URL are not supported"));
    }
    if uri.query().is_some() {
        return Err(bad("a query is not supported"));
    }
    Ok(uri)
}

/// The URL without the slash that `http::Uri` adds.
fn display_server(server: &Uri) -> String {
    server.to_string().trim_end_matches('/').to_owned()
}

/// A URL without `user:password@` and without its query, for messages.
pub(crate) fn without_credentials(url: &str) -> String {
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (Some(scheme), rest),
        None => (None, url),
    };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, tail) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let shown = match scheme {
        Some(scheme) => format!("{scheme}://{host}{tail}"),
        None => format!("{host}{tail}"),
    };
    bounded(&shown, 200)
}

/// `<id>` of a path `…/k8s/clusters/<id>`.
fn rancher_proxy(server: &Uri) -> Option<String> {
    let segments: Vec<&str> = server.path().split('/').filter(|segment| !segment.is_empty()).collect();
    segments.windows(3).find(|window| window[..2] == ["k8s", "clusters"]).map(|window| window[2].to_owned())
}

/// The proxy of the cluster, else the environment's unless `NO_PROXY` names the server.
fn proxy(cluster: &Cluster, of: &str, server: &Uri, environment: &Environment) -> Result<Option<Uri>, ConfigError> {
    let https = server.scheme_str() == Some("https");
    let (text, of) = match &cluster.proxy_url {
        // NO_PROXY says nothing about a proxy that the kubeconfig asks for.
        Some(url) => (url.clone(), of.to_owned()),
        None => {
            let names: &[&str] = if https { &["HTTPS_PROXY", "https_proxy"] } else { &["HTTP_PROXY", "http_proxy"] };
            // Go ignores HTTP_PROXY under CGI, where a client could set it by a header.
            if !https && environment.get("REQUEST_METHOD").is_some() {
                return Ok(None);
            }
            let Some(url) = environment.first(names) else { return Ok(None) };
            let port = server.port_u16().unwrap_or(if https { 443 } else { 80 });
            let host = server.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
            if no_proxy::bypasses(environment.first(&["NO_PROXY", "no_proxy"]).unwrap_or_default(), host, port) {
                return Ok(None);
            }
            (if url.contains("://") { url.to_owned() } else { format!("http://{url}") }, names[0].to_owned())
        }
    };
    let bad = |problem: &str| ConfigError::BadSetting {
        setting: "proxy-url",
        of: of.clone(),
        problem: format!("{:?} {problem}", without_credentials(&text)),
    };
    let uri: Uri = text.parse().map_err(|_| bad("cannot be read"))?;
    match uri.scheme_str() {
        Some("http" | "https" | "socks5" | "socks5h") => Ok(Some(uri)),
        _ => Err(bad("has a scheme other than http, https, socks5")),
    }
}
