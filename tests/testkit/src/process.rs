//! A program run with nothing of the tester's own environment.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// How a program ended.
#[derive(Clone, Debug)]
pub struct Output {
    /// The exit code; 128 + signal when a signal ended it.
    pub code: i32,
    /// What it wrote.
    pub stdout: String,
    /// What it wrote for people.
    pub stderr: String,
    /// How long it ran.
    pub elapsed: Duration,
}

impl Output {
    /// Panics with everything that was written unless this is the exit code.
    #[track_caller]
    pub fn expect_code(&self, code: i32) -> &Self {
        assert_eq!(self.code, code, "exit code\n{self}");
        self
    }

    /// Panics unless stdout or stderr contains the words.
    #[track_caller]
    pub fn expect_words(&self, words: &str) -> &Self {
        assert!(self.says(words), "`{words}` is not said\n{self}");
        self
    }

    /// Whether stdout or stderr contains the words, however they are wrapped.
    #[must_use]
    pub fn says(&self, words: &str) -> bool {
        let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let words = flat(words);
        flat(&self.stdout).contains(&words) || flat(&self.stderr).contains(&words)
    }

    /// Stdout as the one JSON document it must be.
    #[must_use]
    #[track_caller]
    pub fn json(&self) -> Value {
        match serde_json::from_str(&self.stdout) {
            Ok(value) => value,
            Err(error) => panic!("stdout is not one JSON document: {error}\n{self}"),
        }
    }
}

impl std::fmt::Display for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { code, stdout, stderr, elapsed } = self;
        write!(f, "code {code} after {elapsed:.1?}\n--- stdout\n{stdout}\n--- stderr\n{stderr}\n---")
    }
}

/// A program to run: an empty environment but for `HOME` and `XDG_STATE_HOME` in a directory of its own, 100 columns,
/// the C locale, nothing on stdin, and a time limit.
#[derive(Clone, Debug)]
pub struct Program {
    file: PathBuf,
    name: Option<OsString>,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    home: Arc<TempDir>,
    input: Option<Vec<u8>>,
    limit: Duration,
}

impl Program {
    /// This file, without arguments.
    #[must_use]
    pub fn new(file: impl AsRef<Path>) -> Self {
        let program = Self {
            file: file.as_ref().to_owned(),
            name: None,
            args: Vec::new(),
            env: Vec::new(),
            home: Arc::new(tempfile::tempdir().unwrap()),
            input: None,
            limit: Duration::from_secs(120),
        };
        let home = program.home().to_owned();
        program.env("HOME", &home).env("XDG_STATE_HOME", home.join("state")).env("COLUMNS", "100").env("LC_ALL", "C")
    }

    /// More arguments.
    #[must_use]
    pub fn args<I: IntoIterator<Item: AsRef<OsStr>>>(mut self, args: I) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// One more argument.
    #[must_use]
    pub fn arg(self, arg: impl AsRef<OsStr>) -> Self {
        self.args([arg])
    }

    /// A variable.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// The bytes on its stdin, which is a pipe then.
    #[must_use]
    pub fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = Some(input.into());
        self
    }

    /// The time after which it is killed and the test fails.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Its home directory; clones share it.
    #[must_use]
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.file);
        #[cfg(unix)]
        if let Some(name) = &self.name {
            std::os::unix::process::CommandExt::arg0(&mut command, name);
        }
        command.args(&self.args).env_clear().envs(self.env.iter().map(|(name, value)| (name, value)));
        command.current_dir(self.home());
        command
    }

    /// Starts it.
    #[must_use]
    pub fn start(&self) -> Running {
        let mut command = self.command();
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.stdin(if self.input.is_some() { Stdio::piped() } else { Stdio::null() });
        let started = Instant::now();
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => panic!("cannot run {}: {error}", self.file.display()),
        };
        if let (Some(mut stdin), Some(input)) = (child.stdin.take(), self.input.clone()) {
            // A program that does not read its stdin closes the pipe in our face, which is its right.
            std::thread::spawn(move || stdin.write_all(&input));
        }
        let stdout = drain(child.stdout.take().unwrap());
        let stderr = drain(child.stderr.take().unwrap());
        let what = format!("{} {}", self.file.display(), self.args.join(OsStr::new(" ")).display());
        Running {
            child,
            what,
            stdout: Some(stdout),
            stderr: Some(stderr),
            started,
            limit: self.limit,
            _home: Arc::clone(&self.home),
        }
    }

    /// Runs it to its end.
    #[must_use]
    pub fn run(&self) -> Output {
        self.start().wait()
    }

    /// Runs it on a terminal that can do what terminals do today.
    #[cfg(unix)]
    #[must_use]
    pub fn terminal(&self) -> crate::Pty {
        let mut command = self.command();
        command.env("TERM", "xterm-256color");
        crate::Pty::start(command, self.limit, Arc::clone(&self.home))
    }
}

fn drain(mut from: impl std::io::Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// A program that runs; killed when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    what: String,
    stdout: Option<std::thread::JoinHandle<String>>,
    stderr: Option<std::thread::JoinHandle<String>>,
    started: Instant,
    limit: Duration,
    _home: Arc<TempDir>,
}

impl Running {
    /// Its end.
    ///
    /// # Panics
    /// When that does not come within the limit.
    #[must_use]
    pub fn wait(mut self) -> Output {
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                let elapsed = self.started.elapsed();
                #[cfg(unix)]
                let signal = std::os::unix::process::ExitStatusExt::signal(&status).map(|signal| 128 + signal);
                #[cfg(not(unix))]
                let signal = None;
                let code = status.code().or(signal).unwrap();
                let text = |reader: Option<std::thread::JoinHandle<String>>| reader.unwrap().join().unwrap();
                return Output { code, stdout: text(self.stdout.take()), stderr: text(self.stderr.take()), elapsed };
            }
            if self.started.elapsed() > self.limit {
                let _ = self.child.kill();
                let text = |reader: Option<std::thread::JoinHandle<String>>| reader.unwrap().join().unwrap();
                panic!(
                    "`{}` still ran after {:?}\n--- stdout\n{}\n--- stderr\n{}",
                    self.what,
                    self.limit,
                    text(self.stdout.take()),
                    text(self.stderr.take())
                );
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
