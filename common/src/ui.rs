//! The only writer to stdout and stderr, and the only reader of answers.
//!
//! Results go to stdout, everything else (progress, hints, prompts, errors) to stderr. A closed pipe behind stdout is
//! no error: `kubectl rancher-lease | head -1` ends quietly.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use owo_colors::Style;

use crate::text::escape_lines;

/// `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ColorChoice {
    /// Colors on a terminal, unless `NO_COLOR` is set or TERM is dumb.
    #[default]
    Auto,
    /// Colors always.
    Always,
    /// Colors never.
    Never,
}

/// Colors by meaning. `default()` is plain; text must be understandable without them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Styles {
    /// `[OK]` and good verdicts.
    pub good: Style,
    /// `[XX]` and bad verdicts.
    pub bad: Style,
    /// `[!!]`.
    pub warning: Style,
    /// `[??]`.
    pub unknown: Style,
    /// Codes, headings.
    pub strong: Style,
    /// Labels, less important text.
    pub dim: Style,
    /// Commands to copy.
    pub command: Style,
}

impl Styles {
    /// The styles with color.
    #[must_use]
    pub fn colored() -> Self {
        Self {
            good: Style::new().green(),
            bad: Style::new().red().bold(),
            warning: Style::new().yellow(),
            unknown: Style::new().magenta(),
            strong: Style::new().bold(),
            dim: Style::new().dimmed(),
            command: Style::new().cyan(),
        }
    }
}

/// How a question was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// `y` or `yes`, or the word that was asked for.
    Yes,
    /// Anything else, the end of input included.
    No,
}

/// Where a run may write and ask.
#[derive(Debug)]
pub struct Ui {
    out: Styles,
    err: Styles,
    width: usize,
    quiet: bool,
    interactive: bool,
    progress: bool,
    out_closed: AtomicBool,
    /// What a test answers; the terminal is not asked then.
    #[cfg(test)]
    script: Option<std::sync::Mutex<std::collections::VecDeque<String>>>,
}

impl Ui {
    /// Looks at the streams and the environment once.
    ///
    /// A run is interactive only if stdin and stderr are terminals and `CI` is unset; that a terminal can be opened
    /// (`/dev/tty`) does not make it so, because that holds under cron wrappers and `xargs` too.
    #[must_use]
    pub fn new(color: ColorChoice, quiet: bool, machine_output: bool) -> Self {
        let colored = |auto: anstream::ColorChoice| match color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => auto != anstream::ColorChoice::Never,
        };
        let out = colored(anstream::AutoStream::choice(&io::stdout()));
        let err = colored(anstream::AutoStream::choice(&io::stderr()));
        console::set_colors_enabled_stderr(err);
        let ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
        let terminals = io::stdin().is_terminal() && io::stderr().is_terminal();
        Self {
            out: if out { Styles::colored() } else { Styles::default() },
            err: if err { Styles::colored() } else { Styles::default() },
            width: width(),
            quiet,
            interactive: terminals && !ci,
            progress: io::stderr().is_terminal() && !quiet && !machine_output && !ci,
            out_closed: AtomicBool::new(false),
            #[cfg(test)]
            script: None,
        }
    }

    /// Writes nothing to stdout, and answers questions with these lines in turn; without any, nobody can be asked.
    #[cfg(test)]
    pub(crate) fn scripted(answers: &[&str]) -> Self {
        Self {
            interactive: !answers.is_empty(),
            progress: false,
            out_closed: AtomicBool::new(true),
            script: Some(std::sync::Mutex::new(answers.iter().map(|answer| (*answer).to_owned()).collect())),
            ..Self::new(ColorChoice::Never, true, true)
        }
    }

    /// Styles for text that goes to stdout.
    #[must_use]
    pub fn styles(&self) -> &Styles {
        &self.out
    }

    /// Columns to wrap text at.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Whether a person can be asked.
    #[must_use]
    pub fn interactive(&self) -> bool {
        self.interactive
    }

    /// Writes to stdout as it is. The caller has escaped what comes from a cluster.
    pub fn out(&self, text: &str) {
        if self.out_closed.load(Ordering::Relaxed) {
            return;
        }
        let mut stdout = io::stdout().lock();
        if stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).is_err() {
            // A reader that has gone away is not our failure; a full disk behind a redirection shows in its own exit
            // status, and there is no other place to report it to.
            self.out_closed.store(true, Ordering::Relaxed);
        }
    }

    /// Writes to stderr; a closed stderr is nobody's loss.
    fn err(&self, text: &str) {
        let mut stderr = io::stderr().lock();
        let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
    }

    /// Progress in words, to stderr; silent with `-q`.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            self.err(&format!("{}\n", escape_lines(text)));
        }
    }

    /// Text to stderr that is needed for a decision, whatever `-q` says: the plan before a prompt, for instance. The
    /// caller has escaped what comes from a cluster.
    pub fn plan(&self, text: &str) {
        self.err(text);
    }

    /// Styles for text that goes to stderr.
    #[must_use]
    pub fn err_styles(&self) -> &Styles {
        &self.err
    }

    /// A warning, to stderr.
    pub fn warn(&self, text: &str) {
        self.labeled("warning", self.err.warning, text);
    }

    /// An error, to stderr.
    pub fn error(&self, text: &str) {
        self.labeled("error", self.err.bad, text);
    }

    /// A hint, to stderr.
    pub fn hint(&self, text: &str) {
        if !self.quiet {
            self.labeled("hint", self.err.command, text);
        }
    }

    fn labeled(&self, label: &str, style: Style, text: &str) {
        self.err(&format!("{} {}\n", style.style(format_args!("{label}:")), escape_lines(text)));
    }

    /// A progress bar on stderr, hidden unless somebody watches: with `total` parts, or a spinner without.
    #[must_use]
    pub fn progress(&self, total: Option<u64>) -> Progress {
        let bar = ProgressBar::with_draw_target(
            total,
            if self.progress { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() },
        );
        set_template(&bar, if total.is_some() { BAR } else { SPINNER });
        if self.progress {
            bar.enable_steady_tick(Duration::from_millis(120));
        }
        Progress { bar, hidden: !self.progress }
    }

    /// Asks `question [y/N]` and takes `y` or `yes` for yes; anything else, an empty line and the end of input are no.
    /// Blocks the thread.
    #[must_use]
    pub fn confirm(&self, question: &str) -> Answer {
        let answer = self.ask(&format!("{question} [y/N] "));
        if matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") { Answer::Yes } else { Answer::No }
    }

    /// Asks for a word to be typed, for what cannot be undone. Blocks the thread.
    #[must_use]
    pub fn type_word(&self, question: &str, word: &str) -> Answer {
        if self.ask(&format!("{question} ")).trim() == word { Answer::Yes } else { Answer::No }
    }

    /// Reads one line in the terminal's own line mode, so that Ctrl-D is the end of input and Ctrl-C the ordinary
    /// signal. What was typed or pasted before the question came is thrown away: the next line of a pasted runbook must
    /// not answer it. What follows the answer is thrown away too.
    fn ask(&self, prompt: &str) -> String {
        #[cfg(test)]
        if let Some(script) = &self.script {
            return script.lock().expect("the script").pop_front().unwrap_or_default();
        }
        discard_type_ahead();
        self.err(&format!("{}{}", self.err.strong.style(escape_lines(prompt.trim_end())), " "));
        let mut line = String::new();
        if io::stdin().lock().read_line(&mut line).is_err() {
            line.clear();
        }
        discard_type_ahead();
        if !line.ends_with('\n') {
            self.err("\n");
        }
        line
    }

    /// Lets a person choose one of several lines; `None` when nothing was chosen. Blocks the thread.
    #[must_use]
    pub fn choose(&self, prompt: &str, lines: &[String]) -> Option<usize> {
        if lines.is_empty() || !self.interactive {
            return None;
        }
        discard_type_ahead();
        let chosen = dialoguer::Select::new()
            .with_prompt(escape_lines(prompt))
            .items(lines.iter().map(|line| escape_lines(line)).collect::<Vec<_>>())
            .default(0)
            .report(false)
            .interact_on_opt(&console::Term::stderr());
        show_cursor();
        chosen.ok().flatten()
    }
}

/// Shows the cursor again: `console` leaves it hidden when a selection is interrupted.
pub fn show_cursor() {
    if io::stderr().is_terminal() {
        let _ = console::Term::stderr().show_cursor();
    }
}

#[cfg(unix)]
fn discard_type_ahead() {
    let _ = rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush);
}

/// Windows consoles have no call for it that is safe Rust; there the first line after the question counts.
#[cfg(not(unix))]
fn discard_type_ahead() {}

/// The terminal's width: 100 columns unless stdout is a terminal that says otherwise. `COLUMNS` wins, for tests too.
fn width() -> usize {
    std::env::var("COLUMNS")
        .ok()
        .and_then(|columns| columns.parse().ok())
        .or_else(|| console::Term::stdout().size_checked().map(|(_, columns)| usize::from(columns)))
        .unwrap_or(100)
        .clamp(40, 200)
}

/// How far it is, and what is left.
const BAR: &str = "[{bar:24}] {pos}/{len} {msg} {elapsed}";
/// Only that something goes on.
const SPINNER: &str = "{spinner} {msg} {elapsed}";

fn set_template(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> ").tick_chars("|/-\\ "));
    }
}

/// A progress bar or spinner that cleans up behind itself.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    hidden: bool,
}

impl Progress {
    /// Says what is going on.
    pub fn message(&self, text: &str) {
        self.bar.set_message(crate::text::shorten(&crate::text::escape(text), 100).into_owned());
    }

    /// Sets how far it is; a spinner becomes a bar when there is more than one part to wait for.
    pub fn position(&self, done: u64, total: u64) {
        if total > 1 && self.bar.length() != Some(total) {
            set_template(&self.bar, BAR);
        }
        self.bar.set_length(total);
        self.bar.set_position(done);
    }

    /// Whether nobody sees it, so that a line of text now and then is due instead.
    #[must_use]
    pub fn hidden(&self) -> bool {
        self.hidden
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
