//! Completion: static scripts for shells, and kubectl's own protocol with live names.
//!
//! kubectl (1.26 and later) completes a plugin by running `kubectl_complete-<plugin>` with the words typed so far; it
//! expects `value<TAB>description` lines and a last line `:<directive>` (kubernetes/kubectl
//! pkg/cmd/plugin/plugin_completion.go). The helper is a script of two lines that calls this program with a hidden verb.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::time::Duration;

use clap::{Args as _, FromArgMatches as _};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};

use super::flags::CompletionFor;
use super::session::{Failure, Session};
use crate::doctor::{About, Candidates, Doctor};
use crate::exit::Exit;
use crate::kinds::NAMESPACES;
use crate::kube::{self, ConnectionFlags, Environment, Timeouts};
use crate::plan::backup;
use crate::snapshot::{Collector, Content, Form, Need, Origin, Snapshot, Want};
use crate::text::escape;
use crate::ui::{ColorChoice, Ui};

/// Answers `kubectl_complete-…`; not for typing.
pub(super) const HIDDEN_VERB: &str = "__complete";

/// The positional argument of a plugin's question or verb that its own live names complete.
const TARGET: &str = "target";

/// Time for live names: a person waits for it with the TAB key down.
const LIVE_NAMES: Duration = Duration::from_millis(1500);

/// cobra's directive «no file names» (spf13/cobra completions.go, ShellCompDirectiveNoFileComp).
const NO_FILES: &str = ":4";

/// The name of the helper file for kubectl.
pub(super) fn helper_name(about: &About) -> String {
    format!("kubectl_complete-{}", about.name.replace('-', "_"))
}

/// Prints a script.
#[expect(clippy::unnecessary_wraps, reason = "the verbs have one shape")]
pub(super) fn print<D: Doctor>(session: &Session<D>, shell: CompletionFor) -> Result<Exit, Failure> {
    let plugin = format!("kubectl-{}", session.about.name.replace('-', "_"));
    let shell = match shell {
        CompletionFor::Bash => clap_complete::Shell::Bash,
        CompletionFor::Zsh => clap_complete::Shell::Zsh,
        CompletionFor::Fish => clap_complete::Shell::Fish,
        CompletionFor::Powershell => clap_complete::Shell::PowerShell,
        CompletionFor::Kubectl => {
            session.ui.out(&format!("#!/bin/sh\nexec {plugin} {HIDDEN_VERB} \"$@\"\n"));
            session.ui.hint(&format!(
                "save it as an executable file {} in a directory of the PATH",
                helper_name(&session.about)
            ));
            return Ok(Exit::Ok);
        }
    };
    let mut command = super::command::<D>(&session.about, OsStr::new(&plugin));
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, plugin, &mut script);
    session.ui.out(&String::from_utf8_lossy(&script));
    Ok(Exit::Ok)
}

/// Answers kubectl. Whatever goes wrong, nothing is printed that would end up in the user's prompt.
pub(super) fn complete<D: Doctor>(doctor: &D, argv0: &OsStr, typed: &[OsString]) -> Exit {
    let ui = Ui::new(ColorChoice::Never, true, true);
    ui.out(&answer(doctor, argv0, typed));
    Exit::Ok
}

fn answer<D: Doctor>(doctor: &D, argv0: &OsStr, typed: &[OsString]) -> String {
    let about = doctor.about();
    let flags = connection_flags(typed);
    let mut command = with_candidates(super::command::<D>(&about, argv0), about, &flags, doctor.candidates());
    let mut words = vec![OsString::from(about.name)];
    words.extend(typed.iter().cloned());
    let mut found = candidates(&mut command, &words);
    // A word that begins no verb may begin a target of the bare command, which is check.
    if found.is_empty() && super::has_target::<D>() {
        found = candidates(&mut command, &super::with_check(&words));
    }
    // As kubectl does, flags are offered only to who has begun one.
    let flag_begun = typed.last().is_some_and(|word| word.to_string_lossy().starts_with('-'));
    let mut out = String::new();
    for candidate in found {
        let value = candidate.get_value().to_string_lossy();
        if value.starts_with('-') && !flag_begun {
            continue;
        }
        let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
        let help = help.lines().next().unwrap_or_default();
        let tab = if help.is_empty() { "" } else { "\t" };
        let _ = writeln!(out, "{}{tab}{}", escape(&value), escape(help));
    }
    out + NO_FILES + "\n"
}

/// What may stand in the place of the last word.
fn candidates(command: &mut clap::Command, words: &[OsString]) -> Vec<CompletionCandidate> {
    let last = words.len().saturating_sub(1).max(1);
    let mut found = clap_complete::engine::complete(command, words.to_vec(), last, None).unwrap_or_default();
    found.retain(|candidate| !candidate.is_hide_set());
    found
}

/// The connection flags among half a command line.
fn connection_flags(typed: &[OsString]) -> ConnectionFlags {
    let command = ConnectionFlags::augment_args(clap::Command::new("x"))
        .ignore_errors(true)
        .allow_external_subcommands(true)
        .disable_help_flag(true);
    // Every word on its own, so that an unknown one hides only itself: flags may stand before or behind the verb.
    let mut words = vec![OsString::from("x")];
    let mut rest = typed.iter().peekable();
    while let Some(word) = rest.next() {
        let text = word.to_string_lossy();
        if !text.starts_with('-') {
            continue;
        }
        let known = command.get_arguments().any(|arg| {
            arg.get_long().is_some_and(|long| text == format!("--{long}"))
                || arg.get_short().is_some_and(|short| text == format!("-{short}"))
        });
        if known && rest.peek().is_some() {
            words.push(word.clone());
            words.extend(rest.next().cloned());
        } else if text.contains('=') {
            words.push(word.clone());
        }
    }
    command
        .try_get_matches_from(words)
        .ok()
        .and_then(|matches| ConnectionFlags::from_arg_matches(&matches).ok())
        .unwrap_or_default()
}

/// The command with names for its values.
fn with_candidates(
    command: clap::Command,
    about: About,
    flags: &ConnectionFlags,
    targets: Option<Candidates>,
) -> clap::Command {
    let contexts = {
        let flags = flags.clone();
        ArgValueCandidates::new(move || {
            kube::contexts(&flags, &Environment::from_process())
                .into_iter()
                .map(|context| CompletionCandidate::new(context.name).help(context.server.map(Into::into)))
                .collect()
        })
    };
    let lively = |candidates: Candidates| {
        let flags = flags.clone();
        ArgValueCandidates::new(move || live(&flags, &candidates))
    };
    let namespaces = || lively(self::namespaces());
    let codes = ArgValueCandidates::new(move || {
        super::explain::rules(&about)
            .map(|rule| CompletionCandidate::new(rule.code).help(Some(rule.name.into())))
            .collect()
    });
    let backups = ArgValueCandidates::new(move || {
        let saved = backup::root(None).and_then(|root| backup::list(&root)).map(|(saved, _)| saved).unwrap_or_default();
        saved
            .into_iter()
            .filter(|saved| saved.plan.tool == about.name)
            .map(|saved| CompletionCandidate::new(saved.id.clone()).help(Some(saved.state().into())))
            .collect()
    });
    let mut command = command
        .mut_arg("context", |arg| arg.add(contexts))
        .mut_arg("namespace", |arg| arg.add(namespaces()))
        .mut_subcommand("explain", |verb| verb.mut_arg("code", |arg| arg.add(codes)))
        .mut_subcommand("undo", |verb| verb.mut_arg("id", |arg| arg.add(backups)));
    let verbs: Vec<String> = command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    for verb in verbs {
        command = command.mut_subcommand(verb, |verb| {
            verb.mut_args(|arg| match (arg.get_id().as_str(), &targets) {
                (TARGET, Some(targets)) if arg.is_positional() => arg.add(lively(targets.clone())),
                (id, _) if id.ends_with("namespace") && id != "namespace" => arg.add(namespaces()),
                _ => arg,
            })
        });
    }
    command
}

/// Names of namespaces.
fn namespaces() -> Candidates {
    let want = Want::list(NAMESPACES, None, Form::Metadata);
    let names = |snapshot: &Snapshot| match snapshot.readings.first().map(|reading| &reading.content) {
        Some(Content::Objects(objects)) => objects
            .iter()
            .filter_map(|object| Some((object["metadata"]["name"].as_str()?.to_owned(), String::new())))
            .collect(),
        _ => Vec::new(),
    };
    Candidates { needs: vec![Need::optional(want, "names")], names }
}

/// Live names, if the server answers in time. A credential plugin that might ask something is not run.
fn live(flags: &ConnectionFlags, candidates: &Candidates) -> Vec<CompletionCandidate> {
    let Ok((_, config)) = kube::resolve(flags, &Environment::from_process()) else { return Vec::new() };
    if config.auth_info.exec.is_some() {
        return Vec::new();
    }
    let timeouts = Timeouts { request: Some(LIVE_NAMES), connect: LIVE_NAMES, ..Timeouts::default() };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return Vec::new() };
    let snapshot = runtime.block_on(async {
        let api = kube::connect(config, "kubectl-rancher-completion", timeouts).ok()?;
        let collector = Collector::new(api);
        let origin = Origin::default();
        let look = collector.snapshot(&origin, |_| candidates.needs.clone());
        tokio::time::timeout(LIVE_NAMES, look).await.ok()
    });
    runtime.shutdown_background();
    let named = snapshot.map(|snapshot| (candidates.names)(&snapshot)).unwrap_or_default();
    named
        .into_iter()
        .map(|(name, help)| CompletionCandidate::new(name).help((!help.is_empty()).then(|| help.into())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Plain, Toy};
    use super::*;
    use crate::kube::stub;
    use serde_json::json;

    /// What kubectl is told for a line whose last word is being typed.
    fn completed<D: Doctor>(doctor: &D, line: &str) -> Vec<String> {
        let typed: Vec<OsString> = line.split(' ').map(Into::into).collect();
        answer(doctor, OsStr::new("toy"), &typed).lines().map(str::to_owned).collect()
    }

    fn server() -> String {
        stub::serve(|asked| match asked.path.as_str() {
            "/api/v1/namespaces" => {
                let named = |name: &str| json!({"metadata": {"name": name, "uid": name}});
                Some((
                    200,
                    json!({"kind": "List", "metadata": {}, "items": [named("prod"), named("pro\u{1b}x"), named("test")]}),
                ))
            }
            _ => stub::status(404, "NotFound", "no"),
        })
    }

    #[test]
    fn targets_are_completed_with_live_names_wherever_they_may_stand() {
        let (url, empty) = (server(), tempfile::NamedTempFile::new().expect("a file"));
        let to = format!("--kubeconfig {} -s {url}", empty.path().display());
        let all = ["prod\ta cluster", "pro\\x1bx\ta cluster", "test\ta cluster", ":4"];
        for verb in ["check", "fix", "watch", "snapshot", "rbac", "whois"] {
            assert_eq!(completed(&Toy, &format!("{to} {verb} ")), all, "{verb}");
            assert_eq!(completed(&Toy, &format!("{verb} {to} te")), ["test\ta cluster", ":4"], "{verb}");
        }
        // The bare command is check; a verb comes first.
        assert_eq!(completed(&Toy, &format!("{to} te")), ["test\ta cluster", ":4"]);
        assert_eq!(completed(&Toy, "who"), ["whois\tSay what goes by a name", ":4"]);
        assert_eq!(completed(&Plain, &format!("{to} te")), [":4"]);
        assert_eq!(completed(&Plain, &format!("{to} check ")), [":4"]);
        assert_eq!(completed(&Plain, &format!("{to} -n te")), ["test", ":4"]);
    }

    #[test]
    fn a_server_that_does_not_answer_in_time_completes_nothing() {
        let url = stub::serve(|_| {
            std::thread::sleep(LIVE_NAMES * 4);
            None
        });
        let empty = tempfile::NamedTempFile::new().expect("a file");
        let started = std::time::Instant::now();
        assert_eq!(completed(&Toy, &format!("--kubeconfig {} -s {url} check ", empty.path().display())), [":4"]);
        assert!(started.elapsed() < LIVE_NAMES * 3);
    }
}
