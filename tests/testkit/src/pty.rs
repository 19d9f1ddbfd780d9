//! A program on a terminal of its own.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rexpect::process::WaitStatus;
use rexpect::session::{Options, PtySession, spawn_with_options};
use tempfile::TempDir;

/// A program that believes to sit before a person.
pub struct Pty {
    session: PtySession,
    seen: String,
    _home: Arc<TempDir>,
}

impl std::fmt::Debug for Pty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pty").field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl Pty {
    pub(crate) fn start(command: Command, limit: Duration, home: Arc<TempDir>) -> Self {
        let options =
            Options::new().timeout_ms(Some(u64::try_from(limit.as_millis()).unwrap())).strip_ansi_escape_codes(true);
        let session = match spawn_with_options(command, options) {
            Ok(session) => session,
            Err(error) => panic!("cannot start on a terminal: {error}"),
        };
        Self { session, seen: String::new(), _home: home }
    }

    /// Waits for these words.
    ///
    /// # Panics
    /// When they do not come in time.
    #[track_caller]
    pub fn expect(&mut self, words: &str) {
        match self.session.exp_string(words) {
            Ok(before) => {
                self.seen.push_str(&before);
                self.seen.push_str(words);
            }
            Err(error) => panic!("`{words}` did not come: {error}\n--- before\n{}", self.seen),
        }
    }

    /// Types a line.
    pub fn send_line(&mut self, line: &str) {
        self.session.send_line(line).unwrap();
    }

    /// Types Ctrl and a letter.
    pub fn control(&mut self, letter: char) {
        self.session.send_control(letter).unwrap();
    }

    /// Waits for the end: the exit code, and everything that was on the screen.
    ///
    /// # Panics
    /// When it does not come in time.
    #[track_caller]
    pub fn end(mut self) -> (i32, String) {
        match self.session.exp_eof() {
            Ok(rest) => self.seen.push_str(&rest),
            Err(error) => panic!("no end: {error}\n--- before\n{}", self.seen),
        }
        match self.session.process().wait() {
            Ok(WaitStatus::Exited(_, code)) => (code, self.seen),
            other => panic!("ended in another way: {other:?}\n{}", self.seen),
        }
    }
}
