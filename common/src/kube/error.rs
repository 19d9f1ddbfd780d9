//! What can go wrong on the way to the API server, told apart once, for everybody.
//!
//! [`ApiErrorKind`] is what the rest of the suite decides on; [`ApiError`] adds what to tell the person. No other module
//! looks at HTTP codes, `Status` objects or error chains.

use std::{io, time::Duration};

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
        }
    }

    #[cfg_attr(not(test), expect(dead_code, reason = "the classification that uses it follows"))]
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
        if !self.is_write() || !self.sent {
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

    fn is_write(&self) -> bool {
        !self.what.starts_with("GET ") && !self.what.starts_with("WATCH ") && !self.what.starts_with("ASK ")
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
    /// The credential plugin must ask the person something, and there is no terminal to ask at.
    #[error("the credential plugin {command:?} needs a terminal (interactiveMode: Always), and stdin is none")]
    ExecNeedsTerminal {
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
            Self::ExecNeedsTerminal { .. } => Some("run the command in a terminal, or use other credentials".into()),
            _ => None,
        }
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
