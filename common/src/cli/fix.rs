//! `fix`: diagnose → plan → preflight → consent → look again → back up → apply → verify (DESIGN §4).
//!
//! That is a round. Where what was done has taken effect but the object stands still at a step that needs another decision,
//! the verifier says so, and another round follows with everything that belongs to one: its own plan, digest, preflight,
//! consent and backup. Consent to one round never covers another.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use super::check::{self, PAUSE};
use super::flags::{ConsentFlags, DryRun, FixArgs};
use super::interrupt::Interrupt;
use super::session::{Failure, Live, Session};
use crate::doctor::{Doctor, Prescription, Verification, Verifier};
use crate::exit::Exit;
use crate::finding::{Diagnosis, Severity};
use crate::plan::apply::{self, Applied, Preflight};
use crate::plan::backup::{self, Backup};
use crate::plan::consent::{self, Confirmed, Consent, Given};
use crate::plan::{Operation, Plan, Reversibility};
use crate::report::{FailOn, Outcome, PlanReport, Report, Verdict, plan_text};
use crate::resource::ObjectRef;
use crate::snapshot::Snapshot;
use crate::text::{count, shell_line, some_of};
use crate::time::{Timestamp, human};

pub(super) async fn run<D: Doctor>(session: &Session<D>, args: FixArgs<D::Question>) -> Result<Exit, Failure> {
    let interrupt = Interrupt::listen();
    let live = session.connect_for(&session.question(args.question.clone()))?;
    let (report, exit) = repair(session, &live, &interrupt, args).await?;
    Ok(end(session, &report, exit))
}

/// Rounds of one run after which something must be wrong with the plans.
const ROUNDS: usize = 8;

/// Goes through one round after the other while the verifier says that another decision is due.
pub(super) async fn repair<D: Doctor>(
    session: &Session<D>,
    live: &Live,
    interrupt: &Interrupt,
    args: FixArgs<D::Question>,
) -> Result<(Report, Exit), Failure> {
    let question = session.question(args.question);
    let patience = args.verify_timeout.unwrap_or_else(|| session.doctor.verify_timeout());
    let mut course = Course::default();
    loop {
        let run = Run { session, live, interrupt, question: &question, flags: &args.consent, patience };
        match run.round(&course).await {
            Ok(Ended::Stuck(past, report)) => {
                session.ui.note(&format!("{}; looking again", past.stuck));
                course.last_report = Some(run.keep_in_sight(*report));
                course.past.push(*past);
            }
            Ok(Ended::Here(mut report, exit)) => {
                let exit = course.close(session, &mut report, exit);
                return Ok((*report, exit));
            }
            Err(failure) => {
                // Before the first write a run that fails has no more to say. After it, it must say what it did.
                let Some(mut report) = course.last_report.take() else { return Err(failure) };
                let interrupted = failure.exit == Exit::Interrupted;
                let message = if interrupted { "interrupted".to_owned() } else { failure.message };
                let next = failure.hint.into_iter().collect();
                report.result = Some(Outcome { message, next, ..Outcome::default() });
                report.plan = None;
                let exit = course.close(session, &mut report, failure.exit);
                return Ok((report, exit));
            }
        }
    }
}

/// What a run has done in the rounds before this one.
#[derive(Default)]
struct Course {
    past: Vec<Past>,
    /// The report of the last round, for a run that cannot make another.
    last_report: Option<Report>,
}

/// A round that was applied and then stood still.
struct Past {
    digest: String,
    backup: backup::Place,
    /// kubectl-like lines of what was done.
    log: Vec<String>,
    /// Whether any of it can be taken back.
    undoable: bool,
    /// Where things stand still.
    stuck: String,
    /// What is left for a person to do because of it.
    afterwards: Vec<String>,
}

impl Course {
    /// Ends the run. However a later round ends, earlier ones have changed something: no outcome that stands for «nothing
    /// was changed» is left as it is, and every backup of this run is named.
    fn close<D: Doctor>(&self, session: &Session<D>, report: &mut Report, exit: Exit) -> Exit {
        let Some(last) = self.past.last() else { return exit };
        let planned = report.plan.as_ref().map_or(0, |plan| plan.plan.actions.len());
        let mut outcome = report.result.take().unwrap_or_default();
        let before: usize = self.past.iter().map(|past| past.log.len()).sum();
        outcome.applied += before;
        outcome.of = outcome.of.max(planned) + before;
        let exit = match exit {
            Exit::Ok => {
                outcome.verified = true;
                if outcome.message.is_empty() {
                    "the symptom is gone".clone_into(&mut outcome.message);
                }
                let mut left: Vec<String> = Vec::new();
                for line in self.past.iter().flat_map(|past| &past.afterwards).chain(&outcome.next) {
                    if !left.contains(line) {
                        left.push(line.clone());
                    }
                }
                outcome.next = left;
                report.conclude(Verdict::Fixed, Exit::Ok);
                Exit::Ok
            }
            Exit::NotVerified | Exit::Partial => exit,
            _ => {
                if outcome.message.is_empty() {
                    outcome.message = match report.verdict {
                        Verdict::WrongTarget => "this does not look like the same cluster any more".to_owned(),
                        _ => "what was waited for did not come".to_owned(),
                    };
                }
                let done: Vec<&str> = self.past.iter().flat_map(|past| &past.log).map(String::as_str).collect();
                outcome.message = format!("{}; {}; not gone on: {}", some_of(&done, 3), last.stuck, outcome.message);
                outcome.stuck = Some(last.stuck.clone());
                report.conclude(Verdict::Unverified, Exit::NotVerified);
                Exit::NotVerified
            }
        };
        // Newest first: each backup holds what was there before its round. A round that may have written something names
        // its own backup, even if no write is known to have been made.
        let mut backups = self.past.iter().rev();
        if outcome.undo.is_none()
            && exit != Exit::Partial
            && let Some(newest) = backups.next()
        {
            outcome.undo = newest.undoable.then(|| undo_words(session, &newest.backup.id));
            outcome.backup.get_or_insert_with(|| newest.backup.directory());
        }
        for (index, earlier) in backups.filter(|past| past.undoable).enumerate() {
            if index == 0 {
                outcome.next.push("to take back what earlier rounds did as well, after the last one:".to_owned());
            }
            outcome.next.push(format!("  {}", shell_line(&undo_words(session, &earlier.backup.id))));
        }
        report.result = Some(outcome);
        exit
    }
}

/// How a round ended.
enum Ended {
    /// And the run with it.
    Here(Box<Report>, Exit),
    /// Applied, and another decision is due.
    Stuck(Box<Past>, Box<Report>),
}

impl Ended {
    fn here(report: Report, exit: Exit) -> Self {
        Self::Here(Box::new(report), exit)
    }
}

/// What all rounds of a run have in common.
struct Run<'a, D: Doctor> {
    session: &'a Session<D>,
    live: &'a Live,
    interrupt: &'a Interrupt,
    question: &'a D::Question,
    flags: &'a ConsentFlags,
    patience: Duration,
}

impl<D: Doctor> Run<'_, D> {
    /// Diagnose → plan → preflight → consent → look again → back up → apply → verify.
    async fn round(&self, course: &Course) -> Result<Ended, Failure> {
        let Self { session, live, interrupt, question, .. } = *self;
        let (snapshot, diagnosis) = interrupt.give_up(session.look(live, question)).await?;
        let mut report = session.report(question, None, &snapshot, &diagnosis, FailOn::Error);
        if diagnosis.wrong_target {
            return Ok(Ended::here(report, Exit::Usage));
        }
        if diagnosis.findings.iter().any(|finding| finding.severity == Severity::Unknown) {
            // Required evidence is missing: whatever was proven besides, a plan would be a guess.
            report.conclude(Verdict::Inconclusive, Exit::Inconclusive);
            report.result = Some(Outcome {
                message: "no plan is made while required evidence is missing".to_owned(),
                ..Outcome::default()
            });
            return Ok(Ended::here(report, Exit::Inconclusive));
        }
        let plan = match self.prescribed(course, &mut report, &snapshot, &diagnosis).await? {
            Ok(plan) => plan,
            Err((report, exit)) => return Ok(Ended::Here(report, exit)),
        };
        let flags = self.flags_for(&plan, course);
        let mut repair = match prepare(live, interrupt, &mut report, plan, &flags).await? {
            Prepared::Go(repair) => *repair,
            Prepared::End(exit) => return Ok(Ended::here(report, exit)),
        };
        let asked = Instant::now();
        let (digest, subject) = (repair.plan.digest(), session.doctor.target(question));
        let words: Vec<&str> =
            ["fix"].into_iter().chain(subject.as_deref()).chain(["--confirm", digest.as_str()]).collect();
        let again = session.invocation(question).command(&words);
        let consent =
            obtain_consent(session, interrupt, &mut report, &repair.plan, &target(live), &flags, &again).await?;
        let confirmed = match consent {
            Ok(confirmed) => confirmed,
            Err(exit) => return Ok(Ended::here(report, exit)),
        };
        // Somebody may have read the plan for ten minutes. With consent from a flag nothing has passed since the diagnosis.
        if flags.confirm.is_none() && asked.elapsed() > Duration::from_millis(250) {
            let changed = self.changed_since(&repair.plan).await?;
            if !changed.is_empty() {
                refuse(&mut report, "things have changed since the plan was made", changed);
                return Ok(Ended::here(report, Exit::Refused));
            }
            // The backup must hold the objects as they are now.
            match interrupt.give_up(preflight(live, &repair.plan)).await? {
                Ok(preflight) => repair.preflight = preflight,
                Err(why) => {
                    refuse(&mut report, &why, Vec::new());
                    return Ok(Ended::here(report, Exit::Refused));
                }
            }
        }
        if interrupt.raised() {
            return Err(Failure::new(Exit::Interrupted, "interrupted; nothing was changed"));
        }

        let verifier = session.doctor.verifier(question, &snapshot, &repair.plan);
        let (applied, backup) = match write(session, live, interrupt, &repair, confirmed).await {
            Ok(done) => done,
            Err(why) => {
                refuse(&mut report, &why, Vec::new());
                return Ok(Ended::here(report, Exit::Refused));
            }
        };
        if let Some(exit) = conclude_partial(session, &mut report, &repair, &applied, interrupt.raised()) {
            return Ok(Ended::here(report, exit));
        }
        let afterwards = session.doctor.afterwards(question, &snapshot, &repair.plan);
        Ok(self.verify(course, report, repair, applied.log, afterwards, backup, verifier).await)
    }

    /// The plan, or how the round ends without one.
    async fn prescribed(
        &self,
        course: &Course,
        report: &mut Report,
        snapshot: &Snapshot,
        diagnosis: &Diagnosis,
    ) -> Result<Result<Plan, (Box<Report>, Exit)>, Failure> {
        let Self { session, live, interrupt, question, .. } = *self;
        let exit = match session.doctor.plan(question, snapshot, diagnosis) {
            // What has changed nothing changes nothing when it is done again: somebody takes it back.
            Prescription::Plan(plan) if course.past.iter().any(|past| past.digest == plan.digest()) => {
                refuse(report, "the same plan is due again, as if nothing had been done", Vec::new());
                Exit::Refused
            }
            Prescription::Plan(plan) => return Ok(Ok(plan)),
            Prescription::NothingToDo(message) => {
                report.conclude(Verdict::NothingToDo, Exit::Ok);
                report.result = Some(Outcome { message, ..Outcome::default() });
                Exit::Ok
            }
            Prescription::Refused { why, instead } => {
                refuse(report, &why, instead);
                Exit::Refused
            }
            Prescription::Wait(message) if self.flags.dry_run != DryRun::None => {
                report.conclude(Verdict::NothingToDo, Exit::Ok);
                let message = format!("waiting solves it, and that is all fix would do: {message}");
                report.result = Some(Outcome { message, ..Outcome::default() });
                Exit::Ok
            }
            Prescription::Wait(message) => {
                session.ui.note(&message);
                let waiting = check::wait(session, live, question, FailOn::Error, self.patience);
                let (report, exit) = interrupt.give_up(waiting).await?;
                return Ok(Err((Box::new(report), exit)));
            }
        };
        Ok(Err((Box::new(report.clone()), exit)))
    }

    /// The consent on the command line as far as it goes in this round: a digest stands for one plan only. The plan of an
    /// earlier round may have been the one it named; then a person is asked about this one, or nobody is.
    fn flags_for(&self, plan: &Plan, course: &Course) -> ConsentFlags {
        let mut flags = self.flags.clone();
        if !course.past.is_empty() {
            flags.confirm = flags.confirm.filter(|digest| *digest == plan.digest());
        }
        flags
    }

    /// Looks again after the answer: what is different now, if anything is.
    async fn changed_since(&self, agreed: &Plan) -> Result<Vec<String>, Failure> {
        let Self { session, live, interrupt, question, .. } = *self;
        session.ui.note("looking again before writing");
        let (now, diagnosis) = interrupt.give_up(session.look(live, question)).await?;
        Ok(match session.doctor.plan(question, &now, &diagnosis) {
            Prescription::Plan(again) => differences(agreed, &again),
            Prescription::NothingToDo(message) | Prescription::Wait(message) => vec![message],
            Prescription::Refused { why, .. } => vec![why],
        })
    }

    /// Leaves diagnosis and plan of a round on the screen, where the next one would take their place in the closing report.
    fn keep_in_sight(&self, mut report: Report) -> Report {
        let Session { ui, output, .. } = self.session;
        if !report.shown && !output.machine() {
            ui.out(&report.render_body(*output, ui.styles(), ui.width()));
            ui.out("\n");
            report.shown = true;
        }
        report
    }

    /// Waits until the symptom is gone, with progress, or until another decision is due.
    #[expect(clippy::too_many_arguments, reason = "the last step needs what all earlier ones made")]
    async fn verify(
        &self,
        course: &Course,
        mut report: Report,
        repair: Repair,
        log: Vec<String>,
        afterwards: Vec<String>,
        mut backup: Backup,
        mut verifier: Box<dyn Verifier>,
    ) -> Ended {
        let Self { session, live, interrupt, patience, .. } = *self;
        let started = Instant::now();
        let progress = session.ui.progress(None);
        progress.message(&repair.plan.then);
        let mut told: Option<Instant> = None;
        let mut outcome = Outcome {
            applied: repair.plan.actions.len(),
            of: repair.plan.actions.len(),
            backup: Some(backup.directory().display().to_string()),
            undo: undo_command(session, &repair, repair.plan.actions.len()),
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
                    outcome.next = afterwards;
                    let _ = backup.journal(0, "verified", "");
                    report.conclude(Verdict::Fixed, Exit::Ok);
                    break Exit::Ok;
                }
                Some(Verification::Stuck(stuck)) => {
                    let _ = backup.journal(0, "stuck", &stuck);
                    if course.past.len() + 1 < ROUNDS {
                        drop(progress);
                        let digest = repair.plan.digest();
                        let undoable = undo_command(session, &repair, repair.plan.actions.len()).is_some();
                        let past = Past { digest, backup: repair.place, log, undoable, stuck, afterwards };
                        return Ended::Stuck(Box::new(past), Box::new(report));
                    }
                    outcome.message = format!("after {ROUNDS} rounds: {stuck}");
                    outcome.stuck = Some(stuck);
                    report.conclude(Verdict::Unverified, Exit::NotVerified);
                    break Exit::NotVerified;
                }
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
            if progress.hidden() {
                remind(session, &mut told, &format!("waiting for {waiting_for}"));
            }
            tokio::select! {
                () = interrupt.pressed() => {}
                () = tokio::time::sleep(PAUSE) => {}
            }
        };
        drop(progress);
        report.result = Some(outcome);
        Ended::here(report, exit)
    }
}

/// Where nobody sees the bar, a line now and then shows that it is alive.
fn remind<D: Doctor>(session: &Session<D>, told: &mut Option<Instant>, text: &str) {
    if told.is_none_or(|last| last.elapsed() >= Duration::from_secs(10)) {
        session.ui.note(text);
        *told = Some(Instant::now());
    }
}

/// A plan that passed its preflight.
pub(super) struct Repair {
    pub(super) plan: Plan,
    pub(super) preflight: Preflight,
    pub(super) place: backup::Place,
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
    let place = backup::Place::of(root, &plan, Timestamp::now());
    let mut shown = PlanReport {
        digest: plan.digest(),
        reversibility: plan.reversibility(),
        backup: Some(place.directory()),
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
    Ok(Prepared::Go(Box::new(Repair { plan, preflight, place })))
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
    let mut backup = Backup::create(&repair.place.root, &repair.plan, &repair.place.id, &repair.preflight.objects)
        .map_err(|error| error.to_string())?;
    // Nothing is shown of writes that take a moment.
    let progress = repair.plan.actions.iter().any(|action| action.wait.is_some()).then(|| session.ui.progress(None));
    let told = RefCell::new(None);
    let tell = |text: &str| {
        let Some(progress) = &progress else { return };
        progress.message(&format!("waiting until {text}"));
        if progress.hidden() {
            remind(session, &mut told.borrow_mut(), &format!("waiting until {text}"));
        }
    };
    let applied = apply::apply(&live.collector, &repair.plan, confirmed, &mut backup, || interrupt.raised(), tell)
        .await
        .map_err(|error| error.to_string())?;
    drop(progress);
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
        backup: Some(repair.place.directory()),
        undo: undo_command(session, repair, applied.done),
        ..Outcome::default()
    });
    Some(exit)
}

/// The command that puts back what the first `done` actions changed, if any of it can be put back.
fn undo_command<D: Doctor>(session: &Session<D>, repair: &Repair, done: usize) -> Option<Vec<String>> {
    let done = &repair.plan.actions[..done.min(repair.plan.actions.len())];
    let deleted = |object: &ObjectRef| {
        done.iter().any(|a| matches!(a.operation, Operation::Delete { .. }) && a.object == *object)
    };
    done.iter()
        .any(|action| {
            let irreversible = action.reversibility == Reversibility::Irreversible;
            !irreversible && (matches!(action.operation, Operation::Delete { .. }) || !deleted(&action.object))
        })
        .then(|| undo_words(session, &repair.place.id))
}

fn undo_words<D: Doctor>(session: &Session<D>, id: &str) -> Vec<String> {
    super::invocation::invocation(&session.argv0, &session.flags, Vec::new()).command(&["undo", id])
}

/// Prints the closing report.
pub(super) fn end<D: Doctor>(session: &Session<D>, report: &Report, exit: Exit) -> Exit {
    report.print(&session.ui, session.output);
    exit
}
