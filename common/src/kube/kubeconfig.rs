//! The files of a kubeconfig: what is in them, how several become one, and what flags change of a cluster and a user.

use std::{
    collections::{HashMap, HashSet},
    io,
    path::{Path, PathBuf},
};

use ::kube::config::{AuthInfo, AuthProviderConfig, ExecAuthCluster, ExecConfig, ExecInteractiveMode, NamedExtension};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use http::Uri;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use serde::Deserialize;

use super::{
    config::{ConfigError, ContextRef, Environment, Position, given, without_credentials},
    flags::ConnectionFlags,
};

// The kubeconfig's shape. These are our own types rather than kube's, since kubectl accepts more than those do (a context
// without a cluster, null for almost everything), and since fewer fields are looked at this way.

#[derive(Deserialize)]
struct RawFile {
    #[serde(default)]
    kind: Option<String>,
    #[serde(default, rename = "current-context")]
    current_context: Option<String>,
    #[serde(default)]
    clusters: Option<Vec<RawNamedCluster>>,
    #[serde(default)]
    contexts: Option<Vec<RawNamedContext>>,
    #[serde(default)]
    users: Option<Vec<RawNamedUser>>,
}

#[derive(Deserialize)]
struct RawNamedCluster {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    cluster: Option<Cluster>,
}

#[derive(Deserialize)]
struct RawNamedContext {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    context: Option<Context>,
}

#[derive(Deserialize)]
struct RawNamedUser {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    user: Option<User>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct Cluster {
    pub(super) server: Option<String>,
    pub(super) tls_server_name: Option<String>,
    pub(super) insecure_skip_tls_verify: Option<bool>,
    pub(super) certificate_authority: Option<String>,
    pub(super) certificate_authority_data: Option<String>,
    pub(super) proxy_url: Option<String>,
    pub(super) disable_compression: Option<bool>,
    pub(super) extensions: Option<Vec<NamedExtension>>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Context {
    pub(super) cluster: Option<String>,
    pub(super) user: Option<String>,
    pub(super) namespace: Option<String>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct User {
    pub(super) client_certificate: Option<String>,
    pub(super) client_certificate_data: Option<String>,
    pub(super) client_key: Option<String>,
    pub(super) client_key_data: Option<String>,
    pub(super) token: Option<String>,
    #[serde(rename = "tokenFile")]
    pub(super) token_file: Option<String>,
    #[serde(rename = "as")]
    pub(super) impersonate: Option<String>,
    pub(super) as_uid: Option<String>,
    pub(super) as_groups: Option<Vec<String>>,
    pub(super) as_user_extra: Option<HashMap<String, Vec<String>>>,
    pub(super) username: Option<String>,
    pub(super) password: Option<String>,
    pub(super) auth_provider: Option<AuthProviderConfig>,
    pub(super) exec: Option<ExecConfig>,
}

/// All files of a kubeconfig, merged: the first file that has a name or a value wins.
#[derive(Default)]
pub(super) struct Kubeconfig {
    pub(super) files: Vec<PathBuf>,
    pub(super) current_context: Option<String>,
    pub(super) clusters: Vec<(String, Cluster)>,
    pub(super) contexts: Vec<(String, Context)>,
    pub(super) users: Vec<(String, User)>,
}

pub(super) enum Loaded {
    Files(Kubeconfig),
    Nothing { tried: Vec<PathBuf>, may_be_in_cluster: bool },
}

impl Kubeconfig {
    /// client-go's `ClientConfigLoadingRules`: `--kubeconfig` alone, else the list in `KUBECONFIG`, else `~/.kube/config`.
    pub(super) fn load(flags: &ConnectionFlags, environment: &Environment) -> Result<Loaded, ConfigError> {
        if let Some(path) = flags.kubeconfig.as_ref().filter(|path| !path.as_os_str().is_empty()) {
            let mut kubeconfig = Self::default();
            return match kubeconfig.add(path)? {
                true => Ok(Loaded::Files(kubeconfig)),
                false => Err(ConfigError::FileMissing { path: path.clone() }),
            };
        }
        let (paths, may_be_in_cluster) = match environment.variables.get("KUBECONFIG").filter(|list| !list.is_empty()) {
            Some(list) => (std::env::split_paths(list).collect::<Vec<_>>(), false),
            None => (environment.default_kubeconfig().into_iter().collect(), true),
        };
        let mut kubeconfig = Self::default();
        let mut tried: Vec<PathBuf> = Vec::new();
        for path in paths {
            if path.as_os_str().is_empty() || tried.contains(&path) {
                continue;
            }
            // A file of the list that is not there is no error: kubectl skips it, too.
            kubeconfig.add(&path)?;
            tried.push(path);
        }
        Ok(if kubeconfig.files.is_empty() {
            Loaded::Nothing { tried, may_be_in_cluster }
        } else {
            Loaded::Files(kubeconfig)
        })
    }

    /// Merges one file in; `false` if it does not exist.
    fn add(&mut self, path: &Path) -> Result<bool, ConfigError> {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(source) => {
                return Err(ConfigError::Unreadable { what: "the kubeconfig", path: path.to_owned(), source });
            }
        };
        let parse_error = |position, problem: &str| ConfigError::Parse {
            path: path.to_owned(),
            position,
            problem: problem.to_owned(),
        };
        let text = decode_text(bytes).ok_or_else(|| parse_error(None, "is no text in UTF-8 or UTF-16"))?;
        let raw = parse(&text).map_err(|(position, problem)| parse_error(position, problem))?;
        if raw.kind.as_deref().is_some_and(|kind| !kind.is_empty() && kind != "Config") {
            return Err(parse_error(None, "is no kubeconfig: its kind is not Config"));
        }
        // Relative paths in a file are relative to the file.
        let directory = path.parent().unwrap_or(Path::new(""));
        let clusters = named(raw.clusters, |entry| (entry.name, entry.cluster));
        let contexts = named(raw.contexts, |entry| (entry.name, entry.context));
        let users = named(raw.users, |entry| (entry.name, entry.user));
        let (Some(clusters), Some(contexts), Some(users)) = (clusters, contexts, users) else {
            return Err(parse_error(None, "has two clusters, two contexts or two users of the same name"));
        };
        merge(&mut self.clusters, clusters.into_iter().map(|(name, cluster)| (name, cluster.normalised(directory))));
        merge(&mut self.contexts, contexts.into_iter().map(|(name, context)| (name, context.normalised())));
        merge(&mut self.users, users.into_iter().map(|(name, user)| (name, user.normalised(directory))));
        self.current_context = self.current_context.take().or(nonempty(raw.current_context));
        self.files.push(path.to_owned());
        Ok(true)
    }

    pub(super) fn context_refs(&self) -> Vec<ContextRef> {
        self.contexts
            .iter()
            .map(|(name, context)| ContextRef {
                name: name.clone(),
                server: context
                    .cluster
                    .as_ref()
                    .and_then(|cluster| find(&self.clusters, cluster))
                    .and_then(|cluster| cluster.server.as_deref())
                    .map(without_credentials),
                current: self.current_context.as_ref() == Some(name),
            })
            .collect()
    }
}

impl Cluster {
    fn normalised(mut self, directory: &Path) -> Self {
        for value in [
            &mut self.server,
            &mut self.tls_server_name,
            &mut self.certificate_authority,
            &mut self.certificate_authority_data,
            &mut self.proxy_url,
        ] {
            *value = nonempty(value.take());
        }
        self.certificate_authority = self.certificate_authority.map(|path| relative_to(directory, path));
        self
    }

    /// client-go's `getCluster`: flags win, and a flag about trust replaces everything the kubeconfig says about trust.
    pub(super) fn apply(&mut self, flags: &ConnectionFlags) {
        if flags.insecure_skip_tls_verify || flags.certificate_authority.is_some() {
            self.insecure_skip_tls_verify = Some(flags.insecure_skip_tls_verify);
            self.certificate_authority =
                flags.certificate_authority.as_ref().map(|path| path.to_string_lossy().into_owned());
            self.certificate_authority_data = None;
        }
        let server = given(flags.server.as_ref());
        let tls_server_name = given(flags.tls_server_name.as_ref());
        // The kubeconfig's tls-server-name belongs to the kubeconfig's server.
        if server.is_some() || tls_server_name.is_some() {
            self.tls_server_name = tls_server_name.map(str::to_owned);
        }
        if let Some(server) = server {
            self.server = Some(server.to_owned());
        }
    }

    /// The trusted certificates as PEM.
    pub(super) fn load_ca(&self, of: &str) -> Result<Option<Vec<u8>>, ConfigError> {
        load(
            self.certificate_authority_data.as_deref(),
            self.certificate_authority.as_deref(),
            "certificate-authority-data",
            "the certificate authority",
            of,
        )
    }

    /// What a credential plugin with `provideClusterInfo` is told.
    pub(super) fn for_exec(&self, server: &Uri, ca: Option<&[u8]>, of: &str) -> Result<ExecAuthCluster, ConfigError> {
        let cluster = ::kube::config::Cluster {
            server: Some(server.to_string()),
            insecure_skip_tls_verify: self.insecure_skip_tls_verify,
            certificate_authority_data: ca.map(|pem| BASE64.encode(pem)),
            proxy_url: self.proxy_url.clone(),
            disable_compression: self.disable_compression,
            tls_server_name: self.tls_server_name.clone(),
            extensions: self.extensions.clone(),
            ..Default::default()
        };
        ExecAuthCluster::try_from(&cluster).map_err(|_| ConfigError::BadSetting {
            setting: "exec.provideClusterInfo",
            of: of.to_owned(),
            problem: "the cluster cannot be described to the credential plugin".into(),
        })
    }
}

impl Context {
    fn normalised(mut self) -> Self {
        for value in [&mut self.cluster, &mut self.user, &mut self.namespace] {
            *value = nonempty(value.take());
        }
        self
    }
}

impl User {
    fn normalised(mut self, directory: &Path) -> Self {
        for value in [
            &mut self.client_certificate,
            &mut self.client_certificate_data,
            &mut self.client_key,
            &mut self.client_key_data,
            &mut self.token,
            &mut self.token_file,
            &mut self.impersonate,
            &mut self.as_uid,
            &mut self.username,
            &mut self.password,
        ] {
            *value = nonempty(value.take());
        }
        for path in [&mut self.client_certificate, &mut self.client_key, &mut self.token_file] {
            *path = path.take().map(|path| relative_to(directory, path));
        }
        // A bare program name is looked up in PATH.
        if let Some(exec) = &mut self.exec {
            exec.command = nonempty(exec.command.take()).map(|command| {
                if command.contains(std::path::is_separator) { relative_to(directory, command) } else { command }
            });
        }
        self
    }

    /// Flags win. A token on the command line takes the place of all other credentials: kubectl would still present the
    /// user's client certificate, and the API server would then ignore the token.
    pub(super) fn apply(&mut self, flags: &ConnectionFlags) {
        if let Some(token) = given(flags.token.as_ref()) {
            *self = Self {
                token: Some(token.to_owned()),
                impersonate: self.impersonate.take(),
                as_uid: self.as_uid.take(),
                as_groups: self.as_groups.take(),
                as_user_extra: self.as_user_extra.take(),
                ..Self::default()
            };
        }
        if let Some(path) = &flags.client_certificate {
            self.client_certificate = Some(path.to_string_lossy().into_owned());
            self.client_certificate_data = None;
        }
        if let Some(path) = &flags.client_key {
            self.client_key = Some(path.to_string_lossy().into_owned());
            self.client_key_data = None;
        }
        if let Some(name) = given(flags.r#as.as_ref()) {
            self.impersonate = Some(name.to_owned());
        }
        if let Some(uid) = given(flags.as_uid.as_ref()) {
            self.as_uid = Some(uid.to_owned());
        }
        if !flags.as_group.is_empty() {
            self.as_groups = Some(flags.as_group.clone());
        }
    }

    pub(super) fn auth_info(
        self,
        of: &str,
        flags: &ConnectionFlags,
        environment: &Environment,
    ) -> Result<AuthInfo, ConfigError> {
        let as_groups = self.as_groups.filter(|groups| !groups.is_empty());
        let as_user_extra = self.as_user_extra.filter(|extra| !extra.is_empty());
        if self.impersonate.is_none() && (self.as_uid.is_some() || as_groups.is_some() || as_user_extra.is_some()) {
            return Err(if flags.as_uid.is_some() || !flags.as_group.is_empty() {
                ConfigError::BadFlag {
                    flag: if flags.as_uid.is_some() { "--as-uid" } else { "--as-group" },
                    problem: "needs --as".into(),
                }
            } else {
                ConfigError::BadSetting {
                    setting: "as-groups, as-uid, as-user-extra",
                    of: of.to_owned(),
                    problem: "need as".into(),
                }
            });
        }

        let certificate = load(
            self.client_certificate_data.as_deref(),
            self.client_certificate.as_deref(),
            "client-certificate-data",
            "the client certificate",
            of,
        )?;
        let key =
            load(self.client_key_data.as_deref(), self.client_key.as_deref(), "client-key-data", "the client key", of)?;
        if certificate.is_some() != key.is_some() {
            return Err(ConfigError::BadSetting {
                setting: if certificate.is_some() { "client-key" } else { "client-certificate" },
                of: of.to_owned(),
                problem: "is missing: a client certificate and its key go together".into(),
            });
        }

        let (token, token_file) = match self.token_file {
            None => (self.token, None),
            Some(path) => match std::fs::read_to_string(&path) {
                // The file is read again by the client as it changes, and wins over `token`, as in client-go. Only if
                // white space must be removed first it is read once: kube would send it as it is.
                Ok(text) if text.trim() == text => (None, Some(path)),
                Ok(text) => (Some(text.trim().to_owned()), None),
                Err(_) if self.token.is_some() => (self.token, None),
                Err(source) => {
                    return Err(ConfigError::Unreadable { what: "the token file", path: PathBuf::from(path), source });
                }
            },
        };

        let mut exec = self.exec;
        if let Some(exec) = &mut exec
            && !environment.stdin_is_terminal
        {
            if exec.interactive_mode == Some(ExecInteractiveMode::Always) {
                return Err(ConfigError::ExecNeedsTerminal { command: exec.command.clone().unwrap_or_default() });
            }
            // kube would hand stdin over and tell the plugin that it may ask.
            exec.interactive_mode = Some(ExecInteractiveMode::Never);
        }

        Ok(AuthInfo {
            username: self.username,
            password: self.password.map(Into::into),
            token: token.map(Into::into),
            token_file,
            client_certificate_data: certificate.map(|pem| BASE64.encode(pem)),
            client_key_data: key.map(|pem| BASE64.encode(pem).into()),
            impersonate: self.impersonate,
            impersonate_uid: self.as_uid,
            impersonate_groups: as_groups,
            impersonate_user_extra: as_user_extra,
            auth_provider: self.auth_provider,
            exec,
            ..AuthInfo::default()
        })
    }
}

pub(super) fn nonempty(value: Option<String>) -> Option<String> {
    value.filter(|value| !value.is_empty())
}

pub(super) fn find<'a, T>(entries: &'a [(String, T)], name: &str) -> Option<&'a T> {
    entries.iter().find(|(entry, _)| entry == name).map(|(_, value)| value)
}

pub(super) fn names<T>(entries: &[(String, T)]) -> Vec<String> {
    let mut names: Vec<String> = entries.iter().map(|(name, _)| name.clone()).collect();
    names.sort();
    names
}

/// The entries of a list by name; `None` if a name is there twice, which kubectl refuses.
fn named<R, T: Default>(
    list: Option<Vec<R>>,
    split: impl Fn(R) -> (Option<String>, Option<T>),
) -> Option<Vec<(String, T)>> {
    let mut entries: Vec<(String, T)> = Vec::new();
    let mut seen = HashSet::new();
    for entry in list.unwrap_or_default() {
        let (name, value) = split(entry);
        let name = name.unwrap_or_default();
        if !seen.insert(name.clone()) {
            return None;
        }
        entries.push((name, value.unwrap_or_default()));
    }
    Some(entries)
}

fn merge<T>(into: &mut Vec<(String, T)>, from: impl Iterator<Item = (String, T)>) {
    let known: HashSet<String> = into.iter().map(|(name, _)| name.clone()).collect();
    into.extend(from.filter(|(name, _)| !known.contains(name)));
}

fn relative_to(directory: &Path, path: String) -> String {
    if Path::new(&path).is_absolute() { path } else { directory.join(&path).to_string_lossy().into_owned() }
}

/// UTF-8 with or without a mark, or UTF-16 with one (as PowerShell's `>` writes it).
fn decode_text(bytes: Vec<u8>) -> Option<String> {
    let utf16 = |unit: fn([u8; 2]) -> u16| {
        let units = bytes[2..].chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
        char::decode_utf16(units).collect::<Result<String, _>>().ok()
    };
    match bytes.as_slice() {
        [0xFF, 0xFE, ..] => utf16(u16::from_le_bytes),
        [0xFE, 0xFF, ..] => utf16(u16::from_be_bytes),
        [0xEF, 0xBB, 0xBF, rest @ ..] => String::from_utf8(rest.to_vec()).ok(),
        _ => String::from_utf8(bytes).ok(),
    }
}

/// The first document of the text. An error says where and roughly what, and never what stands there: it may be a key.
fn parse(text: &str) -> Result<RawFile, (Option<Position>, &'static str)> {
    let options = serde_yaml::options! {
        with_snippet: false,
        // As kubectl reads it.
        duplicate_keys: serde_yaml::DuplicateKeyPolicy::LastWins,
    };
    let documents: Vec<Option<RawFile>> = serde_yaml::from_multiple_with_options(text, options).map_err(|error| {
        let position = error.location().map(|location| (location.line(), location.column()));
        let problem = match error.without_snippet() {
            serde_yaml::Error::Message { .. }
            | serde_yaml::Error::ExternalMessage { .. }
            | serde_yaml::Error::Unexpected { .. } => {
                "a kubeconfig has something else there (a text where a list belongs, or the like)"
            }
            _ => "is no valid YAML",
        };
        (position, problem)
    })?;
    Ok(documents.into_iter().next().flatten().unwrap_or(RawFile {
        kind: None,
        current_context: None,
        clusters: None,
        contexts: None,
        users: None,
    }))
}

/// PEM from base64 in the kubeconfig or from a file; the former wins. Ends with a line feed.
fn load(
    data: Option<&str>,
    path: Option<&str>,
    setting: &'static str,
    what: &'static str,
    of: &str,
) -> Result<Option<Vec<u8>>, ConfigError> {
    let mut pem = match (data, path) {
        (Some(data), _) => {
            // Folded lines are as good as one line.
            let data: String = data.chars().filter(|c| !c.is_ascii_whitespace()).collect();
            BASE64.decode(data).map_err(|_| ConfigError::BadSetting {
                setting,
                of: of.to_owned(),
                problem: "is no valid base64".into(),
            })?
        }
        (None, Some(path)) => {
            std::fs::read(path).map_err(|source| ConfigError::Unreadable { what, path: PathBuf::from(path), source })?
        }
        (None, None) => return Ok(None),
    };
    if !pem.ends_with(b"\n") {
        pem.push(b'\n');
    }
    Ok(Some(pem))
}

/// The certificates in a PEM text that can be trusted; `None` if there are none. Those that cannot be read are skipped, as
/// Go does.
pub(super) fn trusted(pem: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut store = rustls::RootCertStore::empty();
    let certificates: Vec<Vec<u8>> = CertificateDer::pem_slice_iter(pem)
        .filter_map(Result::ok)
        .filter(|certificate| store.add(certificate.clone()).is_ok())
        .map(|certificate| certificate.to_vec())
        .collect();
    (!certificates.is_empty()).then_some(certificates)
}
