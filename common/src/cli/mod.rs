//! The command line: parsing, the verbs, and how a run ends. A plugin's `main` is one call of [`main`].

mod check;
mod completion;
mod explain;
mod fix;
#[cfg(test)]
mod fix_tests;
mod flags;
mod interrupt;
mod invocation;
mod rbac;
mod save;
mod session;
#[cfg(test)]
mod tests;
mod undo;
mod version;
mod watch;

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, FromArgMatches as _};

use crate::doctor::{About, Doctor};
use crate::exit::Exit;
use crate::report::{Output, Report};
use crate::ui::{ColorChoice, Ui};
use flags::{Cli, Verb};
use session::{Failure, Session};

/// Runs a plugin with the process's own arguments.
#[must_use]
pub fn main<D: Doctor>(doctor: &D) -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    install_panic_hook(doctor.about().name);
    // rustls panics when several providers are linked and none was chosen; an error means one was chosen already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    run(doctor, &args).into()
}

/// A panic is our bug: say so, without a backtrace into the user's ticket unless they ask for one, and show the cursor
/// again. The exit code then is 101 in tests and 134 in release builds, which no documented outcome uses.
fn install_panic_hook(name: &'static str) {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        crate::ui::show_cursor();
        Ui::new(ColorChoice::Auto, false, false)
            .error(&format!("{name} has a bug and stops here; nothing more is written to the cluster"));
        default(info);
    }));
}

fn run<D: Doctor>(doctor: &D, args: &[OsString]) -> Exit {
    let about = doctor.about();
    let argv0 = args.first().cloned().unwrap_or_else(|| about.name.into());
    if args.get(1).is_some_and(|word| word == completion::HIDDEN_VERB) {
        return completion::complete(doctor, &argv0, &args[2..]);
    }
    match parse::<D>(&about, &argv0, args) {
        Ok(cli) => dispatch(doctor, &argv0, cli),
        Err(error) => usage(&about, args, &error),
    }
}

/// The command line of a plugin.
type CliOf<D> = Cli<<D as Doctor>::Question, <D as Doctor>::Verbs>;

/// The command with the texts of this plugin and the name it was called by.
fn command<D: Doctor>(about: &About, argv0: &OsStr) -> clap::Command {
    let words = invocation::words(argv0, std::env::var_os("PATH").as_deref()).join(" ");
    CliOf::<D>::command()
        .name(about.name)
        .bin_name(words)
        .about(about.question)
        .version(about.version)
        .after_help(after_help::<D>(about))
        .disable_version_flag(true)
}

/// What stands below the flags: the exit codes, and what the plugin adds.
fn after_help<D: Doctor>(about: &About) -> String {
    let codes: Vec<String> = Exit::ALL.iter().map(|exit| format!("  {:>3}  {}", exit.code(), exit.meaning())).collect();
    let own = if about.after_help.is_empty() { String::new() } else { format!("\n\n{}", about.after_help) };
    let follows = if has_target::<D>() { "its target and flags" } else { "its flags" };
    format!(
        "The bare command is check; {follows} may follow directly.\n\nExit codes (0-6: a failed run changed nothing):\n{}{own}",
        codes.join("\n")
    )
}

fn parse<D: Doctor>(about: &About, argv0: &OsStr, args: &[OsString]) -> Result<CliOf<D>, clap::Error> {
    let try_parse = |args: &[OsString]| {
        let mut command = command::<D>(about, argv0);
        let matches = command.try_get_matches_from_mut(args)?;
        CliOf::<D>::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    };
    match try_parse(args) {
        // The bare command is `check`, so its flags and its target may follow directly.
        Ok(Cli { verb: None, .. }) => try_parse(&with_check(args)),
        Err(error) if error.kind() == ErrorKind::UnknownArgument => try_parse(&with_check(args)).map_err(|_| error),
        Err(error) if error.kind() == ErrorKind::InvalidSubcommand && has_target::<D>() => {
            if like_a_verb::<D>(about, no_verb(&error)) {
                Err(with_way_out(error))
            } else {
                try_parse(&with_check(args))
            }
        }
        other => other,
    }
}

/// The word that stands where a verb should.
fn no_verb(error: &clap::Error) -> &str {
    match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(word)) => word,
        _ => "",
    }
}

/// Whether a word is one slip away from a verb: who mistypes `fix` must not get a check of a target instead. clap's own
/// likeness is wider, it takes `rancher` for `rbac`.
fn like_a_verb<D: Doctor>(about: &About, word: &str) -> bool {
    command::<D>(about, OsStr::new(about.name)).get_subcommands().any(|verb| one_slip(verb.get_name(), word))
}

/// Whether two words differ by one letter too many, too few or wrong, or by two neighbours that changed places.
fn one_slip(a: &str, b: &str) -> bool {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let same = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    match (&a[same..], &b[same..]) {
        ([a1, a2, a @ ..], [b1, b2, b @ ..]) if (a1, a2) == (b2, b1) && a == b => true,
        (a @ [_, a_rest @ ..], b @ [_, b_rest @ ..]) => a_rest == b_rest || a_rest == b || a == b_rest,
        ([], [_]) | ([_], []) => true,
        _ => false,
    }
}

/// Says how a target of such a name is looked at.
fn with_way_out(mut error: clap::Error) -> clap::Error {
    let tip = format!("if that is what to look at: check {}", crate::text::shell_word(no_verb(&error)));
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    error
}

/// Whether the plugin's question has a positional argument.
fn has_target<D: Doctor>() -> bool {
    let question = <D::Question as clap::Args>::augment_args(clap::Command::new("question"));
    question.get_positionals().next().is_some()
}

fn with_check(args: &[OsString]) -> Vec<OsString> {
    let mut words = args.to_vec();
    words.insert(words.len().min(1), "check".into());
    words
}

/// Help goes to stdout with 0, everything else clap says is wrong usage.
fn usage(about: &About, args: &[OsString], error: &clap::Error) -> Exit {
    let rendered = error.render();
    let ui = Ui::new(ColorChoice::Auto, false, false);
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        ui.out(&rendered.to_string());
        return Exit::Ok;
    }
    ui.plan(&rendered.to_string());
    let message = rendered.to_string();
    let first = message.lines().next().unwrap_or_default().trim_start_matches("error: ");
    let output = wanted_output(args);
    if output.machine() {
        Report::failure(about, Exit::Usage, first, None).print(&ui, output);
    }
    Exit::Usage
}

/// The `-o` of a command line that could not be parsed.
fn wanted_output(args: &[OsString]) -> Output {
    let words: Vec<&str> = args.iter().filter_map(|word| word.to_str()).collect();
    let value = words.iter().enumerate().find_map(|(index, word)| match *word {
        "-o" | "--output" => words.get(index + 1).copied(),
        word => word.strip_prefix("--output=").or_else(|| word.strip_prefix("-o=")).or_else(|| word.strip_prefix("-o")),
    });
    match value {
        Some("json") => Output::Json,
        Some("yaml") => Output::Yaml,
        _ => Output::Table,
    }
}

fn dispatch<D: Doctor>(doctor: &D, argv0: &OsStr, cli: CliOf<D>) -> Exit {
    let Cli { connection, look, output: before, verb } = cli;
    log_requests(look.verbose);
    let about = doctor.about();
    let chosen = |flag: &flags::OutputFlag| flag.output.or(before).unwrap_or_default();
    let output = match &verb {
        Some(Verb::Check(args)) => chosen(&args.output),
        Some(Verb::Fix(args)) => chosen(&args.output),
        Some(Verb::Own(args)) => chosen(&args.output),
        Some(Verb::Undo(args)) => chosen(&args.output),
        Some(Verb::Watch(args)) => chosen(&args.output),
        Some(Verb::Version(args)) => chosen(&args.output),
        _ => before.unwrap_or_default(),
    };
    let ui = Ui::new(look.color, look.quiet, output.machine());
    let session = Session::new(doctor.clone(), about, ui, output, connection, argv0.to_owned());
    let result = match verb {
        None => Err(Failure::usage("no verb was given")),
        Some(Verb::Explain(args)) => explain::run(&session, &args),
        Some(Verb::Version(args)) => version::run(&session, &args),
        Some(Verb::Completion(args)) => completion::print::<D>(&session, args.shell),
        Some(Verb::Rbac(args)) => rbac::run(&session, &args),
        Some(Verb::Check(args)) => session.block_on(check::run(&session, args)),
        Some(Verb::Fix(args)) => session.block_on(fix::run(&session, args)),
        Some(Verb::Own(args)) => session.block_on(check::answer(&session, args)),
        Some(Verb::Undo(args)) => session.block_on(undo::run(&session, args)),
        Some(Verb::Watch(args)) => session.block_on(watch::run(&session, args)),
        Some(Verb::Snapshot(args)) => session.block_on(save::run(&session, args)),
    };
    result.unwrap_or_else(|failure| session.fail(&failure))
}

/// `-v` shows each request's line, `-vv` what hyper and rustls say. Bodies are never logged: kube would put a whole
/// answer, Secrets included, into a warning when it cannot be read.
fn log_requests(verbose: u8) {
    use tracing_subscriber::filter::{LevelFilter, Targets};
    use tracing_subscriber::layer::SubscriberExt as _;
    use tracing_subscriber::util::SubscriberInitExt as _;
    if verbose == 0 {
        return;
    }
    let level = if verbose > 1 { LevelFilter::DEBUG } else { LevelFilter::OFF };
    let targets = Targets::new()
        .with_target("rancher_common", LevelFilter::DEBUG)
        .with_target("hyper_util", level)
        .with_target("rustls", level);
    let _ = tracing_subscriber::registry()
        .with(targets)
        .with(tracing_subscriber::fmt::layer().with_writer(std::io::stderr).without_time().with_ansi(false))
        .try_init();
}
