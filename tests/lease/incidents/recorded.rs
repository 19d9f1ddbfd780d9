//! The incidents as they are kept in `tests/incidents/`, and what the plugin and the built program make of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use kubectl_rancher_lease::{LeaseDoctor, Question};
use rancher_common::doctor::{Doctor as _, Prescription};
use rancher_common::finding::Diagnosis;
use rancher_common::report::{FailOn, judge};
use rancher_common::snapshot::{self, Snapshot};
use rancher_common::yaml;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::catalogue::{self, Incident, Role, Treatment};

/// What made the snapshots; without a version, so that a release does not change them.
const TOOL: &str = "kubectl-rancher-lease";
/// What is expected of an incident.
const EXPECTED: &str = "expected.yaml";
/// What the program prints, for people and for programs.
const REPORTS: [(&str, &str); 2] = [("report.txt", "table"), ("report.json", "json")];
const OUTPUTS: [&str; 5] = ["table", "wide", "json", "yaml", "name"];

/// What is expected of an incident.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Expected {
    /// What happened.
    story: String,
    /// All codes that are reported, sorted.
    codes: Vec<String>,
    /// Codes that would be wrong here though they seem near.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    forbidden: Vec<String>,
    /// Exit code of `check`.
    exit_code: u8,
    /// What `fix` would do.
    prescription: Treatment,
}

impl Expected {
    fn of(incident: &Incident) -> Self {
        Self {
            story: incident.story.to_owned(),
            codes: incident.codes.iter().map(|code| (*code).to_owned()).collect(),
            forbidden: if incident.role == Role::LooksLike { vec![incident.code()] } else { Vec::new() },
            exit_code: incident.exit_code,
            prescription: incident.treatment,
        }
    }

    /// What the plugin makes of a snapshot, and how it differs from what is expected.
    fn differences(&self, question: &Question, snapshot: &Snapshot) -> Vec<String> {
        let diagnosis = LeaseDoctor.diagnose(question, snapshot);
        let plan = LeaseDoctor.plan(question, snapshot, &diagnosis);
        let mut differences = Vec::new();
        let codes: Vec<String> = codes(&diagnosis).into_iter().map(str::to_owned).collect();
        if codes != self.codes {
            let messages: Vec<String> =
                diagnosis.findings.iter().map(|f| format!("  {} {}", f.rule.code, f.message)).collect();
            differences.push(format!("codes {codes:?}, expected {:?}:\n{}", self.codes, messages.join("\n")));
        }
        if let Some(code) = self.forbidden.iter().find(|code| codes.contains(code)) {
            differences.push(format!("{code} is reported"));
        }
        let exit = judge(&diagnosis, FailOn::Error).1.code();
        if exit != self.exit_code {
            differences.push(format!("exit code {exit}, expected {}", self.exit_code));
        }
        if treatment(&plan) != self.prescription {
            differences.push(format!("{plan:?}, expected {:?}", self.prescription));
        }
        let fixable = diagnosis.findings.iter().any(|finding| finding.fixable);
        if matches!(plan, Prescription::Plan(_)) != fixable {
            differences.push(format!("fixable is {fixable}, but fix says {plan:?}"));
        }
        differences
    }
}

/// The codes of a diagnosis, sorted, each once.
pub(crate) fn codes(diagnosis: &Diagnosis) -> BTreeSet<&'static str> {
    diagnosis.findings.iter().map(|finding| finding.rule.code).collect()
}

/// The kind of a prescription.
pub(crate) fn treatment(prescription: &Prescription) -> Treatment {
    match prescription {
        Prescription::Plan(_) => Treatment::Plan,
        Prescription::NothingToDo(_) => Treatment::Nothing,
        Prescription::Refused { .. } => Treatment::Refused,
        Prescription::Wait(_) => Treatment::Wait,
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/incidents")
}

/// Runs the program as kubectl would, in `tests/incidents`, with nothing of this machine in its environment.
fn check(name: &str, output: &str) -> (String, String, i32) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-rancher-lease"));
    #[cfg(unix)]
    std::os::unix::process::CommandExt::arg0(&mut command, "/plugins/kubectl-rancher_lease");
    let done = command
        .args(["check", "--from", name, "-o", output])
        .current_dir(root())
        .env_clear()
        .env("PATH", "/plugins")
        .env("COLUMNS", "100")
        .output()
        .expect("the program runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (text(done.stdout), text(done.stderr), done.status.code().expect("an exit code"))
}

/// A report without the version of the program, which is not what is compared.
fn timeless(report: &str) -> String {
    report.replace(&format!("\"version\": \"{}\"", env!("CARGO_PKG_VERSION")), "\"version\": \"0.0.0\"")
}

/// All files of a directory by their relative path.
fn files(directory: &Path) -> BTreeMap<PathBuf, String> {
    let mut files = BTreeMap::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&next) else {
            continue;
        };
        for entry in entries {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(directory).expect("below it").to_owned();
                files.insert(name, std::fs::read_to_string(&path).expect("a text"));
            }
        }
    }
    files
}

/// The files that the catalogue gives for an incident, without reports.
fn written(incident: &Incident) -> BTreeMap<PathBuf, String> {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("snapshot");
    snapshot::save(&incident.world.snapshot(), TOOL, &path).expect("saved");
    let mut files = files(&path);
    files.insert(EXPECTED.into(), yaml::write(&Expected::of(incident)).expect("YAML"));
    files
}

fn without_reports(mut files: BTreeMap<PathBuf, String>) -> BTreeMap<PathBuf, String> {
    files.retain(|path, _| REPORTS.iter().all(|(name, _)| path != Path::new(name)));
    files
}

/// Joins what is wrong with each incident, so that one run shows all of it.
fn report(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n\n"));
}

#[test]
#[ignore = "writes tests/incidents anew from the catalogue; then review the differences"]
fn regenerate() {
    let root = root();
    let known: BTreeSet<&str> = catalogue::all().iter().map(|incident| incident.name).collect();
    for entry in std::fs::read_dir(&root).expect("the incidents") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("a name");
        if ours(&entry.path()) && !known.contains(name.as_str()) {
            std::fs::remove_dir_all(entry.path()).expect("removed");
        }
    }
    for incident in catalogue::all() {
        let directory = root.join(incident.name);
        if directory.exists() {
            std::fs::remove_dir_all(&directory).expect("removed");
        }
        for (name, content) in written(&incident) {
            let path = directory.join(name);
            std::fs::create_dir_all(path.parent().expect("a directory")).expect("made");
            std::fs::write(path, content).expect("written");
        }
        for (file, output) in REPORTS {
            let (stdout, _, _) = check(incident.name, output);
            std::fs::write(directory.join(file), timeless(&stdout)).expect("written");
        }
    }
}

/// Whether a directory belongs to this plugin: the others keep theirs in the same place.
fn ours(directory: &Path) -> bool {
    let tool = format!("tool: {TOOL}");
    std::fs::read_to_string(directory.join("snapshot.yaml")).is_ok_and(|index| index.lines().any(|line| line == tool))
}

#[test]
fn the_catalogue_is_consistent() {
    let mut names = BTreeSet::new();
    for incident in catalogue::all() {
        assert!(names.insert(incident.name), "{} is there twice", incident.name);
        assert!(incident.codes.is_sorted(), "{}", incident.name);
        let reported = incident.codes.contains(&incident.code().as_str());
        assert_eq!(reported, incident.role == Role::Triggers, "{}", incident.name);
    }
}

#[test]
fn files_are_those_of_the_catalogue() {
    let mut problems = Vec::new();
    for incident in catalogue::all() {
        let kept = without_reports(files(&root().join(incident.name)));
        let wanted = written(&incident);
        let names: BTreeSet<&PathBuf> = kept.keys().chain(wanted.keys()).collect();
        for name in names.into_iter().filter(|name| kept.get(*name) != wanted.get(*name)) {
            problems.push(format!("{}/{} is stale: regenerate, then review", incident.name, name.display()));
        }
    }
    let known: BTreeSet<&str> = catalogue::all().iter().map(|incident| incident.name).collect();
    for entry in std::fs::read_dir(root()).expect("the incidents") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("a name");
        if ours(&entry.path()) && !known.contains(name.as_str()) {
            problems.push(format!("{name} is not in the catalogue"));
        }
    }
    report(&problems);
}

#[test]
fn diagnoses_are_as_expected() {
    let mut problems = Vec::new();
    for incident in catalogue::all() {
        let path = root().join(incident.name);
        let expected = std::fs::read_to_string(path.join(EXPECTED)).expect("expected.yaml");
        let expected: Expected = yaml::read(&expected).expect("what is expected");
        let loaded = snapshot::load(&path).expect("a snapshot");
        for difference in expected.differences(&incident.world.question, &loaded) {
            problems.push(format!("{}: {difference}", incident.name));
        }
    }
    report(&problems);
}

#[test]
fn the_program_says_the_same_in_every_form() {
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/report.schema.json");
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(schema).expect("the schema")).expect("JSON");
    let mut schemas = boon::Schemas::new();
    let mut compiler = boon::Compiler::new();
    compiler.add_resource("report.json", schema).expect("added");
    let index = compiler.compile("report.json", &mut schemas).expect("a schema");

    let mut problems = Vec::new();
    for incident in catalogue::all() {
        let name = incident.name;
        let mut parsed = BTreeMap::new();
        for output in OUTPUTS {
            let (stdout, stderr, code) = check(name, output);
            if code != i32::from(incident.exit_code) {
                problems.push(format!("{name} -o {output}: exit code {code}, expected {}", incident.exit_code));
            }
            if !stderr.is_empty() {
                problems.push(format!("{name} -o {output}: on stderr: {stderr}"));
            }
            match output {
                "json" => drop(parsed.insert(output, serde_json::from_str::<Value>(&stdout).expect("JSON"))),
                "yaml" => drop(parsed.insert(output, yaml::read::<Value>(&stdout).expect("YAML"))),
                _ => {}
            }
            if let Some((file, _)) = REPORTS.iter().find(|(_, kept)| *kept == output) {
                let kept = std::fs::read_to_string(root().join(name).join(file)).unwrap_or_default();
                let now = timeless(&stdout);
                if kept != now {
                    problems.push(format!("{name}/{file} differs: regenerate, then review. Now:\n{now}"));
                }
            }
        }
        if parsed["json"] != parsed["yaml"] {
            problems.push(format!("{name}: JSON and YAML differ"));
        }
        if parsed["json"]["exitCode"] != incident.exit_code {
            problems.push(format!("{name}: exitCode {}", parsed["json"]["exitCode"]));
        }
        if let Err(error) = schemas.validate(&parsed["json"], index) {
            problems.push(format!("{name}: {error}"));
        }
    }
    report(&problems);
}
