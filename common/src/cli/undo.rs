//! `undo`: list backups, or put one back with the same plan, consent, backup and preconditions as `fix`.

use super::fix::{self, Prepared};
use super::flags::UndoArgs;
use super::interrupt::Interrupt;
use super::session::{Failure, Session};
use crate::doctor::Doctor;
use crate::exit::Exit;
use crate::kinds::NAMESPACES;
use crate::plan::backup::{self, BackupError, Saved};
use crate::plan::undo;
use crate::report::{Outcome, Report, TargetInfo, Verdict};
use crate::snapshot::{Need, Want};
use crate::text::{escape, some_of};

impl From<BackupError> for Failure {
    fn from(error: BackupError) -> Self {
        let exit = match error {
            BackupError::Io { .. } => Exit::CouldNotRun,
            BackupError::Malformed { .. }
            | BackupError::NoHome
            | BackupError::NotOurs(_)
            | BackupError::NotFound(_) => Exit::Usage,
        };
        Self::new(exit, error.to_string())
    }
}

pub(super) async fn run<D: Doctor>(session: &Session<D>, args: UndoArgs) -> Result<Exit, Failure> {
    let root = backup::root(args.consent.backup_dir.as_deref())?;
    let saved = match &args.id {
        Some(id) => backup::find(&root, id)?,
        None => {
            let (mut all, broken) = backup::list(&root)?;
            all.retain(|saved| saved.plan.tool == session.about.name);
            for error in broken {
                session.ui.warn(&error.to_string());
            }
            list(session, &root, &all);
            let lines: Vec<String> = all.iter().map(line).collect();
            match session.ui.choose("Put back which one? (Esc: none)", &lines) {
                Some(index) if !session.output.machine() => all.swap_remove(index),
                _ => return Ok(Exit::Ok),
            }
        }
    };
    if saved.plan.tool != session.about.name {
        return Err(Failure::usage(format!("backup {} was made by kubectl {}", saved.id, saved.plan.tool)));
    }
    let undo = undo::plan(&saved);
    for note in &undo.left {
        session.ui.note(note);
    }
    let mut report = Report::failure(&session.about, Exit::Ok, "", None);
    report.error = None;
    let Some(plan) = undo.plan else {
        report.conclude(Verdict::NothingToDo, Exit::Ok);
        report.result = Some(Outcome {
            message: format!("backup {} holds nothing that can be put back", saved.id),
            ..Outcome::default()
        });
        return Ok(fix::end(session, &report, Exit::Ok));
    };

    let interrupt = Interrupt::listen();
    let live = session.connect()?;
    interrupt.give_up(same_cluster(&live, &saved)).await?;
    report.target = Some(TargetInfo {
        context: live.origin.context.clone(),
        server: live.origin.server.clone(),
        cluster_uid: Some(saved.plan.cluster_uid.clone()),
        rancher: None,
        via_rancher_proxy: live.origin.rancher_proxy.is_some(),
        clock_skew_seconds: 0,
    });
    let target = fix::target(&live);
    let repair = match fix::prepare(&live, &interrupt, &mut report, plan, &args.consent).await? {
        Prepared::Go(repair) => *repair,
        Prepared::End(exit) => return Ok(fix::end(session, &report, exit)),
    };
    let again = super::invocation::invocation(&session.argv0, &session.flags, Vec::new()).command(&[
        "undo",
        &saved.id,
        "--confirm",
        &repair.plan.digest(),
    ]);
    let consent =
        fix::obtain_consent(session, &interrupt, &mut report, &repair.plan, &target, &args.consent, &again).await?;
    let confirmed = match consent {
        Ok(confirmed) => confirmed,
        Err(exit) => return Ok(fix::end(session, &report, exit)),
    };
    let (applied, mut new_backup) = match fix::write(session, &live, &interrupt, &repair, confirmed).await {
        Ok(done) => done,
        Err(why) => return Ok(fix::end(session, fix::refuse(&mut report, &why, Vec::new()), Exit::Refused)),
    };
    if let Some(exit) = fix::conclude_partial(session, &mut report, &repair, &applied, interrupt.raised()) {
        return Ok(fix::end(session, &report, exit));
    }
    backup::append(&saved, "undone", &repair.place.id)?;
    new_backup.journal(0, "verified", "")?;
    report.conclude(Verdict::Fixed, Exit::Ok);
    report.result = Some(Outcome {
        applied: applied.done,
        of: repair.plan.actions.len(),
        verified: true,
        message: format!("backup {} is put back", saved.id),
        backup: Some(new_backup.directory().display().to_string()),
        ..Outcome::default()
    });
    Ok(fix::end(session, &report, Exit::Ok))
}

/// A backup goes back only to the cluster it came from.
async fn same_cluster(live: &super::session::Live, saved: &Saved) -> Result<(), Failure> {
    let want = Want::Get { resource: NAMESPACES, namespace: None, name: "kube-system".to_owned() };
    let snapshot = live
        .collector
        .snapshot(&live.origin, |_| vec![Need::required(want.clone(), "to know which cluster this is")])
        .await;
    let uid = snapshot
        .raw(&NAMESPACES, None, "kube-system")
        .map_err(|unread| Failure::new(Exit::CouldNotRun, format!("cannot tell which cluster this is: {unread}")))?
        .and_then(|namespace| namespace["metadata"]["uid"].as_str());
    if uid == Some(saved.plan.cluster_uid.as_str()) {
        Ok(())
    } else {
        Err(Failure::usage(format!(
            "backup {} is of the cluster {}; this one ({}) is {}",
            saved.id,
            saved.plan.cluster_uid,
            live.origin.server,
            uid.unwrap_or("unknown")
        )))
    }
}

/// One backup in one line.
fn line(saved: &Saved) -> String {
    let objects: Vec<String> =
        saved.plan.actions.iter().map(|action| format!("{} {}", action.verb(), action.object)).collect();
    format!("{}  {:<14} {}  {}", saved.id, saved.state(), saved.plan.repairs.join(","), some_of(&objects, 3))
}

fn list<D: Doctor>(session: &Session<D>, root: &std::path::Path, all: &[Saved]) {
    if session.output.machine() {
        let items: Vec<serde_json::Value> = all
            .iter()
            .map(|saved| {
                serde_json::json!({
                    "id": saved.id, "clusterUID": saved.plan.cluster_uid, "state": saved.state(),
                    "repairs": saved.plan.repairs, "directory": saved.directory,
                    "actions": saved.plan.actions.iter().map(|a| serde_json::json!({"verb": a.verb(), "object": a.object})).collect::<Vec<_>>(),
                })
            })
            .collect();
        let document =
            serde_json::json!({"apiVersion": crate::report::API_VERSION, "kind": "BackupList", "items": items});
        session.ui.out(&match session.output {
            crate::report::Output::Yaml => crate::yaml::write(&document).unwrap_or_default(),
            crate::report::Output::Name => all.iter().map(|saved| format!("{}\n", saved.id)).collect(),
            _ => serde_json::to_string_pretty(&document).unwrap_or_default() + "\n",
        });
    } else if all.is_empty() {
        session.ui.note(&format!("no backups of {} in {}", session.about.name, root.display()));
    } else {
        for saved in all {
            session.ui.out(&format!("{}\n", escape(&line(saved))));
        }
    }
}
