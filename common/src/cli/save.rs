//! `snapshot`: save what the diagnosis reads, redacted, for `check --from`.

use super::flags::SnapshotArgs;
use super::interrupt::Interrupt;
use super::session::{Failure, Session};
use crate::doctor::Doctor;
use crate::exit::Exit;
use crate::report::FailOn;
use crate::snapshot;
use crate::text::count;

pub(super) async fn run<D: Doctor>(session: &Session<D>, args: SnapshotArgs<D::Question>) -> Result<Exit, Failure> {
    let question = session.question(args.question);
    if args.output.symlink_metadata().is_ok() {
        return Err(snapshot::BundleError::Exists(args.output).into());
    }
    let interrupt = Interrupt::listen();
    let mut live = session.connect_for(&question)?;
    live.collector = live.collector.thorough();
    let started = std::time::Instant::now();
    let (taken, diagnosis) = interrupt.give_up(session.look(&live, &question)).await?;
    let tool = format!("kubectl-{}/{}", session.about.name, session.about.version);
    snapshot::save(&taken, &tool, &args.output).map_err(|error| Failure::new(Exit::CouldNotRun, error.to_string()))?;
    let failed = taken.failures().count();
    session.ui.note(&format!(
        "saved {} to {} in {:.1} s, secrets redacted{}",
        count(taken.readings.len(), "reading", "readings"),
        args.output.display(),
        started.elapsed().as_secs_f64(),
        if failed > 0 {
            format!("; {} failed and are recorded as such", count(failed, "read", "reads"))
        } else {
            String::new()
        },
    ));
    let report = session.report(&question, None, &taken, &diagnosis, FailOn::Error);
    session.ui.note(&format!("its verdict now: {:?} (exit {})", report.verdict, report.exit_code));
    Ok(Exit::Ok)
}
