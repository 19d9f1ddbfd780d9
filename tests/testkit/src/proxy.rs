//! A proxy before the real API servers that makes faults: plain HTTP towards the plugin, TLS towards the servers.
//!
//! Like kubectl, the plugin sends no credentials over plain HTTP, so the proxy brings the token. It serves the paths of
//! Rancher's own proxy too: `/k8s/clusters/local` and, for a world with downstream clusters, `/k8s/clusters/c-m-…`.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};

use crate::machines::{Reach, write_kubeconfig};
use crate::{ControlPlane, Downstream};

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Answer = Response<BoxBody<Bytes, BoxError>>;

/// The path of Rancher's own proxy, before a cluster's name; taken off before a request is forwarded.
const RANCHER_PREFIX: &str = "/k8s/clusters/";
/// The path of Rancher's own proxy to its local cluster.
const RANCHER_LOCAL: &str = "/k8s/clusters/local";

/// Which requests a fault strikes.
#[derive(Clone, Debug, Default)]
pub struct Match {
    method: Option<String>,
    path: Option<String>,
    exact: bool,
    dry_run: Option<bool>,
    skip: usize,
    times: Option<usize>,
}

impl Match {
    /// Everything.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Requests with this method whose path contains this.
    #[must_use]
    pub fn of(method: &str, path: &str) -> Self {
        Self { method: Some(method.to_owned()), path: Some(path.to_owned()), ..Self::default() }
    }

    /// Only requests whose path, without the query, is exactly the one given.
    #[must_use]
    pub fn exactly(mut self) -> Self {
        self.exact = true;
        self
    }

    /// Only writes that are meant, or only dry runs.
    #[must_use]
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = Some(dry_run);
        self
    }

    /// Not the first ones.
    #[must_use]
    pub fn after(mut self, skip: usize) -> Self {
        self.skip = skip;
        self
    }

    /// Only so many.
    #[must_use]
    pub fn times(mut self, times: usize) -> Self {
        self.times = Some(times);
        self
    }
}

/// What happens to a request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// An answer of this status with these headers and this body; JSON unless a header says otherwise.
    Status(u16, Vec<(&'static str, String)>, String),
    /// What a load balancer answers when it has no server behind it.
    Html503,
    /// The connection is reset.
    Reset,
    /// The server's answer, cut in the middle.
    TruncatedBody,
    /// The server's answer, so much later.
    Delay(Duration),
    /// Forwarded, and never answered.
    ForwardThenSilence,
    /// Forwarded only when the test opens the gate.
    Hold(Gate),
}

impl Fault {
    /// An answer of the API server's kind.
    #[must_use]
    pub fn api_error(code: u16, reason: &str, message: &str) -> Self {
        let body = serde_json::json!({
            "apiVersion": "v1", "kind": "Status", "status": "Failure",
            "code": code, "reason": reason, "message": message,
        });
        Self::Status(code, Vec::new(), body.to_string())
    }
}

/// Holds requests back until it is opened.
#[derive(Clone, Debug)]
pub struct Gate {
    arrived: Arc<(Mutex<usize>, Condvar)>,
    open: Arc<watch::Sender<bool>>,
}

impl Default for Gate {
    fn default() -> Self {
        Self { arrived: Arc::default(), open: Arc::new(watch::Sender::new(false)) }
    }
}

impl Gate {
    /// Waits until a request stands before it.
    ///
    /// # Panics
    /// When none comes within the limit.
    #[track_caller]
    pub fn wait(&self, limit: Duration) {
        self.wait_for(1, limit);
    }

    /// Waits until so many requests stand before it.
    ///
    /// # Panics
    /// When they do not come within the limit.
    #[track_caller]
    pub fn wait_for(&self, count: usize, limit: Duration) {
        let arrived = self.arrived.0.lock().unwrap();
        let (arrived, _) = self.arrived.1.wait_timeout_while(arrived, limit, |arrived| *arrived < count).unwrap();
        assert!(*arrived >= count, "{} of {count} requests came to the gate within {limit:?}", *arrived);
    }

    /// Lets everything through from now on.
    pub fn open(&self) {
        self.open.send_replace(true);
    }

    async fn pass(&self) {
        *self.arrived.0.lock().unwrap() += 1;
        self.arrived.1.notify_all();
        let _ = self.open.subscribe().wait_for(|open| *open).await;
    }
}

/// A request that came.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its method.
    pub method: String,
    /// Path and query; of a request to the management cluster without the path of Rancher's proxy, of one to a
    /// downstream cluster with it.
    pub uri: String,
    /// Its body.
    pub body: String,
    /// Whether a fault struck it.
    pub faulted: bool,
}

#[derive(Debug, Default)]
struct State {
    rules: Vec<(Match, usize, Fault)>,
    seen: Vec<Seen>,
}

impl State {
    /// Notes the request; the fault that strikes it.
    fn judge(&mut self, method: &str, uri: &str, body: &str) -> Option<Fault> {
        let path = uri.split('?').next().unwrap_or_default();
        let dry_run = uri.contains("dryRun=All") || body.contains("\"dryRun\"");
        let mut found = None;
        for (rule, count, fault) in &mut self.rules {
            let hit = rule.method.as_ref().is_none_or(|wanted| wanted == method)
                && rule.path.as_ref().is_none_or(|part| if rule.exact { part == path } else { path.contains(part) })
                && rule.dry_run.is_none_or(|wanted| wanted == dry_run);
            if !hit {
                continue;
            }
            *count += 1;
            if *count > rule.skip && rule.times.is_none_or(|times| *count <= rule.skip + times) {
                found = Some(fault.clone());
                break;
            }
        }
        self.seen.push(Seen {
            method: method.to_owned(),
            uri: uri.to_owned(),
            body: body.to_owned(),
            faulted: found.is_some(),
        });
        found
    }
}

/// The proxy. Ends when dropped.
#[derive(Debug)]
pub struct FaultProxy {
    state: Arc<Mutex<State>>,
    address: SocketAddr,
    kubeconfig: PathBuf,
    files: tempfile::TempDir,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl FaultProxy {
    /// Starts one before this control plane, as its administrator, without faults.
    #[must_use]
    pub fn start(plane: &ControlPlane) -> Self {
        let downstream = plane.ready()["downstreams"].as_array().into_iter().flatten();
        let upstreams = Arc::new(Upstreams {
            management: Upstream::of(plane.ready()),
            downstream: downstream
                .map(|ready| (ready["clusterId"].as_str().unwrap().to_owned(), Upstream::of(ready)))
                .collect(),
        });
        let state = Arc::<Mutex<State>>::default();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let shared = Arc::clone(&state);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                tokio::select! {
                    () = serve(TcpListener::from_std(listener).unwrap(), &upstreams, &shared) => {}
                    _ = stopped => {}
                }
            });
            runtime.shutdown_background();
        });
        let files = tempfile::tempdir().unwrap();
        let kubeconfig = files.path().join("kubeconfig");
        let proxy = Self { state, address, kubeconfig, files, stop: Some(stop), thread: Some(thread) };
        proxy.write_kubeconfig("proxied", &[("proxied", "")]);
        proxy
    }

    /// A new rule, judged after those that are there.
    pub fn rule(&self, requests: Match, fault: Fault) {
        self.state.lock().unwrap().rules.push((requests, 0, fault));
    }

    /// Forgets rules and requests.
    pub fn reset(&self) {
        *self.state.lock().unwrap() = State::default();
    }

    /// The requests that came.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        self.state.lock().unwrap().seen.clone()
    }

    /// How many requests with this method, writes that are meant, came to a path that contains this.
    #[must_use]
    pub fn count(&self, method: &str, path: &str) -> usize {
        let meant = |seen: &&Seen| !seen.uri.contains("dryRun=All") && !seen.body.contains("\"dryRun\"");
        let seen = self.seen();
        seen.iter().filter(|seen| seen.method == method && seen.uri.contains(path)).filter(meant).count()
    }

    /// A kubeconfig with the context `proxied`.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig.clone()
    }

    /// A kubeconfig whose server is the path of Rancher's proxy to its local cluster.
    #[must_use]
    pub fn kubeconfig_through_rancher(&self) -> PathBuf {
        self.write_kubeconfig("through-rancher", &[("through-rancher", RANCHER_LOCAL)])
    }

    /// A kubeconfig as Rancher's users have: the context `management`, which is current, for its local cluster, and one
    /// for each of these downstream clusters by its name, all through Rancher's proxy.
    #[must_use]
    pub fn kubeconfig_of_rancher(&self, downstreams: &[Downstream]) -> PathBuf {
        let mut contexts = vec![("management", RANCHER_LOCAL.to_owned())];
        contexts
            .extend(downstreams.iter().map(|cluster| (cluster.name(), format!("{RANCHER_PREFIX}{}", cluster.id()))));
        let contexts: Vec<_> = contexts.iter().map(|(name, prefix)| (*name, prefix.as_str())).collect();
        self.write_kubeconfig("of-rancher", &contexts)
    }

    fn write_kubeconfig(&self, file: &str, contexts: &[(&str, &str)]) -> PathBuf {
        let path = if file == "proxied" { self.kubeconfig.clone() } else { self.files.path().join(file) };
        let servers: Vec<_> = contexts.iter().map(|(_, prefix)| format!("http://{}{prefix}", self.address)).collect();
        let reach = |((context, _), server)| Reach { context, server, ca: None, token: None };
        let clusters: Vec<Reach<'_>> =
            contexts.iter().copied().zip(servers.iter().map(String::as_str)).map(reach).collect();
        write_kubeconfig(&path, &clusters);
        path
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.stop.take().map(|stop| stop.send(()));
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

struct Upstream {
    address: SocketAddr,
    tls: tokio_rustls::TlsConnector,
    authorization: HeaderValue,
}

impl Upstream {
    /// The API server that the control plane printed this about, as its administrator.
    fn of(ready: &serde_json::Value) -> Self {
        let text = |key: &str| ready[key].as_str().unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(text("caFile")).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self {
            address: text("server").strip_prefix("https://").unwrap().parse().unwrap(),
            tls: tokio_rustls::TlsConnector::from(Arc::new(tls)),
            authorization: HeaderValue::from_str(&format!("Bearer {}", text("adminToken"))).unwrap(),
        }
    }
}

/// The API servers behind the proxy, the downstream ones by the id of their cluster.
struct Upstreams {
    management: Upstream,
    downstream: Vec<(String, Upstream)>,
}

impl Upstreams {
    /// Where a request goes, and what is left of its path; nowhere when there is no such cluster.
    fn route<'a>(&self, uri: &'a str) -> (Option<&Upstream>, &'a str) {
        let Some(rest) = uri.strip_prefix(RANCHER_PREFIX) else { return (Some(&self.management), uri) };
        let (cluster, _) = rest.split_once('/').unwrap_or((rest, ""));
        let path = &rest[cluster.len()..];
        if cluster == "local" {
            return (Some(&self.management), path);
        }
        (self.downstream.iter().find(|(id, _)| id == cluster).map(|(_, upstream)| upstream), path)
    }
}

async fn serve(listener: TcpListener, upstream: &Arc<Upstreams>, state: &Arc<Mutex<State>>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (upstream, state) = (Arc::clone(upstream), Arc::clone(state));
        tokio::spawn(async move {
            let _ = stream.set_nodelay(true);
            // A second handle to the socket, to set how it closes; the connection is closed with the last of them.
            let stream = stream.into_std().unwrap();
            let handle = Arc::new(stream.try_clone().unwrap());
            let stream = TcpStream::from_std(stream).unwrap();
            let service = service_fn(move |request| {
                answer(request, Arc::clone(&upstream), Arc::clone(&state), Arc::clone(&handle))
            });
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    upstreams: Arc<Upstreams>,
    state: Arc<Mutex<State>>,
    handle: Arc<std::net::TcpStream>,
) -> Result<Answer, BoxError> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let whole = head.uri.to_string();
    let seen = whole.strip_prefix(RANCHER_LOCAL).unwrap_or(&whole);
    let fault = state.lock().unwrap().judge(head.method.as_str(), seen, &String::from_utf8_lossy(&body));
    let (upstream, uri) = upstreams.route(&whole);
    let Some(upstream) = upstream else {
        // rancher pkg/k8slookup/lookup.go
        return status(404, &[], r#"{"type":"error","status":"404","message":"failed to find cluster"}"#);
    };
    let mut forwarded = Request::builder().method(head.method).uri(uri);
    for (name, value) in head.headers.iter().filter(|(name, _)| **name != HOST && **name != CONNECTION) {
        forwarded = forwarded.header(name, value);
    }
    let forwarded = forwarded
        .header(HOST, upstream.address.to_string())
        .header(AUTHORIZATION, &upstream.authorization)
        .body(Full::new(body))?;
    let downstream = seen.starts_with(RANCHER_PREFIX);
    match fault {
        None => forward(upstream, downstream, forwarded).await,
        Some(Fault::Delay(time)) => {
            tokio::time::sleep(time).await;
            forward(upstream, downstream, forwarded).await
        }
        Some(Fault::Hold(gate)) => {
            gate.pass().await;
            forward(upstream, downstream, forwarded).await
        }
        Some(Fault::ForwardThenSilence) => {
            forward(upstream, downstream, forwarded).await?.into_body().collect().await?;
            std::future::pending().await
        }
        Some(Fault::Reset) => {
            socket2::SockRef::from(&*handle).set_linger(Some(Duration::ZERO))?;
            Err("reset".into())
        }
        Some(Fault::TruncatedBody) => {
            let (mut head, body) = forward(upstream, downstream, forwarded).await?.into_parts();
            let body = body.collect().await?.to_bytes();
            head.headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
            let cut = Cut { half: Some(body.slice(..body.len() / 2)), promised: body.len() as u64, sent: false };
            Ok(Response::from_parts(head, BoxBody::new(cut)))
        }
        Some(Fault::Html503) => {
            let page = "<html><head><title>503 Service Temporarily Unavailable</title></head><body>\
                        <center><h1>503 Service Temporarily Unavailable</h1></center></body></html>";
            status(503, &[("content-type", "text/html".to_owned())], page)
        }
        Some(Fault::Status(code, headers, body)) => status(code, &headers, &body),
    }
}

fn status(code: u16, headers: &[(&'static str, String)], body: &str) -> Result<Answer, BoxError> {
    let mut answer = Response::new(full(body.to_owned().into()));
    *answer.status_mut() = StatusCode::from_u16(code)?;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in headers {
        answer.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_str(value)?);
    }
    Ok(answer)
}

/// Through Rancher (`downstream`) a server that is not there is a tunnel that is down.
async fn forward(upstream: &Upstream, downstream: bool, request: Request<Full<Bytes>>) -> Result<Answer, BoxError> {
    let tcp = match TcpStream::connect(upstream.address).await {
        Err(_) if downstream => {
            return status(
                500,
                &[("content-type", "text/plain; charset=utf-8".to_owned())],
                "cluster agent disconnected",
            );
        }
        tcp => tcp?,
    };
    tcp.set_nodelay(true)?;
    let tls = upstream.tls.connect(ServerName::from(upstream.address.ip()), tcp).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(tls)).await?;
    tokio::spawn(connection);
    let (mut head, body) = sender.send_request(request).await?.into_parts();
    head.headers.remove(CONNECTION);
    head.headers.remove(hyper::header::TRANSFER_ENCODING);
    Ok(Response::from_parts(head, BoxBody::new(body.map_err(BoxError::from))))
}

fn full(bytes: Bytes) -> BoxBody<Bytes, BoxError> {
    BoxBody::new(Full::new(bytes).map_err(|never: Infallible| match never {}))
}

/// A body that promises more than it gives.
struct Cut {
    half: Option<Bytes>,
    promised: u64,
    sent: bool,
}

impl Body for Cut {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(half) = self.half.take() {
            return Poll::Ready(Some(Ok(Frame::data(half))));
        }
        if !self.sent {
            // What is written so far is sent when a body has nothing more for the moment.
            self.sent = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Some(Err("cut".into())))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.promised)
    }
}
