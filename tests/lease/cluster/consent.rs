//! Consent, where a person would be asked: on a terminal.

use std::time::Duration;

use rancher_testkit::{Program, Pty, World};
use serde_json::json;

use super::{at_once, plugin};

const PROMPT: &str = "[y/N]";
/// A person who takes longer than this to answer has left time for things to change.
const THOUGHT: Duration = Duration::from_millis(300);

fn fix(world: &World) -> Program {
    plugin(world, &["fix"]).limit(Duration::from_secs(90))
}

fn asked(world: &World) -> Pty {
    let mut terminal = fix(world).terminal();
    terminal.expect(PROMPT);
    terminal
}

/// How somebody does not agree.
#[derive(Clone, Copy, Debug)]
enum No {
    N,
    Empty,
    EndOfInput,
    Interrupt,
    Pasted,
    InterruptEarly,
    Pipe,
    CiOnTerminal,
    Nobody,
    WrongDigest,
    DryRunClient,
    DryRunServer,
    MachineOutput,
}

fn does_not_agree(world: &World, no: No) {
    let ended = |(code, screen): (i32, String), expected: i32, words: &str| {
        assert_eq!(code, expected, "{no:?}: {screen}");
        assert!(screen.contains(words), "{no:?}: `{words}` is not on the screen: {screen}");
        assert!(!screen.contains("cattle-controllers deleted"), "{no:?}: {screen}");
    };
    let ran = |program: Program, expected: i32, words: &str| {
        let output = program.run();
        assert_eq!(output.code, expected, "{no:?}: {output}");
        assert!(output.says(words), "{no:?}: `{words}` is not said: {output}");
    };
    match no {
        No::N | No::Empty => {
            let mut terminal = asked(world);
            terminal.send_line(if matches!(no, No::N) { "n" } else { "" });
            ended(terminal.end(), 6, "declined");
        }
        No::EndOfInput => {
            let mut terminal = asked(world);
            terminal.control('d');
            ended(terminal.end(), 6, "declined");
        }
        No::Interrupt => {
            let mut terminal = asked(world);
            terminal.control('c');
            ended(terminal.end(), 130, "nothing was changed");
        }
        No::InterruptEarly => {
            // Before the question, between the two looks.
            let mut terminal = fix(world).terminal();
            terminal.expect("reading");
            terminal.control('c');
            ended(terminal.end(), 130, "nothing was changed");
        }
        No::Pasted => {
            let mut terminal = fix(world).terminal();
            // The next lines of a runbook, pasted at once with the command.
            for _ in 0..3 {
                terminal.send_line("y");
            }
            terminal.expect(PROMPT);
            terminal.send_line("n");
            ended(terminal.end(), 6, "declined");
        }
        No::Pipe => ran(fix(world).input("y\n".repeat(100_000)), 6, "not interactive"),
        No::CiOnTerminal => ended(fix(world).env("CI", "1").terminal().end(), 6, "not interactive"),
        No::Nobody => ran(fix(world), 6, "--confirm"),
        No::WrongDigest => ran(fix(world).args(["--confirm", "0123456789ab"]), 6, "is for another plan"),
        No::DryRunClient => {
            ran(fix(world).args(["--dry-run=client"]), 0, "delete Lease kube-system/cattle-controllers")
        }
        No::DryRunServer => ran(fix(world).args(["--yes", "--dry-run=server"]), 0, "server dry run ok"),
        No::MachineOutput => {
            let output = fix(world).args(["-o", "json"]).run();
            output.expect_code(6);
            let report = output.json();
            assert_eq!((&report["verdict"], &report["changed"]), (&json!("Refused"), &json!(false)), "{output}");
            assert!(report["plan"]["digest"].is_string(), "{output}");
        }
    }
}

/// The Lease of the dead leader, as it was.
fn restore(world: &World, original: &serde_json::Value) {
    assert!(world.lease().is_null(), "it was deleted");
    let spec = &original["spec"];
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": spec,
        "metadata": {"name": "cattle-controllers", "namespace": "kube-system"},
    });
    world.apply(lease.to_string());
}

#[test]
fn only_a_clear_yes_is_a_yes() {
    // Nobody contends, so that what is deleted stays deleted and the test can put it back.
    let world = World::start(&["--holder", "dead", "--clusters", "1", "--start-replicas=false"]);
    let original = world.lease();
    let all = [
        No::N,
        No::Empty,
        No::EndOfInput,
        No::Interrupt,
        No::InterruptEarly,
        No::Pasted,
        No::Pipe,
        No::CiOnTerminal,
        No::Nobody,
        No::WrongDigest,
        No::DryRunClient,
        No::DryRunServer,
        No::MachineOutput,
    ];
    at_once(5, &all, |no| does_not_agree(&world, *no));
    assert_eq!(world.lease(), original);
    let deletes = |world: &World| world.audit_of_plugin().iter().filter(|entry| entry.is_delete()).count();
    assert_eq!(deletes(&world), 0);

    // `y` on the terminal, after some thought, so that it looks again. Nobody takes the Lease in time.
    let mut terminal = fix(&world).args(["--verify-timeout", "1s"]).terminal();
    terminal.expect(PROMPT);
    std::thread::sleep(THOUGHT);
    terminal.send_line("y");
    terminal.expect("looking again before writing");
    terminal.expect("cattle-controllers deleted");
    let (code, screen) = terminal.end();
    assert_eq!(code, 7, "{screen}");
    assert!(screen.contains("undo"), "{screen}");
    assert_eq!(deletes(&world), 1);
    restore(&world, &original);

    // While the question stands, the old leader renews: the answer is for a plan that is no longer true.
    for thought in [Duration::ZERO, THOUGHT] {
        let mut terminal = asked(&world);
        world.kubectl(&[
            "patch",
            "lease",
            "-n",
            "kube-system",
            "cattle-controllers",
            "--type",
            "merge",
            "-p",
            &json!({"spec": {"renewTime": format!("2026-06-01T12:00:00.{:06}Z", thought.as_millis())}}).to_string(),
        ]);
        std::thread::sleep(thought);
        terminal.send_line("y");
        let (code, screen) = terminal.end();
        assert_eq!(code, 6, "{screen}");
        assert!(screen.contains("change"), "{screen}");
        assert_eq!(deletes(&world), 1);
    }

    // Ctrl-C while it waits for the new leader.
    let mut terminal = asked(&world);
    terminal.send_line("y");
    terminal.expect("cattle-controllers deleted");
    terminal.expect("a replica to take the Lease");
    terminal.control('c');
    let (code, screen) = terminal.end();
    assert_eq!(code, 7, "{screen}");
    assert!(screen.contains("interrupted"), "{screen}");
    restore(&world, &original);

    // The command that a run without a terminal prints is one that works.
    let refused = fix(&world).run();
    refused.expect_code(6);
    let command = refused.stdout.lines().find(|line| line.contains("--confirm")).unwrap_or_else(|| panic!("{refused}"));
    let words: Vec<&str> =
        command.split_whitespace().skip_while(|word| !word.contains("kubectl-rancher-lease")).collect();
    let confirmed = Program::new(words[0]).env("KUBECONFIG", world.kubeconfig()).args(&words[1..]);
    let confirmed = confirmed.args(["--verify-timeout", "1s"]);
    confirmed.run().expect_code(7);
    assert_eq!(deletes(&world), 3);
    assert!(world.lease().is_null());

    // And nobody having taken it since, undo puts it back, after the same questions.
    let state = confirmed.home().join("state/kubectl-rancher");
    let undo = |args: &[&str]| plugin(&world, &["undo"]).args(args).arg("--backup-dir").arg(&state);
    let list = undo(&["-o", "json"]).run();
    let backups = list.expect_code(0).json();
    let id = backups["items"][0]["id"].as_str().unwrap();
    undo(&[id]).run().expect_code(6).expect_words(&format!("undo {id} --confirm"));
    assert!(world.lease().is_null());
    let mut terminal = undo(&[id]).terminal();
    terminal.expect(PROMPT);
    terminal.send_line("yes");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert_eq!(world.lease()["spec"], original["spec"]);
    let list = undo(&["-o", "json"]).run().json();
    let states: Vec<_> = list["items"].as_array().unwrap().iter().filter(|item| item["id"] == id).collect();
    assert_eq!(states[0]["state"], "undone", "{list:#}");
}
