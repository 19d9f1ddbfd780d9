//! The client against a server that answers what a test says, byte by byte: retries, time limits, broken connections, TLS,
//! paging. What the real API server answers is tested against the real one, in the suite.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use futures::StreamExt as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use serde_json::{Value, json};

use super::{
    client::{ACCEPT_METADATA_LIST, Api, Timeouts, connect},
    error::{ApiError, ApiErrorKind, ConnectError},
};

/// What the server does with one request.
#[derive(Clone)]
enum Step {
    /// Answers this and keeps the connection.
    Send(Vec<u8>),
    /// Answers this and closes the connection.
    SendAndClose(Vec<u8>),
    /// Answers this and then nothing more.
    SendAndHang(Vec<u8>),
    /// Closes the connection with a reset, having read part of the request.
    Reset,
    /// Reads the request and closes the connection.
    Close,
    /// Reads the request and never answers.
    Hang,
}

/// A server that goes through its steps, whatever the connections, and repeats the last one.
struct Stub {
    address: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Stub {
    fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self::with_tls(steps, None)
    }

    fn with_tls(steps: impl IntoIterator<Item = Step>, tls: Option<Arc<rustls::ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let mut steps: Vec<Step> = steps.into_iter().collect();
        steps.reverse();
        let steps = Arc::new(Mutex::new(steps));
        let seen = requests.clone();
        // Ends with the test process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (steps, seen, tls) = (steps.clone(), seen.clone(), tls.clone());
                thread::spawn(move || match tls {
                    None => serve(stream, &steps, &seen),
                    Some(config) => {
                        let connection = rustls::ServerConnection::new(config).unwrap();
                        serve(rustls::StreamOwned::new(connection, stream), &steps, &seen);
                    }
                });
            }
        });
        Self { address, requests }
    }

    fn api(&self) -> Api {
        self.api_with(Timeouts::default())
    }

    fn api_with(&self, timeouts: Timeouts) -> Api {
        connect(config(&format!("http://{}", self.address)), "kubectl-rancher-lease/0.1.0", timeouts).unwrap()
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn config(server: &str) -> ::kube::Config {
    ::kube::Config::new(server.parse().unwrap())
}

fn serve(mut stream: impl Read + Write, steps: &Mutex<Vec<Step>>, seen: &Mutex<Vec<String>>) {
    loop {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read(&mut byte) {
                Ok(1) => head.push(byte[0]),
                _ => return,
            }
            // Closing a socket with unread bytes resets the connection.
            let next = steps.lock().unwrap().last().cloned();
            if head.len() == 10 && matches!(next, Some(Step::Reset)) {
                seen.lock().unwrap().push(String::from_utf8_lossy(&head).into_owned());
                take(steps);
                return;
            }
        }
        let mut text = String::from_utf8(head).unwrap();
        let length = text
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned))
            .map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        stream.read_exact(&mut body).unwrap();
        text.push_str(&String::from_utf8(body).unwrap());
        seen.lock().unwrap().push(text);
        match take(steps) {
            Step::Send(bytes) => {
                let _ = stream.write_all(&bytes).and_then(|()| stream.flush());
            }
            Step::SendAndClose(bytes) => {
                let _ = stream.write_all(&bytes).and_then(|()| stream.flush());
                return;
            }
            Step::SendAndHang(bytes) => {
                let _ = stream.write_all(&bytes).and_then(|()| stream.flush());
                thread::sleep(Duration::from_secs(60));
            }
            Step::Reset | Step::Close => return,
            Step::Hang => thread::sleep(Duration::from_secs(60)),
        }
    }
}

fn take(steps: &Mutex<Vec<Step>>) -> Step {
    let mut steps = steps.lock().unwrap();
    if steps.len() > 1 { steps.pop().unwrap() } else { steps[0].clone() }
}

fn http(status: &str, headers: &[&str], body: &str) -> Vec<u8> {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len()).into_bytes()
}

fn ok(body: &Value) -> Step {
    Step::Send(http("200 OK", &["Content-Type: application/json"], &body.to_string()))
}

fn status(code: u16, reason: &str, message: &str, details: Value) -> Step {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message, "details": details});
    Step::Send(http(&format!("{code} X"), &["Content-Type: application/json"], &body.to_string()))
}

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/cattle-controllers";

/// Short waits between tries; time limits that a busy machine keeps.
fn quick() -> Timeouts {
    Timeouts {
        connect: Duration::from_secs(20),
        request: Some(Duration::from_secs(20)),
        retry_budget: Duration::from_secs(60),
        retry_wait: Duration::from_millis(20),
    }
}

/// For servers that never answer.
fn impatient() -> Timeouts {
    Timeouts { request: Some(Duration::from_secs(1)), ..quick() }
}

#[tokio::test]
async fn one_get() {
    let headers = [
        "Content-Type: application/json",
        "Date: Tue, 01 Dec 2026 01:24:38 GMT",
        "Warning: 299 - \"v1 X is deprecated, use \\\"v2\\\"\"",
        "Warning: 299 - \"other\"",
        "Warning: 110 - \"not ours\"",
    ];
    let stub = Stub::new([Step::Send(http("200 OK", &headers, r#"{"kind":"Lease"}"#))]);
    let api = stub.api();
    let before = jiff::Timestamp::now();
    let answer = api.get(LEASE).await.unwrap();
    assert_eq!(answer.body, json!({"kind": "Lease"}));
    assert_eq!(answer.date.unwrap().to_string(), "2026-12-01T01:24:38Z");
    assert!(before <= answer.sent_at && answer.sent_at <= answer.received_at);
    api.clone().get(LEASE).await.unwrap();
    assert_eq!(api.warnings(), [r#"v1 X is deprecated, use "v2""#, "other"]);

    let request = stub.requests()[0].to_ascii_lowercase();
    assert!(request.starts_with(&format!("get {LEASE} http/1.1\r\n")), "{request}");
    for header in
        ["user-agent: kubectl-rancher-lease/0.1.0\r\n", "accept: application/json\r\n", "accept-encoding: gzip\r\n"]
    {
        assert!(request.contains(header), "{request}");
    }
    assert!(!request.contains("authorization"));
    assert!(format!("{api:?}").contains("127.0.0.1"));
}

#[tokio::test]
async fn gzip_is_unpacked() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(br#"{"kind":"Lease"}"#).unwrap();
    let packed = encoder.finish().unwrap();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
        packed.len()
    );
    let whole = [head.as_bytes(), &packed].concat();
    let cut = [head.replace(&packed.len().to_string(), "20").as_bytes(), &packed[..20]].concat();
    let stub = Stub::new([Step::Send(whole), Step::SendAndClose(cut)]);
    let api = stub.api_with(quick());
    assert_eq!(api.get(LEASE).await.unwrap().body["kind"], "Lease");
    let error = api.get(LEASE).await.unwrap_err();
    assert!(matches!(error.kind, ApiErrorKind::Interrupted | ApiErrorKind::Decode), "{error:?}");
}

#[tokio::test]
async fn credentials_and_impersonation_are_sent() {
    let stub = Stub::new([ok(&json!({}))]);
    let mut config = config(&format!("http://{}/k8s/clusters/c-m-1/", stub.address));
    config.auth_info.token = Some("hunter2".to_owned().into());
    config.auth_info.impersonate = Some("jane".into());
    config.auth_info.impersonate_uid = Some("7".into());
    config.auth_info.impersonate_groups = Some(vec!["a".into(), "b".into()]);
    let api = connect(config, "x/1", Timeouts::default()).unwrap();
    assert!(!format!("{api:?}").contains("hunter2"));
    api.get("/version?a=b").await.unwrap();
    let request = stub.requests()[0].to_ascii_lowercase();
    assert!(request.starts_with("get /k8s/clusters/c-m-1/version?a=b http/1.1"), "{request}");
    for header in [
        "authorization: bearer hunter2",
        "impersonate-user: jane",
        "impersonate-uid: 7",
        "impersonate-group: a",
        "impersonate-group: b",
    ] {
        assert!(request.contains(header), "{header} in {request}");
    }
}

#[tokio::test]
async fn reads_are_tried_three_times() {
    let busy = || Step::Send(http("429 Too Many Requests", &["Retry-After: 0"], "slow down"));
    let html = || Step::Send(http("503 X", &["Content-Type: text/html"], "<html><title>no  upstream</title></html>"));
    let gateway = || Step::Send(http("504 X", &[], ""));
    for failure in [busy(), html(), gateway(), Step::Reset, Step::Close] {
        let stub = Stub::new([failure.clone(), failure.clone(), ok(&json!({"kind": "Lease"}))]);
        assert_eq!(stub.api_with(quick()).get(LEASE).await.unwrap().body["kind"], "Lease");
        assert_eq!(stub.requests().len(), 3);

        let stub = Stub::new([failure]);
        let error = stub.api_with(quick()).get(LEASE).await.unwrap_err();
        assert_eq!(stub.requests().len(), 3, "{error}");
        assert!(error.is_transient() && !error.write_outcome_unknown(), "{error:?}");
        assert!(error.message.ends_with("(tried 3 times)"), "{error}");
    }
    // What is not worth it.
    for failure in [
        Step::Send(http("500 X", &[], "boom")),
        status(403, "Forbidden", "no", json!({})),
        status(404, "NotFound", "no", json!({"name": "x"})),
    ] {
        let stub = Stub::new([failure]);
        stub.api_with(quick()).get(LEASE).await.unwrap_err();
        assert_eq!(stub.requests().len(), 1);
    }
}

#[tokio::test]
async fn retry_after_is_honoured_up_to_a_cap() {
    let busy = |seconds: u32| Step::Send(http("429 X", &[&format!("Retry-After: {seconds}")], ""));
    let timeouts = Timeouts { retry_wait: Duration::from_millis(300), ..quick() };
    let stub = Stub::new([busy(3600), ok(&json!({}))]);
    let start = Instant::now();
    stub.api_with(timeouts).get("/version").await.unwrap();
    assert!((300..60_000).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    // Over the budget: the first answer is reported at once, with what the server asked for.
    let timeouts = Timeouts { retry_budget: Duration::from_millis(100), ..timeouts };
    let stub = Stub::new([busy(3600), ok(&json!({}))]);
    let error = stub.api_with(timeouts).get("/version").await.unwrap_err();
    assert_eq!((error.kind, error.code), (ApiErrorKind::Throttled, Some(429)));
    assert_eq!(error.retry_after, Some(Duration::from_secs(3600)));
    assert_eq!(stub.requests().len(), 1);
}

#[tokio::test]
async fn writes_are_sent_once_and_say_whether_the_outcome_is_known() {
    let patch: json_patch::Patch = serde_json::from_value(json!([{"op": "test", "path": "/a", "value": 1}])).unwrap();
    let half = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"kind\":".to_vec();
    let chunk = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"kin".to_vec();
    let cases = [
        (Step::Send(http("429 X", &["Retry-After: 0"], "")), ApiErrorKind::Throttled, false),
        (Step::Send(http("503 X", &["Retry-After: 0"], "")), ApiErrorKind::ServerError, true),
        (Step::Send(http("504 X", &[], "")), ApiErrorKind::Timeout, true),
        (Step::Send(http("502 X", &["Content-Type: text/html"], "<html>")), ApiErrorKind::NotKubernetes, true),
        (Step::Send(http("200 OK", &["Content-Type: text/html"], "<html>")), ApiErrorKind::NotKubernetes, true),
        (
            Step::Send(http("302 X", &["Location: https://login.example.com/x?token=y"], "")),
            ApiErrorKind::NotKubernetes,
            false,
        ),
        (Step::Send(http("200 OK", &[], "{\"kind\":")), ApiErrorKind::Decode, true),
        (Step::Reset, ApiErrorKind::Interrupted, true),
        (Step::Close, ApiErrorKind::Interrupted, true),
        (Step::SendAndClose(half.clone()), ApiErrorKind::Interrupted, true),
        (Step::SendAndClose(chunk), ApiErrorKind::Interrupted, true),
        (Step::SendAndHang(half), ApiErrorKind::Timeout, true),
        (Step::Hang, ApiErrorKind::Timeout, true),
        (
            status(409, "Conflict", "the UID in the precondition does not match", json!({"name": "x"})),
            ApiErrorKind::Conflict,
            false,
        ),
        (status(409, "AlreadyExists", "exists", json!({"name": "x"})), ApiErrorKind::AlreadyExists, false),
        (status(422, "Invalid", "the server rejected our request", json!({})), ApiErrorKind::Invalid, false),
        (status(403, "Forbidden", "no", json!({})), ApiErrorKind::Forbidden, false),
        (status(500, "InternalError", "etcdserver: request timed out", json!({})), ApiErrorKind::ServerError, true),
        (status(504, "Timeout", "request did not complete", json!({})), ApiErrorKind::Timeout, true),
        (
            status(500, "InternalError", "Internal error occurred: failed calling webhook \"x\": no route", json!({})),
            ApiErrorKind::Webhook,
            false,
        ),
        (
            status(400, "", "admission webhook \"rancher.cattle.io\" denied the request: no", json!({})),
            ApiErrorKind::Webhook,
            false,
        ),
    ];
    for (step, kind, unknown) in cases {
        for verb in ["DELETE", "PATCH", "POST"] {
            let stub = Stub::new([step.clone()]);
            let hangs = matches!(step, Step::Hang | Step::SendAndHang(_));
            let api = stub.api_with(if hangs { impatient() } else { quick() });
            let result = match verb {
                "DELETE" => api.delete(LEASE, &json!({"preconditions": {"uid": "u"}})).await,
                "PATCH" => api.patch_json(LEASE, &patch).await,
                _ => api.create("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", &json!({"a": 1})).await,
            };
            let error = result.unwrap_err();
            assert_eq!((error.kind, error.write_outcome_unknown()), (kind, unknown), "{verb} {error:?}");
            assert!(!error.to_string().contains("token="), "{error}");
            let requests = stub.requests();
            assert_eq!(requests.len(), 1, "{verb} {error}");
            assert!(error.what.starts_with(verb), "{error}");
            let precondition = kind == ApiErrorKind::Conflict || (kind == ApiErrorKind::Invalid && verb == "PATCH");
            assert_eq!(error.is_precondition(), precondition, "{error:?}");
        }
    }
}

#[tokio::test]
async fn bodies_and_types_of_writes() {
    let stub = Stub::new([ok(&json!({"kind": "Status"}))]);
    let api = stub.api();
    let patch = serde_json::from_value(json!([{"op": "remove", "path": "/a"}])).unwrap();
    api.delete(LEASE, &json!({"kind": "DeleteOptions"})).await.unwrap();
    api.patch_json(&format!("{LEASE}?dryRun=All"), &patch).await.unwrap();
    api.create("/api/v1/namespaces/x/events", &json!({"kind": "Event"})).await.unwrap();
    api.delete(LEASE, &json!({"kind": "DeleteOptions", "dryRun": ["All"]})).await.unwrap();
    let requests: Vec<String> = stub.requests().iter().map(|request| request.to_ascii_lowercase()).collect();
    // For audit logs, which show no bodies.
    assert!(requests[3].contains("?dryrun=all ") && requests[3].contains("\"dryrun\":[\"all\"]"), "{}", requests[3]);
    assert!(requests[0].starts_with("delete /apis/") && requests[0].ends_with("\r\n\r\n{\"kind\":\"deleteoptions\"}"));
    assert!(requests[1].contains("?dryrun=all ") && requests[1].contains("content-type: application/json-patch+json"));
    assert!(requests[2].starts_with("post ") && requests[2].contains("content-type: application/json\r\n"));
}

/// The API server would ignore the query and delete.
#[tokio::test]
async fn a_dry_run_of_a_deletion_is_never_asked_for_in_the_query() {
    let stub = Stub::new([ok(&json!({}))]);
    for (path, options) in [(format!("{LEASE}?dryRun=All"), json!({})), (LEASE.to_owned(), Value::Null)] {
        let error = stub.api().delete(&path, &options).await.unwrap_err();
        assert_eq!(error.kind, ApiErrorKind::Invalid);
        assert!(!error.write_outcome_unknown());
    }
    assert!(stub.requests().is_empty());
}

#[tokio::test]
async fn questions_are_repeated_like_reads() {
    let stub = Stub::new([Step::Close, ok(&json!({"status": {"allowed": true}}))]);
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    assert_eq!(stub.api_with(quick()).ask(path, &json!({})).await.unwrap().body["status"]["allowed"], true);
    assert_eq!(stub.requests().len(), 2);
    let stub = Stub::new([Step::Hang]);
    assert!(!stub.api_with(impatient()).ask(path, &json!({})).await.unwrap_err().write_outcome_unknown());
}

#[tokio::test]
async fn slow_servers_run_into_the_time_limit() {
    let half = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"kind\":".to_vec();
    for step in [Step::Hang, Step::SendAndHang(half.clone())] {
        let stub = Stub::new([step]);
        let start = Instant::now();
        let error = stub.api_with(impatient()).get(LEASE).await.unwrap_err();
        assert_eq!(error.kind, ApiErrorKind::Timeout);
        assert_eq!(error.to_string(), "GET leases kube-system/cattle-controllers: no complete answer within 1 s");
        assert!(start.elapsed() < Duration::from_secs(15));
        assert_eq!(stub.requests().len(), 1);
    }
    // The same half of an answer, and the end.
    let stub = Stub::new([Step::SendAndClose(half)]);
    let error = stub.api_with(quick()).get(LEASE).await.unwrap_err();
    assert_eq!(error.kind, ApiErrorKind::Interrupted);
    assert!(!error.to_string().contains("kind\""), "{error}");
}

#[tokio::test]
async fn nobody_there() {
    // A port that was free a moment ago.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let api = connect(config(&format!("https://{address}")), "x", quick()).unwrap();
    for error in [api.get("/version").await.unwrap_err(), api.delete(LEASE, &json!({})).await.unwrap_err()] {
        assert_eq!(error.kind, ApiErrorKind::Unreachable);
        assert!(error.message.contains(&format!("cannot connect to https://{address}: connection refused")), "{error}");
        assert!(error.is_connection() && !error.write_outcome_unknown() && error.hint.is_some());
    }
    let api = connect(config("https://no-such-host.invalid"), "x", Timeouts { request: None, ..quick() }).unwrap();
    let error = api.get("/version").await.unwrap_err();
    assert_eq!(error.kind, ApiErrorKind::Unreachable);
    assert!(error.message.contains("cannot be resolved"), "{error}");
    // A server that takes the connection and does not go on with TLS.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let timeouts = Timeouts { connect: Duration::from_millis(200), request: Some(Duration::from_secs(5)), ..quick() };
    let error = connect(config(&format!("https://{address}")), "x", timeouts)
        .unwrap()
        .delete(LEASE, &json!({}))
        .await
        .unwrap_err();
    assert_eq!(error.kind, ApiErrorKind::Unreachable);
    assert!(error.message.contains("no answer to the connection attempt") && !error.write_outcome_unknown(), "{error}");
    let timeouts = Timeouts { connect: Duration::from_secs(5), request: Some(Duration::from_millis(200)), ..quick() };
    let error = connect(config(&format!("https://{address}")), "x", timeouts)
        .unwrap()
        .delete(LEASE, &json!({}))
        .await
        .unwrap_err();
    assert_eq!(error.kind, ApiErrorKind::Unreachable);
    assert!(error.message.contains("no connection to") && !error.write_outcome_unknown(), "{error}");
}

/// Answers, and what they mean.
#[tokio::test]
async fn answers_are_told_apart() {
    let html = "Content-Type: text/html; charset=utf-8";
    let cases = [
        (
            Step::Send(http("404 X", &["Content-Type: text/plain"], "404 page not found\n")),
            ApiErrorKind::NoSuchResource,
        ),
        (
            status(404, "NotFound", "the server could not find the requested resource", json!({})),
            ApiErrorKind::NoSuchResource,
        ),
        (
            status(
                404,
                "NotFound",
                "leases.coordination.k8s.io \"x\" not found",
                json!({"name": "x", "kind": "leases"}),
            ),
            ApiErrorKind::NotFound,
        ),
        (status(401, "Unauthorized", "Unauthorized", Value::Null), ApiErrorKind::Unauthorized),
        (Step::Send(http("401 X", &[], "Unauthorized")), ApiErrorKind::Unauthorized),
        (Step::Send(http("401 X", &[html], "<html></html>")), ApiErrorKind::Unauthorized),
        (
            Step::Send(http(
                "401 X",
                &[],
                r#"{"type":"error","status":"401","message":"Unauthorized 401: must authenticate"}"#,
            )),
            ApiErrorKind::Unauthorized,
        ),
        (
            Step::Send(http("403 X", &[html], "<html><TITLE>Blocked\n by\tproxy</TITLE></html>")),
            ApiErrorKind::NotKubernetes,
        ),
        (
            Step::Send(http(
                "404 X",
                &[],
                r#"{"type":"error","code":"NotFound","status":404,"message":"clusters.management.cattle.io \"c-m-1\" not found"}"#,
            )),
            ApiErrorKind::NotKubernetes,
        ),
        (Step::Send(http("500 X", &[], r#"{"error":"no"}"#)), ApiErrorKind::NotKubernetes),
        (status(410, "Expired", "The resourceVersion is too old", json!({})), ApiErrorKind::Gone),
        (status(406, "NotAcceptable", "only", json!({})), ApiErrorKind::Invalid),
        (
            Step::Send(http("400 X", &[], "Client sent an HTTP request to an HTTPS server.\n")),
            ApiErrorKind::NotKubernetes,
        ),
        (Step::Send(http("200 OK", &[html], "<!doctype html><title>Rancher</title>")), ApiErrorKind::NotKubernetes),
        (Step::Send(http("200 OK", &[], "  <html>")), ApiErrorKind::NotKubernetes),
        (Step::Send(http("200 OK", &[], "SECRET")), ApiErrorKind::Decode),
        (Step::SendAndClose(b"\x15\x03\x01\x00\x02\x02\x46garbage\r\n\r\n".to_vec()), ApiErrorKind::NotKubernetes),
        (Step::Send(http("301 X", &["Location: https://user:hunter2@rancher/x"], "")), ApiErrorKind::NotKubernetes),
    ];
    let mut shown = String::new();
    for (step, kind) in cases {
        let stub = Stub::new([step]);
        let error = stub.api_with(quick()).get(LEASE).await.unwrap_err();
        assert_eq!(error.kind, kind, "{error:?}");
        assert!(!error.is_transient() || error.kind == ApiErrorKind::Gone, "{error:?}");
        shown.push_str(&format!("{}\n", error.message.replace(&stub.address, "ADDRESS")));
    }
    assert!(!shown.contains("SECRET") && !shown.contains("hunter2"));
    insta::assert_snapshot!(shown, @r#"
    HTTP 404: 404 page not found
    the server could not find the requested resource
    leases.coordination.k8s.io "x" not found
    Unauthorized
    HTTP 401: Unauthorized
    HTTP 401 with an HTML page
    HTTP 401 from Rancher: Unauthorized 401: must authenticate
    HTTP 403 with an HTML page ("Blocked by proxy")
    HTTP 404 from Rancher: clusters.management.cattle.io "c-m-1" not found
    HTTP 500 with JSON that is no Status of the Kubernetes API
    The resourceVersion is too old
    only
    HTTP 400: Client sent an HTTP request to an HTTPS server.
    an HTML page ("Rancher") instead of JSON
    an HTML page instead of JSON
    the answer is something that is no JSON (line 1, column 1)
    http://ADDRESS does not answer in HTTP
    HTTP 301: redirected to https://rancher/x
    "#);
}

#[test]
fn hints() {
    let error = |message: &str| {
        let body = json!({"kind": "Status", "code": 403, "reason": "Forbidden", "message": message});
        super::error::from_status("GET x", 403, &body)
    };
    assert!(error("leases is forbidden: User \"system:anonymous\" cannot").hint.unwrap().contains("credentials"));
    assert_eq!(error("leases is forbidden: User \"jane\" cannot").hint, None);
}

#[test]
fn messages_are_one_bounded_line() {
    let error = ApiError::new(ApiErrorKind::Invalid, "GET x", format!("a\n\u{1b}[31m  b\t{}", "é".repeat(500)));
    assert!(error.message.starts_with("a [31m b é") && error.message.chars().count() == 301, "{error}");
}

#[tokio::test]
async fn a_collection_is_counted_with_one_small_answer_where_the_server_says_what_remains() {
    let list = |items: usize, next: &str, rest: Option<u64>| {
        let mut metadata = json!({"continue": next});
        if let Some(rest) = rest {
            metadata["remainingItemCount"] = json!(rest);
        }
        ok(&json!({"kind": "PartialObjectMetadataList", "metadata": metadata, "items": vec![json!({}); items]}))
    };
    let path = "/api/v1/pods";
    let counted = async |steps: Vec<Step>| {
        let stub = Stub::new(steps);
        (stub.api().count(path).await.unwrap(), stub.requests().len())
    };
    assert_eq!(counted(vec![list(1, "t", Some(9_999))]).await, (10_000, 1));
    assert_eq!(counted(vec![list(1, "", None)]).await, (1, 1));
    assert_eq!(counted(vec![list(0, "", None)]).await, (0, 1));
    // Neither the end nor a number: they are counted.
    assert_eq!(counted(vec![list(1, "t", None), list(500, "u", None), list(7, "", None)]).await, (507, 3));
}

#[tokio::test]
async fn lists_are_paged_and_put_together() {
    let page = |items: &[i32], next: Option<&str>| {
        let mut metadata = json!({"resourceVersion": "7"});
        if let Some(next) = next {
            metadata["continue"] = json!(next);
            metadata["remainingItemCount"] = json!(9);
        }
        ok(&json!({"kind": "LeaseList", "metadata": metadata, "items": items}))
    };
    let expired = || status(410, "Expired", "The provided continue parameter is too old", json!({}));
    let path = "/apis/coordination.k8s.io/v1/leases?labelSelector=a";

    let stub = Stub::new([page(&[1, 2], Some("t/1+")), page(&[3, 4], Some("t2")), page(&[5], Some(""))]);
    let answer = stub.api().list(path, None, 2).await.unwrap();
    assert_eq!(
        answer.body,
        json!({"kind": "LeaseList", "metadata": {"resourceVersion": "7"}, "items": [1, 2, 3, 4, 5]})
    );
    let lines: Vec<String> = stub.requests().iter().map(|request| request.lines().next().unwrap().to_owned()).collect();
    assert_eq!(
        lines,
        [
            format!("GET {path}&limit=2 HTTP/1.1"),
            format!("GET {path}&limit=2&continue=t%2F1%2B HTTP/1.1"),
            format!("GET {path}&limit=2&continue=t2 HTTP/1.1")
        ]
    );

    // The server forgot the list: once more from the start, and only once.
    let stub = Stub::new([page(&[1], Some("a")), expired(), page(&[6], Some("b")), page(&[7], None)]);
    assert_eq!(stub.api().list(path, None, 1).await.unwrap().body["items"], json!([6, 7]));
    let stub = Stub::new([page(&[1], Some("a")), expired(), page(&[6], Some("b")), expired()]);
    assert_eq!(stub.api().list(path, None, 1).await.unwrap_err().kind, ApiErrorKind::Gone);
    assert_eq!(stub.requests().len(), 4);
    let stub = Stub::new([expired()]);
    stub.api().list(path, None, 1).await.unwrap_err();
    assert_eq!(stub.requests().len(), 1);

    // Half a list is no list.
    let stub = Stub::new([page(&[1], Some("a")), status(403, "Forbidden", "no", json!({}))]);
    assert_eq!(stub.api().list(path, None, 1).await.unwrap_err().kind, ApiErrorKind::Forbidden);

    // An empty list may have null.
    let list = |items: Value, next: &str| ok(&json!({"metadata": {"continue": next}, "items": items}));
    let stub = Stub::new([list(Value::Null, "n"), list(json!([1]), "m"), list(json!([2]), "")]);
    let answer = stub.api().list(path, Some(ACCEPT_METADATA_LIST), 1).await.unwrap();
    assert_eq!(answer.body["items"], json!([1, 2]));
    assert!(stub.requests()[1].contains(ACCEPT_METADATA_LIST));
}

#[tokio::test]
async fn logs_are_lossy_and_bounded() {
    let text = |body: &[u8], limit: usize| {
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nDate: Tue, 01 Dec 2026 01:24:38 GMT\r\n\r\n", body.len());
        let stub = Stub::new([Step::Send([head.as_bytes(), body].concat())]);
        async move { stub.api().text("/api/v1/namespaces/x/pods/y/log", limit).await.unwrap() }
    };
    let (log, date) = text(b"a\xff\nb\n", 100).await;
    assert_eq!(log, "a\u{fffd}\nb\n");
    assert!(date.is_some());
    assert_eq!(text(b"first\nsecond\nthird\n", 100).await.0, "first\nsecond\nthird\n");
    assert_eq!(text(b"first\nsecond\nthird\n", 19).await.0, "first\nsecond\nthird\n");
    assert_eq!(text(b"first\nsecond\nthird\n", 15).await.0, "second\nthird\n");
    assert_eq!(text(b"first\nsecond\nthird\n", 13).await.0, "second\nthird\n");
    assert_eq!(text(b"first\nsecond\nthird\n", 12).await.0, "third\n");
    assert_eq!(text(b"one long line", 4).await.0, "line");
    let many = "0123456789\n".repeat(100_000);
    let (log, _) = text(many.as_bytes(), 1000).await;
    assert_eq!(log, "0123456789\n".repeat(90));
}

#[tokio::test]
async fn watches_have_no_time_limit_and_end_with_an_error_event() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    let added = json!({"type": "ADDED", "object": {"kind": "Lease"}}).to_string();
    let (start, end) = added.split_at(9);
    let gone =
        json!({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}});
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases?watch=true";

    let whole =
        [head, &chunk(start), &chunk(&format!("{end}\n{added}\n")), &chunk(&format!("{gone}\n")), "0\r\n\r\n"].concat();
    let stub = Stub::new([Step::Close, Step::Send(whole.into_bytes())]);
    let api = stub.api_with(quick());
    let events: Vec<_> = api.watch(path).await.unwrap().collect().await;
    assert_eq!(events.len(), 3);
    assert_eq!(events[1].as_ref().unwrap()["type"], "ADDED");
    let error = events[2].as_ref().unwrap_err();
    assert_eq!((error.kind, error.what.as_str()), (ApiErrorKind::Gone, "WATCH leases in kube-system"));

    // Longer than the time limit of a call.
    let part = [head, &chunk(&format!("{added}\n"))].concat();
    let stub = Stub::new([Step::SendAndHang(part.clone().into_bytes())]);
    let api = stub.api_with(impatient());
    let mut events = Box::pin(api.watch(path).await.unwrap());
    assert!(events.next().await.unwrap().is_ok());
    assert!(tokio::time::timeout(Duration::from_millis(1500), events.next()).await.is_err());

    // The connection breaks.
    let stub = Stub::new([Step::SendAndClose(part.into_bytes())]);
    let events: Vec<_> = stub.api_with(quick()).watch(path).await.unwrap().collect().await;
    assert_eq!(events.len(), 2);
    assert_eq!(events[1].as_ref().unwrap_err().kind, ApiErrorKind::Interrupted);
    // It does not start at all.
    let stub = Stub::new([status(403, "Forbidden", "no", json!({}))]);
    assert!(stub.api_with(quick()).watch(path).await.is_err_and(|error| error.kind == ApiErrorKind::Forbidden));
}

// --- TLS ---

const CA: &str = include_str!("testdata/ca.pem");

fn tls(certificate: &str, key: &str, client_ca: bool) -> Arc<rustls::ServerConfig> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let builder = rustls::ServerConfig::builder();
    let builder = if client_ca {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(CA.as_bytes()).unwrap()).unwrap();
        builder.with_client_cert_verifier(rustls::server::WebPkiClientVerifier::builder(roots.into()).build().unwrap())
    } else {
        builder.with_no_client_auth()
    };
    Arc::new(builder.with_single_cert(vec![certificate], key).unwrap())
}

fn tls_config(address: &str, ca: Option<&str>) -> ::kube::Config {
    let mut config = config(&format!("https://{address}"));
    config.root_cert = ca.map(|ca| vec![CertificateDer::from_pem_slice(ca.as_bytes()).unwrap().to_vec()]);
    config
}

const SERVER: (&str, &str) = (include_str!("testdata/server.pem"), include_str!("testdata/server.key"));

#[tokio::test]
async fn certificates_are_told_apart() {
    let other_name = (include_str!("testdata/othername.pem"), include_str!("testdata/othername.key"));
    let expired = (include_str!("testdata/expired.pem"), include_str!("testdata/expired.key"));
    let ca_as_server = include_str!("testdata/caserver.pem");
    let other_ca = include_str!("testdata/other.pem");
    let cases = [
        (SERVER, Some(other_ca), "signed by an authority that is not trusted", "certificate-authority"),
        // No CA in the kubeconfig: the system's.
        (SERVER, None, "certificate", ""),
        (other_name, Some(CA), "other names: rancher.example.com", "--tls-server-name"),
        (expired, Some(CA), "expired on 2021-01-01T00:00:00Z", "clock"),
        ((ca_as_server, SERVER.1), Some(ca_as_server), "a CA's, used as a server's", "CA:FALSE"),
    ];
    for ((certificate, key), ca, message, hint) in cases {
        let stub = Stub::with_tls([ok(&json!({}))], Some(tls(certificate, key, false)));
        let api = connect(tls_config(&stub.address, ca), "x", quick()).unwrap();
        let error = api.delete(LEASE, &json!({})).await.unwrap_err();
        assert_eq!(error.kind, ApiErrorKind::Tls, "{error:?}");
        assert!(error.message.contains(message) && error.hint.clone().unwrap_or_default().contains(hint), "{error:?}");
        assert!(!error.write_outcome_unknown() && error.is_connection());
        assert!(stub.requests().is_empty());
    }

    let stub = Stub::with_tls([ok(&json!({}))], Some(tls(other_name.0, other_name.1, false)));
    let mut config = tls_config(&stub.address, Some(CA));
    config.tls_server_name = Some("rancher.example.com".into());
    connect(config, "x", quick()).unwrap().get("/version").await.unwrap();
    let mut config = tls_config(&stub.address, None);
    config.accept_invalid_certs = true;
    connect(config, "x", quick()).unwrap().get("/version").await.unwrap();

    // No TLS there, and TLS where none is expected.
    let stub = Stub::new([Step::Close]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let (mut stream, _): (TcpStream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 16]);
        let _ = stream.write_all(&http("400 Bad Request", &[], "HTTP here"));
        let _ = stream.read(&mut [0; 4096]);
    });
    let error = connect(tls_config(&address, Some(CA)), "x", quick()).unwrap().get("/version").await.unwrap_err();
    assert_eq!(error.kind, ApiErrorKind::Tls, "{error:?}");
    assert!(error.message.contains("does not speak TLS"), "{error}");
    drop(stub);
}

#[tokio::test]
async fn client_certificates() {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let stub = Stub::with_tls([ok(&json!({}))], Some(tls(SERVER.0, SERVER.1, true)));
    let error = connect(tls_config(&stub.address, Some(CA)), "x", quick())
        .unwrap()
        .delete(LEASE, &json!({}))
        .await
        .unwrap_err();
    assert_eq!(error.kind, ApiErrorKind::Tls, "{error:?}");
    assert!(error.message.contains("client certificate") && !error.write_outcome_unknown(), "{error}");

    let mut config = tls_config(&stub.address, Some(CA));
    config.auth_info.client_certificate_data = Some(STANDARD.encode(include_str!("testdata/client.pem")));
    config.auth_info.client_key_data = Some(STANDARD.encode(include_str!("testdata/client.key")).into());
    connect(config, "x", quick()).unwrap().get("/version").await.unwrap();
}

#[tokio::test]
async fn through_a_proxy() {
    // The stub is the proxy: it answers CONNECT, and then what the server would.
    let stub = Stub::new([Step::Send(b"HTTP/1.1 200 OK\r\n\r\n".to_vec()), ok(&json!({"kind": "Lease"}))]);
    let mut config = config("http://rancher.example.com:6443");
    config.proxy_url = Some(format!("http://user:p%40ss@{}", stub.address).parse().unwrap());
    let api = connect(config.clone(), "x", quick()).unwrap();
    assert_eq!(api.get(LEASE).await.unwrap().body["kind"], "Lease");
    let request = stub.requests()[0].clone();
    assert!(request.starts_with("CONNECT rancher.example.com:6443 "), "{request}");
    // user:p@ss
    assert!(request.to_ascii_lowercase().contains("proxy-authorization: basic dxnlcjpwqhnz"), "{request}");

    let stub = Stub::new([Step::Send(http("407 X", &[], ""))]);
    config.proxy_url = Some(format!("http://user:hunter2@{}", stub.address).parse().unwrap());
    let error = connect(config.clone(), "x", quick()).unwrap().delete(LEASE, &json!({})).await.unwrap_err();
    assert_eq!(error.kind, ApiErrorKind::Unreachable, "{error:?}");
    assert!(!format!("{error:?}").contains("hunter2") && !error.write_outcome_unknown());

    config.proxy_url = Some("ftp://user:hunter2@x".parse().unwrap());
    let error = connect(config, "x", quick()).unwrap_err();
    assert!(matches!(error, ConnectError::Proxy { .. }) && !format!("{error:?} {error}").contains("hunter2"));
}

// --- credential plugins ---

#[cfg(unix)]
mod plugins {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A plugin that counts its runs and then does `script`.
    fn plugin(directory: &tempfile::TempDir, script: &str) -> ::kube::config::ExecConfig {
        let path = directory.path().join("login");
        let runs = directory.path().join("runs");
        std::fs::write(&path, format!("#!/bin/sh\necho run >> {}\n{script}\n", runs.display())).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        serde_json::from_value(json!({
            "apiVersion": "client.authentication.k8s.io/v1", "command": path, "interactiveMode": "Never",
            "installHint": "brew install login\nthen log in"
        }))
        .unwrap()
    }

    fn runs(directory: &tempfile::TempDir) -> usize {
        std::fs::read_to_string(directory.path().join("runs")).unwrap_or_default().lines().count()
    }

    fn credential(status: &str) -> String {
        format!(
            r#"echo '{{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{status}}}'"#
        )
    }

    #[tokio::test]
    async fn a_token_costs_one_run() {
        for status in [r#"{"token":"hunter2"}"#, r#"{"token":"hunter2","expirationTimestamp":"2099-01-01T00:00:00Z"}"#]
        {
            let directory = tempfile::tempdir().unwrap();
            let stub = Stub::with_tls([ok(&json!({}))], Some(tls(SERVER.0, SERVER.1, false)));
            let mut config = tls_config(&stub.address, Some(CA));
            config.auth_info.exec = Some(plugin(&directory, &credential(status)));
            let api = connect(config, "x", quick()).unwrap();
            api.get("/version").await.unwrap();
            api.get("/version").await.unwrap();
            assert_eq!(runs(&directory), 1);
            assert!(stub.requests()[1].to_ascii_lowercase().contains("authorization: bearer hunter2"));
        }
    }

    #[tokio::test]
    async fn a_certificate_works_too() {
        let directory = tempfile::tempdir().unwrap();
        let stub = Stub::with_tls([ok(&json!({}))], Some(tls(SERVER.0, SERVER.1, true)));
        let mut config = tls_config(&stub.address, Some(CA));
        let status = json!({
            "clientCertificateData": include_str!("testdata/client.pem"),
            "clientKeyData": include_str!("testdata/client.key")
        });
        config.auth_info.exec =
            Some(plugin(&directory, &credential(&status.to_string()).replace("echo '", "printf '%s' '")));
        connect(config, "x", quick()).unwrap().get("/version").await.unwrap();
        assert_eq!(runs(&directory), 2, "kube asks once for the token and once for TLS");
    }

    #[tokio::test]
    async fn failures_do_not_show_what_was_printed() {
        let fails = |script: &str| {
            let directory = tempfile::tempdir().unwrap();
            let mut config = config("https://127.0.0.1:1");
            config.auth_info.exec = Some(plugin(&directory, script));
            connect(config, "x", quick()).unwrap_err()
        };
        let error = fails("echo SECRET-TOKEN; echo session expired >&2; exit 3");
        assert!(matches!(&error, ConnectError::ExecFailed { .. }), "{error}");
        assert!(error.to_string().ends_with("failed (exit status: 3): session expired"), "{error}");
        assert_eq!(error.hint().as_deref(), Some("brew install login\nthen log in"));
        assert!(!format!("{error} {error:?}").contains("SECRET"));

        for script in ["echo SECRET-TOKEN", "echo '{\"kind\": \"ExecCredential\", \"x\": [SECRET'", "true"] {
            let error = fails(script);
            assert!(matches!(&error, ConnectError::ExecOutput { .. }), "{error:?}");
            assert!(!format!("{error} {error:?}").contains("SECRET"));
        }
        let error = fails(&credential(r#"{"token":"SECRET\u0007","expirationTimestamp":"x"}"#));
        assert!(!format!("{error} {error:?}").contains("SECRET"), "{error:?}");

        let mut config = config("https://127.0.0.1:1");
        config.auth_info.exec =
            serde_json::from_value(json!({"command": "/no/such/login", "installHint": "install it"})).unwrap();
        let error = connect(config, "x", quick()).unwrap_err();
        assert!(matches!(&error, ConnectError::ExecStart { .. }), "{error}");
        assert_eq!(error.hint().as_deref(), Some("install it"));
    }

    /// The token runs out and the plugin fails when it is asked again.
    #[tokio::test]
    async fn a_failed_refresh_is_an_auth_error() {
        let directory = tempfile::tempdir().unwrap();
        let script = format!(
            "if [ $(wc -l < {}) -gt 1 ]; then echo SECRET-TOKEN; exit 1; fi\n{}",
            directory.path().join("runs").display(),
            credential(r#"{"token":"t","expirationTimestamp":"2020-01-01T00:00:00Z"}"#)
        );
        let stub = Stub::new([ok(&json!({}))]);
        let mut config = config(&format!("http://{}", stub.address));
        config.auth_info.exec = Some(plugin(&directory, &script));
        let error = connect(config, "x", quick()).unwrap().delete(LEASE, &json!({})).await.unwrap_err();
        assert_eq!(error.kind, ApiErrorKind::Auth, "{error:?}");
        assert!(!format!("{error:?}").contains("SECRET") && !error.write_outcome_unknown(), "{error:?}");
        assert!(stub.requests().is_empty());
    }
}

#[test]
fn bad_headers_are_errors() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _guard = runtime.enter();
    assert!(matches!(connect(config("http://x"), "a\nb", quick()).unwrap_err(), ConnectError::Header(_)));
    let mut with = config("http://x");
    with.auth_info.impersonate = Some("a\nb".into());
    assert!(matches!(connect(with, "x", quick()).unwrap_err(), ConnectError::Header(_)));
}
