//! The built plugin as a process, without a cluster: every recorded incident in every output format, and the command
//! line's own answers.

use std::process::Command;

use rancher_testkit::Plugin;
use rancher_testkit::incidents::{code, text};

const PLUGIN: Plugin = Plugin { name: "rancher-lease", binary: env!("CARGO_BIN_EXE_kubectl-rancher-lease") };

#[test]
fn every_incident_ends_alike_in_every_format() {
    assert!(PLUGIN.incidents().len() > 40);
    PLUGIN.every_incident_ends_alike_in_every_format();
}

/// `INSTA_UPDATE=always cargo test -p kubectl-rancher-lease --test cli` writes them anew.
#[test]
fn every_incident_reads_as_reviewed() {
    PLUGIN.every_incident_reads_as_reviewed();
}

#[test]
fn wrong_usage_is_2_and_one_json_document_where_json_was_asked_for() {
    PLUGIN.wrong_usage_is_2(&[&["fxi"]]);
}

#[test]
fn flags_stand_before_or_behind_the_verb_and_the_bare_command_is_check() {
    let incident = Plugin::incidents_directory().join("rl101-holder-gone");
    let path = incident.to_str().expect("UTF-8");
    let expected = PLUGIN.run(&["check", "--from", path, "-o", "json"]);
    assert_eq!(code(&expected), 3);
    let forms: [&[&str]; 4] = [
        &["--from", path, "-o", "json"],
        &["-o", "json", "check", "--from", path],
        &["--color", "never", "-o", "json", "check", "--from", path],
        &["check", "-o", "json", "--from", path, "-q"],
    ];
    for form in forms {
        let output = PLUGIN.run(form);
        assert_eq!(code(&output), 3, "{form:?}");
        assert_eq!(text(&output.stdout), text(&expected.stdout), "{form:?}");
    }
}

#[test]
fn every_code_is_explained_in_both_languages() {
    PLUGIN.every_code_is_explained_in_both_languages(&["RL101", "RX005"]);
}

#[test]
fn a_closed_pipe_is_no_error() {
    PLUGIN.a_closed_pipe_is_no_error("rl101-holder-gone", 3);
}

#[test]
fn colors_follow_flag_and_environment() {
    let incident = Plugin::incidents_directory().join("rl101-holder-gone");
    let path = incident.to_str().expect("UTF-8");
    let plugin = |arguments: &[&str]| PLUGIN.command(arguments);
    let colored = |command: &mut Command| command.output().expect("runs").stdout.contains(&0x1b);
    assert!(!colored(&mut plugin(&["check", "--from", path])));
    assert!(colored(&mut plugin(&["check", "--from", path, "--color", "always"])));
    assert!(colored(plugin(&["check", "--from", path]).env("CLICOLOR_FORCE", "1")));
    assert!(!colored(plugin(&["check", "--from", path, "--color", "never"]).env("CLICOLOR_FORCE", "1")));
    assert!(!colored(plugin(&["check", "--from", path]).env("NO_COLOR", "1")));
}

#[test]
fn rbac_is_yaml_and_grows_from_check_to_fix() {
    PLUGIN.rbac_grows_from_check_to_fix();
}

/// The whole command line, reviewed.
#[test]
fn help_reads_as_reviewed() {
    PLUGIN.help_reads_as_reviewed(&[
        "check",
        "fix",
        "undo",
        "explain",
        "watch",
        "snapshot",
        "rbac",
        "completion",
        "version",
    ]);
}
