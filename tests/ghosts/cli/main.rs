//! The built plugin as a process, without a cluster: every recorded incident in every output format, and the command
//! line's own answers.

use rancher_testkit::Plugin;
use rancher_testkit::incidents::{code, text, validator};
use serde_json::Value;

const PLUGIN: Plugin = Plugin { name: "rancher-ghosts", binary: env!("CARGO_BIN_EXE_kubectl-rancher-ghosts") };
/// Stands wherever a real cluster has a secret (tests/ghosts/worlds/world.rs).
const MARKER: &str = "hunter2marker";

#[test]
fn every_incident_ends_alike_in_every_format() {
    assert!(PLUGIN.incidents().len() > 15);
    PLUGIN.every_incident_ends_alike_in_every_format();
}

/// `INSTA_UPDATE=always cargo test --workspace --test cli` writes them anew.
#[test]
fn every_incident_reads_as_reviewed() {
    PLUGIN.every_incident_reads_as_reviewed();
}

/// A saved snapshot holds no secret, though what it was taken from is full of them.
#[test]
fn no_recording_holds_a_secret() {
    let (mut files, mut redacted) = (0, 0);
    for incident in PLUGIN.incidents() {
        for (path, content) in Plugin::files(&incident) {
            assert!(!content.contains(MARKER), "{}", path.display());
            files += 1;
            redacted += content.matches("<redacted>").count();
        }
    }
    assert!(files > 100 && redacted > 100, "{files} files, {redacted} secrets");
}

#[test]
fn wrong_usage_is_2_and_one_json_document_where_json_was_asked_for() {
    PLUGIN.wrong_usage_is_2(&[&["check", "a/b/c"], &["check", "--grace", "soon"], &["check", "--gone-for-good"]]);
    for arguments in [&["whois"][..], &["whois", "x", "--connection-info", "/nonexistent"]] {
        assert_eq!(code(&PLUGIN.run(arguments)), 2, "{arguments:?}");
    }
}

#[test]
fn the_bare_command_is_check_with_a_target_or_without() {
    let incident = Plugin::incidents_directory().join("ghosts-rg101-rotation-waits");
    let path = incident.to_str().expect("UTF-8");
    let target = "prod/custom-2d74d4c9a104";
    let expected = PLUGIN.run(&["check", target, "--from", path, "-o", "json"]);
    assert_eq!(code(&expected), 3);
    let forms: [&[&str]; 3] = [
        &[target, "--from", path, "-o", "json"],
        &["--from", path, "-o", "json", target],
        &["-o", "json", "check", "--from", path, target],
    ];
    for form in forms {
        let output = PLUGIN.run(form);
        assert_eq!(code(&output), 3, "{form:?}");
        assert_eq!(text(&output.stdout), text(&expected.stdout), "{form:?}");
    }
}

#[test]
fn every_code_is_explained_in_both_languages() {
    PLUGIN.every_code_is_explained_in_both_languages(&["RG101", "RG110", "RG201", "RG210", "RX006"]);
}

#[test]
fn a_closed_pipe_is_no_error() {
    PLUGIN.a_closed_pipe_is_no_error("ghosts-rg110-namespace-gone", 3);
}

#[test]
fn rbac_is_yaml_and_grows_from_check_to_fix() {
    PLUGIN.rbac_grows_from_check_to_fix();
}

/// A connection file and what is known of its plan Secret; the token in it is never told.
#[test]
fn a_connection_file_names_its_machine() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("rancher2_connection_info.json");
    let validate = validator();
    let incident = Plugin::incidents_directory().join("ghosts-rg110-namespace-gone");
    for (secret, expected) in [("custom-898d97f03763-machine-plan", 5), ("custom-000000000000-machine-plan", 5)] {
        let info = serde_json::json!({"kubeConfig": MARKER, "namespace": "fleet-default", "secretName": secret});
        std::fs::write(&file, info.to_string()).expect("written");
        let arguments = ["whois", "--connection-info", file.to_str().expect("UTF-8"), "--from"];
        let mut arguments = arguments.to_vec();
        arguments.extend([incident.to_str().expect("UTF-8"), "-o", "json"]);
        let output = PLUGIN.run(&arguments);
        // Nobody asked for the Secret when that snapshot was taken: not known is not absent.
        assert_eq!(code(&output), expected, "{}", text(&output.stdout));
        let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        validate(&document).expect("a report");
        assert!(!text(&output.stdout).contains(MARKER) && !text(&output.stderr).contains(MARKER));
    }
}

/// The whole command line, reviewed.
#[test]
fn help_reads_as_reviewed() {
    PLUGIN.help_reads_as_reviewed(&[
        "check",
        "fix",
        "whois",
        "undo",
        "explain",
        "watch",
        "snapshot",
        "rbac",
        "completion",
        "version",
    ]);
}
