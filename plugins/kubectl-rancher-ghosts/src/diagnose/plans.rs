//! RG201 to RG204: what a plan Secret tells of a machine whose agent is known.
//!
//! "Applied" is sha256(plan) == applied-checksum; Rancher's leader then copies the plan into appliedPlan, and only that
//! copy counts for the planner (rancher/rancher pkg/controllers/capr/plansecret/plansecret.go, pkg/capr/planner/store.go).

use std::time::Duration;

use rancher_common::finding::{Evidence, Finding};
use rancher_common::text::{count, some_of};
use rancher_common::time::{Timestamp, between, human};

use super::{Judged, Scene};
use crate::findings;
use crate::model::fleet::{Cluster, Picture};
use crate::model::machine::Machine;
use crate::model::objects::PlanSecret;

/// The leader copies an applied plan within seconds.
const NOTICE: Duration = Duration::from_secs(120);
/// Lines shown of a plan's output.
const OUTPUT_LINES: usize = 6;

/// Judges; a machine whose plan is in order has no findings and no state.
pub(crate) fn judge(
    scene: &Scene<'_>,
    cluster: &Cluster,
    picture: &Picture,
    machine: &Machine,
    secret: &PlanSecret,
) -> Judged {
    let Some(sum) = secret.plan.plan.as_deref() else { return Judged::default() };
    let plan = &secret.plan;
    let applied = plan.applied_checksum.as_deref() == Some(sum);
    let failing = plan.failed_checksum.as_deref() == Some(sum) && plan.failure_count != Some(0);
    let since = secret.planned_at().map(|planned| between(planned, scene.snapshot.as_of));
    let source = secret.reference().to_string();
    let short = |sum: &str| sum.chars().take(12).collect::<String>();
    let finding = |rule, message: String| Finding::new(rule, "plan", picture.reference(), message);
    let mut judged = Judged::default();
    let mut add = |state: &str, why: String, finding: Finding| {
        if judged.state.is_empty() {
            judged.state = state.to_owned();
            judged.why = why;
        }
        judged.findings.push(finding);
    };

    if failing && !applied {
        let (failures, threshold) = (plan.failure_count.unwrap_or(1), plan.failure_threshold.unwrap_or(1));
        let given_up = plan.max_failures.is_some_and(|max| max >= 0 && failures >= max);
        let state = if threshold >= 0 && failures >= threshold || plan.plan_state.as_deref() == Some("failed") {
            "it counts as failed"
        } else {
            "it does not count as failed yet"
        };
        let mut evidence = vec![
            Evidence::new("checksum", format!("failed-checksum is that of the plan ({})", short(sum))).from(source),
            Evidence::new(
                "failures",
                format!(
                    "{failures}, threshold {}, {state}{}",
                    if threshold < 0 { "never".to_owned() } else { threshold.to_string() },
                    if given_up { "; the agent has given up (max-failures)" } else { "" }
                ),
            ),
        ];
        if let Some(output) = &plan.failed_output {
            let lines: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).collect();
            let tail = &lines[lines.len().saturating_sub(OUTPUT_LINES)..];
            evidence.extend(tail.iter().map(|line| Evidence::new("output", (*line).to_owned())));
        }
        add(
            "plan failing",
            format!("its agent failed {} at the plan", count(usize::try_from(failures).unwrap_or(0), "time", "times")),
            finding(&findings::PLAN_FAILING, format!("{} fails to apply its plan", machine.name())).evidence(evidence).advice(
                "Repair what the output names, on the host; this is no ghost. A plan with max-failures needs a new plan, not a restart.",
            ),
        );
    } else if applied && plan.applied_plan.as_deref() != Some(sum) && plan.plan_state.as_deref() != Some("succeeded") {
        let at = plan.last_apply_time.as_deref().and_then(unix_date).or_else(|| secret.planned_at());
        if at.is_none_or(|at| between(at, scene.snapshot.as_of) >= NOTICE) {
            add(
                "applied",
                "its plan is applied, but Rancher has not noticed".to_owned(),
                finding(
                    &findings::RANCHER_BLIND,
                    format!("{} has applied its plan, but Rancher has not noticed", machine.name()),
                )
                .evidence([
                    Evidence::new("checksum", format!("applied-checksum is that of the plan ({})", short(sum))).from(source),
                    Evidence::new(
                        "appliedPlan",
                        plan.applied_plan.as_deref().map_or_else(|| "missing".to_owned(), |old| format!("of an older plan ({})", short(old))),
                    ),
                ])
                .advice("The machine is well; Rancher's side is not: no leader works, or it reads an old copy of the Secret.")
                .next_command(["kubectl", "rancher-lease"]),
            );
        }
    } else if !applied && !failing && since.is_some_and(|since| since >= scene.question.grace) {
        add(
            "agent silent",
            format!("no answer to the plan of {} ago", human(since.unwrap_or_default())),
            finding(
                &findings::AGENT_SILENT,
                format!(
                    "the agent of {} has not answered the plan that Rancher gave it {} ago",
                    machine.name(),
                    human(since.unwrap_or_default())
                ),
            )
            .evidence([
                Evidence::new(
                    "plan",
                    format!(
                        "{} of {}",
                        short(sum),
                        secret.planned_at().map(rancher_common::time::rfc3339).unwrap_or_default()
                    ),
                )
                .from(source),
                Evidence::new("last applied", plan.last_apply_time.clone().unwrap_or_else(|| "never".to_owned())),
            ])
            .advice("Look at rancher-system-agent on the host: it may be stopped, or its credentials may be gone.")
            .next_command([
                "kubectl".to_owned(),
                "rancher-agent".to_owned(),
                "check".to_owned(),
                cluster.name.clone(),
            ]),
        );
    }
    if let Some(probes) = plan.probes.as_ref().filter(|_| applied) {
        let bad: Vec<&str> = probes.iter().filter(|(_, probe)| !probe.healthy).map(|(name, _)| name.as_str()).collect();
        if !bad.is_empty() {
            let components = ["kube-controller-manager", "kube-scheduler"];
            let expired = bad.iter().all(|probe| components.contains(probe));
            add(
                "probes failing",
                format!("unhealthy: {}", bad.join(", ")),
                finding(
                    &findings::PROBES_FAILING,
                    format!("{} reports unhealthy probes: {}", machine.name(), some_of(&bad, 6)),
                )
                .evidence(bad.iter().map(|name| {
                    let failures = probes.get(*name).map_or(0, |probe| probe.failure_count);
                    Evidence::new("probe", format!("{name}: {failures} failures in a row"))
                }))
                .advice(if expired {
                    "Only these two while the cluster works: their own certificates are most likely expired (look at notAfter on ports 10257 and 10259)."
                } else {
                    "Look whether rke2-server, rke2-agent or k3s runs on the host before the probes themselves."
                }),
            );
        }
    }
    judged
}

/// `Thu Jan 15 16:04:02 UTC 2026`: Go's time.UnixDate, which the agent writes. Other zones than UTC are names without an
/// offset and are taken for UTC: the agent runs in it.
pub(crate) fn unix_date(text: &str) -> Option<Timestamp> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [_, month, day, time, _, year] = words[..] else { return None };
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = months.iter().position(|name| *name == month)? + 1;
    format!("{year}-{month:02}-{:02}T{time}Z", day.parse::<u8>().ok()?).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_dates() {
        let read = |text| unix_date(text).map(|time| time.to_string());
        assert_eq!(read("Thu Jan 15 16:04:02 UTC 2026"), Some("2026-01-15T16:04:02Z".to_owned()));
        assert_eq!(read("Mon Dec  1 04:04:02 UTC 2025"), Some("2025-12-01T04:04:02Z".to_owned()));
        for bad in ["", "yesterday", "Thu Foo 15 16:04:02 UTC 2026", "Thu Jan 99 16:04:02 UTC 2026"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
