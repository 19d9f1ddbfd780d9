//! Findings: what is wrong, how it is known, and what follows from it.

pub mod access;
mod inventory;
mod rule;

pub use inventory::{Column, Inventory, Row};
pub use rule::{Rule, Severity, shared};

use serde::{Deserialize, Serialize};

use crate::resource::ObjectRef;
use crate::time::Timestamp;

/// One observed fact: which object, which field, which value, and how and when it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// Short name, shown as a column: `holder`, `renewTime`, `candidates`.
    pub label: String,
    /// What was observed.
    pub value: String,
    /// Where: object and field, a log line's origin, or a comparison of two looks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// When it was read, on the API server's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

impl Evidence {
    /// A fact without a place of its own.
    #[must_use]
    pub fn new(label: &str, value: impl Into<String>) -> Self {
        Self { label: label.to_owned(), value: value.into(), source: None, at: None }
    }

    /// Says where it was read.
    #[must_use]
    pub fn from(mut self, source: impl Into<String>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Says when it was read.
    #[must_use]
    pub fn at(mut self, time: Timestamp) -> Self {
        self.at = Some(time);
        self
    }
}

/// What the user should do next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Remediation {
    /// One sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The next command, word by word, without the connection flags: those are added when it is shown. A word `SELF`
    /// at the front stands for the way this plugin was called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub argv: Vec<String>,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule it follows from.
    pub rule: &'static Rule,
    /// How bad it is here; normally the rule's own severity.
    pub severity: Severity,
    /// The check it belongs to: a short word that starts its line, for instance `lease`.
    pub check: &'static str,
    /// The object it is about.
    pub subject: ObjectRef,
    /// One sentence with the values in it.
    pub message: String,
    /// How it is known.
    pub evidence: Vec<Evidence>,
    /// Codes of the findings that explain this one; it is then reported below them.
    pub caused_by: Vec<&'static str>,
    /// Whether `fix` can repair it as it stands.
    pub fixable: bool,
    /// What to do.
    pub remediation: Option<Remediation>,
}

impl Finding {
    /// A finding with its rule's severity and nothing else known.
    #[must_use]
    pub fn new(rule: &'static Rule, check: &'static str, subject: ObjectRef, message: impl Into<String>) -> Self {
        Self {
            rule,
            severity: rule.severity,
            check,
            subject,
            message: message.into(),
            evidence: Vec::new(),
            caused_by: Vec::new(),
            fixable: false,
            remediation: None,
        }
    }

    /// Adds evidence.
    #[must_use]
    pub fn evidence(mut self, evidence: impl IntoIterator<Item = Evidence>) -> Self {
        self.evidence.extend(evidence);
        self
    }

    /// Says which finding explains this one.
    #[must_use]
    pub fn caused_by(mut self, rule: &'static Rule) -> Self {
        self.caused_by.push(rule.code);
        self
    }

    /// Says that `fix` repairs it.
    #[must_use]
    pub fn fixable(mut self) -> Self {
        self.fixable = true;
        self
    }

    /// Overrides the severity.
    #[must_use]
    pub fn severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    /// Says what to do, in words only.
    #[must_use]
    pub fn advice(mut self, text: impl Into<String>) -> Self {
        self.remediation.get_or_insert_default().text = text.into();
        self
    }

    /// Says which command to run next.
    #[must_use]
    pub fn next_command<S: Into<String>>(mut self, argv: impl IntoIterator<Item = S>) -> Self {
        self.remediation.get_or_insert_default().argv = argv.into_iter().map(Into::into).collect();
        self
    }
}

/// A check that found nothing wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passed {
    /// The short word that starts its line.
    pub check: String,
    /// One sentence with the values in it.
    pub message: String,
    /// More, one fact a line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
}

/// A check that was not made, though nothing failed: it has no meaning while an earlier one fails, or was not asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotJudged {
    /// The short word that starts its line.
    pub check: String,
    /// Why, for instance `waits for lease`.
    pub reason: String,
}

/// The result of looking at a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnosis {
    /// What is in order, in the order of looking.
    pub passed: Vec<Passed>,
    /// What is not, causes before consequences.
    pub findings: Vec<Finding>,
    /// What was not judged.
    pub not_judged: Vec<NotJudged>,
    /// Set when this is not the kind of cluster the plugin is for, or its target does not exist: exit code 2.
    pub wrong_target: bool,
    /// Rancher's version, if known, for the first line and the report.
    pub rancher_version: Option<String>,
    /// Rancher server replicas, if known.
    pub rancher_replicas: Option<usize>,
    /// UID of the namespace kube-system: the identity of the cluster, under which backups are kept.
    pub cluster_uid: Option<String>,
    /// The objects that were looked at, as a table.
    pub inventory: Option<Inventory>,
}

impl Diagnosis {
    /// Records a check that found nothing wrong.
    pub fn pass(&mut self, check: &str, message: impl Into<String>) {
        self.passed.push(Passed { check: check.to_owned(), message: message.into(), evidence: Vec::new() });
    }

    /// Records a check that has no meaning now.
    pub fn skip(&mut self, check: &str, reason: impl Into<String>) {
        self.not_judged.push(NotJudged { check: check.to_owned(), reason: reason.into() });
    }

    /// The findings that follow from a rule.
    pub fn of<'a>(&'a self, rule: &'a Rule) -> impl Iterator<Item = &'a Finding> {
        self.findings.iter().filter(move |finding| finding.rule.code == rule.code)
    }

    /// Puts causes before consequences, keeping the order otherwise: a finding comes after every finding of the codes
    /// in its `caused_by`. Circular claims keep the order in which they were made.
    pub fn order(&mut self) {
        let mut rest = std::mem::take(&mut self.findings);
        while !rest.is_empty() {
            let next = rest
                .iter()
                .position(|finding| {
                    !rest
                        .iter()
                        .any(|other| !std::ptr::eq(other, finding) && finding.caused_by.contains(&other.rule.code))
                })
                .unwrap_or(0);
            self.findings.push(rest.remove(next));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static CAUSE: Rule = Rule::new("XX001", "Cause", Severity::Error, "", "");
    static EFFECT: Rule = Rule::new("XX002", "Effect", Severity::Error, "", "");

    fn finding(rule: &'static Rule) -> Finding {
        let subject =
            ObjectRef { group: String::new(), kind: "Pod".into(), namespace: None, name: "p".into(), uid: None };
        Finding::new(rule, "check", subject, "m")
    }

    #[test]
    fn causes_come_first() {
        let mut diagnosis =
            Diagnosis { findings: vec![finding(&EFFECT).caused_by(&CAUSE), finding(&CAUSE)], ..Diagnosis::default() };
        diagnosis.order();
        let codes: Vec<_> = diagnosis.findings.iter().map(|f| f.rule.code).collect();
        assert_eq!(codes, ["XX001", "XX002"]);
    }

    #[test]
    fn circular_claims_end() {
        let mut diagnosis = Diagnosis {
            findings: vec![finding(&EFFECT).caused_by(&CAUSE), finding(&CAUSE).caused_by(&EFFECT)],
            ..Diagnosis::default()
        };
        diagnosis.order();
        assert_eq!(diagnosis.findings.len(), 2);
    }
}
