//! The real control plane as a child process.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Write as _};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::machines::{Reach, got, write_kubeconfig};
use crate::{Output, Program};

/// Until etcd, the API server and the controller manager are up, on a machine that does other things too.
const START_LIMIT: Duration = Duration::from_secs(90);
/// For the answer to a command.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// Control planes at once: each takes a core while it starts.
const AT_ONCE: usize = 4;

/// A program built beside the control plane: `kubectl`, `helm`, `krew` …
///
/// # Panics
/// When `CONTROL_PLANE_BIN` is unset or does not hold it. A test that needs it must not pass without it.
#[must_use]
pub fn binary(name: &str) -> PathBuf {
    let Some(directory) = std::env::var_os("CONTROL_PLANE_BIN").filter(|value| !value.is_empty()) else {
        panic!("CONTROL_PLANE_BIN is not set: build with tests/control-plane/build.sh and name its directory `bin`");
    };
    let path = Path::new(&directory).join(name);
    assert!(path.is_file(), "{} is missing: run tests/control-plane/build.sh", path.display());
    path
}

/// One answered request from the API server's audit log.
#[derive(Clone, Debug)]
pub struct Audit {
    /// Who asked, or who was impersonated.
    pub user: String,
    /// `get`, `list`, `delete` …
    pub verb: String,
    /// Path and query.
    pub uri: String,
    /// The User-Agent header.
    pub agent: String,
    /// When it was answered, RFC 3339.
    pub at: String,
    /// The status of the answer.
    pub code: u64,
    /// API group, resource (with subresource), namespace and name, as the server understood them; empty where not given.
    pub object: [String; 4],
}

/// A control plane: etcd, kube-apiserver and kube-controller-manager. Ends when dropped.
#[derive(Debug)]
pub struct ControlPlane {
    child: Child,
    stdin: Mutex<Option<ChildStdin>>,
    lines: Mutex<Receiver<String>>,
    ready: Value,
    files: TempDir,
    _permit: Permit,
}

impl ControlPlane {
    /// Starts one without any objects.
    ///
    /// # Panics
    /// When it does not get ready.
    #[must_use]
    pub fn start() -> Self {
        Self::start_as("up", &[])
    }

    fn start_as(part: &str, args: &[&str]) -> Self {
        let program = binary("control-plane");
        let permit = Permit::get(1 + downstreams(args));
        let files = tempfile::Builder::new().prefix("plane-").tempdir().unwrap();
        let log = files.path().join("stderr");
        let mut child = Command::new(program)
            .arg(part)
            .args(["--until-stdin-closes", "--dir"])
            .arg(files.path().join("plane"))
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        let Ok(first) = lines.recv_timeout(START_LIMIT) else {
            let _ = child.kill();
            panic!("the control plane did not get ready:\n{}", std::fs::read_to_string(log).unwrap_or_default());
        };
        let ready = serde_json::from_str(&first).unwrap();
        Self { child, stdin: Mutex::new(stdin), lines: Mutex::new(lines), ready, files, _permit: permit }
    }

    /// What it printed when it was ready.
    #[must_use]
    pub fn ready(&self) -> &Value {
        &self.ready
    }

    /// One text of what it printed.
    #[must_use]
    pub fn text(&self, key: &str) -> &str {
        self.ready[key].as_str().unwrap()
    }

    /// The kubeconfig of the administrator.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        PathBuf::from(self.text("kubeconfig"))
    }

    /// A directory for files of the test.
    #[must_use]
    pub fn files(&self) -> &Path {
        self.files.path()
    }

    /// A kubeconfig for another server, token or context name.
    #[must_use]
    pub fn kubeconfig_of(&self, context: &str, server: &str, token: &str) -> PathBuf {
        let path = self.files.path().join(format!("{context}.kubeconfig"));
        let ca = server.starts_with("https").then(|| Path::new(self.text("caFile")));
        write_kubeconfig(&path, &[Reach { context, server, ca, token: Some(token) }]);
        path
    }

    /// Every request answered so far.
    #[must_use]
    pub fn audit(&self) -> Vec<Audit> {
        let text = std::fs::read_to_string(self.text("auditLog")).unwrap();
        // The last line may not be complete yet.
        text.lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .map(|entry| Audit::of(&entry))
            .collect()
    }

    /// The requests of the plugin so far.
    #[must_use]
    pub fn audit_of_plugin(&self) -> Vec<Audit> {
        self.audit().into_iter().filter(|entry| entry.agent.starts_with("kubectl-rancher")).collect()
    }

    /// `kubectl` as administrator, not run yet.
    #[must_use]
    pub fn kubectl_program<I: IntoIterator<Item: AsRef<OsStr>>>(&self, args: I) -> Program {
        Program::new(binary("kubectl")).env("KUBECONFIG", self.kubeconfig()).args(args)
    }

    /// What `kubectl` prints.
    ///
    /// # Panics
    /// When it fails.
    #[track_caller]
    pub fn kubectl(&self, args: &[&str]) -> String {
        self.kubectl_program(args).run().expect_code(0).stdout.clone()
    }

    /// What `kubectl get … -o json` prints, or null when there is no such object.
    #[must_use]
    #[track_caller]
    pub fn get(&self, args: &[&str]) -> Value {
        got(&self.kubectl_program(["get", "-o", "json", "--ignore-not-found"]).args(args).run())
    }

    /// `kubectl apply` of these objects.
    #[track_caller]
    pub fn apply(&self, manifests: impl Into<String>) -> Output {
        let output = self.kubectl_program(["apply", "-f", "-"]).input(manifests.into()).run();
        output.expect_code(0);
        output
    }

    /// Gives it a command; its answer.
    ///
    /// # Panics
    /// When that is an error.
    #[track_caller]
    pub fn command(&self, line: &str) -> Value {
        let lines = self.lines.lock().unwrap();
        writeln!(self.stdin.lock().unwrap().as_mut().unwrap(), "{line}").unwrap();
        let answer: Value = serde_json::from_str(&lines.recv_timeout(ANSWER_LIMIT).unwrap()).unwrap();
        assert!(answer.get("error").is_none(), "{line}: {answer}");
        answer
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        // The end of its stdin asks it to go; its children go with it even when it must be killed.
        self.stdin.lock().unwrap_or_else(PoisonError::into_inner).take();
        let started = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if started.elapsed() > Duration::from_secs(20) {
                let _ = self.child.kill();
                let _ = self.child.wait();
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Audit {
    fn of(entry: &Value) -> Self {
        let text = |pointer: &str| entry.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let resource = match text("/objectRef/subresource") {
            sub if sub.is_empty() => text("/objectRef/resource"),
            sub => format!("{}/{sub}", text("/objectRef/resource")),
        };
        Self {
            user: match text("/impersonatedUser/username") {
                user if user.is_empty() => text("/user/username"),
                user => user,
            },
            verb: text("/verb"),
            uri: text("/requestURI"),
            agent: text("/userAgent"),
            at: text("/stageTimestamp"),
            code: entry["responseStatus"]["code"].as_u64().unwrap_or_default(),
            object: [text("/objectRef/apiGroup"), resource, text("/objectRef/namespace"), text("/objectRef/name")],
        }
    }

    /// Whether this is a write that was meant, not a dry run.
    #[must_use]
    pub fn is_delete(&self) -> bool {
        self.verb == "delete" && !self.uri.contains("dryRun=All")
    }
}

/// A control plane with Rancher's Deployment, its Lease, clusters, and real contenders.
#[derive(Debug)]
pub struct World(ControlPlane);

impl World {
    /// Starts one; the arguments are those of `control-plane world`.
    ///
    /// # Panics
    /// When it does not get ready.
    #[must_use]
    pub fn start(args: &[&str]) -> Self {
        Self(ControlPlane::start_as("world", args))
    }

    /// The names of the Rancher pods that it began with.
    #[must_use]
    pub fn pods(&self) -> Vec<String> {
        let replicas = self.ready()["replicas"].as_array().unwrap();
        replicas.iter().map(|replica| replica["pod"].as_str().unwrap().to_owned()).collect()
    }

    /// Rancher's Lease; null when there is none.
    #[must_use]
    #[track_caller]
    pub fn lease(&self) -> Value {
        self.get(&["lease", "-n", "kube-system", "cattle-controllers"])
    }

    /// Who holds it; empty when nobody does.
    #[must_use]
    #[track_caller]
    pub fn holder(&self) -> String {
        self.lease()["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
    }
}

impl Deref for World {
    type Target = ControlPlane;

    fn deref(&self) -> &ControlPlane {
        &self.0
    }
}

static RUNNING: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

/// How many downstream control planes the arguments of `world` ask for.
fn downstreams(args: &[&str]) -> usize {
    let separate = args.windows(2).filter(|pair| pair[0] == "--downstream").map(|pair| pair[1]);
    let joined = args.iter().filter_map(|arg| arg.strip_prefix("--downstream="));
    separate.chain(joined).map(|names| names.split(',').count()).sum()
}

/// The right to run so many more control planes.
#[derive(Debug)]
struct Permit(usize);

impl Permit {
    fn get(planes: usize) -> Self {
        // A world larger than the limit runs alone.
        let planes = planes.min(AT_ONCE);
        let mut running = RUNNING.0.lock().unwrap_or_else(PoisonError::into_inner);
        while *running + planes > AT_ONCE {
            running = RUNNING.1.wait(running).unwrap_or_else(PoisonError::into_inner);
        }
        *running += planes;
        Self(planes)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        *RUNNING.0.lock().unwrap_or_else(PoisonError::into_inner) -= self.0;
        RUNNING.1.notify_all();
    }
}
