//! For tests of what stands above the client: a server that answers each request as the test's own function says, over
//! plain HTTP/1.1. What the real API server answers is tested against the real one, in the suites.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use serde_json::{Value, json};

use super::client::{Api, Timeouts, connect};

/// A request as a test's function gets it.
pub(crate) struct Asked {
    /// `GET`, `PATCH` …
    pub(crate) method: String,
    /// Path without query.
    pub(crate) path: String,
    /// Whether nothing is to be changed.
    pub(crate) dry_run: bool,
    /// The body, null without one.
    pub(crate) body: Value,
}

/// Status and body; none closes the connection without an answer.
pub(crate) type Answer = Option<(u16, Value)>;

/// The URL of a server that ends with the test process.
pub(crate) fn serve(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            thread::spawn(move || connection(stream, answer.as_ref()));
        }
    });
    url
}

/// A client of it.
pub(crate) fn api(url: &str) -> Api {
    connect(::kube::Config::new(url.parse().unwrap()), "test", Timeouts::default()).unwrap()
}

/// A refusal as the API server words it.
pub(crate) fn status(code: u16, reason: &str, message: &str) -> Answer {
    let details = json!({"name": "x", "kind": "x"});
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message, "details": details});
    Some((code, body))
}

/// The objects by their paths, as the API server keeps them: enough of it for plans of deletes and JSON patches.
pub(crate) fn keep(objects: &mut std::collections::BTreeMap<String, Value>, asked: &Asked) -> Answer {
    if asked.path.ends_with("/selfsubjectaccessreviews") {
        return Some((201, json!({"status": {"allowed": true}})));
    }
    let Some(object) = objects.get_mut(&asked.path) else { return status(404, "NotFound", "not found") };
    match asked.method.as_str() {
        "PATCH" => {
            let patch: json_patch::Patch = serde_json::from_value(asked.body.clone()).unwrap();
            let mut patched = object.clone();
            if let Err(error) = json_patch::patch(&mut patched, &patch) {
                return status(422, "Invalid", &error.to_string());
            }
            if !asked.dry_run {
                let version: u64 = patched["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
                patched["metadata"]["resourceVersion"] = json!((version + 1).to_string());
                *object = patched.clone();
            }
            Some((200, patched))
        }
        "DELETE" => {
            let expected = &asked.body["preconditions"];
            if ["uid", "resourceVersion"].iter().any(|field| expected[field] != object["metadata"][field]) {
                return status(409, "Conflict", "the precondition does not hold");
            }
            let body = object.clone();
            if !asked.dry_run {
                objects.remove(&asked.path);
            }
            Some((200, body))
        }
        _ => Some((200, object.clone())),
    }
}

fn connection(stream: TcpStream, answer: &dyn Fn(&Asked) -> Answer) {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let header = |name: &str| {
            head.lines()
                .find_map(|line| line.to_ascii_lowercase().strip_prefix(name).map(|value| value.trim().to_owned()))
        };
        let mut body = vec![0; header("content-length:").map_or(0, |length| length.parse().unwrap())];
        reader.read_exact(&mut body).unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let mut words = head.split(' ');
        let method = words.next().unwrap_or_default().to_owned();
        let (path, query) = words.next().map(|uri| uri.split_once('?').unwrap_or((uri, ""))).unwrap_or_default();
        let dry_run = query.contains("dryRun=All") || body["dryRun"] == json!(["All"]);
        let Some((code, body)) = answer(&Asked { method, path: path.to_owned(), dry_run, body }) else { return };
        let body = body.to_string();
        let length = body.len();
        let text =
            format!("HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}");
        if writer.write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}
