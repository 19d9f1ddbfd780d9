//! `check`: look, judge, report; with `--wait` until all is well.

use std::time::{Duration, Instant};

use super::flags::{CheckArgs, Own, SourceFlags};
use super::session::{Failure, Session};
use crate::doctor::Doctor;
use crate::exit::Exit;
use crate::finding::{Diagnosis, Severity};
use crate::report::{FailOn, Report, Verdict, judge};
use crate::snapshot;
use crate::time::human;

/// Pause between two looks while waiting.
pub(super) const PAUSE: Duration = Duration::from_secs(2);

pub(super) async fn run<D: Doctor>(session: &Session<D>, args: CheckArgs<D::Question>) -> Result<Exit, Failure> {
    let question = session.question(args.question);
    let (report, exit) = if args.wait {
        let live = session.connect_for(&question)?;
        wait(session, &live, &question, args.fail_on, args.timeout).await?
    } else {
        once(session, &question, &args.source, args.fail_on).await?
    };
    report.print(&session.ui, session.output);
    Ok(exit)
}

/// One of the plugin's own verbs: a check with another question, whose answer is the inventory.
pub(super) async fn answer<D: Doctor>(session: &Session<D>, args: Own<D::Verbs>) -> Result<Exit, Failure> {
    let question = session.question(session.doctor.asked(&args.verb));
    let (mut report, exit) = once(session, &question, &args.source, FailOn::default()).await?;
    report.answers = true;
    report.print(&session.ui, session.output);
    Ok(exit)
}

/// One look, at a cluster or at a saved snapshot.
async fn once<D: Doctor>(
    session: &Session<D>,
    question: &D::Question,
    source: &SourceFlags,
    fail_on: FailOn,
) -> Result<(Report, Exit), Failure> {
    let (snapshot, diagnosis) = match &source.from {
        Some(path) => {
            let mut saved = snapshot::load(path)?;
            if let Some(time) = source.as_of {
                saved.as_of = time;
            }
            let diagnosis = session.doctor.diagnose(question, &saved);
            (saved, diagnosis)
        }
        None => session.look(&session.connect_for(question)?, question).await?,
    };
    let report = session.report(question, source.from.as_deref(), &snapshot, &diagnosis, fail_on);
    Ok((report, exit(&diagnosis, fail_on)))
}

fn exit(diagnosis: &Diagnosis, fail_on: FailOn) -> Exit {
    judge(diagnosis, fail_on).1
}

/// Whether waiting is over: nothing is broken, nothing unknown, and the plugin says that things have settled.
pub(super) fn settled<D: Doctor>(session: &Session<D>, diagnosis: &Diagnosis) -> bool {
    let broken =
        diagnosis.findings.iter().any(|finding| matches!(finding.severity, Severity::Error | Severity::Unknown));
    !broken && !diagnosis.wrong_target && session.doctor.settled(diagnosis)
}

/// Looks again and again until all is well or the time is over; the report of the last look and its exit code. The
/// wrong cluster does not get better by waiting; a server that does not answer may.
pub(super) async fn wait<D: Doctor>(
    session: &Session<D>,
    live: &super::session::Live,
    question: &D::Question,
    fail_on: FailOn,
    timeout: Duration,
) -> Result<(Report, Exit), Failure> {
    let started = Instant::now();
    let progress = session.ui.progress(None);
    let mut told = String::new();
    loop {
        let looked = session.examine(live, question).await;
        let over = started.elapsed() >= timeout;
        let waiting_for = match looked {
            Ok((snapshot, diagnosis)) => {
                let settled = settled(session, &diagnosis);
                if settled || diagnosis.wrong_target || over {
                    drop(progress);
                    let mut report = session.report(question, None, &snapshot, &diagnosis, fail_on);
                    let mut exit = exit(&diagnosis, fail_on);
                    if !settled && exit == Exit::Ok && fail_on != FailOn::Never {
                        exit = Exit::Problem;
                        report.conclude(Verdict::Problem, exit);
                        report.result = Some(crate::report::Outcome {
                            message: format!("not settled within {}", human(timeout)),
                            ..Default::default()
                        });
                    }
                    return Ok((report, exit));
                }
                diagnosis
                    .findings
                    .iter()
                    .find(|finding| finding.severity != Severity::Info)
                    .or(diagnosis.findings.first())
                    .map_or_else(
                        || "waiting".to_owned(),
                        |finding| format!("{}: {}", finding.rule.code, finding.message),
                    )
            }
            Err(failure) if over => return Err(failure),
            Err(failure) => failure.message,
        };
        progress.message(&waiting_for);
        if progress.hidden() && waiting_for != told {
            session.ui.note(&format!("waiting: {waiting_for}"));
            told = waiting_for;
        }
        tokio::time::sleep(PAUSE).await;
    }
}
