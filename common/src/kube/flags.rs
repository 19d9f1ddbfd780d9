//! kubectl's connection flags.

use std::{fmt, path::PathBuf, time::Duration};

use clap::Args;

use super::config::ConfigError;

/// kubectl's flags that say which API server to talk to, and as whom.
///
/// Spelling and meaning are kubectl's (`kubectl options`). They may stand before or after the verb. Flags of kubectl
/// that are not here are unknown to the parser and therefore refused: to ignore one would mean to talk to another server,
/// or as another user, than the command says.
///
/// `Debug` does not show the token.
#[derive(Args, Clone, Default, PartialEq, Eq)]
#[command(next_help_heading = "Connection")]
pub struct ConnectionFlags {
    /// Path to the kubeconfig file to use
    #[arg(long, global = true, value_name = "FILE", overrides_with = "kubeconfig")]
    pub kubeconfig: Option<PathBuf>,

    /// Name of the kubeconfig context to use
    #[arg(long, global = true, value_name = "NAME", overrides_with = "context")]
    pub context: Option<String>,

    /// Name of the kubeconfig cluster to use
    #[arg(long, global = true, value_name = "NAME", overrides_with = "cluster")]
    pub cluster: Option<String>,

    /// Name of the kubeconfig user to use
    #[arg(long, global = true, value_name = "NAME", overrides_with = "user")]
    pub user: Option<String>,

    /// Namespace, if not the context's
    #[arg(long, short = 'n', global = true, value_name = "NAME", overrides_with = "namespace")]
    pub namespace: Option<String>,

    /// Address and port of the Kubernetes API server
    #[arg(long, short = 's', global = true, value_name = "URL", overrides_with = "server")]
    pub server: Option<String>,

    /// Bearer token for the API server; takes the place of the user's credentials
    #[arg(long, global = true, value_name = "TOKEN", overrides_with = "token")]
    pub token: Option<String>,

    /// User name to impersonate
    #[arg(long = "as", global = true, value_name = "USER", overrides_with = "as")]
    pub r#as: Option<String>,

    /// Group to impersonate; repeat for several
    #[arg(long, global = true, value_name = "GROUP")]
    pub as_group: Vec<String>,

    /// UID to impersonate
    #[arg(long, global = true, value_name = "UID", overrides_with = "as_uid")]
    pub as_uid: Option<String>,

    /// Path to the certificate file of the certificate authority
    #[arg(long, global = true, value_name = "FILE", overrides_with = "certificate_authority")]
    pub certificate_authority: Option<PathBuf>,

    /// Path to a client certificate file for TLS
    #[arg(long, global = true, value_name = "FILE", overrides_with = "client_certificate")]
    pub client_certificate: Option<PathBuf>,

    /// Path to a client key file for TLS
    #[arg(long, global = true, value_name = "FILE", overrides_with = "client_key")]
    pub client_key: Option<PathBuf>,

    /// Do not check the server's certificate; the connection can then be intercepted
    #[arg(long, global = true, num_args = 0..=1, default_value_t = false, default_missing_value = "true", require_equals = true, hide_default_value = true, hide_possible_values = true, action = clap::ArgAction::Set)]
    pub insecure_skip_tls_verify: bool,

    /// Server name that the server's certificate is checked for
    #[arg(long, global = true, value_name = "NAME", overrides_with = "tls_server_name")]
    pub tls_server_name: Option<String>,

    /// Time limit for one request (30, 30s, 1m30s); 0 is none. Default: 30s
    #[arg(long, global = true, value_name = "DURATION", overrides_with = "request_timeout")]
    pub request_timeout: Option<String>,
}

impl ConnectionFlags {
    /// The time limit for one request: the flag, or the default of 30 seconds; `None` is no limit.
    ///
    /// kubectl's spelling: a whole number of seconds, or a Go duration; `0` is no limit.
    ///
    /// # Errors
    /// [`ConfigError::BadFlag`] for anything else, negative durations included.
    pub fn request_timeout(&self) -> Result<Option<Duration>, ConfigError> {
        let Some(text) = self.request_timeout.as_deref().filter(|text| !text.is_empty()) else {
            return Ok(Some(super::client::DEFAULT_REQUEST_TIMEOUT));
        };
        match parse_timeout(text) {
            Some(Duration::ZERO) => Ok(None),
            Some(limit) => Ok(Some(limit)),
            None => Err(ConfigError::BadFlag {
                flag: "--request-timeout",
                problem: format!("{text:?} is not a number of seconds (30) or a duration (30s, 1m30s)"),
            }),
        }
    }
}

/// Which downstream cluster to look into as well, for plugins that look at both sides.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
#[command(next_help_heading = "Connection")]
pub struct DownstreamFlags {
    /// Context of the downstream cluster [default: through Rancher's proxy where --context is, else not read]
    #[arg(long, value_name = "NAME")]
    pub downstream_context: Option<String>,

    /// kubeconfig file of the downstream cluster [default: that of --kubeconfig]
    #[arg(long, value_name = "FILE")]
    pub downstream_kubeconfig: Option<PathBuf>,
}

impl DownstreamFlags {
    /// The connection they ask for, if they ask for one. Nothing of the other connection counts but its kubeconfig and
    /// time limit: a user or token for Rancher's cluster is none for this one.
    #[must_use]
    pub fn connection(&self, of_rancher: &ConnectionFlags) -> Option<ConnectionFlags> {
        if *self == Self::default() {
            return None;
        }
        Some(ConnectionFlags {
            kubeconfig: self.downstream_kubeconfig.clone().or_else(|| of_rancher.kubeconfig.clone()),
            context: self.downstream_context.clone(),
            request_timeout: of_rancher.request_timeout.clone(),
            ..ConnectionFlags::default()
        })
    }

    /// The flags as typed, for commands that are offered to be copied.
    #[must_use]
    pub fn repeat(&self) -> Vec<String> {
        let context = self.downstream_context.iter().flat_map(|name| ["--downstream-context".to_owned(), name.clone()]);
        let file = self
            .downstream_kubeconfig
            .iter()
            .flat_map(|path| ["--downstream-kubeconfig".to_owned(), path.to_string_lossy().into_owned()]);
        context.chain(file).collect()
    }
}

impl fmt::Debug for ConnectionFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Taken apart field by field, so that a new flag cannot be forgotten here.
        let Self {
            kubeconfig,
            context,
            cluster,
            user,
            namespace,
            server,
            token,
            r#as,
            as_group,
            as_uid,
            certificate_authority,
            client_certificate,
            client_key,
            insecure_skip_tls_verify,
            tls_server_name,
            request_timeout,
        } = self;
        f.debug_struct("ConnectionFlags")
            .field("kubeconfig", kubeconfig)
            .field("context", context)
            .field("cluster", cluster)
            .field("user", user)
            .field("namespace", namespace)
            .field("server", server)
            .field("token", &token.as_ref().map(|_| "<redacted>"))
            .field("as", r#as)
            .field("as_group", as_group)
            .field("as_uid", as_uid)
            .field("certificate_authority", certificate_authority)
            .field("client_certificate", client_certificate)
            .field("client_key", client_key)
            .field("insecure_skip_tls_verify", insecure_skip_tls_verify)
            .field("tls_server_name", tls_server_name)
            .field("request_timeout", request_timeout)
            .finish()
    }
}

/// kubectl's `ParseTimeout`: whole seconds, or Go's `time.ParseDuration`, without negative values.
fn parse_timeout(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse::<u32>() {
        return Some(Duration::from_secs(u64::from(seconds)));
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest.is_empty() {
        return None;
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(end);
        let value: f64 = number.parse().ok()?;
        // Longer units first: "ms" is not "m" followed by "s".
        let (unit, seconds) = [
            ("ns", 1e-9),
            ("us", 1e-6),
            ("µs", 1e-6),
            ("μs", 1e-6),
            ("ms", 1e-3),
            ("s", 1.0),
            ("m", 60.0),
            ("h", 3600.0),
        ]
        .into_iter()
        .find(|(unit, _)| tail.starts_with(unit))?;
        total = total.checked_add(Duration::try_from_secs_f64(value * seconds).ok()?)?;
        rest = &tail[unit.len()..];
    }
    Some(total)
}
