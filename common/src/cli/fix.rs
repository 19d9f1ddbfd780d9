//! `fix`: diagnose → plan → preflight → consent → look again → back up → apply → verify (DESIGN §4).

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::check::{self, PAUSE};
use super::flags::{ConsentFlags, DryRun, FixArgs};
use super::interrupt::Interrupt;
use super::session::{Failure, Live, Session};
use crate::doctor::{Doctor, Prescription, Verification};
use crate::exit::Exit;
use crate::finding::Severity;
use crate::plan::apply::{self, Applied, Preflight};
use crate::plan::backup::{self, Backup};
use crate::plan::consent::{self, Confirmed, Consent, Given};
use crate::plan::{Plan, Reversibility};
use crate::report::{FailOn, Outcome, PlanReport, Report, Verdict, plan_text};
use crate::text::{count, shell_line};
use crate::time::{Timestamp, human};

pub(super) async fn run<D: Doctor>(session: &Session<D>, args: FixArgs<D::Question>) -> Result<Exit, Failure> {
    let question = session.question(args.question);
    let interrupt = Interrupt::listen();
    let live = session.connect_for(&question)?;
    let patience = args.verify_timeout.unwrap_or_else(|| session.doctor.verify_timeout());

    let (snapshot, diagnosis) = interrupt.give_up(session.look(&live, &question)).await?;
    let mut report = session.report(&question, None, &snapshot, &diagnosis, FailOn::Error);
    if diagnosis.wrong_target {
        return Ok(end(session, &report, Exit::Usage));
    }
    if diagnosis.findings.iter().any(|finding| finding.severity == Severity::Unknown) {
        // Required evidence is missing: whatever was proven besides, a plan would be a guess.
        report.conclude(Verdict::Inconclusive, Exit::Inconclusive);
        report.result = Some(Outcome {
            message: "no plan is made while required evidence is missing".to_owned(),
            ..Outcome::default()
        });
        return Ok(end(session, &report, Exit::Inconclusive));
    }
    let plan = match session.doctor.plan(&question, &snapshot, &diagnosis) {
        Prescription::Plan(plan) => plan,
        Prescription::NothingToDo(message) => {
            report.conclude(Verdict::NothingToDo, Exit::Ok);
            report.result = Some(Outcome { message, ..Outcome::default() });
            return Ok(end(session, &report, Exit::Ok));
        }
        Prescription::Refused { why, instead } => {
            report.conclude(Verdict::Refused, Exit::Refused);
            report.result = Some(Outcome { message: why, next: instead, ..Outcome::default() });
            return Ok(end(session, &report, Exit::Refused));
        }
        Prescription::Wait(message) if args.consent.dry_run != DryRun::None => {
            report.conclude(Verdict::NothingToDo, Exit::Ok);
            let message = format!("waiting solves it, and that is all fix would do: {message}");
            report.result = Some(Outcome { message, ..Outcome::default() });
            return Ok(end(session, &report, Exit::Ok));
        }
        Prescription::Wait(message) => {
            session.ui.note(&message);
            let waiting = check::wait(session, &live, &question, FailOn::Error, patience);
            let (report, exit) = interrupt.give_up(waiting).await?;
            return Ok(end(session, &report, exit));
        }
    };

    let target = target(&live);
    let mut repair = match prepare(&live, &interrupt, &mut report, plan, &args.consent).await? {
        Prepared::Go(repair) => *repair,
        Prepared::End(exit) => return Ok(end(session, &report, exit)),
    };
    let asked = Instant::now();
    let again = session.invocation(&question).command(&["fix", "--confirm", &repair.plan.digest()]);
    let confirmed =
        match obtain_consent(session, &interrupt, &mut report, &repair.plan, &target, &args.consent, &again).await? {
            Ok(confirmed) => confirmed,
            Err(exit) => return Ok(end(session, &report, exit)),
        };
    // Somebody may have read the plan for ten minutes. With consent from a flag nothing has passed since the diagnosis.
    if args.consent.confirm.is_none() && asked.elapsed() > Duration::from_millis(250) {
        session.ui.note("looking again before writing");
        let (now, diagnosis) = interrupt.give_up(session.look(&live, &question)).await?;
        let same = match session.doctor.plan(&question, &now, &diagnosis) {
            Prescription::Plan(again) => differences(&repair.plan, &again),
            Prescription::NothingToDo(message) | Prescription::Wait(message) => vec![message],
            Prescription::Refused { why, .. } => vec![why],
        };
        if !same.is_empty() {
            return Ok(end(
                session,
                refuse(&mut report, "things have changed since the plan was made", same),
                Exit::Refused,
            ));
        }
        // The backup must hold the objects as they are now.
        match interrupt.give_up(preflight(&live, &repair.plan)).await? {
            Ok(preflight) => repair.preflight = preflight,
            Err(why) => return Ok(end(session, refuse(&mut report, &why, Vec::new()), Exit::Refused)),
        }
    }
    if interrupt.raised() {
        return Err(Failure::new(Exit::Interrupted, "interrupted; nothing was changed"));
    }

    let verifier = session.doctor.verifier(&question, &snapshot, &repair.plan);
    let (applied, mut backup) = match write(session, &live, &interrupt, &repair, confirmed).await {
        Ok(done) => done,
        Err(why) => return Ok(end(session, refuse(&mut report, &why, Vec::new()), Exit::Refused)),
    };
    if let Some(exit) = conclude_partial(session, &mut report, &repair, &applied, interrupt.raised()) {
        return Ok(end(session, &report, exit));
    }
    verify(session, &live, &interrupt, &mut report, &repair, &mut backup, verifier, patience).await
}

/// A plan that passed its preflight.
pub(super) struct Repair {
    pub(super) plan: Plan,
    pub(super) preflight: Preflight,
    pub(super) root: PathBuf,
    pub(super) id: String,
}

/// Ready to ask, or the end.
pub(super) enum Prepared {
    Go(Box<Repair>),
    End(Exit),
}

/// What stands in prompts: where this goes.
pub(super) fn target(live: &Live) -> String {
    match &live.origin.context {
        Some(context) => format!("context {context}, {}", live.origin.server),
        None => live.origin.server.clone(),
    }
}

/// The preflight, with a hindrance as text.
async fn preflight(live: &Live, plan: &Plan) -> Result<Result<Preflight, String>, Failure> {
    Ok(apply::preflight(&live.collector, plan).await.map_err(|hindrance| hindrance.to_string()))
}

/// Checks what can be checked before asking, and completes the report's plan. Ends for a dry run and for hindrances.
pub(super) async fn prepare(
    live: &Live,
    interrupt: &Interrupt,
    report: &mut Report,
    plan: Plan,
    flags: &ConsentFlags,
) -> Result<Prepared, Failure> {
    let root = match backup::root(flags.backup_dir.as_deref()) {
        Ok(root) => root,
        Err(error) => {
            refuse(report, &error.to_string(), Vec::new());
            return Ok(Prepared::End(Exit::Refused));
        }
    };
    let id = backup::id(&plan, Timestamp::now());
    let mut shown = PlanReport {
        digest: plan.digest(),
        reversibility: plan.reversibility(),
        backup: Some(root.join(&plan.cluster_uid).join(&id).display().to_string()),
        checked: Vec::new(),
        plan: plan.clone(),
    };
    if flags.dry_run == DryRun::Client {
        report.plan = Some(shown);
        report.conclude(Verdict::DryRun, Exit::Ok);
        return Ok(Prepared::End(Exit::Ok));
    }
    let preflight = match interrupt.give_up(preflight(live, &plan)).await? {
        Ok(preflight) => preflight,
        Err(why) => {
            report.plan = Some(shown);
            refuse(report, &why, Vec::new());
            return Ok(Prepared::End(Exit::Refused));
        }
    };
    shown.checked.clone_from(&preflight.checked);
    shown.checked.extend(preflight.temporary.iter().map(|note| format!("TEMPORARY: {note}")));
    let secrets = preflight.objects.iter().filter(|object| object["kind"] == "Secret").count();
    if secrets > 0 {
        shown.checked.push(format!("the backup will hold {}", count(secrets, "Secret", "Secrets")));
    }
    report.plan = Some(shown);
    if flags.dry_run == DryRun::Server {
        report.conclude(Verdict::DryRun, Exit::Ok);
        return Ok(Prepared::End(Exit::Ok));
    }
    Ok(Prepared::Go(Box::new(Repair { plan, preflight, root, id })))
}

/// Marks the report as a refusal and hands it back.
pub(super) fn refuse<'a>(report: &'a mut Report, why: &str, next: Vec<String>) -> &'a Report {
    report.conclude(Verdict::Refused, Exit::Refused);
    report.result = Some(Outcome { message: why.to_owned(), next, ..Outcome::default() });
    report
}

/// Shows the plan and asks; `Err` is the exit code of a run that ends here. `command` is the command line that, with
/// `--confirm`, agrees to this plan.
pub(super) async fn obtain_consent<D: Doctor>(
    session: &Session<D>,
    interrupt: &Interrupt,
    report: &mut Report,
    plan: &Plan,
    target: &str,
    flags: &ConsentFlags,
    command: &[String],
) -> Result<Result<Confirmed, Exit>, Failure> {
    let given = Given { yes: flags.yes, confirm: flags.confirm.clone() };
    let covered = given.confirm.is_some() || (given.yes && plan.reversibility() == Reversibility::Reversible);
    if !covered && session.ui.interactive() {
        show(session, report, target);
    }
    // A read of the terminal blocks its thread; Ctrl-C must end the run all the same.
    let asking = {
        let (ui, plan, target) = (session.ui.clone(), plan.clone(), target.to_owned());
        tokio::task::spawn_blocking(move || consent::ask(&plan, &target, &given, &ui))
    };
    let answer = interrupt
        .give_up(async {
            asking.await.map_err(|error| Failure::new(Exit::CouldNotRun, format!("cannot ask: {error}")))
        })
        .await
        // The cursor still stands behind the question.
        .inspect_err(|_| session.ui.plan("\n"))?;
    let (why, next) = match answer {
        Consent::Confirmed(confirmed) => return Ok(Ok(confirmed)),
        Consent::Declined => ("declined".to_owned(), Vec::new()),
        Consent::OtherPlan { given } => (
            format!("--confirm {given} is for another plan; this one is {}", plan.digest()),
            vec!["look at the plan above and confirm it by its own digest".to_owned()],
        ),
        Consent::NobodyToAsk => (
            "this run is not interactive and no consent was given".to_owned(),
            vec!["to apply exactly this plan:".to_owned(), format!("  {}", shell_line(command))],
        ),
    };
    refuse(report, &why, next);
    Ok(Err(Exit::Refused))
}

/// Shows diagnosis and plan before a question. They are not repeated in the closing report.
fn show<D: Doctor>(session: &Session<D>, report: &mut Report, target: &str) {
    if session.output.machine() {
        if let Some(plan) = &report.plan {
            session.ui.plan(&plan_text(plan, target, session.ui.err_styles(), session.ui.width()));
        }
    } else {
        session.ui.out(&report.render_body(session.output, session.ui.styles(), session.ui.width()));
        session.ui.out("\n");
        report.shown = true;
    }
}

/// What differs between the plan that was agreed to and the one that would be made now.
pub(super) fn differences(agreed: &Plan, now: &Plan) -> Vec<String> {
    if agreed.digest() == now.digest() {
        return Vec::new();
    }
    let mut lines = Vec::new();
    for (number, (before, after)) in agreed.actions.iter().zip(&now.actions).enumerate() {
        if before.object != after.object || before.verb() != after.verb() {
            lines.push(format!(
                "action {}: {} {} => {} {}",
                number + 1,
                before.verb(),
                before.object,
                after.verb(),
                after.object
            ));
            continue;
        }
        for fact in &before.facts {
            let new = after.facts.iter().find(|other| other.pointer == fact.pointer);
            if new.map(|new| &new.value) != Some(&fact.value) {
                let new = new.map_or_else(|| "<none>".to_owned(), |new| new.value.to_string());
                lines.push(format!("{}: {} {} => {new}", before.object, fact.pointer, fact.value));
            }
        }
    }
    if agreed.actions.len() != now.actions.len() {
        lines.push(format!("{} => {}", count(agreed.actions.len(), "action", "actions"), now.actions.len()));
    }
    if lines.is_empty() {
        lines.push(format!("plan {} => {}", agreed.digest(), now.digest()));
    }
    lines
}

/// Backs up and applies. `Err` means that nothing was changed.
pub(super) async fn write<D: Doctor>(
    session: &Session<D>,
    live: &Live,
    interrupt: &Interrupt,
    repair: &Repair,
    confirmed: Confirmed,
) -> Result<(Applied, Backup), String> {
    let mut backup = Backup::create(&repair.root, &repair.plan, &repair.id, &repair.preflight.objects)
        .map_err(|error| error.to_string())?;
    let applied = apply::apply(&live.collector, &repair.plan, confirmed, &mut backup, || interrupt.raised())
        .await
        .map_err(|error| error.to_string())?;
    for line in &applied.log {
        session.ui.note(line);
    }
    Ok((applied, backup))
}

/// Ends a run that stopped before all was applied: 6 if nothing was, 8 if something was or may have been.
pub(super) fn conclude_partial<D: Doctor>(
    session: &Session<D>,
    report: &mut Report,
    repair: &Repair,
    applied: &Applied,
    interrupted: bool,
) -> Option<Exit> {
    let why = applied.stopped.as_ref()?;
    let changed = applied.done + applied.unknown > 0;
    let directory = repair.root.join(&repair.plan.cluster_uid).join(&repair.id);
    let (verdict, exit) = match (changed, interrupted) {
        (true, _) => (Verdict::Partial, Exit::Partial),
        (false, true) => (Verdict::Interrupted, Exit::Interrupted),
        (false, false) => (Verdict::Refused, Exit::Refused),
    };
    report.conclude(verdict, exit);
    report.result = Some(Outcome {
        applied: applied.done,
        of: repair.plan.actions.len(),
        message: why.clone(),
        next: if changed {
            vec!["look again before anything else: the check verb shows what is left".to_owned()]
        } else {
            Vec::new()
        },
        backup: Some(directory.display().to_string()),
        undo: (applied.done > 0).then(|| undo_command(session, &repair.id)),
        ..Outcome::default()
    });
    Some(exit)
}

/// The command that puts things back.
pub(super) fn undo_command<D: Doctor>(session: &Session<D>, id: &str) -> Vec<String> {
    super::invocation::invocation(&session.argv0, &session.flags, Vec::new()).command(&["undo", id])
}

/// Waits until the symptom is gone, with progress, and ends the run.
#[expect(clippy::too_many_arguments, reason = "the last step needs what all earlier ones made")]
async fn verify<D: Doctor>(
    session: &Session<D>,
    live: &Live,
    interrupt: &Interrupt,
    report: &mut Report,
    repair: &Repair,
    backup: &mut Backup,
    mut verifier: Box<dyn crate::doctor::Verifier>,
    patience: Duration,
) -> Result<Exit, Failure> {
    let started = Instant::now();
    let progress = session.ui.progress(None);
    progress.message(&repair.plan.then);
    let mut told: Option<Instant> = None;
    let mut outcome = Outcome {
        applied: repair.plan.actions.len(),
        of: repair.plan.actions.len(),
        backup: Some(backup.directory().display().to_string()),
        undo: Some(undo_command(session, &repair.id)),
        ..Outcome::default()
    };
    let exit = loop {
        let look = live.collector.snapshot(&live.origin, |snapshot| verifier.needs(snapshot));
        let snapshot = tokio::select! {
            biased;
            () = interrupt.pressed() => None,
            snapshot = look => Some(snapshot),
        };
        let waiting_for = match snapshot.map(|snapshot| verifier.observe(&snapshot)) {
            None => "interrupted while waiting".to_owned(),
            Some(Verification::Done(message)) => {
                outcome.verified = true;
                outcome.message = message;
                let _ = backup.journal(0, "verified", "");
                report.conclude(Verdict::Fixed, Exit::Ok);
                break Exit::Ok;
            }
            Some(Verification::Stuck(waiting_for)) => waiting_for,
            Some(Verification::Pending { done, total, waiting_for }) => {
                progress.position(done, total);
                waiting_for
            }
        };
        if interrupt.raised() || started.elapsed() >= patience {
            let _ = backup.journal(0, "notVerified", &waiting_for);
            outcome.message = if interrupt.raised() {
                format!("interrupted; was still waiting for {waiting_for}")
            } else {
                format!("after {} still waiting for {waiting_for}", human(patience))
            };
            report.conclude(Verdict::Unverified, Exit::NotVerified);
            break Exit::NotVerified;
        }
        progress.message(&waiting_for);
        // Nobody sees the bar: a line now and then shows that it is alive.
        if progress.hidden() && told.is_none_or(|last| last.elapsed() >= Duration::from_secs(10)) {
            session.ui.note(&format!("waiting for {waiting_for}"));
            told = Some(Instant::now());
        }
        tokio::select! {
            () = interrupt.pressed() => {}
            () = tokio::time::sleep(PAUSE) => {}
        }
    };
    drop(progress);
    report.result = Some(outcome);
    Ok(end(session, report, exit))
}

/// Prints the closing report.
pub(super) fn end<D: Doctor>(session: &Session<D>, report: &Report, exit: Exit) -> Exit {
    report.print(&session.ui, session.output);
    exit
}
