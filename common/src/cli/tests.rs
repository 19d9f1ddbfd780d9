//! The command line of a plugin that has a target and a verb of its own, and of one that has neither.

use std::ffi::{OsStr, OsString};

use clap::error::ErrorKind;

use super::flags::Verb;
use super::{CliOf, command, one_slip, parse};
use crate::doctor::{About, Candidates, Doctor, NoVerbs, Prescription, Verification, Verifier};
use crate::finding::Diagnosis;
use crate::kinds::NAMESPACES;
use crate::plan::Plan;
use crate::snapshot::{Content, Form, Need, Right, Snapshot, Want};

/// A plugin that asks about a target and has the verb `whois`.
#[derive(Clone, Debug)]
pub(super) struct Toy;

#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
pub(super) struct Target {
    /// What to look at
    target: Option<String>,
    /// How deep
    #[arg(long)]
    deep: bool,
}

#[derive(Clone, Debug, clap::Subcommand)]
pub(super) enum Own {
    /// Say what goes by a name
    Whois {
        /// The name
        target: String,
    },
}

/// Watches nothing.
struct Blind;

impl Verifier for Blind {
    fn needs(&self, _: &Snapshot) -> Vec<Need> {
        Vec::new()
    }

    fn observe(&mut self, _: &Snapshot) -> Verification {
        Verification::Done(String::new())
    }
}

/// Everything a parser does not ask for.
macro_rules! mute {
    () => {
        fn about(&self) -> About {
            About { name: "rancher-toy", question: "?", version: "0", rules: &[], after_help: "" }
        }
        fn needs(&self, _: &Self::Question, _: &Snapshot) -> Vec<Need> {
            Vec::new()
        }
        fn rights(&self, _: &Self::Question) -> Vec<(Right, &'static str, bool)> {
            Vec::new()
        }
        fn repair_rights(&self, _: &Self::Question) -> Vec<(Right, &'static str)> {
            Vec::new()
        }
        fn diagnose(&self, _: &Self::Question, _: &Snapshot) -> Diagnosis {
            Diagnosis::default()
        }
        fn plan(&self, _: &Self::Question, _: &Snapshot, _: &Diagnosis) -> Prescription {
            Prescription::NothingToDo(String::new())
        }
        fn verifier(&self, _: &Self::Question, _: &Snapshot, _: &Plan) -> Box<dyn Verifier> {
            Box::new(Blind)
        }
    };
}

impl Doctor for Toy {
    type Question = Target;
    type Verbs = Own;

    fn asked(&self, verb: &Own) -> Target {
        let Own::Whois { target } = verb;
        Target { target: Some(target.clone()), deep: true }
    }

    fn candidates(&self) -> Option<Candidates> {
        let want = Want::list(NAMESPACES, None, Form::Metadata);
        let names = |snapshot: &Snapshot| {
            let all = snapshot.readings.iter().flat_map(|reading| match &reading.content {
                Content::Objects(objects) => objects.clone(),
                _ => Vec::new(),
            });
            all.map(|object| (object["metadata"]["name"].as_str().unwrap().to_owned(), "a cluster".to_owned()))
                .collect()
        };
        Some(Candidates { needs: vec![Need::optional(want, "names")], names })
    }

    mute!();
}

/// A plugin without a target and without verbs.
#[derive(Clone, Debug)]
pub(super) struct Plain;

#[derive(Clone, Debug, clap::Args)]
pub(super) struct Nothing {}

impl Doctor for Plain {
    type Question = Nothing;
    type Verbs = NoVerbs;

    fn asked(&self, verb: &NoVerbs) -> Nothing {
        match *verb {}
    }

    mute!();
}

fn parsed<D: Doctor>(doctor: &D, line: &str) -> Result<CliOf<D>, clap::Error> {
    let args: Vec<OsString> = std::iter::once("toy").chain(line.split_whitespace()).map(Into::into).collect();
    parse::<D>(&doctor.about(), OsStr::new("toy"), &args)
}

fn checked(line: &str) -> Target {
    match parsed(&Toy, line).map(|cli| cli.verb) {
        Ok(Some(Verb::Check(args))) => args.question,
        other => panic!("{line}: {other:?}"),
    }
}

fn error<D: Doctor>(doctor: &D, line: &str) -> clap::Error {
    match parsed(doctor, line) {
        Err(error) => error,
        Ok(cli) => panic!("{line}: {:?}", cli.verb),
    }
}

#[test]
fn the_bare_command_is_check_with_flags_and_target() {
    let target = |name: &str, deep| Target { target: Some(name.to_owned()), deep };
    assert_eq!(checked(""), Target::default());
    assert_eq!(checked("--deep"), Target { target: None, deep: true });
    for line in ["prod/custom-1", "check prod/custom-1", "-o json prod/custom-1", "--context c prod/custom-1 -o json"] {
        assert_eq!(checked(line), target("prod/custom-1", false), "{line}");
    }
    for line in ["prod --deep", "--deep prod", "prod --deep --wait --timeout 1m", "check --deep prod"] {
        assert_eq!(checked(line), target("prod", true), "{line}");
    }
    // A verb's name is the verb; a target of that name is given to check.
    assert!(matches!(parsed(&Toy, "undo").expect("parsed").verb, Some(Verb::Undo(_))));
    assert_eq!(checked("check undo"), target("undo", false));
}

#[test]
fn every_verb_with_a_question_takes_the_target() {
    let question = |line: &str| match parsed(&Toy, line).expect(line).verb {
        Some(Verb::Fix(args)) => args.question,
        Some(Verb::Watch(args)) => args.question,
        Some(Verb::Snapshot(args)) => args.question,
        Some(Verb::Rbac(args)) => args.question,
        other => panic!("{line}: {other:?}"),
    };
    for line in
        ["fix prod --confirm 0123456789ab", "watch prod --until ok", "snapshot prod -o x", "rbac prod --for fix"]
    {
        assert_eq!(question(line).target.as_deref(), Some("prod"), "{line}");
    }
}

#[test]
fn a_mistyped_verb_is_no_target() {
    let typo = error(&Toy, "chek");
    assert_eq!(typo.kind(), ErrorKind::InvalidSubcommand);
    for words in ["tip: a similar subcommand exists: 'check'", "tip: if that is what to look at: check chek"] {
        assert!(typo.to_string().contains(words), "{typo}");
    }
    for target in ["local", "prod", "rancher", "c-m-x7k2p", "checks/custom-1", "test"] {
        assert_eq!(checked(target).target.as_deref(), Some(target));
    }
    // What is wrong behind a target is told, not that the target is no verb.
    let flag = error(&Toy, "prod --nonsense").to_string();
    assert!(flag.contains("--nonsense"), "{flag}");
    let second = error(&Toy, "prod custom-1").to_string();
    assert!(second.contains("custom-1"), "{second}");

    let unknown = error(&Plain, "prod");
    assert_eq!(unknown.kind(), ErrorKind::InvalidSubcommand);
    assert!(unknown.to_string().contains("unrecognized subcommand 'prod'"), "{unknown}");
}

#[test]
fn own_verbs_are_checks_with_another_question() {
    let cli = parsed(&Toy, "-o json whois worker-1 --from x --as-of 2026-08-22T09:55:02Z --context c").expect("parsed");
    assert_eq!(cli.connection.context.as_deref(), Some("c"));
    let Some(Verb::Own(own)) = cli.verb else { panic!("{:?}", cli.verb) };
    assert_eq!(Toy.asked(&own.verb), Target { target: Some("worker-1".into()), deep: true });
    assert_eq!(own.source.from.as_deref(), Some(std::path::Path::new("x")));
    assert!(own.source.as_of.is_some() && own.output.output.is_none());
    assert!(parsed(&Toy, "whois worker-1 -o name").is_ok());
    assert_eq!(error(&Toy, "whois").kind(), ErrorKind::MissingRequiredArgument);
    assert_eq!(error(&Plain, "whois x").kind(), ErrorKind::InvalidSubcommand);
}

#[test]
fn one_slip_of_the_fingers() {
    for typo in ["fi", "fixx", "fox", "fxi", "ix", "ffix", "ifix"] {
        assert!(one_slip("fix", typo) && one_slip(typo, "fix"), "{typo}");
    }
    for other in ["fix", "f", "fixes", "xif", "prod", ""] {
        assert!(!one_slip("fix", other) && !one_slip(other, "fix"), "{other}");
    }
}

#[test]
fn nothing_collides() {
    command::<Toy>(&Toy.about(), OsStr::new("toy")).debug_assert();
    command::<Plain>(&Plain.about(), OsStr::new("toy")).debug_assert();
}

#[test]
fn help_lists_all_verbs_together() {
    let help = error(&Toy, "--help").to_string();
    let at = |verb: &str| help.find(&format!("\n  {verb} ")).unwrap_or_else(|| panic!("no {verb} in {help}"));
    assert!(at("fix") < at("whois") && at("whois") < at("undo"), "{help}");
    assert!(help.contains("Say what goes by a name"), "{help}");
    let own = error(&Toy, "whois --help").to_string();
    for words in ["<TARGET>", "--from <PATH>", "--as-of <TIME>", "--output <FORMAT>"] {
        assert!(own.contains(words), "{own}");
    }
    assert!(error(&Toy, "prod --help").to_string().contains("[TARGET]"));
    assert!(!error(&Plain, "--help").to_string().contains("whois"));
}
