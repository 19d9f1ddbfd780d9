//! The built plugin as a process, without a cluster: every recorded incident in every output format, and the command
//! line's own answers.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// The plugin in an empty environment: what a test does not set, it does not depend on.
fn plugin(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-rancher-lease"));
    command.args(arguments).env_clear().env("COLUMNS", "100").env("HOME", "/nonexistent");
    command
}

fn run(arguments: &[&str]) -> Output {
    plugin(arguments).output().expect("the plugin runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("an exit code")
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn incidents() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(repository().join("tests/incidents"))
        .expect("incidents")
        .map(|entry| entry.expect("entry").path())
        .filter(|path| path.join("snapshot.yaml").is_file())
        .collect();
    found.sort();
    assert!(found.len() > 40, "only {} incidents found", found.len());
    found
}

/// Validates reports against the shipped schema.
fn validator() -> impl Fn(&Value) -> Result<(), String> {
    let schema = std::fs::read_to_string(repository().join("docs/report.schema.json")).expect("schema");
    let mut schemas = boon::Schemas::new();
    let mut compiler = boon::Compiler::new();
    compiler.add_resource("report.json", serde_json::from_str(&schema).expect("JSON")).expect("added");
    let index = compiler.compile("report.json", &mut schemas).expect("a schema");
    move |report| schemas.validate(report, index).map_err(|error| format!("{error}\n{report:#}"))
}

#[test]
fn every_incident_ends_alike_in_every_format() {
    let validate = validator();
    for incident in incidents() {
        let path = incident.to_str().expect("UTF-8");
        let table = run(&["check", "--from", path]);
        let warnings = code(&run(&["check", "--from", path, "--fail-on", "warning"]));
        let mut documents = Vec::new();
        for format in ["wide", "json", "yaml", "name"] {
            let output = run(&["check", "--from", path, "-o", format]);
            assert_eq!(code(&output), code(&table), "{path} -o {format}");
            assert!(!output.stdout.contains(&0x1b), "{path} -o {format}: an escape byte");
            let failing = run(&["check", "--from", path, "-o", format, "--fail-on", "warning"]);
            assert_eq!(code(&failing), warnings, "{path} -o {format} --fail-on warning");
            match format {
                "json" => documents.push(serde_json::from_slice(&output.stdout).expect("one JSON document")),
                "yaml" => documents.push(rancher_common::yaml::read::<Value>(&text(&output.stdout)).expect("YAML")),
                _ => {}
            }
        }
        validate(&documents[0]).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(documents[0]["exitCode"], code(&table), "{path}");
        assert_eq!(documents[0], documents[1], "{path}: JSON and YAML differ");
        let last = text(&table.stdout).trim_end().lines().last().map(str::to_owned).unwrap_or_default();
        assert!(last.ends_with(&format!("Exit {}.", code(&table))), "{path}: {last}");
    }
}

/// The text of every incident, reviewed: a change of words shows in the diff of `report.txt` beside the snapshot.
/// `INSTA_UPDATE=always cargo test -p kubectl-rancher-lease --test cli` writes them anew.
#[test]
fn every_incident_reads_as_reviewed() {
    let update = std::env::var("INSTA_UPDATE").is_ok_and(|value| value == "always");
    let mut different = Vec::new();
    for incident in incidents() {
        // A relative path, so that the report does not name this machine's directories.
        let name = incident.file_name().and_then(|name| name.to_str()).expect("UTF-8");
        let output = plugin(&["check", "--from", name, "-o", "wide"])
            .current_dir(repository().join("tests/incidents"))
            .output()
            .expect("the plugin runs");
        let report = text(&output.stdout).replace(env!("CARGO_BIN_EXE_kubectl-rancher-lease"), "kubectl rancher-lease");
        let file = incident.join("report.txt");
        if update {
            std::fs::write(&file, &report).expect("written");
        } else if std::fs::read_to_string(&file).unwrap_or_default() != report {
            different.push(format!("{name}:\n{report}"));
        }
    }
    assert!(different.is_empty(), "reports differ from report.txt:\n{}", different.join("\n"));
}

#[test]
fn wrong_usage_is_2_and_one_json_document_where_json_was_asked_for() {
    let validate = validator();
    let cases: [&[&str]; 8] = [
        &["fxi"],
        &["--bogus"],
        &["check", "--bogus"],
        &["--cache-dir", "/x", "check"],
        &["check", "--fail-on", "sometimes"],
        &["explain", "RL999"],
        &["check", "--from", "/nonexistent"],
        &["check", "--kubeconfig", "/nonexistent"],
    ];
    for arguments in cases {
        let output = run(arguments);
        assert_eq!(code(&output), 2, "{arguments:?}: {output:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
        // Not all verbs know `-o`; those that do answer with a document.
        if arguments[0] != "explain" {
            let mut with_json = arguments.to_vec();
            with_json.extend(["-o", "json"]);
            let output = run(&with_json);
            assert_eq!(code(&output), 2, "{with_json:?}");
            let document: Value = serde_json::from_slice(&output.stdout)
                .unwrap_or_else(|error| panic!("{with_json:?}: {error}: {}", text(&output.stdout)));
            validate(&document).unwrap_or_else(|error| panic!("{with_json:?}: {error}"));
            assert_eq!(document["verdict"], "Error", "{with_json:?}");
        }
    }
}

#[test]
fn flags_stand_before_or_behind_the_verb_and_the_bare_command_is_check() {
    let incident = repository().join("tests/incidents/rl101-holder-gone");
    let path = incident.to_str().expect("UTF-8");
    let expected = run(&["check", "--from", path, "-o", "json"]);
    assert_eq!(code(&expected), 3);
    let forms: [&[&str]; 4] = [
        &["--from", path, "-o", "json"],
        &["-o", "json", "check", "--from", path],
        &["--color", "never", "-o", "json", "check", "--from", path],
        &["check", "-o", "json", "--from", path, "-q"],
    ];
    for form in forms {
        let output = run(form);
        assert_eq!(code(&output), 3, "{form:?}");
        assert_eq!(text(&output.stdout), text(&expected.stdout), "{form:?}");
    }
}

#[test]
fn every_code_is_explained_in_both_languages() {
    let version = run(&["version", "-o", "json"]);
    let version: Value = serde_json::from_slice(&version.stdout).expect("JSON");
    let codes: Vec<&str> = version["codes"].as_array().expect("codes").iter().filter_map(Value::as_str).collect();
    assert!(codes.contains(&"RL101") && codes.contains(&"RX005"), "{codes:?}");
    let listed = text(&run(&["explain"]).stdout);
    for code in codes {
        assert!(listed.contains(code), "{code} is not listed");
        let english = text(&run(&["explain", code]).stdout);
        let chinese =
            text(&plugin(&["explain", &code.to_lowercase()]).env("LANG", "zh_CN.UTF-8").output().expect("runs").stdout);
        assert!(english.starts_with(&format!("# {code} ")), "{english}");
        assert!(chinese.starts_with(&format!("# {code} ")), "{chinese}");
        assert_ne!(english, chinese, "{code} is not translated");
        assert_eq!(text(&run(&["explain", code, "--lang", "zh-CN"]).stdout), chinese);
    }
}

#[test]
fn a_closed_pipe_is_no_error() {
    let incident = repository().join("tests/incidents/rl101-holder-gone");
    let binary = env!("CARGO_BIN_EXE_kubectl-rancher-lease");
    let script = format!("{{ '{binary}' check --from '{}'; echo \"exit $?\" >&2; }} | true", incident.display());
    let output = Command::new("sh").args(["-c", &script]).output().expect("sh runs");
    assert_eq!(text(&output.stderr), "exit 3\n");
}

#[test]
fn colors_follow_flag_and_environment() {
    let incident = repository().join("tests/incidents/rl101-holder-gone");
    let path = incident.to_str().expect("UTF-8");
    let colored = |command: &mut Command| command.output().expect("runs").stdout.contains(&0x1b);
    assert!(!colored(&mut plugin(&["check", "--from", path])));
    assert!(colored(&mut plugin(&["check", "--from", path, "--color", "always"])));
    assert!(colored(plugin(&["check", "--from", path]).env("CLICOLOR_FORCE", "1")));
    assert!(!colored(plugin(&["check", "--from", path, "--color", "never"]).env("CLICOLOR_FORCE", "1")));
    assert!(!colored(plugin(&["check", "--from", path]).env("NO_COLOR", "1")));
}

#[test]
fn rbac_is_yaml_and_grows_from_check_to_fix() {
    let roles = |arguments: &[&str]| -> Vec<Value> {
        text(&run(arguments).stdout)
            .split("---\n")
            .filter(|document| !document.trim().is_empty())
            .map(|document| rancher_common::yaml::read(document).expect("YAML"))
            .collect()
    };
    let count = |roles: &[Value]| roles.iter().map(|role| role["rules"].as_array().map_or(0, Vec::len)).sum::<usize>();
    let required = roles(&["rbac", "--required-only"]);
    let check = roles(&["rbac"]);
    let fix = roles(&["rbac", "--for", "fix"]);
    assert!(count(&required) < count(&check), "{required:?}");
    assert!(text(&run(&["rbac", "--for", "fix"]).stdout).contains("delete"));
    assert!(!text(&run(&["rbac"]).stdout).contains("delete"));
    assert!(count(&check) <= count(&fix));
    for role in &fix {
        assert!(["Role", "ClusterRole"].contains(&role["kind"].as_str().unwrap_or_default()), "{role}");
    }
}

/// The whole command line, reviewed.
#[test]
fn help_reads_as_reviewed() {
    let mut all = String::new();
    for verb in ["", "check", "fix", "undo", "explain", "watch", "snapshot", "rbac", "completion", "version"] {
        let arguments: Vec<&str> = [verb, "-h"].into_iter().filter(|word| !word.is_empty()).collect();
        let output = run(&arguments);
        assert_eq!(code(&output), 0, "{verb}");
        all.push_str(&format!("$ kubectl rancher-lease {}\n", arguments.join(" ")));
        all.push_str(
            &text(&output.stdout).replace(env!("CARGO_BIN_EXE_kubectl-rancher-lease"), "kubectl rancher-lease"),
        );
        all.push('\n');
    }
    let file = repository().join("tests/lease/cli/help.txt");
    if std::env::var("INSTA_UPDATE").is_ok_and(|value| value == "always") {
        std::fs::write(&file, &all).expect("written");
    }
    assert_eq!(all, std::fs::read_to_string(&file).unwrap_or_default(), "help differs from tests/lease/cli/help.txt");
}
