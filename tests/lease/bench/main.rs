//! `make bench`: whole processes against kubectl on the same real API server, in turn, in one run. What is printed are
//! medians and ratios; absolute times belong to the machine.
//!
//! `--plain-delete N` measures instead what deleting a *living* leader's Lease does, with kubectl and with the
//! preconditions `fix` uses.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rancher_testkit::bench;
use serde_json::Value;

/// Runs of each command; an odd number has a median.
const RUNS: usize = 21;
/// Bounds that a change must not break.
const START_UP: f64 = 0.15;
const CHECK: f64 = 0.4;
const BINARY_BYTES: u64 = 9 << 20;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("--measure") => bench::measure_child(&arguments[1..]),
        Some("--plain-delete") => plain_delete(arguments.get(1).and_then(|n| n.parse().ok()).unwrap_or(10)),
        _ => compare(),
    }
}

fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// The directory with control-plane and kubectl.
fn tools() -> PathBuf {
    PathBuf::from(std::env::var_os("CONTROL_PLANE_BIN").expect("CONTROL_PLANE_BIN names the control plane's binaries"))
}

/// The release build of the plugin.
fn plugin() -> PathBuf {
    PathBuf::from(std::env::var_os("PLUGIN").expect("PLUGIN names the release binary"))
}

/// A Rancher on a real API server.
struct World {
    process: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    facts: Value,
}

impl World {
    fn start(arguments: &[&str]) -> Self {
        let mut process = Command::new(tools().join("control-plane"))
            .arg("world")
            .arg("--until-stdin-closes")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the control plane starts");
        let stdin = process.stdin.take().expect("stdin");
        let mut stdout = BufReader::new(process.stdout.take().expect("stdout"));
        let facts = line(&mut stdout);
        Self { process, stdin, stdout, facts }
    }

    fn kubeconfig(&self) -> &str {
        self.facts["kubeconfig"].as_str().expect("a kubeconfig")
    }

    fn tell(&mut self, command: &str) -> Value {
        writeln!(self.stdin, "{command}").expect("the world listens");
        line(&mut self.stdout)
    }

    fn holder(&mut self) -> Option<String> {
        let lease = self.tell("lease");
        lease["lease"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty()).map(str::to_owned)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn line(reader: &mut BufReader<ChildStdout>) -> Value {
    let mut text = String::new();
    reader.read_line(&mut text).expect("an answer");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A command to measure.
struct Candidate {
    name: &'static str,
    program: PathBuf,
    arguments: Vec<&'static str>,
}

fn ours(name: &'static str, arguments: &[&'static str]) -> Candidate {
    Candidate { name, program: plugin(), arguments: arguments.to_vec() }
}

fn kubectl(name: &'static str, arguments: &[&'static str]) -> Candidate {
    Candidate { name, program: tools().join("kubectl"), arguments: arguments.to_vec() }
}

fn run(candidate: &Candidate, kubeconfig: &str) -> Duration {
    let started = Instant::now();
    let status = Command::new(&candidate.program)
        .args(&candidate.arguments)
        .env_clear()
        .env("KUBECONFIG", kubeconfig)
        .env("HOME", std::env::temp_dir())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("it runs");
    let elapsed = started.elapsed();
    assert!(status.success(), "{} ended with {status}", candidate.name);
    elapsed
}

/// Runs the candidates in turn, so that what the machine does besides hits all of them; the medians in milliseconds.
fn medians(candidates: &[Candidate], kubeconfig: &str) -> Vec<f64> {
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); candidates.len()];
    for candidate in candidates {
        run(candidate, kubeconfig);
    }
    for _ in 0..RUNS {
        for (candidate, times) in candidates.iter().zip(&mut times) {
            times.push(run(candidate, kubeconfig).as_secs_f64() * 1000.0);
        }
    }
    times
        .into_iter()
        .map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        })
        .collect()
}

/// Peak resident memory of a command in MiB.
fn peak(candidate: &Candidate, kubeconfig: &str) -> f64 {
    bench::Command::new(candidate.program.clone(), &candidate.arguments).env("KUBECONFIG", kubeconfig).peak_mib()
}

fn compare() {
    let mut broken = Vec::new();
    let size = std::fs::metadata(plugin()).expect("the plugin").len();
    say(&format!("binary           {:.2} MiB", size as f64 / f64::from(1 << 20)));
    if size > BINARY_BYTES {
        broken.push("the binary is larger than 9 MiB".to_owned());
    }
    for clusters in ["10", "1", "100", "1000"] {
        let mut world = World::start(&["--holder", "live", "--clusters", clusters]);
        // The first look after the start may still see a leader that has just begun.
        let kubeconfig = world.kubeconfig().to_owned();
        let deadline = Instant::now() + Duration::from_secs(60);
        while world.holder().is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(200));
        }
        let candidates = [
            ours("plugin version", &["version"]),
            kubectl("kubectl version --client", &["version", "--client"]),
            ours("plugin check", &["check"]),
            kubectl("kubectl get lease", &["get", "lease", "-n", "kube-system", "cattle-controllers", "-o", "json"]),
            kubectl("kubectl get clusters", &["get", "clusters.management.cattle.io", "-o", "json"]),
        ];
        let times = medians(&candidates, &kubeconfig);
        let (start, check, lists) = (times[0] / times[1], times[2] / times[3], times[2] / times[4]);
        say(&format!("{clusters:>5} clusters   start-up {:.1} ms = {start:.2} x kubectl version --client", times[0]));
        say(&format!(
            "                 check    {:.1} ms = {check:.2} x kubectl get lease = {lists:.2} x kubectl get clusters",
            times[2]
        ));
        say(&format!(
            "                 memory   {:.0} MiB against {:.0} MiB of kubectl get clusters",
            peak(&candidates[2], &kubeconfig),
            peak(&candidates[4], &kubeconfig)
        ));
        if clusters == "10" {
            if start > START_UP {
                broken.push(format!("start-up {start:.2} > {START_UP}"));
            }
            if check > CHECK {
                broken.push(format!("check {check:.2} > {CHECK}"));
            }
        }
    }
    assert!(broken.is_empty(), "bounds broken: {}", broken.join("; "));
}

/// What deleting a living leader's Lease does: how often a standby takes it, and how long the old leader then goes on
/// leading beside the new one. And the same with the preconditions of `fix`, two seconds after reading.
fn plain_delete(rounds: usize) {
    let mut world = World::start(&["--holder", "live", "--clusters", "1"]);
    let kubeconfig = world.kubeconfig().to_owned();
    let lease = ["lease", "-n", "kube-system", "cattle-controllers"];
    let kubectl = |arguments: &[&str]| {
        Command::new(tools().join("kubectl"))
            .args(arguments)
            .env("KUBECONFIG", &kubeconfig)
            .output()
            .expect("kubectl runs")
    };
    let mut overlaps = Vec::new();
    for round in 0..rounds {
        let deadline = Instant::now() + Duration::from_secs(90);
        let old = loop {
            if let Some(holder) = world.holder() {
                break holder;
            }
            assert!(Instant::now() < deadline, "nobody leads");
            std::thread::sleep(Duration::from_millis(100));
        };
        // A different moment of the two-second rhythm each time.
        std::thread::sleep(Duration::from_millis(700 + 370 * (round as u64 % 7)));
        assert!(kubectl(&[&["delete"], &lease[..]].concat()).status.success());
        let new = loop {
            if let Some(holder) = world.holder() {
                break holder;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        if new == old {
            continue;
        }
        let since = Instant::now();
        loop {
            let replicas = world.tell("pods");
            let state = replicas["replicas"].as_array().and_then(|all| all.iter().find(|r| r["pod"] == old.as_str()));
            if state.is_none_or(|replica| replica["state"] == "exited") {
                break;
            }
            assert!(since.elapsed() < Duration::from_secs(60), "the old leader goes on");
            std::thread::sleep(Duration::from_millis(100));
        }
        overlaps.push(since.elapsed().as_secs_f64());
        world.tell(&format!("start-replica {old}"));
    }
    let longest = overlaps.iter().copied().fold(0.0, f64::max);
    say(&format!(
        "plain delete:        {} of {rounds} times a standby won and the old leader went on beside it, for up to {longest:.1} s",
        overlaps.len()
    ));

    let mut refused = 0;
    let options = std::env::temp_dir().join(format!("delete-options-{}.json", std::process::id()));
    for _ in 0..rounds {
        let read = kubectl(&[&["get"], &lease[..], &["-o", "json"]].concat());
        let object: Value = serde_json::from_slice(&read.stdout).expect("JSON");
        std::thread::sleep(Duration::from_millis(2500));
        let body = serde_json::json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "preconditions": {"uid": object["metadata"]["uid"], "resourceVersion": object["metadata"]["resourceVersion"]},
        });
        std::fs::write(&options, body.to_string()).expect("written");
        let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/cattle-controllers";
        let deleted = kubectl(&["delete", "--raw", path, "-f", Path::new(&options).to_str().expect("UTF-8")]);
        refused += usize::from(!deleted.status.success());
    }
    let _ = std::fs::remove_file(&options);
    say(&format!(
        "with preconditions:  {refused} of {rounds} deletions of a living leader's Lease were refused by the API server"
    ));
}
