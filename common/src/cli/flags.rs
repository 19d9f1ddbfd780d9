//! The command line, the same for every plugin.

use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Command, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::kube::ConnectionFlags;
use crate::report::{FailOn, Output};
use crate::time::{Timestamp, parse_duration};
use crate::ui::ColorChoice;

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|error| error.to_string())
}

fn timestamp(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| "write a time as RFC 3339, for instance 2026-08-22T09:55:02Z".to_owned())
}

/// Everything that can be typed behind the plugin's name.
#[derive(Debug, Parser)]
#[command(disable_help_subcommand = true, subcommand_precedence_over_arg = true, max_term_width = 100)]
pub(super) struct Cli<Q: Args, V: Subcommand> {
    #[command(flatten)]
    pub(super) connection: ConnectionFlags,
    #[command(flatten)]
    pub(super) look: LookFlags,
    /// Also accepted before the verb; the one behind it wins.
    #[arg(short, long, value_name = "FORMAT", hide = true)]
    pub(super) output: Option<Output>,
    #[command(subcommand)]
    pub(super) verb: Option<Verb<Q, V>>,
}

/// How the output looks.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct LookFlags {
    /// When to use colors
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = "Output")]
    pub(super) color: ColorChoice,
    /// No progress and hints on stderr
    #[arg(short, long, global = true, help_heading = "Output")]
    pub(super) quiet: bool,
    /// Log requests on stderr (-vv: more); never bodies
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = "Output")]
    pub(super) verbose: u8,
}

/// `-o`.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct OutputFlag {
    /// Output format [default: table]
    #[arg(short, long, value_name = "FORMAT", help_heading = "Output")]
    pub(super) output: Option<Output>,
}

#[derive(Debug, Subcommand)]
pub(super) enum Verb<Q: Args, V: Subcommand> {
    /// Look and judge; changes nothing (what the bare command does)
    Check(CheckArgs<Q>),
    /// Diagnose, plan, ask, back up, apply and verify
    Fix(FixArgs<Q>),
    /// The plugin's own verbs
    #[command(flatten)]
    Own(Own<V>),
    /// List backups, or put one back
    Undo(UndoArgs),
    /// Explain a finding's code; works offline
    Explain(ExplainArgs),
    /// Check again on every change and print what changed
    Watch(WatchArgs<Q>),
    /// Save what the diagnosis reads, without secrets, for `check --from`
    Snapshot(SnapshotArgs<Q>),
    /// Print the least RBAC rules for check or fix
    Rbac(RbacArgs<Q>),
    /// Print completion for a shell or for kubectl
    Completion(CompletionArgs),
    /// Print the version
    Version(VersionArgs),
}

/// Where the evidence comes from.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct SourceFlags {
    /// Diagnose a saved snapshot (directory or .tar.gz) instead of a cluster
    #[arg(long, value_name = "PATH")]
    pub(super) from: Option<PathBuf>,
    /// Judge a snapshot as of this time (RFC 3339) instead of the time it was taken
    #[arg(long, value_name = "TIME", requires = "from", value_parser = timestamp)]
    pub(super) as_of: Option<Timestamp>,
}

/// One of the plugin's own verbs, with the flags that each of them takes.
#[derive(Debug)]
pub(super) struct Own<V> {
    pub(super) verb: V,
    pub(super) source: SourceFlags,
    pub(super) output: OutputFlag,
}

impl<V: Subcommand> Subcommand for Own<V> {
    /// The plugin describes its verbs as if they stood alone; each gets our flags before it joins the others.
    fn augment_subcommands(command: Command) -> Command {
        let flags = OutputFlag::augment_args(SourceFlags::augment_args(Command::new("flags")));
        // No order of their own: in the help they stand where this stands among the verbs.
        V::augment_subcommands(Command::new("own").next_display_order(None))
            .get_subcommands()
            .map(|verb| verb.clone().args(flags.get_arguments().cloned()))
            .fold(command, Command::subcommand)
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        V::has_subcommand(name)
    }
}

impl<V: Subcommand> FromArgMatches for Own<V> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let (_, own) = matches.subcommand().ok_or_else(|| clap::Error::new(ErrorKind::MissingSubcommand))?;
        Ok(Self {
            source: SourceFlags::from_arg_matches(own)?,
            output: OutputFlag::from_arg_matches(own)?,
            verb: V::from_arg_matches(matches)?,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[derive(Debug, Args)]
pub(super) struct CheckArgs<Q: Args> {
    #[command(flatten)]
    pub(super) question: Q,
    #[command(flatten)]
    pub(super) source: SourceFlags,
    #[command(flatten)]
    pub(super) output: OutputFlag,
    /// Which findings make the exit code differ from 0
    #[arg(long, value_name = "SEVERITY", default_value = "error")]
    pub(super) fail_on: FailOn,
    /// Check again until all is well or --timeout is over, for instance after `kubectl rollout restart`
    #[arg(long, conflicts_with = "from")]
    pub(super) wait: bool,
    /// How long --wait waits
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    pub(super) timeout: Duration,
}

/// `--dry-run`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum DryRun {
    /// Apply for real
    #[default]
    None,
    /// Print the plan
    Client,
    /// Print the plan and let the server try each write
    Server,
}

/// Consent on the command line.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct ConsentFlags {
    /// Print the plan only (client), or let the server try it too (server)
    #[arg(long, value_name = "MODE", default_value = "none", default_missing_value = "client", num_args = 0..=1, require_equals = true, help_heading = "Consent")]
    pub(super) dry_run: DryRun,
    /// Agree to the plan without being asked, if it is reversible
    #[arg(short, long, help_heading = "Consent")]
    pub(super) yes: bool,
    /// Agree to exactly the plan with this digest, whatever it is
    #[arg(long, value_name = "DIGEST", help_heading = "Consent")]
    pub(super) confirm: Option<String>,
    /// Where backups are kept [default: $XDG_STATE_HOME/kubectl-rancher]
    #[arg(long, value_name = "DIR", help_heading = "Consent")]
    pub(super) backup_dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct FixArgs<Q: Args> {
    #[command(flatten)]
    pub(super) question: Q,
    #[command(flatten)]
    pub(super) consent: ConsentFlags,
    #[command(flatten)]
    pub(super) output: OutputFlag,
    /// How long to wait for the symptom to go away [default: 5m]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(super) verify_timeout: Option<Duration>,
}

#[derive(Debug, Args)]
pub(super) struct UndoArgs {
    /// The backup to put back, as `undo` lists it; without it, backups are listed
    pub(super) id: Option<String>,
    #[command(flatten)]
    pub(super) consent: ConsentFlags,
    #[command(flatten)]
    pub(super) output: OutputFlag,
}

#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    /// A finding's code, for instance RL101; without it, all codes are listed
    pub(super) code: Option<String>,
    /// Language: en or zh-CN [default: from LC_ALL, LC_MESSAGES, LANG]
    #[arg(long, value_name = "LANG", value_parser = ["en", "zh-CN"])]
    pub(super) lang: Option<String>,
}

/// `--until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Until {
    /// All is well
    Ok,
    /// A problem is found
    Problem,
}

#[derive(Debug, Args)]
pub(super) struct WatchArgs<Q: Args> {
    #[command(flatten)]
    pub(super) question: Q,
    #[command(flatten)]
    pub(super) output: OutputFlag,
    /// Which findings make the exit code differ from 0
    #[arg(long, value_name = "SEVERITY", default_value = "error")]
    pub(super) fail_on: FailOn,
    /// Stop when this is reached [default: go on until Ctrl-C]
    #[arg(long, value_name = "STATE")]
    pub(super) until: Option<Until>,
    /// Stop after this long, with the exit code of the last look
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(super) timeout: Option<Duration>,
    /// Pause between two looks when nothing changes
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = duration)]
    pub(super) interval: Duration,
}

#[derive(Debug, Args)]
pub(super) struct SnapshotArgs<Q: Args> {
    #[command(flatten)]
    pub(super) question: Q,
    /// New directory, or new file ending in .tar.gz
    #[arg(short, long, value_name = "PATH")]
    pub(super) output: PathBuf,
}

/// `--for`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum For {
    /// What check, watch and snapshot read
    #[default]
    Check,
    /// What fix reads and writes
    Fix,
}

#[derive(Debug, Args)]
pub(super) struct RbacArgs<Q: Args> {
    #[command(flatten)]
    pub(super) question: Q,
    /// For which verb
    #[arg(long = "for", value_name = "VERB", default_value = "check")]
    pub(super) purpose: For,
    /// Leave out what is optional
    #[arg(long)]
    pub(super) required_only: bool,
}

/// What completion is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum CompletionFor {
    /// bash
    Bash,
    /// zsh
    Zsh,
    /// fish
    Fish,
    /// PowerShell
    Powershell,
    /// The helper by which kubectl completes this plugin in every shell
    Kubectl,
}

#[derive(Debug, Args)]
pub(super) struct CompletionArgs {
    /// What it is for
    pub(super) shell: CompletionFor,
}

#[derive(Debug, Args)]
pub(super) struct VersionArgs {
    #[command(flatten)]
    pub(super) output: OutputFlag,
}
