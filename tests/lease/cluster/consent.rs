//! Consent, where a person sits before a terminal and where nobody does.

use std::time::Duration;

use rancher_testkit::{Pty, World, eventually};

use super::plugin;

const QUESTION: &str = "[y/N]";

/// The plugin's `fix` on a terminal, at the question.
fn asked(world: &World) -> Pty {
    let mut terminal = plugin(world, &["fix"]).terminal();
    terminal.expect("Plan ");
    terminal.expect(QUESTION);
    terminal
}

/// UID of the Lease: another one, or none, means that it was deleted.
fn uid(world: &World) -> String {
    world.lease()["metadata"]["uid"].as_str().unwrap().to_owned()
}

fn real_deletes(world: &World) -> usize {
    world.audit().iter().filter(|entry| entry.is_delete() && entry.uri.contains("lease")).count()
}

#[test]
fn only_yes_is_yes() {
    let world = World::start(&["--holder", "dead", "--clusters", "1"]);
    let before = uid(&world);

    for answer in ["n", "", "yes please", "Nope", "да"] {
        let mut terminal = asked(&world);
        terminal.send_line(answer);
        let (code, screen) = terminal.end();
        assert_eq!(code, 6, "{answer:?}\n{screen}");
        assert!(screen.contains("declined"), "{screen}");
    }
    let mut terminal = asked(&world);
    terminal.control('d');
    assert_eq!(terminal.end().0, 6);
    let mut terminal = asked(&world);
    terminal.control('c');
    let (code, screen) = terminal.end();
    assert_eq!(code, 130, "{screen}");
    assert!(screen.contains("nothing was changed"), "{screen}");

    // A pasted runbook: its lines come before the question, and none of them is an answer.
    let mut terminal = plugin(&world, &["fix"]).terminal();
    for line in ["y", "yes", "y"] {
        terminal.send_line(line);
    }
    terminal.expect(QUESTION);
    terminal.send_line("n");
    assert_eq!(terminal.end().0, 6);

    // A terminal in a CI is nobody.
    let (code, screen) = plugin(&world, &["fix"]).env("CI", "1").terminal().end();
    assert_eq!(code, 6, "{screen}");
    assert!(screen.contains("not interactive"), "{screen}");

    assert_eq!(uid(&world), before);
    assert_eq!(real_deletes(&world), 0);

    // And yes is yes, after one more look.
    let mut terminal = asked(&world);
    terminal.send_line("y");
    terminal.expect("looking again");
    terminal.expect("cattle-controllers deleted");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("FIXED and verified"), "{screen}");
    assert_ne!(uid(&world), before);
    assert_eq!(real_deletes(&world), 1);
}

#[test]
fn nobody_to_ask_needs_a_flag() {
    let world = World::start(&["--holder", "dead", "--clusters", "1"]);
    let before = uid(&world);

    // `yes |` is no person: standard input is no terminal.
    let piped = plugin(&world, &["fix"]).input("y\ny\ny\n").run();
    piped.expect_code(6).expect_words("not interactive");
    assert!(piped.elapsed < Duration::from_secs(30), "{piped}");

    // Dry runs show the plan and delete nothing; the server's own says so in the audit log.
    plugin(&world, &["fix", "--dry-run=client"]).run().expect_code(0).expect_words("DRY RUN");
    let dry = plugin(&world, &["fix", "--dry-run=server", "-o", "json"]).run();
    let digest = dry.expect_code(0).json()["plan"]["digest"].as_str().unwrap().to_owned();
    plugin(&world, &["fix", "--confirm", "000000000000"]).run().expect_code(6).expect_words("another plan");
    assert_eq!(uid(&world), before);

    // The digest that the refusal offers stands for exactly this plan.
    assert!(piped.stdout.contains(&format!("--confirm {digest}")), "{piped}");
    let confirmed = plugin(&world, &["fix", "--confirm", &digest]).run();
    confirmed.expect_code(0).expect_words("FIXED and verified");
    assert_ne!(uid(&world), before);

    // It does not stand for another one.
    plugin(&world, &["fix", "--confirm", &digest]).run().expect_code(0).expect_words("NOTHING TO DO");
}

#[test]
fn an_interruption_after_the_write_says_that_it_was_made() {
    // No replica runs, so nobody takes the Lease over.
    let world = World::start(&["--holder", "dead", "--clusters", "1"]);
    for pod in world.pods() {
        world.command(&format!("stop-replica {pod}"));
    }
    let mut terminal = plugin(&world, &["fix"]).terminal();
    terminal.expect(QUESTION);
    terminal.send_line("y");
    terminal.expect("cattle-controllers deleted");
    eventually("the Lease is gone", Duration::from_secs(10), || real_deletes(&world) == 1);
    terminal.control('c');
    let (code, screen) = terminal.end();
    assert_eq!(code, 7, "{screen}");
    assert!(screen.contains("interrupted") && screen.contains("undo "), "{screen}");
}

#[test]
fn a_backup_that_cannot_be_written_stops_everything() {
    let world = World::start(&["--holder", "dead", "--clusters", "1"]);
    let before = uid(&world);
    let refused = plugin(&world, &["fix", "--yes", "--backup-dir", "/proc/nowhere"]).run();
    refused.expect_code(6).expect_words("backup");
    assert_eq!(uid(&world), before);
    assert_eq!(real_deletes(&world), 0);
}
