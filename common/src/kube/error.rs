//! What can go wrong on the way to the API server, told apart once, for everybody.
//!
//! [`ApiErrorKind`] is what the rest of the suite decides on; [`ApiError`] adds what to tell the person. No other module
//! looks at HTTP codes, `Status` objects or error chains.

use std::{error::Error as StdError, io, time::Duration};

use serde_json::Value;
use thiserror::Error;

/// Longest message text kept from an answer, in characters.
const MESSAGE_LIMIT: usize = 300;

/// What kind of failure a call to the API server ended in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ApiErrorKind {
    /// 401: the server does not know who is asking; the credentials are missing, expired or wrong.
    Unauthorized,
    /// 403 from the API server's authorizer or an admission plugin.
    Forbidden,
    /// 404 for an object of a kind that the server has.
    NotFound,
    /// 404 for the kind itself: the CRD or API group is not installed, or not in this version.
    NoSuchResource,
    /// 409: a precondition (uid, resourceVersion) did not hold, or somebody else wrote in between.
    Conflict,
    /// 409 for a create: the object exists.
    AlreadyExists,
    /// 410: the resource version or the continue token is too old.
    Gone,
    /// 429: the server asks to slow down; reads were repeated before this was reported.
    Throttled,
    /// 400, 405, 406, 415, 422: the request is refused as it stands. For a JSON patch it is also a failed `test`.
    Invalid,
    /// An admission webhook denied the request, or could not be called.
    Webhook,
    /// Any other 5xx that the API server answered itself.
    ServerError,
    /// No connection: refused, no route, name not found, no answer to the connection attempt. The request was not sent.
    Unreachable,
    /// No complete answer within the time limit.
    Timeout,
    /// The connection broke before a complete answer was there. What a write did is unknown.
    Interrupted,
    /// The TLS handshake failed; nearly always a certificate.
    Tls,
    /// The credentials could not be obtained (credential plugin, token refresh) or cannot be sent.
    Auth,
    /// The answer is not what the Kubernetes API answers: broken JSON in a successful answer.
    Decode,
    /// Something that is no Kubernetes API server answered: HTML from an ingress, a redirect, a proxy's own error.
    NotKubernetes,
}

/// A failed call to the API server.
///
/// Holds no secret: texts come from the server's `Status`, from the transport, or are ours; response bodies other than a
/// `Status` message are never quoted. `Display` is one lowercase line that reads after "cannot …: ".
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{what}: {message}")]
pub struct ApiError {
    /// What happened.
    pub kind: ApiErrorKind,
    /// The HTTP status code, if there was an answer.
    pub code: Option<u16>,
    /// The request, for people: `GET leases kube-system/cattle-controllers`.
    pub what: String,
    /// What the server or the transport said; one line of at most 300 characters, control characters removed.
    pub message: String,
    /// What a person could do about it, if that is known.
    pub hint: Option<String>,
    /// How long the server asks to wait before the next try, in whole seconds (`Retry-After`).
    pub retry_after: Option<Duration>,
    /// Whether the request may have reached the server.
    pub(crate) sent: bool,
    /// Whether the request was one that changes something.
    pub(crate) write: bool,
}

impl ApiError {
    /// An error with the texts made safe to show.
    pub(crate) fn new(kind: ApiErrorKind, what: impl Into<String>, message: impl AsRef<str>) -> Self {
        Self {
            kind,
            code: None,
            what: what.into(),
            message: bounded(message.as_ref(), MESSAGE_LIMIT),
            hint: None,
            retry_after: None,
            sent: true,
            write: false,
        }
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Whether this is a write whose outcome nobody can know from the answer: read the object before anything else, and
    /// never repeat the write blindly.
    ///
    /// True for a write that may have reached the server and was not answered by it (time limit, broken connection,
    /// unreadable answer, a 5xx from the server or from something in between). False for reads, and for every answer
    /// that the API server gives before it touches storage.
    pub fn write_outcome_unknown(&self) -> bool {
        if !self.write || !self.sent {
            return false;
        }
        match self.kind {
            ApiErrorKind::Timeout | ApiErrorKind::Interrupted | ApiErrorKind::Decode | ApiErrorKind::ServerError => {
                true
            }
            // A gateway's 4xx means that it did not pass the request on; its 5xx (and a "successful" page) means nothing.
            ApiErrorKind::NotKubernetes => self.code.is_none_or(|code| !(300..500).contains(&code)),
            ApiErrorKind::Unauthorized
            | ApiErrorKind::Forbidden
            | ApiErrorKind::NotFound
            | ApiErrorKind::NoSuchResource
            | ApiErrorKind::Conflict
            | ApiErrorKind::AlreadyExists
            | ApiErrorKind::Gone
            | ApiErrorKind::Throttled
            | ApiErrorKind::Invalid
            | ApiErrorKind::Webhook
            | ApiErrorKind::Unreachable
            | ApiErrorKind::Tls
            | ApiErrorKind::Auth => false,
        }
    }

    /// Whether the same read may well succeed a little later without anybody doing anything.
    ///
    /// Not a licence to repeat a write: see [`ApiError::write_outcome_unknown`].
    pub fn is_transient(&self) -> bool {
        match self.kind {
            ApiErrorKind::Throttled
            | ApiErrorKind::ServerError
            | ApiErrorKind::Unreachable
            | ApiErrorKind::Timeout
            | ApiErrorKind::Interrupted
            | ApiErrorKind::Gone => true,
            ApiErrorKind::NotKubernetes => matches!(self.code, Some(429 | 502..=504)),
            ApiErrorKind::Webhook => self.code.is_some_and(|code| code >= 500),
            ApiErrorKind::Unauthorized
            | ApiErrorKind::Forbidden
            | ApiErrorKind::NotFound
            | ApiErrorKind::NoSuchResource
            | ApiErrorKind::Conflict
            | ApiErrorKind::AlreadyExists
            | ApiErrorKind::Invalid
            | ApiErrorKind::Tls
            | ApiErrorKind::Auth
            | ApiErrorKind::Decode => false,
        }
    }

    /// Whether no API server could be spoken to at all, so that no other call is worth trying.
    pub fn is_connection(&self) -> bool {
        matches!(
            self.kind,
            ApiErrorKind::Unreachable | ApiErrorKind::Tls | ApiErrorKind::Auth | ApiErrorKind::Unauthorized
        )
    }

    /// Whether a write was refused because the object is not what the plan saw: 409, or a failed `test` of a JSON patch
    /// (422, `Invalid`).
    pub fn is_precondition(&self) -> bool {
        self.kind == ApiErrorKind::Conflict
            || (self.kind == ApiErrorKind::Invalid && self.code == Some(422) && self.what.starts_with("PATCH "))
    }
}

/// Why no client could be made of a configuration. Nothing was sent.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The credential plugin could not be started.
    #[error("cannot run the credential plugin {command:?}: {source}")]
    ExecStart {
        /// The program named in the kubeconfig.
        command: String,
        /// Why it did not start.
        source: io::Error,
        /// `installHint` of the kubeconfig.
        install_hint: Option<String>,
    },
    /// The credential plugin ran and failed. Its output is not kept: it may hold a token.
    #[error("the credential plugin {command:?} failed ({status}){}", .stderr.as_deref().map(|text| format!(": {text}")).unwrap_or_default())]
    ExecFailed {
        /// The program named in the kubeconfig.
        command: String,
        /// How it ended, as the system words it.
        status: String,
        /// The end of what it wrote to stderr, if that was not already on the terminal.
        stderr: Option<String>,
        /// `installHint` of the kubeconfig.
        install_hint: Option<String>,
    },
    /// The credential plugin ran, but what it printed is no usable `ExecCredential`.
    #[error("the credential plugin {command:?} printed no usable ExecCredential")]
    ExecOutput {
        /// The program named in the kubeconfig.
        command: String,
    },
    /// Other credentials of the kubeconfig's user cannot be used.
    #[error("cannot use the credentials of the kubeconfig: {0}")]
    Credentials(String),
    /// Certificates or keys of the kubeconfig cannot be used.
    #[error("cannot set up TLS: {0}")]
    Tls(String),
    /// The proxy cannot be used.
    #[error("cannot use the proxy {proxy}: {problem}")]
    Proxy {
        /// The proxy's URL without user and password.
        proxy: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A value of the kubeconfig or of a flag cannot be sent in a header.
    #[error("cannot be sent in a request header: {0}")]
    Header(String),
}

impl ConnectError {
    /// What a person could do about it, if that is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::ExecStart { install_hint, .. } | Self::ExecFailed { install_hint, .. } => {
                install_hint.as_deref().map(|hint| bounded_lines(hint, 1000))
            }
            _ => None,
        }
    }
}

/// What an answer that is no success means.
///
/// `what` names the request; `content_type` and `retry_after` are the answer's headers, `location` a redirect's.
pub(crate) fn from_answer(what: &str, answer: &Refusal<'_>) -> ApiError {
    let code = answer.code;
    let mut error = match serde_json::from_slice::<Value>(answer.body) {
        Ok(body) if body["kind"] == "Status" => from_status(what, code, &body),
        Ok(body) => foreign_json(what, code, &body),
        Err(_) => foreign_text(what, answer),
    };
    error.code = Some(code);
    if let Some(seconds) = answer.retry_after.and_then(|value| value.trim().parse().ok()) {
        error.retry_after = Some(Duration::from_secs(seconds));
    }
    error
}

/// An answer that is no success, as it came.
pub(crate) struct Refusal<'a> {
    pub(crate) code: u16,
    pub(crate) content_type: &'a str,
    pub(crate) retry_after: Option<&'a str>,
    pub(crate) location: Option<&'a str>,
    pub(crate) body: &'a [u8],
}

/// What a `Status` object means; also the one inside an `ERROR` event of a watch.
pub(crate) fn from_status(what: &str, code: u16, status: &Value) -> ApiError {
    let code =
        status["code"].as_u64().and_then(|code| u16::try_from(code).ok()).filter(|code| *code != 0).unwrap_or(code);
    let reason = status["reason"].as_str().unwrap_or_default();
    let message = status["message"].as_str().unwrap_or_default();
    let details = &status["details"];
    let kind = match (reason, code) {
        _ if is_webhook(message) => ApiErrorKind::Webhook,
        ("Unauthorized", _) | (_, 401) => ApiErrorKind::Unauthorized,
        ("Forbidden", _) | (_, 403) => ApiErrorKind::Forbidden,
        // "the server could not find the requested resource" comes without the name of an object.
        ("NotFound", _) | (_, 404) if details["name"].as_str().is_none_or(str::is_empty) => {
            ApiErrorKind::NoSuchResource
        }
        ("NotFound", _) | (_, 404) => ApiErrorKind::NotFound,
        ("AlreadyExists", _) => ApiErrorKind::AlreadyExists,
        ("Conflict", _) | (_, 409) => ApiErrorKind::Conflict,
        ("Gone" | "Expired", _) | (_, 410) => ApiErrorKind::Gone,
        ("TooManyRequests", _) | (_, 429) => ApiErrorKind::Throttled,
        ("Timeout", _) => ApiErrorKind::Timeout,
        (_, 400..=499) => ApiErrorKind::Invalid,
        _ => ApiErrorKind::ServerError,
    };
    let text = if message.is_empty() { format!("HTTP {code} {reason}") } else { message.to_owned() };
    let mut error = ApiError::new(kind, what, text);
    error.code = Some(code);
    error.retry_after = details["retryAfterSeconds"].as_u64().filter(|seconds| *seconds > 0).map(Duration::from_secs);
    error.hint = match kind {
        ApiErrorKind::Unauthorized => Some(UNAUTHORIZED_HINT.into()),
        ApiErrorKind::NoSuchResource => Some(NO_SUCH_RESOURCE_HINT.into()),
        ApiErrorKind::Forbidden if message.contains("\"system:anonymous\"") => {
            Some("the request came without credentials: the kubeconfig's user has none".into())
        }
        _ => None,
    };
    error
}

const UNAUTHORIZED_HINT: &str =
    "the server does not accept this user's credentials: expired, revoked, or for another cluster";
const NO_SUCH_RESOURCE_HINT: &str =
    "this server does not have that kind of object: the CRD is not installed, or this is another cluster than meant";
const FOREIGN_HINT: &str = "an ingress, load balancer or proxy answered in place of the API server";

/// The API server's own words for a webhook that said no, and for one that did not answer.
fn is_webhook(message: &str) -> bool {
    (message.contains("admission webhook \"") && message.contains("denied the request"))
        || message.contains("failed calling webhook")
        || message.contains("failed to call webhook")
}

/// JSON that is no `Status`: Rancher's own API (`{"type": "error", "status": "401", "message": …}`) or a stranger's.
fn foreign_json(what: &str, code: u16, body: &Value) -> ApiError {
    let rancher = body["type"] == "error";
    let message = match body["message"].as_str().filter(|message| rancher && !message.is_empty()) {
        Some(message) => format!("HTTP {code} from Rancher: {message}"),
        None => format!("HTTP {code} with JSON that is no Status of the Kubernetes API"),
    };
    match (rancher, code) {
        (_, 401) => ApiError::new(ApiErrorKind::Unauthorized, what, message).with_hint(UNAUTHORIZED_HINT),
        (true, 403) => ApiError::new(ApiErrorKind::Forbidden, what, message),
        (true, _) => ApiError::new(ApiErrorKind::NotKubernetes, what, message).with_hint(
            "Rancher answered, not the API server behind it: does the cluster exist, and is its agent connected?",
        ),
        (false, _) => ApiError::new(ApiErrorKind::NotKubernetes, what, message).with_hint(FOREIGN_HINT),
    }
}

/// Text and HTML. The API server answers some things in plain text (an unknown path, too many requests).
fn foreign_text(what: &str, answer: &Refusal<'_>) -> ApiError {
    let code = answer.code;
    if (300..400).contains(&code) {
        let to = answer.location.map(super::config::without_credentials).unwrap_or_else(|| "another address".into());
        return ApiError::new(ApiErrorKind::NotKubernetes, what, format!("HTTP {code}: redirected to {to}"))
            .with_hint("the server's address in the kubeconfig is not the API server's");
    }
    if is_html(answer.content_type, answer.body) {
        let title = html_title(answer.body).map(|title| format!(" ({title:?})")).unwrap_or_default();
        let kind = if code == 401 { ApiErrorKind::Unauthorized } else { ApiErrorKind::NotKubernetes };
        return ApiError::new(kind, what, format!("HTTP {code} with an HTML page{title}")).with_hint(FOREIGN_HINT);
    }
    let text = String::from_utf8_lossy(&answer.body[..answer.body.len().min(4 * MESSAGE_LIMIT)]);
    let message = match text.trim() {
        "" => format!("HTTP {code}"),
        text => format!("HTTP {code}: {text}"),
    };
    match code {
        400 if text.contains("HTTP request to an HTTPS server") => {
            ApiError::new(ApiErrorKind::NotKubernetes, what, message)
                .with_hint("the server speaks TLS: its address must begin with https://")
        }
        401 => ApiError::new(ApiErrorKind::Unauthorized, what, message).with_hint(UNAUTHORIZED_HINT),
        403 => ApiError::new(ApiErrorKind::Forbidden, what, message),
        404 => ApiError::new(ApiErrorKind::NoSuchResource, what, message).with_hint(NO_SUCH_RESOURCE_HINT),
        409 => ApiError::new(ApiErrorKind::Conflict, what, message),
        410 => ApiError::new(ApiErrorKind::Gone, what, message),
        429 => ApiError::new(ApiErrorKind::Throttled, what, message),
        400..=499 => ApiError::new(ApiErrorKind::Invalid, what, message),
        504 => ApiError::new(ApiErrorKind::Timeout, what, message),
        500..=599 => ApiError::new(ApiErrorKind::ServerError, what, message),
        _ => ApiError::new(ApiErrorKind::NotKubernetes, what, message).with_hint(FOREIGN_HINT),
    }
}

/// What a successful answer that is no JSON means. Its text is not quoted: it may be an object with a secret, cut short.
pub(crate) fn from_bad_body(what: &str, content_type: &str, body: &[u8], parse_error: &serde_json::Error) -> ApiError {
    if is_html(content_type, body) {
        let title = html_title(body).map(|title| format!(" ({title:?})")).unwrap_or_default();
        return ApiError::new(ApiErrorKind::NotKubernetes, what, format!("an HTML page{title} instead of JSON"))
            .with_hint(FOREIGN_HINT);
    }
    let problem = if parse_error.is_eof() { "JSON that ends too early" } else { "something that is no JSON" };
    ApiError::new(
        ApiErrorKind::Decode,
        what,
        format!("the answer is {problem} (line {}, column {})", parse_error.line(), parse_error.column()),
    )
}

fn is_html(content_type: &str, body: &[u8]) -> bool {
    content_type.trim_start().to_ascii_lowercase().starts_with("text/html")
        || body.trim_ascii_start().first() == Some(&b'<')
}

fn html_title(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(&body[..body.len().min(8192)]);
    // ASCII lower case keeps the byte positions.
    let lower = text.to_ascii_lowercase();
    let start = lower.find("<title>")? + "<title>".len();
    let end = start + lower[start..].find("</title>")?;
    Some(bounded(&text[start..end], 80)).filter(|title| !title.is_empty())
}

/// What an error of the transport means. `sent` is whether a connection was there, so that the request may have arrived.
pub(crate) fn from_transport(what: &str, server: &str, error: &(dyn StdError + 'static), sent: bool) -> ApiError {
    let mut found = Transport { connecting: !sent, ..Transport::default() };
    found.walk(error, 0);
    let mut result = found.classify(what, server);
    result.sent = sent && !found.connecting;
    result
}

/// What the chain of a transport error holds.
#[derive(Default)]
struct Transport {
    connecting: bool,
    dns: bool,
    no_http: bool,
    io: Option<io::ErrorKind>,
    tls: Option<rustls::Error>,
    auth: Option<String>,
    innermost: String,
}

impl Transport {
    fn walk(&mut self, error: &(dyn StdError + 'static), depth: usize) {
        if depth > 16 {
            return;
        }
        if let Some(auth) = error.downcast_ref::<::kube::client::AuthError>() {
            // Its own text, and its sources', may hold a token.
            self.auth = Some(auth_text(auth));
            return;
        }
        let text = error.to_string();
        if let Some(client) = error.downcast_ref::<hyper_util::client::legacy::Error>() {
            self.connecting |= client.is_connect();
        }
        self.dns |= text == "dns error";
        // hyper's words for an answer that is no HTTP.
        self.no_http |= text.starts_with("invalid HTTP ");
        if let Some(tls) = error.downcast_ref::<rustls::Error>() {
            self.tls = Some(tls.clone());
        }
        self.innermost = text;
        if let Some(io) = error.downcast_ref::<io::Error>() {
            self.io = Some(io.kind());
            // io::Error::source() skips its own payload.
            if let Some(payload) = io.get_ref() {
                return self.walk(payload, depth + 1);
            }
        }
        if let Some(source) = error.source() {
            self.walk(source, depth + 1);
        }
    }

    fn classify(&self, what: &str, server: &str) -> ApiError {
        if let Some(auth) = &self.auth {
            return ApiError::new(ApiErrorKind::Auth, what, auth);
        }
        if let Some(tls) = &self.tls {
            return from_tls(what, server, tls);
        }
        if self.connecting {
            let problem = match self.io {
                _ if self.dns => "the name cannot be resolved".to_owned(),
                Some(io::ErrorKind::ConnectionRefused) => "connection refused".to_owned(),
                Some(io::ErrorKind::TimedOut) => "no answer to the connection attempt".to_owned(),
                Some(io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe) => {
                    "the connection was closed before it was set up".to_owned()
                }
                _ => self.innermost.clone(),
            };
            return ApiError::new(ApiErrorKind::Unreachable, what, format!("cannot connect to {server}: {problem}"))
                .with_hint("is the address right, is the API server up, and is a VPN, proxy or firewall in between?");
        }
        if self.no_http {
            return ApiError::new(ApiErrorKind::NotKubernetes, what, format!("{server} does not answer in HTTP"))
                .with_hint("does the server's address begin with the right scheme (https://)?");
        }
        match self.io {
            Some(io::ErrorKind::TimedOut) => ApiError::new(ApiErrorKind::Timeout, what, "no answer in time"),
            Some(io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput) => {
                ApiError::new(ApiErrorKind::Decode, what, "the compressed answer cannot be unpacked")
            }
            _ => ApiError::new(
                ApiErrorKind::Interrupted,
                what,
                format!("the connection broke before the answer was complete ({})", self.innermost),
            ),
        }
    }
}

/// What a failed handshake means, and what Go would have accepted.
fn from_tls(what: &str, server: &str, error: &rustls::Error) -> ApiError {
    use rustls::{AlertDescription as Alert, CertificateError as Bad, Error as Tls};
    let (problem, hint): (String, Option<String>) = match error {
        Tls::InvalidCertificate(bad) => match bad {
            Bad::UnknownIssuer => (
                "its certificate is signed by an authority that is not trusted".into(),
                Some(
                    "the certificate-authority of the kubeconfig is missing, out of date or another cluster's; a proxy that \
                     opens TLS looks the same"
                        .into(),
                ),
            ),
            Bad::Expired | Bad::ExpiredContext { .. } => (
                format!("its certificate has expired{}", certificate_dates(bad)),
                Some("renew it (RKE2 and k3s do so at a restart of the server); is this machine's clock right?".into()),
            ),
            Bad::NotValidYet | Bad::NotValidYetContext { .. } => (
                format!("its certificate is not valid yet{}", certificate_dates(bad)),
                Some("is this machine's clock right?".into()),
            ),
            Bad::NotValidForName => ("its certificate is for another name".into(), Some(NAME_HINT.into())),
            Bad::NotValidForNameContext { presented, .. } => {
                (format!("its certificate is for other names: {}", presented_names(presented)), Some(NAME_HINT.into()))
            }
            // These two are not told apart by type: webpki's error is inside an opaque one.
            other if format!("{other:?}").contains("CaUsedAsEndEntity") => (
                "its certificate is a CA's, used as a server's".into(),
                Some("kubectl accepts that and this program does not: give the server a certificate with CA:FALSE".into()),
            ),
            other if format!("{other:?}").contains("UnsupportedCertVersion") => (
                "its certificate is of X.509 version 1".into(),
                Some("give the server a version 3 certificate with a subjectAltName".into()),
            ),
            Bad::BadSignature => (
                "its certificate's signature does not fit the trusted authority".into(),
                Some("the certificate-authority of the kubeconfig has the same name as the server's, but another key".into()),
            ),
            other => (format!("its certificate is not accepted ({other})"), None),
        },
        Tls::AlertReceived(Alert::CertificateRequired) => {
            ("it demands a client certificate, and this user has none".into(), None)
        }
        Tls::AlertReceived(
            Alert::BadCertificate | Alert::CertificateExpired | Alert::CertificateRevoked | Alert::CertificateUnknown
            | Alert::UnknownCA | Alert::AccessDenied | Alert::UnsupportedCertificate | Alert::DecryptError,
        ) => (
            format!("it does not accept this user's client certificate ({error})"),
            Some("the client-certificate of the kubeconfig has expired or is for another cluster".into()),
        ),
        Tls::InvalidMessage(_) => (
            "it does not speak TLS on this port".into(),
            Some("is it the API server's port, and is the address's scheme right?".into()),
        ),
        other => (other.to_string(), None),
    };
    let mut result = ApiError::new(ApiErrorKind::Tls, what, format!("TLS with {server} failed: {problem}"));
    result.hint = hint;
    result
}

const NAME_HINT: &str = "use an address that the certificate names, or --tls-server-name NAME";

fn certificate_dates(bad: &rustls::CertificateError) -> String {
    use rustls::CertificateError as Bad;
    let show = |seconds: u64| {
        i64::try_from(seconds)
            .ok()
            .and_then(|seconds| jiff::Timestamp::from_second(seconds).ok())
            .map(|time| time.to_string())
    };
    match bad {
        Bad::ExpiredContext { not_after, .. } => {
            show(not_after.as_secs()).map(|time| format!(" on {time}")).unwrap_or_default()
        }
        Bad::NotValidYetContext { not_before, .. } => {
            show(not_before.as_secs()).map(|time| format!(", only from {time}")).unwrap_or_default()
        }
        _ => String::new(),
    }
}

/// The names in a certificate as rustls hands them over (`DnsName("a")`, `IpAddress(127.0.0.1)`), readable.
fn presented_names(presented: &[String]) -> String {
    let names: Vec<&str> = presented
        .iter()
        .take(8)
        .map(|name| {
            name.split_once('(').map_or(name.as_str(), |(_, rest)| rest.trim_end_matches(')')).trim_matches('"')
        })
        .collect();
    if names.is_empty() { "it has no subjectAltName".to_owned() } else { names.join(", ") }
}

/// An authentication error of kube without what a credential plugin printed.
pub(crate) fn auth_text(error: &::kube::client::AuthError) -> String {
    use ::kube::client::AuthError as Auth;
    match error {
        Auth::AuthExecStart(source) => format!("the credential plugin cannot be run: {source}"),
        Auth::AuthExecRun { out, .. } => format!("the credential plugin failed ({})", out.status),
        Auth::AuthExecParse(_) | Auth::ExecPluginFailed | Auth::ParseTokenKey(_) => {
            "the credential plugin printed no usable credentials".to_owned()
        }
        Auth::InvalidBasicAuth(_) | Auth::InvalidBearerToken(_) => {
            "the token or password has characters that cannot be sent in a header".to_owned()
        }
        Auth::ReadTokenFile(source, path) => format!("cannot read the token file {}: {source}", path.display()),
        Auth::MissingCommand => "the credential plugin has no command".to_owned(),
        Auth::MalformedTokenExpirationDate(_) => "the credentials' expiry date cannot be read".to_owned(),
        Auth::UnrefreshableTokenResponse => "the credential plugin returned no token when asked again".to_owned(),
        // Fixed texts about the provider's name.
        Auth::AuthExec(text)
            if text.starts_with("The azure auth plugin") || text.starts_with("Authentication with provider") =>
        {
            text.clone()
        }
        Auth::Oidc(_) => "the OIDC token cannot be refreshed".to_owned(),
        _ => "the auth-provider gave no usable credentials".to_owned(),
    }
}

/// `text` on one line, without control characters, at most `limit` characters.
pub(crate) fn bounded(text: &str, limit: usize) -> String {
    let mut out = String::new();
    for (count, word_char) in squeeze(text).enumerate() {
        if count >= limit {
            out.push('…');
            break;
        }
        out.push(word_char);
    }
    out
}

/// `text` with its lines, without other control characters, at most `limit` characters.
pub(crate) fn bounded_lines(text: &str, limit: usize) -> String {
    text.trim().chars().filter(|c| *c == '\n' || !c.is_control()).take(limit).collect()
}

/// White space runs become one space, control characters vanish.
fn squeeze(text: &str) -> impl Iterator<Item = char> + '_ {
    let mut previous_space = true;
    let trimmed = text.trim_end();
    trimmed.chars().filter_map(move |c| {
        if c.is_whitespace() {
            let keep = !previous_space;
            previous_space = true;
            keep.then_some(' ')
        } else if c.is_control() {
            None
        } else {
            previous_space = false;
            Some(c)
        }
    })
}
