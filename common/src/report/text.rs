//! The text rendering: first where we are, one line per check, evidence below, the next command, the verdict last.
//!
//! Marks are ASCII and colors only add. Every string that may come from a cluster passes [`escape`].

use std::fmt::Write as _;
use std::time::Duration;

use owo_colors::Style;

use super::{FindingReport, PlanReport, Report, Verdict};
use crate::exit::Exit;
use crate::finding::shared::NO_SUCH_TARGET;
use crate::finding::{Evidence, Severity};
use crate::text::{count, escape, shell_line};
use crate::time::{human, rfc3339};
use crate::ui::Styles;

/// Column at which messages start: mark, code and check stand before it.
const INDENT: usize = 24;

pub(super) fn report(report: &Report, styles: &Styles, width: usize, wide: bool) -> String {
    if report.error.is_some() {
        // It has gone to stderr; stdout stays empty for a person.
        return String::new();
    }
    let text = if report.shown { String::new() } else { body(report, styles, width, wide) };
    let mut out = Page { text, styles, width };
    if let Some(result) = &report.result {
        if !result.next.is_empty() && !out.text.is_empty() {
            out.text.push('\n');
        }
        for line in &result.next {
            let _ = writeln!(out.text, "     {}", escape(line));
        }
    }
    out.verdict(report);
    let result = report.result.as_ref();
    if let Some(undo) = result.and_then(|result| result.undo.as_ref()) {
        let _ = writeln!(out.text, "Undo: {}", styles.command.style(shell_line(undo)));
    } else if let Some(backup) = result.filter(|_| report.changed).and_then(|result| result.backup.as_ref()) {
        let _ = writeln!(out.text, "Backup: {}", escape(backup));
    }
    out.text
}

pub(super) fn body(report: &Report, styles: &Styles, width: usize, wide: bool) -> String {
    let mut out = Page { text: String::new(), styles, width };
    out.header(report);
    if let Some(inventory) = report.inventory.as_ref().filter(|inventory| !inventory.rows.is_empty()) {
        out.text.push_str(&super::inventory::table(inventory, styles, wide));
        out.text.push('\n');
    }
    for passed in &report.checks {
        out.line(styles.good, "[OK]", "", &passed.check, &passed.message);
        if wide {
            out.evidence(&passed.evidence, wide);
        }
    }
    for finding in &report.findings {
        out.finding(finding, wide);
    }
    for skipped in &report.not_judged {
        out.line(styles.dim, "[..]", "", &skipped.check, &format!("not judged: {}", skipped.reason));
    }
    // Required reads that failed have an RX001 of their own above, unless the verdict does not rest on them any more.
    for item in report.not_run.iter().filter(|item| !item.required || report.summary.unknown == 0) {
        out.line(styles.dim, "[--]", "RX001", "not read", &format!("{}: {}", item.what, item.message));
        if let Some(missing) = &item.missing {
            out.labeled("needs", &missing.to_string());
        }
    }
    if let Some(plan) = &report.plan {
        out.text.push('\n');
        out.text.push_str(&self::plan(plan, &target(report), styles, width));
    }
    out.text
}

/// `context prod, https://…` for prompts and plans.
fn target(report: &Report) -> String {
    report.target.as_ref().map_or_else(String::new, |target| {
        format!(
            "{}{}",
            target.context.as_ref().map(|name| format!("context {name}, ")).unwrap_or_default(),
            target.server
        )
    })
}

struct Page<'a> {
    text: String,
    styles: &'a Styles,
    width: usize,
}

impl Page<'_> {
    fn header(&mut self, report: &Report) {
        let Some(target) = &report.target else { return };
        let mut parts = Vec::new();
        if let Some(context) = &target.context {
            parts.push(format!("context {}", escape(context)));
        }
        parts.push(format!("server {}", escape(&target.server)));
        if let Some(rancher) = &target.rancher {
            let mut part = format!("rancher {}", escape(rancher.version.as_deref().unwrap_or("of unknown version")));
            if let Some(replicas) = rancher.replicas {
                let _ = write!(part, " ({})", count(replicas, "replica", "replicas"));
            }
            parts.push(part);
        }
        if target.via_rancher_proxy {
            parts.push("through Rancher's proxy".to_owned());
        }
        if report.source != "live" {
            parts.push(format!(
                "from {} as of {}",
                escape(&report.source),
                report.as_of.map(rfc3339).unwrap_or_default()
            ));
        }
        let _ = writeln!(self.text, "{}\n", self.styles.dim.style(parts.join("   ")));
    }

    /// `[XX] RL101 lease     message`, the message wrapped and indented.
    fn line(&mut self, style: Style, mark: &str, code: &str, check: &str, message: &str) {
        let head = format!("{code:<5} {:<12} ", escape(check));
        let _ = write!(self.text, "{} {}", style.style(mark), self.styles.strong.style(head));
        self.wrapped(message, INDENT);
    }

    /// Text from the current column on, which is `indent`, broken at spaces.
    fn wrapped(&mut self, text: &str, indent: usize) {
        let text = escape(text);
        let room = self.width.saturating_sub(indent).max(30);
        for (index, line) in wrap(&text, room).iter().enumerate() {
            if index > 0 {
                self.text.extend(std::iter::repeat_n(' ', indent));
            }
            self.text.push_str(line);
            self.text.push('\n');
        }
    }

    fn labeled(&mut self, label: &str, value: &str) {
        self.row(INDENT, &format!("{label:<11}"), value);
    }

    /// A label at a column, and its text beside it, wrapped.
    fn row(&mut self, column: usize, label: &str, value: &str) {
        self.text.extend(std::iter::repeat_n(' ', column));
        let label = format!("{:<10}", escape(label));
        let indent = column + label.chars().count() + 1;
        let _ = write!(self.text, "{} ", self.styles.dim.style(label));
        self.wrapped(value, indent);
    }

    fn evidence(&mut self, evidence: &[Evidence], wide: bool) {
        for item in evidence {
            let mut value = item.value.clone();
            if wide {
                if let Some(source) = &item.source {
                    let _ = write!(value, "  <{source}>");
                }
                if let Some(at) = item.at {
                    let _ = write!(value, "  read {}", rfc3339(at));
                }
            }
            self.labeled(&item.label, &value);
        }
    }

    fn finding(&mut self, finding: &FindingReport, wide: bool) {
        let style = match finding.severity {
            Severity::Error => self.styles.bad,
            Severity::Warning => self.styles.warning,
            Severity::Unknown => self.styles.unknown,
            Severity::Info => self.styles.dim,
        };
        self.line(style, finding.severity.mark(), finding.code, finding.check, &finding.message);
        self.evidence(&finding.evidence, wide);
        if !finding.caused_by.is_empty() {
            self.labeled("because of", &finding.caused_by.join(", "));
        }
        let Some(remediation) = &finding.remediation else { return };
        if !remediation.text.is_empty() {
            self.labeled("what to do", &remediation.text);
        }
        if !remediation.argv.is_empty() {
            // Not wrapped: a command is copied as one line.
            self.text.extend(std::iter::repeat_n(' ', INDENT));
            let label = if finding.fixable { "fix" } else { "next" };
            let _ = writeln!(
                self.text,
                "{} {}",
                self.styles.dim.style(format!("{label:<11}")),
                self.styles.command.style(shell_line(&remediation.argv))
            );
        }
    }

    fn verdict(&mut self, report: &Report) {
        let summary = &report.summary;
        let style = match report.verdict {
            Verdict::OK | Verdict::Fixed | Verdict::NothingToDo | Verdict::DryRun => self.styles.good,
            Verdict::Warning | Verdict::Refused | Verdict::Interrupted => self.styles.warning,
            Verdict::Inconclusive | Verdict::Unverified => self.styles.unknown,
            Verdict::Problem | Verdict::WrongTarget | Verdict::Partial | Verdict::Error => self.styles.bad,
        };
        let problems = || {
            let mut parts = vec![count(summary.error, "problem", "problems")];
            if summary.warning > 0 {
                parts.push(count(summary.warning, "warning", "warnings"));
            }
            parts.join(", ")
        };
        let said = report.result.as_ref().map(|result| result.message.as_str()).unwrap_or_default();
        let words = match report.verdict {
            Verdict::OK => "OK".to_owned(),
            Verdict::Warning => format!("OK, {}", count(summary.warning, "warning", "warnings")),
            Verdict::Problem => problems(),
            Verdict::Inconclusive => {
                format!("INCONCLUSIVE, {} could not be judged", count(summary.unknown, "check", "checks"))
            }
            Verdict::WrongTarget if report.findings.iter().any(|finding| finding.code == NO_SUCH_TARGET.code) => {
                "NO SUCH TARGET".to_owned()
            }
            Verdict::WrongTarget => "WRONG CLUSTER".to_owned(),
            Verdict::Fixed => "FIXED and verified".to_owned(),
            Verdict::NothingToDo => "NOTHING TO DO".to_owned(),
            Verdict::DryRun => "DRY RUN, nothing was changed".to_owned(),
            Verdict::Refused => "REFUSED, nothing was changed".to_owned(),
            Verdict::Unverified if report.result.as_ref().is_some_and(|result| result.stuck.is_some()) => {
                "APPLIED, but it STANDS STILL".to_owned()
            }
            Verdict::Unverified => "APPLIED but NOT VERIFIED in time".to_owned(),
            Verdict::Partial => "PARTLY APPLIED, then stopped".to_owned(),
            Verdict::Error => "ERROR".to_owned(),
            Verdict::Interrupted => "INTERRUPTED, nothing was changed".to_owned(),
        };
        let optional = report.not_run.iter().filter(|item| !item.required).count();
        let mut tail = String::new();
        if optional > 0 && matches!(report.verdict, Verdict::OK | Verdict::Warning | Verdict::Problem) {
            let _ = write!(tail, ", {} not made", count(optional, "optional read", "optional reads"));
        }
        if !said.is_empty() {
            let _ = write!(tail, ": {}", escape(said));
        }
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
        let end = if tail.ends_with(['.', '!', '?']) { "" } else { "." };
        let _ = writeln!(self.text, "Result: {}{tail}{end}  Exit {}.", style.style(words), report.exit_code);
        debug_assert!(Exit::ALL.iter().any(|exit| exit.code() == report.exit_code));
    }
}

pub(super) fn plan(plan: &PlanReport, target: &str, styles: &Styles, width: usize) -> String {
    let mut out = Page { text: String::new(), styles, width };
    let _ = writeln!(
        out.text,
        "{} for {}   {}",
        styles.strong.style(format_args!("Plan {}", plan.digest)),
        escape(target),
        plan.reversibility.text()
    );
    for (number, action) in plan.plan.actions.iter().enumerate() {
        let _ = writeln!(
            out.text,
            "  {} {:<7} {}   ({})",
            number + 1,
            action.verb(),
            styles.strong.style(escape(&action.object.to_string())),
            action.reversibility.text()
        );
        out.row(12, "why", &action.why);
        if let Some(wait) = &action.wait {
            let patience = human(Duration::from_secs(wait.seconds.into()));
            out.row(12, "wait", &format!("until {}, at most {patience}", wait.text));
        }
        for change in &action.changes {
            out.row(12, "change", &format!("{}: {} => {}", change.field, change.before, change.after));
        }
        if !action.facts.is_empty() {
            let fields: Vec<String> =
                action.facts.iter().map(|fact| fact.pointer.trim_start_matches('/').replace('/', ".")).collect();
            // What is waited for changes the object: its facts are about the state in which it is then.
            let when = if action.wait.is_some() { "by then as foreseen" } else { "unchanged until the write" };
            out.row(12, "only if", &format!("same object, and {when}: {}", fields.join(", ")));
        }
        for dependent in &action.dependents {
            let label = if dependent.goes { "goes too" } else { "backed up" };
            out.row(12, label, &dependent.object.to_string());
        }
        for leaves in &action.leaves {
            out.row(12, "note", leaves);
        }
    }
    out.row(2, "then", &plan.plan.then);
    if let Some(backup) = &plan.backup {
        // Not wrapped: a path is copied as one word.
        let _ = writeln!(out.text, "  {} {}", styles.dim.style("backup    "), escape(backup));
    }
    if !plan.checked.is_empty() {
        out.row(2, "checked", &plan.checked.join(", "));
    }
    out.text
}

/// Breaks text at spaces so that no line is wider than `room` columns, unless a single word is.
fn wrap(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ') {
        let columns = unicode_width::UnicodeWidthStr::width(word);
        let current = lines.len() - 1;
        if used > 0 && used + 1 + columns > room {
            lines.push(word.to_owned());
            used = columns;
        } else {
            if used > 0 || !lines[current].is_empty() {
                lines[current].push(' ');
                used += 1;
            }
            lines[current].push_str(word);
            used += columns;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_at_spaces_by_columns() {
        assert_eq!(wrap("a bb ccc dddd", 6), ["a bb", "ccc", "dddd"]);
        assert_eq!(wrap("toolongforit x", 4), ["toolongforit", "x"]);
        assert_eq!(wrap("叢集 未連線", 5), ["叢集", "未連線"]);
        assert_eq!(wrap("", 5), [""]);
    }
}
