//! The client: raw JSON in and out, over a stack that is quick to start and repeats no write.

use std::{
    fmt,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use ::kube::client::{AuthError, Body, ConfigExt as _, middleware::BaseUriLayer};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use futures::{Stream, stream};
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode,
    header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, DATE, LOCATION, RETRY_AFTER, USER_AGENT, WARNING},
};
use http_body_util::{BodyExt as _, combinators::UnsyncBoxBody};
use hyper::{
    body::Bytes,
    rt::{Read, Write},
};
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{
        Client,
        connect::{
            CaptureConnection, Connection, HttpConnector, capture_connection,
            proxy::{SocksV5, Tunnel},
        },
    },
    rt::TokioExecutor,
};
use jiff::{Timestamp, fmt::rfc2822};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tower::{BoxError, Layer as _, Service as _, ServiceExt as _, util::BoxCloneSyncService};
use tower_http::decompression::DecompressionLayer;

use super::{
    ApiErrorKind,
    config::without_credentials,
    error::{self, ApiError, ConnectError, Refusal, bounded},
    path,
};

/// Time limit for one call unless `--request-timeout` says otherwise.
pub const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Table rows instead of objects, with nothing of the objects themselves (`includeObject=None` goes into the path).
pub const ACCEPT_TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
/// Only the metadata of each object.
pub const ACCEPT_METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
/// Only the metadata of one object.
pub const ACCEPT_METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";

/// Time limits of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until TCP and TLS are up.
    pub connect: Duration,
    /// One call from the first byte sent to the last byte received; `None` is no limit. Each page of a list is a call.
    pub request: Option<Duration>,
    /// No read is tried again when this much time has passed since its first try.
    pub retry_budget: Duration,
    /// Longest wait before a read is tried again, whatever `Retry-After` says.
    pub retry_wait: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            request: Some(DEFAULT_REQUEST_TIMEOUT),
            retry_budget: Duration::from_secs(10),
            retry_wait: Duration::from_secs(4),
        }
    }
}

impl Timeouts {
    /// The defaults with this time limit for one call ([`super::ConnectionFlags::request_timeout`]).
    pub fn with_request(request: Option<Duration>) -> Self {
        Self { request, ..Self::default() }
    }
}

/// How often a read is tried before its error is reported.
const TRIES: u32 = 3;
/// A connection that was idle for longer is not used again.
const CONNECTION_IDLE: Duration = Duration::from_secs(20);
/// Most distinct `Warning:` headers that are kept.
const WARNINGS_KEPT: usize = 20;
/// Most bytes of an error's body that are looked at.
const ERROR_BODY_LIMIT: usize = 256 * 1024;
/// Objects per page where the server does not say how many there are.
const COUNTED_PAGE: usize = 500;
/// An answer in parts is put together up to this size before memory is reserved for more.
const RESERVE_LIMIT: usize = 16 * 1024 * 1024;

/// What the server answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer<T = Value> {
    /// The JSON document; for a list over several pages, all of it in one.
    pub body: T,
    /// The server's clock when it answered (`Date`, whole seconds); of the first page for a list.
    pub date: Option<Timestamp>,
    /// This machine's clock when the request was about to be sent.
    pub sent_at: Timestamp,
    /// This machine's clock when the answer's head had arrived.
    pub received_at: Timestamp,
}

/// A client for one API server, as one user. Cheap to clone; clones share connections and warnings.
///
/// Works on a current-thread runtime and needs the runtime's I/O and time drivers.
#[derive(Clone)]
pub struct Api {
    inner: Arc<Inner>,
}

struct Inner {
    service: Service,
    /// The same connections below the server's address: what another cluster behind the same Rancher is reached by.
    bare: Service,
    timeouts: Timeouts,
    server: String,
    warnings: Mutex<Vec<String>>,
}

type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;
type Service = BoxCloneSyncService<Request<Body>, Response<ResponseBody>, BoxError>;

/// Makes a client. Runs a credential plugin if the user has one, so call it before anything draws on the terminal.
///
/// A plugin that gives a token is run exactly once; one that gives a client certificate is run twice, since kube asks it
/// again for TLS. Nothing is sent: a wrong address shows at the first call. Must be called inside a runtime.
///
/// # Errors
/// [`ConnectError`] when credentials, certificates or the proxy cannot be used.
pub fn connect(config: ::kube::Config, user_agent: &str, timeouts: Timeouts) -> Result<Api, ConnectError> {
    // Should another crate ever bring a second provider in, rustls would panic without this. An error means that one is
    // installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();

    let mut config = config;
    let agent = HeaderValue::from_str(user_agent).map_err(|_| ConnectError::Header("the User-Agent".into()))?;
    config.headers.push((USER_AGENT, agent));
    if config.accept_invalid_certs && config.root_cert.is_none() {
        // Nothing is checked, so the system's certificates need not be loaded.
        config.root_cert = Some(Vec::new());
    }
    let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();

    let mut http = HttpConnector::new();
    // kube leaves this off: each new TLS connection would then wait 40 ms for a delayed ACK.
    http.set_nodelay(true);
    http.enforce_http(false);
    http.set_keepalive(Some(Duration::from_secs(30)));
    // Divided among the addresses of a name, so that one that does not answer leaves time for the others.
    http.set_connect_timeout(Some(timeouts.connect));

    // The credential plugin runs here …
    let auth = config.auth_layer().map_err(|error| connect_error(&config, error))?;
    if auth.is_some() {
        // … and would run again for TLS, which has no use for its token.
        config.auth_info.exec = None;
    }
    let service = match config.proxy_url.clone() {
        None => client(&config, http, timeouts)?,
        Some(proxy) => match proxy.scheme_str() {
            Some("socks5" | "socks5h") => {
                let mut connector = SocksV5::new(with_port(&proxy, 1080)?, http);
                if let Some((user, password)) = proxy_credentials(&proxy) {
                    connector = connector.with_auth(user, password);
                }
                client(&config, connector, timeouts)?
            }
            Some("https") => {
                let connector = config
                    .rustls_https_connector_with_connector(http)
                    .map_err(|error| connect_error(&config, error))?;
                client(&config, with_proxy_auth(Tunnel::new(proxy.clone(), connector), &proxy)?, timeouts)?
            }
            Some("http") => client(&config, with_proxy_auth(Tunnel::new(proxy.clone(), http), &proxy)?, timeouts)?,
            _ => {
                return Err(ConnectError::Proxy {
                    proxy: without_credentials(&proxy.to_string()),
                    problem: "its scheme is none of http, https, socks5".into(),
                });
            }
        },
    };

    let service = config.extra_headers_layer().map_err(|error| connect_error(&config, error))?.layer(service);
    let service = match auth {
        Some(auth) => BoxCloneSyncService::new(auth.layer(service)),
        None => BoxCloneSyncService::new(service),
    };
    let decompression = DecompressionLayer::new().gzip(!config.disable_compression);
    let bare = decompression
        .layer(service)
        .map_response(|response: Response<_>| response.map(|body| body.map_err(Into::into).boxed_unsync()));
    let bare: Service = BoxCloneSyncService::new(bare);
    Ok(Api::over(bare, config.cluster_url, server, timeouts))
}

/// TLS and a connection pool over a way to open connections.
fn client<C>(config: &::kube::Config, connector: C, timeouts: Timeouts) -> Result<Service, ConnectError>
where
    C: tower::Service<http::Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError> + std::error::Error + Send + Sync + 'static,
{
    let tls = config.rustls_https_connector_with_connector(connector).map_err(|error| connect_error(config, error))?;
    let mut connector = TimeoutConnector::new(tls);
    connector.set_connect_timeout(Some(timeouts.connect));
    // Reading has no limit here: each call has one as a whole, and a watch has none.
    // While a person reads a plan, a firewall may forget the connection; the write that follows must not be sent into it.
    let client: Client<_, Body> =
        Client::builder(TokioExecutor::new()).pool_idle_timeout(CONNECTION_IDLE).build(connector);
    let service = client
        .map_err(BoxError::from)
        .map_response(|response| response.map(|body| body.map_err(BoxError::from).boxed_unsync()));
    Ok(BoxCloneSyncService::new(service))
}

/// kube's error in words that hold no secret.
fn connect_error(config: &::kube::Config, error: ::kube::Error) -> ConnectError {
    let exec = config.auth_info.exec.as_ref();
    let command = exec.and_then(|exec| exec.command.clone()).unwrap_or_default();
    let install_hint = exec.and_then(|exec| exec.install_hint.clone());
    match error {
        ::kube::Error::Auth(AuthError::AuthExecStart(source)) => {
            ConnectError::ExecStart { command, source, install_hint }
        }
        ::kube::Error::Auth(AuthError::AuthExecRun { out, .. }) => ConnectError::ExecFailed {
            command,
            status: out.status.to_string(),
            // Empty when it went to the terminal. What it wrote to stdout may be a token.
            stderr: Some(bounded(&String::from_utf8_lossy(&out.stderr), 300)).filter(|text| !text.is_empty()),
            install_hint,
        },
        ::kube::Error::Auth(AuthError::AuthExecParse(_) | AuthError::ExecPluginFailed) => {
            ConnectError::ExecOutput { command }
        }
        ::kube::Error::Auth(error) => ConnectError::Credentials(error::auth_text(&error)),
        ::kube::Error::RustlsTls(error) => ConnectError::Tls(bounded(&error.to_string(), 300)),
        ::kube::Error::HttpError(_) => ConnectError::Header("the name, uid or groups to impersonate".into()),
        _ => ConnectError::Credentials("the kubeconfig's credentials cannot be read".into()),
    }
}

fn with_port(proxy: &http::Uri, port: u16) -> Result<http::Uri, ConnectError> {
    let host = proxy.host().unwrap_or_default();
    let port = proxy.port_u16().unwrap_or(port);
    // Only host and port matter to the connector.
    format!("http://{host}:{port}").parse().map_err(|_| ConnectError::Proxy {
        proxy: without_credentials(&proxy.to_string()),
        problem: "it has no usable host".into(),
    })
}

/// User and password in a proxy's URL, decoded.
fn proxy_credentials(proxy: &http::Uri) -> Option<(String, String)> {
    let (credentials, _) = proxy.authority()?.as_str().rsplit_once('@')?;
    let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
    Some((path::decode(user), path::decode(password)))
}

fn with_proxy_auth<C>(tunnel: Tunnel<C>, proxy: &http::Uri) -> Result<Tunnel<C>, ConnectError> {
    let Some((user, password)) = proxy_credentials(proxy) else { return Ok(tunnel) };
    let value = format!("Basic {}", BASE64.encode(format!("{user}:{password}")));
    let mut header =
        HeaderValue::try_from(value).map_err(|_| ConnectError::Header("the proxy's user and password".into()))?;
    header.set_sensitive(true);
    Ok(tunnel.with_auth(header))
}

/// One request, so that it can be built as often as it is tried.
struct Outgoing<'a> {
    method: Method,
    path: &'a str,
    accept: &'a str,
    content: Option<(&'static str, Vec<u8>)>,
    /// For messages.
    what: String,
    /// Whether it changes something; such a request is sent once.
    write: bool,
    /// Keep only this many bytes from the end of the answer.
    tail: Option<usize>,
}

/// The head of a successful answer.
struct Head {
    date: Option<Timestamp>,
    sent_at: Timestamp,
    received_at: Timestamp,
    content_type: String,
}

impl Api {
    fn over(bare: Service, base: http::Uri, server: String, timeouts: Timeouts) -> Self {
        let service = BoxCloneSyncService::new(BaseUriLayer::new(base).layer(bare.clone()));
        Self { inner: Arc::new(Inner { service, bare, timeouts, server, warnings: Mutex::new(Vec::new()) }) }
    }

    /// Another cluster behind the same Rancher, over the same connections and as the same user: Rancher serves each
    /// under `…/k8s/clusters/<id>` and applies the caller's rights there. `None` when this is no address of that kind.
    #[must_use]
    pub fn behind_rancher(&self, cluster: &str) -> Option<Self> {
        let (front, _) = self.inner.server.rsplit_once("/k8s/clusters/")?;
        let server = format!("{front}/k8s/clusters/{cluster}");
        let base = server.parse().ok()?;
        Some(Self::over(self.inner.bare.clone(), base, server, self.inner.timeouts))
    }

    /// Reads one JSON document. `path` starts with `/` and may carry a query.
    ///
    /// # Errors
    /// [`ApiError`]; 429, 503, 504 and connections that break are tried up to three times within ten seconds.
    pub async fn get(&self, path: &str) -> Result<Answer, ApiError> {
        self.get_as(path, JSON).await
    }

    /// Reads one JSON document in the form that `accept` asks for, e.g. [`ACCEPT_TABLE`].
    ///
    /// # Errors
    /// As [`Api::get`], and when the answer has another form.
    pub async fn get_as<T: DeserializeOwned>(&self, path: &str, accept: &str) -> Result<Answer<T>, ApiError> {
        self.json(&Outgoing::read(path, accept)).await
    }

    /// Reads a whole collection in pages of `page` objects and answers it as one `List` or one
    /// `PartialObjectMetadataList`.
    ///
    /// # Errors
    /// As [`Api::get`]; when the server forgets the list half-way (410 `Expired`) it is started once more.
    pub async fn list(&self, path: &str, accept: Option<&str>, page: usize) -> Result<Answer, ApiError> {
        let accept = accept.unwrap_or(JSON);
        match self.pages(path, accept, page).await {
            Err((error, true)) if error.kind == ApiErrorKind::Gone => {
                tracing::debug!(path, "list expired half-way, starting again");
                self.pages(path, accept, page).await
            }
            other => other,
        }
        .map_err(|(error, _)| error)
    }

    /// How many objects a collection has. The server says how many remain behind a first page of one, unless the
    /// collection is a selection (k8s.io/apimachinery `pkg/apis/meta/v1/types.go`, `ListMeta.remainingItemCount`); then
    /// they are counted page by page.
    ///
    /// # Errors
    /// As [`Api::list`].
    pub async fn count(&self, path: &str) -> Result<usize, ApiError> {
        let one: Value = self.get_as(&path::with_query(path, &[("limit", "1")]), ACCEPT_METADATA_LIST).await?.body;
        let here = items_of(&one);
        let metadata = &one["metadata"];
        if metadata["continue"].as_str().is_none_or(str::is_empty) {
            return Ok(here);
        }
        match metadata["remainingItemCount"].as_u64().and_then(|rest| usize::try_from(rest).ok()) {
            Some(rest) => Ok(here.saturating_add(rest)),
            None => Ok(items_of(&self.list(path, Some(ACCEPT_METADATA_LIST), COUNTED_PAGE).await?.body)),
        }
    }

    /// All pages of a collection; an error comes with whether there was a page before it.
    async fn pages(&self, path: &str, accept: &str, page: usize) -> Result<Answer, (ApiError, bool)> {
        let limit = page.to_string();
        let mut whole: Answer =
            self.get_as(&path::with_query(path, &[("limit", &limit)]), accept).await.map_err(|error| (error, false))?;
        let mut next = take_continue(&mut whole.body);
        while let Some(token) = next {
            let part: Answer = self
                .get_as(&path::with_query(path, &[("limit", &limit), ("continue", &token)]), accept)
                .await
                .map_err(|error| (error, true))?;
            let mut part = part.body;
            next = take_continue(&mut part);
            if let Value::Array(more) = part["items"].take() {
                match whole.body.get_mut("items") {
                    Some(Value::Array(all)) => all.extend(more),
                    _ => whole.body["items"] = Value::Array(more),
                }
            }
        }
        Ok(whole)
    }

    /// Reads text, e.g. a container's log: at most the last `limit_bytes` bytes, from the start of a line, with what is
    /// no UTF-8 replaced; and the server's clock.
    ///
    /// The rest is read and dropped, so a long log needs `tailLines` or `limitBytes` in the path as well.
    ///
    /// # Errors
    /// As [`Api::get`].
    pub async fn text(&self, path: &str, limit_bytes: usize) -> Result<(String, Option<Timestamp>), ApiError> {
        // One more than asked for, to see whether something was dropped.
        let request = Outgoing { tail: Some(limit_bytes.saturating_add(1)), ..Outgoing::read(path, "*/*") };
        let (head, bytes) = self.repeat(&request).await?;
        let mut bytes = bytes.as_slice();
        if bytes.len() > limit_bytes {
            bytes = &bytes[bytes.len() - limit_bytes - 1..];
            // The first line is most likely cut; a single line longer than everything is kept, cut.
            match bytes.iter().position(|byte| *byte == b'\n') {
                Some(end) if end + 1 < bytes.len() => bytes = &bytes[end + 1..],
                _ => bytes = &bytes[1..],
            }
        }
        Ok((String::from_utf8_lossy(bytes).into_owned(), head.date))
    }

    /// Deletes one object; `options` is a `DeleteOptions` (preconditions, propagationPolicy, dryRun).
    ///
    /// Answers a `Status` when the object is gone, the object itself when finalizers keep it.
    ///
    /// # Errors
    /// [`ApiError`]; never tried again, see [`ApiError::write_outcome_unknown`]. A path with a query is refused without
    /// being sent: beside a body the API server ignores the query of a DELETE, so that `?dryRun=All` would delete
    /// (k8s.io/apiserver `endpoints/handlers/delete.go`; tried on v1.37).
    pub async fn delete(&self, path: &str, options: &Value) -> Result<Answer, ApiError> {
        if path.contains('?') || !options.is_object() {
            let what = path::describe("DELETE", path);
            let mut error = ApiError::new(ApiErrorKind::Invalid, what, "options of a deletion belong into its body");
            error.write = true;
            error.sent = false;
            return Err(error);
        }
        // What the body says stands in the path too, where audit logs of level Metadata show it: they have no bodies, and
        // a dry run must not look like a deletion there.
        let path = if options["dryRun"].as_array().is_some_and(|modes| !modes.is_empty()) {
            super::path::with_query(path, &[("dryRun", "All")])
        } else {
            path.to_owned()
        };
        self.json(&Outgoing::write(Method::DELETE, &path, JSON, options.to_string().into_bytes())).await
    }

    /// Applies a JSON patch. A `dryRun=All` or `fieldManager` goes into the path ([`super::path::with_query`]).
    ///
    /// # Errors
    /// As [`Api::delete`]; a failed `test` is [`ApiError::is_precondition`].
    pub async fn patch_json(&self, path: &str, operations: &json_patch::Patch) -> Result<Answer, ApiError> {
        let content = serde_json::to_vec(operations).map_err(|_| {
            let mut error = ApiError::new(
                ApiErrorKind::Invalid,
                path::describe("PATCH", path),
                "the patch cannot be written as JSON",
            );
            error.sent = false;
            error
        })?;
        self.json(&Outgoing::write(Method::PATCH, path, "application/json-patch+json", content)).await
    }

    /// Creates an object in the collection `path`.
    ///
    /// # Errors
    /// As [`Api::delete`].
    pub async fn create(&self, path: &str, object: &Value) -> Result<Answer, ApiError> {
        self.json(&Outgoing::write(Method::POST, path, JSON, object.to_string().into_bytes())).await
    }

    /// Posts a question that changes nothing (`SelfSubjectAccessReview` and its kin), and so may be tried again.
    ///
    /// # Errors
    /// As [`Api::get`].
    pub async fn ask(&self, path: &str, question: &Value) -> Result<Answer, ApiError> {
        let request =
            Outgoing { write: false, ..Outgoing::write(Method::POST, path, JSON, question.to_string().into_bytes()) };
        self.json(&request).await
    }

    /// Watches a collection; `path` carries `watch=true`, `resourceVersion` and `timeoutSeconds`.
    ///
    /// Each item is a watch event `{"type": …, "object": …}`; an `ERROR` event is an [`ApiError`] (410 is
    /// [`ApiErrorKind::Gone`]) and ends the stream. There is no time limit but the server's.
    ///
    /// # Errors
    /// As [`Api::get`], for the start; an item is an error when the connection breaks, and the stream ends with it.
    pub async fn watch(
        &self,
        path: &str,
    ) -> Result<impl Stream<Item = Result<Value, ApiError>> + Send + use<>, ApiError> {
        let mut request = Outgoing::read(path, JSON);
        request.what = path::describe("WATCH", path);
        let started = Instant::now();
        let mut tries = 1;
        let body = loop {
            let captured = Captured::default();
            let start = self.start(&request, &captured);
            match self.limited(&request, &captured, start).await {
                Ok((_, body)) => break body,
                Err(error) => tries = self.wait_to_repeat(error, &request, tries, started).await?,
            }
        };
        Ok(events(body, request.what, self.inner.server.clone()))
    }

    /// The distinct `Warning:` headers seen so far, in order; at most 20.
    pub fn warnings(&self) -> Vec<String> {
        self.inner.warnings.lock().map(|warnings| warnings.clone()).unwrap_or_default()
    }

    async fn json<T: DeserializeOwned>(&self, request: &Outgoing<'_>) -> Result<Answer<T>, ApiError> {
        let (head, bytes) = self.repeat(request).await?;
        let body = serde_json::from_slice(&bytes).map_err(|problem| {
            let mut error = error::from_bad_body(&request.what, &head.content_type, &bytes, &problem);
            error.write = request.write;
            error
        })?;
        Ok(Answer { body, date: head.date, sent_at: head.sent_at, received_at: head.received_at })
    }

    /// Sends a request, and a read again as long as that is worth it.
    async fn repeat(&self, request: &Outgoing<'_>) -> Result<(Head, Vec<u8>), ApiError> {
        let started = Instant::now();
        let mut tries = 1;
        loop {
            let captured = Captured::default();
            let whole = async {
                let (head, body) = self.start(request, &captured).await?;
                let bytes = self.collect(request, body).await?;
                Ok((head, bytes))
            };
            match self.limited(request, &captured, whole).await {
                Ok(answer) => return Ok(answer),
                Err(error) => tries = self.wait_to_repeat(error, request, tries, started).await?,
            }
        }
    }

    /// Waits until a read may be tried again and answers the number of that try, or gives the error back.
    async fn wait_to_repeat(
        &self,
        error: ApiError,
        request: &Outgoing<'_>,
        tries: u32,
        started: Instant,
    ) -> Result<u32, ApiError> {
        let mut error = error;
        error.write = request.write;
        let worth_it = matches!(error.code, Some(429 | 503 | 504))
            || (error.kind == ApiErrorKind::Interrupted && error.code.is_none());
        let timeouts = &self.inner.timeouts;
        let wait = error.retry_after.unwrap_or(FIRST_WAIT * tries * tries).min(timeouts.retry_wait);
        if request.write || !worth_it || tries >= TRIES || started.elapsed() + wait > timeouts.retry_budget {
            if tries > 1 {
                error.message = format!("{} (tried {tries} times)", error.message);
            }
            return Err(error);
        }
        tracing::debug!(what = request.what, code = error.code, tries, wait_ms = wait.as_millis(), "trying again");
        tokio::time::sleep(wait).await;
        Ok(tries + 1)
    }

    /// Puts the time limit of a call on `work`.
    async fn limited<T>(
        &self,
        request: &Outgoing<'_>,
        captured: &Captured,
        work: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<T, ApiError> {
        let Some(limit) = self.inner.timeouts.request else { return work.await };
        match tokio::time::timeout(limit, work).await {
            Ok(result) => result,
            Err(_) => {
                let sent = captured.connected();
                let seconds = limit.as_secs_f64();
                let mut error = if sent {
                    ApiError::new(
                        ApiErrorKind::Timeout,
                        &request.what,
                        format!("no complete answer within {seconds} s"),
                    )
                } else {
                    let text = format!("no connection to {} within {seconds} s", self.inner.server);
                    ApiError::new(ApiErrorKind::Unreachable, &request.what, text)
                };
                error.sent = sent;
                error.hint = Some("a longer limit: --request-timeout 2m".into());
                Err(error)
            }
        }
    }

    /// Sends a request and waits for the head of the answer; what is no success becomes an error.
    async fn start(&self, request: &Outgoing<'_>, captured: &Captured) -> Result<(Head, ResponseBody), ApiError> {
        let mut outgoing = request.build()?;
        captured.set(capture_connection(&mut outgoing));
        let sent_at = Timestamp::now();
        let transport = |error: BoxError| {
            error::from_transport(&request.what, &self.inner.server, error.as_ref(), captured.connected())
        };
        let mut service = self.inner.service.clone();
        let response = service.ready().await.map_err(transport)?.call(outgoing).await.map_err(transport)?;
        let received_at = Timestamp::now();
        let (parts, body) = response.into_parts();
        self.note_warnings(&parts.headers);
        tracing::debug!(
            what = request.what,
            code = parts.status.as_u16(),
            ms = (received_at.as_microsecond() - sent_at.as_microsecond()) as f64 / 1000.0,
            "answered"
        );
        let content_type = header(&parts.headers, CONTENT_TYPE).unwrap_or_default();
        if !parts.status.is_success() {
            return Err(self.refused(request, parts.status, &parts.headers, content_type, body).await);
        }
        let date = header(&parts.headers, DATE).and_then(|date| DATES.parse_timestamp(date).ok());
        Ok((Head { date, sent_at, received_at, content_type: content_type.to_owned() }, body))
    }

    async fn refused(
        &self,
        request: &Outgoing<'_>,
        status: StatusCode,
        headers: &HeaderMap,
        content_type: &str,
        mut body: ResponseBody,
    ) -> ApiError {
        let mut bytes = Vec::new();
        // A body that breaks off changes nothing about what the code says.
        while let Some(Ok(frame)) = body.frame().await {
            bytes.extend_from_slice(frame.data_ref().map(Bytes::as_ref).unwrap_or_default());
            if bytes.len() > ERROR_BODY_LIMIT {
                break;
            }
        }
        let mut error = error::from_answer(
            &request.what,
            &Refusal {
                code: status.as_u16(),
                content_type,
                retry_after: header(headers, RETRY_AFTER),
                location: header(headers, LOCATION),
                body: &bytes,
            },
        );
        error.write = request.write;
        error
    }

    async fn collect(&self, request: &Outgoing<'_>, mut body: ResponseBody) -> Result<Vec<u8>, ApiError> {
        let mut bytes = Vec::new();
        let size = hyper::body::Body::size_hint(&body).lower();
        bytes.reserve(usize::try_from(size).unwrap_or(RESERVE_LIMIT).min(RESERVE_LIMIT));
        while let Some(frame) = body.frame().await {
            let frame = frame
                .map_err(|error| error::from_transport(&request.what, &self.inner.server, error.as_ref(), true))?;
            let Ok(data) = frame.into_data() else { continue };
            bytes.extend_from_slice(&data);
            if let Some(tail) = request.tail
                && bytes.len() > tail.saturating_mul(2)
            {
                bytes.drain(..bytes.len() - tail);
            }
        }
        Ok(bytes)
    }

    fn note_warnings(&self, headers: &HeaderMap) {
        for value in headers.get_all(WARNING) {
            let Some(text) = value.to_str().ok().and_then(warning_text) else { continue };
            if let Ok(mut warnings) = self.inner.warnings.lock()
                && warnings.len() < WARNINGS_KEPT
                && !warnings.contains(&text)
            {
                warnings.push(text);
            }
        }
    }
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("server", &self.inner.server).finish_non_exhaustive()
    }
}

const JSON: &str = "application/json";
/// Before the second try; the third waits four times as long.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const DATES: rfc2822::DateTimeParser = rfc2822::DateTimeParser::new();

impl<'a> Outgoing<'a> {
    fn read(path: &'a str, accept: &'a str) -> Self {
        Self {
            method: Method::GET,
            path,
            accept,
            content: None,
            what: path::describe("GET", path),
            write: false,
            tail: None,
        }
    }

    fn write(method: Method, path: &'a str, content_type: &'static str, content: Vec<u8>) -> Self {
        let what = path::describe(method.as_str(), path);
        Self { method, path, accept: JSON, content: Some((content_type, content)), what, write: true, tail: None }
    }

    fn build(&self) -> Result<Request<Body>, ApiError> {
        let mut builder = Request::builder().method(self.method.clone()).uri(self.path).header(ACCEPT, self.accept);
        let body = match &self.content {
            None => Body::empty(),
            Some((content_type, content)) => {
                builder = builder.header(CONTENT_TYPE, *content_type).header(CONTENT_LENGTH, content.len());
                Body::from(content.clone())
            }
        };
        builder.body(body).map_err(|_| {
            let mut error = ApiError::new(ApiErrorKind::Invalid, &self.what, "the path is no valid URL");
            error.sent = false;
            error
        })
    }
}

/// Whether a connection was found for a request, asked after the request is gone.
#[derive(Default)]
struct Captured(Mutex<Option<CaptureConnection>>);

impl Captured {
    fn set(&self, connection: CaptureConnection) {
        if let Ok(mut slot) = self.0.lock() {
            *slot = Some(connection);
        }
    }

    fn connected(&self) -> bool {
        let slot = self.0.lock();
        slot.is_ok_and(|slot| slot.as_ref().is_some_and(|connection| connection.connection_metadata().is_some()))
    }
}

fn header(headers: &HeaderMap, name: http::HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// The text of `299 - "text"`, the only form that the API server uses.
fn warning_text(value: &str) -> Option<String> {
    let quoted = value.strip_prefix("299 ")?.split_once('"')?.1;
    let mut text = String::new();
    let mut chars = quoted.chars();
    while let Some(next) = chars.next() {
        match next {
            '"' => break,
            '\\' => text.extend(chars.next()),
            other => text.push(other),
        }
    }
    Some(bounded(&text, 300)).filter(|text| !text.is_empty())
}

fn items_of(list: &Value) -> usize {
    list["items"].as_array().map_or(0, Vec::len)
}

/// Takes the continue token out of a list's metadata, with the count that only makes sense beside it.
fn take_continue(list: &mut Value) -> Option<String> {
    let metadata = list.get_mut("metadata")?.as_object_mut()?;
    metadata.shift_remove("remainingItemCount");
    match metadata.shift_remove("continue") {
        Some(Value::String(token)) if !token.is_empty() => Some(token),
        _ => None,
    }
}

/// The lines of a watch as events.
fn events(
    body: ResponseBody,
    what: String,
    server: String,
) -> impl Stream<Item = Result<Value, ApiError>> + Send + use<> {
    struct Reading {
        body: ResponseBody,
        pending: Vec<u8>,
        searched: usize,
        done: bool,
        what: String,
        server: String,
    }
    let reading = Reading { body, pending: Vec::new(), searched: 0, done: false, what, server };
    stream::unfold(reading, |mut reading| async move {
        loop {
            if reading.done {
                return None;
            }
            if let Some(end) = reading.pending[reading.searched..].iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = reading.pending.drain(..=reading.searched + end).collect();
                reading.searched = 0;
                if line.trim_ascii().is_empty() {
                    continue;
                }
                let event = read_event(&line, &reading.what);
                reading.done = event.is_err();
                return Some((event, reading));
            }
            reading.searched = reading.pending.len();
            match reading.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        reading.pending.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => {
                    reading.done = true;
                    let error = error::from_transport(&reading.what, &reading.server, error.as_ref(), true);
                    return Some((Err(error), reading));
                }
                // The server's own time limit. A line without its end is no event.
                None => return None,
            }
        }
    })
}

fn read_event(line: &[u8], what: &str) -> Result<Value, ApiError> {
    let event: Value = serde_json::from_slice(line).map_err(|error| error::from_bad_body(what, "", line, &error))?;
    if event["type"] == "ERROR" {
        return Err(error::from_status(what, 500, &event["object"]));
    }
    Ok(event)
}
