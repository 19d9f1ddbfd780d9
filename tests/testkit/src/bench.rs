//! Whole processes to measure.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Output, Stdio};

/// A command to measure, with nothing in its environment but what is given.
#[derive(Clone, Debug)]
pub struct Command {
    program: PathBuf,
    arguments: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
}

impl Command {
    /// A command with its arguments.
    #[must_use]
    pub fn new<S: AsRef<OsStr>>(program: PathBuf, arguments: &[S]) -> Self {
        let arguments = arguments.iter().map(|word| word.as_ref().to_owned()).collect();
        Self { program, arguments, variables: vec![("HOME".into(), std::env::temp_dir().into())] }
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.variables.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// Runs it; a fleet with a problem ends with 3, which is what is to be measured.
    ///
    /// # Panics
    /// When it ends in any other way than well or with a problem found.
    pub fn output(&self) -> Output {
        let output = std::process::Command::new(&self.program)
            .args(&self.arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(self.variables.iter().cloned())
            .stdin(Stdio::null())
            .output()
            .unwrap_or_else(|error| panic!("{}: {error}", self.program.display()));
        let code = output.status.code();
        assert!(matches!(code, Some(0 | 3)), "{} ended with {code:?}", self.program.display());
        output
    }

    /// Peak resident memory in MiB, by a child of our own so that nothing else counts: the benchmark's `main` hands
    /// `--measure …` to [`measure_child`].
    ///
    /// # Panics
    /// When it cannot be measured.
    #[must_use]
    pub fn peak_mib(&self) -> f64 {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .arg("--measure")
            .arg(&self.program)
            .args(&self.arguments)
            .envs(self.variables.iter().cloned())
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).trim().parse::<f64>().unwrap() / 1024.0
    }
}

/// Runs a command and prints the peak of its resident memory in KiB.
///
/// # Panics
/// When it cannot be run.
pub fn measure_child(command: &[String]) {
    let (program, arguments) = command.split_first().unwrap();
    let status =
        std::process::Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(status.is_ok_and(|status| matches!(status.code(), Some(0 | 3))), "{command:?} failed");
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_CHILDREN).unwrap();
    let _ = writeln!(std::io::stdout(), "{}", usage.max_rss());
}
