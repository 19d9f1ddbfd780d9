//! What one plugin is: its rules, what it needs to read, how it judges, what it plans, and when a repair has worked.
//! Everything else — verbs, flags, output, consent, backup, undo, RBAC, snapshots — is common to all of them.

use std::time::Duration;

use crate::finding::{Diagnosis, Rule};
use crate::plan::Plan;
use crate::snapshot::{Need, Right, Snapshot};

/// What a plugin says of itself.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Name as kubectl users type it: `rancher-lease`.
    pub name: &'static str,
    /// The question it answers, in one sentence.
    pub question: &'static str,
    /// Version, from Cargo.
    pub version: &'static str,
    /// Its own rules, by code; the shared ones are added.
    pub rules: &'static [&'static Rule],
    /// Text behind the flags in `--help`.
    pub after_help: &'static str,
}

/// What `plan` makes of a diagnosis.
#[derive(Clone, Debug, PartialEq)]
pub enum Prescription {
    /// What to do.
    Plan(Plan),
    /// All is well: exit 0.
    NothingToDo(String),
    /// There is a problem, but this plugin does not repair it, or not now: exit 6.
    Refused {
        /// Why not, in one sentence.
        why: String,
        /// What to do instead: sentences or commands, one a line.
        instead: Vec<String>,
    },
    /// Waiting solves it: as `check --wait`, exit 0 after the wait, the last look's exit code if it takes longer.
    Wait(String),
}

/// No verbs beside the common ones.
#[derive(Clone, Debug)]
pub enum NoVerbs {}

impl clap::FromArgMatches for NoVerbs {
    fn from_arg_matches(_: &clap::ArgMatches) -> Result<Self, clap::Error> {
        Err(clap::Error::new(clap::error::ErrorKind::InvalidSubcommand))
    }

    fn update_from_arg_matches(&mut self, _: &clap::ArgMatches) -> Result<(), clap::Error> {
        match *self {}
    }
}

impl clap::Subcommand for NoVerbs {
    fn augment_subcommands(command: clap::Command) -> clap::Command {
        command
    }

    fn augment_subcommands_for_update(command: clap::Command) -> clap::Command {
        command
    }

    fn has_subcommand(_: &str) -> bool {
        false
    }
}

/// Live names that complete a positional argument.
#[derive(Clone, Debug)]
pub struct Candidates {
    /// What to read for them. Small: a person waits with the TAB key down, and nothing is offered after 1.5 seconds.
    pub needs: Vec<Need>,
    /// The values and a few words of help for each.
    pub names: fn(&Snapshot) -> Vec<(String, String)>,
}

/// What a verifier sees in the newest snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verification {
    /// The symptom is gone. One sentence for the closing line.
    Done(String),
    /// Not yet.
    Pending {
        /// Parts that are well again.
        done: u64,
        /// Parts that must be.
        total: u64,
        /// What it waits for, in a few words; names what is left.
        waiting_for: String,
    },
    /// What was done has taken effect, but things stand still at a step that needs another decision: `fix` diagnoses
    /// afresh and, if there is a plan, asks for consent to that one. Says in one sentence where they stand.
    Stuck(String),
}

/// Watches snapshots after a repair until the symptom is gone. Pure: time comes with the snapshots.
pub trait Verifier: Send {
    /// What must be read for it; asked again for each look.
    fn needs(&self, snapshot: &Snapshot) -> Vec<Need>;
    /// Takes the next snapshot into account.
    fn observe(&mut self, snapshot: &Snapshot) -> Verification;
}

/// A plugin.
///
/// `needs`, `diagnose` and `plan` are pure: everything they know is in the snapshot, the time included
/// ([`Snapshot::as_of`]).
pub trait Doctor: Clone + Send + Sync + 'static {
    /// The plugin's own flags and positional arguments, the same for `check`, `fix`, `watch`, `snapshot` and `rbac`. A
    /// positional argument may follow the plugin's name directly; one named `target` is completed with
    /// [`Doctor::candidates`].
    type Question: clap::Args + Clone + Send + Sync + std::fmt::Debug;

    /// The plugin's own verbs beside the common ones, [`NoVerbs`] if it has none. Each is a check with another question:
    /// it only reads, and takes `-o`, `--from` and `--as-of` besides its own arguments.
    type Verbs: clap::Subcommand + Clone + Send + Sync + std::fmt::Debug;

    /// What the plugin is.
    fn about(&self) -> About;

    /// What to read, given what is known so far. Asked again until it wants nothing new.
    fn needs(&self, question: &Self::Question, snapshot: &Snapshot) -> Vec<Need>;

    /// Every right `needs` can ever ask for, with the reason and whether it is required: the source of `rbac`.
    fn rights(&self, question: &Self::Question) -> Vec<(Right, &'static str, bool)>;

    /// Every right that the actions of `plan` can take: the source of `rbac --for=fix`.
    fn repair_rights(&self, question: &Self::Question) -> Vec<(Right, &'static str)>;

    /// The question that one of its own verbs asks.
    fn asked(&self, verb: &Self::Verbs) -> Self::Question;

    /// Judges.
    fn diagnose(&self, question: &Self::Question, snapshot: &Snapshot) -> Diagnosis;

    /// Plans the repair of what was found.
    fn plan(&self, question: &Self::Question, snapshot: &Snapshot, diagnosis: &Diagnosis) -> Prescription;

    /// Watches the repair. `snapshot` is the one the plan was made from.
    fn verifier(&self, question: &Self::Question, snapshot: &Snapshot, plan: &Plan) -> Box<dyn Verifier>;

    /// What is left for a person to do after a repair that was verified, one sentence or command a line. `before` is
    /// the snapshot the plan was made from. By default nothing.
    fn afterwards(&self, question: &Self::Question, before: &Snapshot, plan: &Plan) -> Vec<String> {
        let _ = (question, before, plan);
        Vec::new()
    }

    /// Live names for the positional argument `target`: by default none.
    fn candidates(&self) -> Option<Candidates> {
        None
    }

    /// What `check --wait` and `watch --until=ok` wait for besides «no error found»: by default nothing.
    fn settled(&self, diagnosis: &Diagnosis) -> bool {
        let _ = diagnosis;
        true
    }

    /// The object whose changes make `watch` look again, besides the pause between two looks, and the JSON pointers of
    /// the fields that count (a Lease is renewed every two seconds; that is no news).
    fn watched(&self, question: &Self::Question) -> Option<(crate::snapshot::Want, &'static [&'static str])> {
        let _ = question;
        None
    }

    /// The flags that name a downstream cluster, for a plugin that looks at both sides.
    fn downstream<'q>(&self, question: &'q Self::Question) -> Option<&'q crate::kube::DownstreamFlags> {
        let _ = question;
        None
    }

    /// Every right that `needs` can ask for in a downstream cluster.
    fn downstream_rights(&self, question: &Self::Question) -> Vec<(Right, &'static str, bool)> {
        let _ = question;
        Vec::new()
    }

    /// Takes kubectl's `-n` into the question; by default it only overrides the context's namespace.
    fn adopt_namespace(&self, question: &mut Self::Question, namespace: &str) {
        let _ = (question, namespace);
    }

    /// The positional argument of the question as typed, for commands that are offered to be copied.
    fn target(&self, question: &Self::Question) -> Option<String> {
        let _ = question;
        None
    }

    /// The question's flags as typed, without its positional argument, for commands that are offered to be copied.
    fn repeat(&self, question: &Self::Question) -> Vec<String> {
        let _ = question;
        Vec::new()
    }

    /// How long `fix` waits for the symptom to go away unless `--verify-timeout` says otherwise.
    fn verify_timeout(&self) -> Duration {
        Duration::from_secs(300)
    }
}
