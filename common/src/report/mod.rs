//! What a run has to say, as one value: text, wide, JSON, YAML and names are all renderings of it, so that they cannot
//! disagree, the exit code included.

mod inventory;
mod text;

use serde::Serialize;

use crate::doctor::About;
use crate::exit::Exit;
use crate::finding::{Diagnosis, Evidence, Finding, Inventory, NotJudged, Passed, Severity};
use crate::plan::Plan;
use crate::resource::ObjectRef;
use crate::snapshot::{Right, Snapshot};
use crate::text::escape;
use crate::time::Timestamp;
use crate::ui::Ui;

/// Marks the format of the JSON.
pub const API_VERSION: &str = "kubectl-rancher/v1alpha1";

/// `-o`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    /// One line per check, evidence below.
    #[default]
    Table,
    /// The same with the source and time of each piece of evidence, and what was skipped.
    Wide,
    /// One JSON document.
    Json,
    /// The same as YAML.
    Yaml,
    /// The objects with findings, one a line, as `kubectl -o name` prints them.
    Name,
}

impl Output {
    /// Whether a program reads it.
    #[must_use]
    pub fn machine(self) -> bool {
        matches!(self, Self::Json | Self::Yaml | Self::Name)
    }
}

/// `--fail-on`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum FailOn {
    /// Errors end with 3.
    #[default]
    Error,
    /// Errors end with 3, warnings with 4.
    Warning,
    /// Findings never fail the run; what could not be read still does (5).
    Never,
}

/// The result in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Verdict {
    /// Nothing wrong.
    OK,
    /// Warnings only.
    Warning,
    /// Something is broken.
    Problem,
    /// A required read failed and no problem was proven.
    Inconclusive,
    /// Not the cluster this is for.
    WrongTarget,
    /// Repaired, and the symptom is gone.
    Fixed,
    /// `fix` found nothing to do.
    NothingToDo,
    /// A dry run showed the plan.
    DryRun,
    /// `fix` declined, or was declined; nothing was changed.
    Refused,
    /// Applied, symptom not gone in time.
    Unverified,
    /// Stopped half-way.
    Partial,
    /// Could not run.
    Error,
    /// Stopped by the user before any write.
    Interrupted,
}

/// See [`API_VERSION`]; the schema is `docs/report.schema.json`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    api_version: &'static str,
    kind: &'static str,
    /// Which plugin, which version.
    pub tool: Tool,
    /// `live`, or the path of a snapshot.
    pub source: String,
    /// The moment the verdict is for, on the API server's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub as_of: Option<Timestamp>,
    /// Where it looked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetInfo>,
    /// The result in one word.
    pub verdict: Verdict,
    /// The process's exit code.
    pub exit_code: u8,
    /// Whether this run changed anything.
    pub changed: bool,
    /// How many of each.
    pub summary: Summary,
    /// The objects that were looked at.
    #[serde(rename = "items", skip_serializing_if = "Option::is_none", serialize_with = "inventory::items")]
    pub inventory: Option<Inventory>,
    /// Checks that found nothing wrong.
    pub checks: Vec<Passed>,
    /// What is wrong, causes first.
    pub findings: Vec<FindingReport>,
    /// Checks without meaning now.
    pub not_judged: Vec<NotJudged>,
    /// What could not be read.
    pub not_run: Vec<NotRun>,
    /// The repair that was planned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanReport>,
    /// What came of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Outcome>,
    /// Why the run could not do its work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorReport>,
    /// Whether diagnosis and plan stand on the screen already, above the question that was asked: then the closing
    /// text does not repeat them.
    #[serde(skip)]
    pub shown: bool,
    /// Whether the inventory is the answer to a question of the plugin's own, so that its objects are what `-o name`
    /// prints when there is nothing to find fault with.
    #[serde(skip)]
    pub answers: bool,
}

/// See [`Report::tool`].
#[derive(Clone, Debug, Serialize)]
pub struct Tool {
    /// `rancher-lease`.
    pub name: String,
    /// Version.
    pub version: String,
}

/// See [`Report::target`].
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetInfo {
    /// kubeconfig context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// URL of the API server.
    pub server: String,
    /// UID of the namespace kube-system.
    #[serde(rename = "clusterUID", skip_serializing_if = "Option::is_none")]
    pub cluster_uid: Option<String>,
    /// Rancher's version and replicas, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rancher: Option<RancherInfo>,
    /// Whether the connection passes through Rancher itself.
    pub via_rancher_proxy: bool,
    /// Seconds the API server's clock is ahead of ours.
    pub clock_skew_seconds: i64,
}

/// See [`TargetInfo::rancher`].
#[derive(Clone, Debug, Serialize)]
pub struct RancherInfo {
    /// `v2.13.2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Replicas the Deployment wants.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<usize>,
}

/// See [`Report::summary`].
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Checks that found nothing wrong.
    pub ok: usize,
    /// Findings of severity info.
    pub info: usize,
    /// Findings of severity warning.
    pub warning: usize,
    /// Findings of severity error.
    pub error: usize,
    /// Findings of severity unknown.
    pub unknown: usize,
    /// Reads that failed, required or not.
    pub not_run: usize,
}

/// See [`Report::findings`].
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FindingReport {
    /// `RL101`.
    pub code: &'static str,
    /// `HolderGone`.
    pub name: &'static str,
    /// How bad.
    pub severity: Severity,
    /// The short word that starts its line.
    pub check: &'static str,
    /// The object it is about.
    pub subject: ObjectRef,
    /// One sentence.
    pub message: String,
    /// How it is known.
    pub evidence: Vec<Evidence>,
    /// Codes that explain it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub caused_by: Vec<&'static str>,
    /// Whether `fix` repairs it.
    pub fixable: bool,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remediation: Option<RemediationReport>,
}

/// See [`FindingReport::remediation`].
#[derive(Clone, Debug, Serialize)]
pub struct RemediationReport {
    /// One sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The next command, ready to run, connection flags included.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub argv: Vec<String>,
}

/// See [`Report::not_run`].
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NotRun {
    /// What was to be read.
    pub what: String,
    /// What for.
    pub why: String,
    /// Whether the verdict depends on it.
    pub required: bool,
    /// `Forbidden`, `Timeout` …
    pub reason: String,
    /// One line.
    pub message: String,
    /// The right that is missing, when that is the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<Right>,
}

/// See [`Report::plan`].
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanReport {
    /// 12 hex digits for `--confirm`.
    pub digest: String,
    /// The least reversible of its actions.
    pub reversibility: crate::plan::Reversibility,
    /// Where the backup goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup: Option<String>,
    /// What was checked before asking.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checked: Vec<String>,
    /// The plan.
    #[serde(flatten)]
    pub plan: Plan,
}

/// See [`Report::result`].
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// Writes made.
    pub applied: usize,
    /// Writes planned.
    pub of: usize,
    /// Whether the symptom was seen to be gone.
    pub verified: bool,
    /// One sentence.
    pub message: String,
    /// What to do next, one sentence or command a line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub next: Vec<String>,
    /// Directory of the backup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup: Option<String>,
    /// The command that puts back what was done last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo: Option<Vec<String>>,
    /// Where things stand still although what was done has taken effect: going on needs another decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stuck: Option<String>,
}

/// See [`Report::error`].
#[derive(Clone, Debug, Serialize)]
pub struct ErrorReport {
    /// One line; holds no secret.
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// How this plugin was called, to offer commands that work when copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invocation {
    /// `["kubectl", "rancher-lease"]`, or the file's own name.
    pub words: Vec<String>,
    /// Connection flags as given, without secrets.
    pub connection: Vec<String>,
}

impl Invocation {
    /// A command line for this plugin.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Vec<String> {
        self.words
            .iter()
            .cloned()
            .chain(arguments.iter().map(|word| (*word).to_owned()))
            .chain(self.connection.iter().cloned())
            .collect()
    }

    /// Fills in the way we were called for a leading `SELF`; other plugins of the suite (`kubectl rancher-agent …`) get
    /// the connection flags too.
    fn complete(&self, argv: &[String]) -> Vec<String> {
        match argv.split_first() {
            Some((first, rest)) if first == "SELF" => {
                self.command(&rest.iter().map(String::as_str).collect::<Vec<_>>())
            }
            Some(_) => argv.iter().chain(&self.connection).cloned().collect(),
            None => Vec::new(),
        }
    }
}

impl Report {
    /// The report of a diagnosis. `source` is `live` or the path of a snapshot.
    #[must_use]
    pub fn of(
        about: &About,
        invocation: &Invocation,
        source: &str,
        snapshot: &Snapshot,
        diagnosis: &Diagnosis,
        fail_on: FailOn,
    ) -> Self {
        let not_run: Vec<NotRun> = snapshot
            .failures()
            .map(|(reading, failure)| NotRun {
                what: if reading.place.is_here() {
                    reading.want.to_string()
                } else {
                    format!("{} of {}", reading.want, reading.place)
                },
                why: reading.why.clone(),
                required: reading.required,
                reason: failure.kind.clone(),
                message: failure.message.clone(),
                missing: (failure.kind == "Forbidden").then(|| reading.want.right()),
            })
            .collect();
        let (verdict, exit) = judge(diagnosis, fail_on);
        let mut report = Self {
            source: source.to_owned(),
            as_of: Some(snapshot.as_of),
            target: Some(TargetInfo {
                context: snapshot.origin.context.clone(),
                server: snapshot.origin.server.clone(),
                cluster_uid: diagnosis.cluster_uid.clone(),
                rancher: (diagnosis.rancher_version.is_some() || diagnosis.rancher_replicas.is_some()).then(|| {
                    RancherInfo { version: diagnosis.rancher_version.clone(), replicas: diagnosis.rancher_replicas }
                }),
                via_rancher_proxy: snapshot.origin.rancher_proxy.is_some(),
                clock_skew_seconds: snapshot.origin.clock_skew_seconds,
            }),
            inventory: diagnosis.inventory.clone(),
            checks: diagnosis.passed.clone(),
            findings: diagnosis.findings.iter().map(|finding| FindingReport::of(finding, invocation)).collect(),
            not_judged: diagnosis.not_judged.clone(),
            not_run,
            ..Self::empty(about)
        };
        report.summary = report.count();
        report.conclude(verdict, exit);
        report
    }

    /// The report of a run that could not do its work.
    #[must_use]
    pub fn failure(about: &About, exit: Exit, message: &str, hint: Option<&str>) -> Self {
        let mut report = Self {
            error: Some(ErrorReport { message: message.to_owned(), hint: hint.map(str::to_owned) }),
            ..Self::empty(about)
        };
        report.conclude(Verdict::Error, exit);
        report
    }

    fn empty(about: &About) -> Self {
        Self {
            api_version: API_VERSION,
            kind: "Report",
            tool: Tool { name: about.name.to_owned(), version: about.version.to_owned() },
            source: "live".to_owned(),
            as_of: None,
            target: None,
            verdict: Verdict::Error,
            exit_code: Exit::CouldNotRun.code(),
            changed: false,
            summary: Summary::default(),
            inventory: None,
            checks: Vec::new(),
            findings: Vec::new(),
            not_judged: Vec::new(),
            not_run: Vec::new(),
            plan: None,
            result: None,
            error: None,
            shown: false,
            answers: false,
        }
    }

    /// Sets the verdict and the exit code, which always go together.
    pub fn conclude(&mut self, verdict: Verdict, exit: Exit) {
        self.verdict = verdict;
        self.exit_code = exit.code();
        self.changed = matches!(verdict, Verdict::Fixed | Verdict::Unverified | Verdict::Partial);
    }

    fn count(&self) -> Summary {
        let severity = |wanted| self.findings.iter().filter(|finding| finding.severity == wanted).count();
        Summary {
            ok: self.checks.len(),
            info: severity(Severity::Info),
            warning: severity(Severity::Warning),
            error: severity(Severity::Error),
            unknown: severity(Severity::Unknown),
            not_run: self.not_run.len(),
        }
    }

    /// Renders and writes to stdout.
    pub fn print(&self, ui: &Ui, output: Output) {
        ui.out(&self.render(output, ui.styles(), ui.width()));
    }

    /// Diagnosis and plan as text, without the verdict: what stands above a question.
    #[must_use]
    pub fn render_body(&self, output: Output, styles: &crate::ui::Styles, width: usize) -> String {
        text::body(self, styles, width, output == Output::Wide)
    }

    /// Renders, ending in a newline unless empty.
    #[must_use]
    pub fn render(&self, output: Output, styles: &crate::ui::Styles, width: usize) -> String {
        match output {
            Output::Table => text::report(self, styles, width, false),
            Output::Wide => text::report(self, styles, width, true),
            Output::Json => {
                // Serialising plain data cannot fail; the fallback keeps «one valid document» even so.
                serde_json::to_string_pretty(self).unwrap_or_else(|_| "{}".to_owned()) + "\n"
            }
            Output::Yaml => crate::yaml::write(self).unwrap_or_else(|_| "{}\n".to_owned()),
            Output::Name => {
                let mut names: Vec<String> = self
                    .objects()
                    .into_iter()
                    // `*` stands for a list of objects: no command takes it as a name.
                    .filter(|object| object.name != "*")
                    .map(|object| escape(&object.kubectl_name()).into_owned())
                    .collect();
                let mut seen = std::collections::BTreeSet::new();
                names.retain(|name| seen.insert(name.clone()));
                names.iter().map(|name| format!("{name}\n")).collect()
            }
        }
    }

    /// What `-o name` is about: the objects with findings, or, for an answer without any, those it consists of.
    fn objects(&self) -> Vec<&ObjectRef> {
        let found = self.findings.iter().filter(|finding| finding.severity > Severity::Info);
        let found: Vec<&ObjectRef> = found.map(|finding| &finding.subject).collect();
        if !found.is_empty() || !self.answers {
            return found;
        }
        self.inventory.iter().flat_map(|inventory| &inventory.rows).map(|row| &row.object).collect()
    }
}

impl FindingReport {
    fn of(finding: &Finding, invocation: &Invocation) -> Self {
        Self {
            code: finding.rule.code,
            name: finding.rule.name,
            severity: finding.severity,
            check: finding.check,
            subject: finding.subject.clone(),
            message: finding.message.clone(),
            evidence: finding.evidence.clone(),
            caused_by: finding.caused_by.clone(),
            fixable: finding.fixable,
            remediation: finding.remediation.as_ref().map(|remediation| RemediationReport {
                text: remediation.text.clone(),
                argv: invocation.complete(&remediation.argv),
            }),
        }
    }
}

/// The verdict of a diagnosis. Precedence: wrong target, problem, inconclusive, warnings, ok.
#[must_use]
pub fn judge(diagnosis: &Diagnosis, fail_on: FailOn) -> (Verdict, Exit) {
    let has = |severity| diagnosis.findings.iter().any(|finding| finding.severity == severity);
    if diagnosis.wrong_target {
        (Verdict::WrongTarget, Exit::Usage)
    } else if has(Severity::Error) {
        (Verdict::Problem, if fail_on == FailOn::Never { Exit::Ok } else { Exit::Problem })
    } else if has(Severity::Unknown) {
        (Verdict::Inconclusive, Exit::Inconclusive)
    } else if has(Severity::Warning) {
        (Verdict::Warning, if fail_on == FailOn::Warning { Exit::Warnings } else { Exit::Ok })
    } else {
        (Verdict::OK, Exit::Ok)
    }
}

/// A plan as text, for the prompt and the report.
#[must_use]
pub fn plan_text(plan: &PlanReport, target: &str, styles: &crate::ui::Styles, width: usize) -> String {
    text::plan(plan, target, styles, width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::shared::CANNOT_READ;
    use crate::finding::{Column, Row, Rule};
    use crate::kinds::{LEASES, PODS};
    use crate::plan::{Await, Dependent, Until};
    use crate::snapshot::{Content, Failure, Form, Origin, Place, Reading, Want};
    use crate::ui::Styles;
    use serde_json::json;

    static BROKEN: Rule = Rule::new("RL101", "HolderGone", Severity::Error, "", "");
    const ABOUT: About =
        About { name: "rancher-lease", question: "?", version: "0.0.0", rules: &[&BROKEN], after_help: "" };

    fn snapshot() -> Snapshot {
        let at = "2026-08-22T09:55:02Z".parse().expect("a time");
        let origin = Origin {
            context: Some("prod\u{1b}[31m".into()),
            server: "https://192.0.2.1:6443".into(),
            ..Origin::default()
        };
        let mut snapshot = Snapshot::new(origin, at);
        snapshot.readings.push(Reading {
            want: Want::list(PODS, Some("cattle-system"), Form::Full),
            place: Place::Here,
            at,
            required: false,
            why: "logs".into(),
            content: Content::Failed(Failure {
                kind: "Forbidden".into(),
                code: Some(403),
                message: "no".into(),
                hint: None,
            }),
        });
        snapshot
    }

    fn report(diagnosis: &Diagnosis, fail_on: FailOn) -> Report {
        let invocation = Invocation {
            words: vec!["kubectl".into(), "rancher-lease".into()],
            connection: vec!["--context".into(), "a b".into()],
        };
        Report::of(&ABOUT, &invocation, "live", &snapshot(), diagnosis, fail_on)
    }

    fn finding(severity: Severity) -> Finding {
        let lease = json!({"metadata": {"name": "cattle-controllers", "namespace": "kube-system", "uid": "u"}});
        let rule = if severity == Severity::Unknown { &CANNOT_READ } else { &BROKEN };
        Finding::new(rule, "lease", ObjectRef::of(&LEASES, &lease), "held by a\u{1b}[2J pod that is gone")
            .severity(severity)
            .evidence([Evidence::new("holder", "x\ny").from("spec.holderIdentity").at(snapshot().as_of)])
            .next_command(["SELF", "fix"])
            .fixable()
    }

    #[test]
    fn verdict_and_exit_code_follow_the_worst_finding() {
        use FailOn::{Error, Never, Warning};
        use Severity as S;
        let cases: [(&[S], FailOn, Verdict, u8); 9] = [
            (&[], Error, Verdict::OK, 0),
            (&[S::Info], Warning, Verdict::OK, 0),
            (&[S::Warning], Error, Verdict::Warning, 0),
            (&[S::Warning], Warning, Verdict::Warning, 4),
            (&[S::Unknown], Error, Verdict::Inconclusive, 5),
            (&[S::Unknown, S::Warning], Never, Verdict::Inconclusive, 5),
            (&[S::Unknown, S::Error], Error, Verdict::Problem, 3),
            (&[S::Error], Warning, Verdict::Problem, 3),
            (&[S::Error], Never, Verdict::Problem, 0),
        ];
        for (severities, fail_on, verdict, exit) in cases {
            let diagnosis =
                Diagnosis { findings: severities.iter().map(|s| finding(*s)).collect(), ..Diagnosis::default() };
            let report = report(&diagnosis, fail_on);
            assert_eq!((report.verdict, report.exit_code), (verdict, exit), "{severities:?} {fail_on:?}");
        }
        let wrong = Diagnosis { wrong_target: true, findings: vec![finding(S::Error)], ..Diagnosis::default() };
        assert_eq!(report(&wrong, Never).exit_code, 2);
    }

    #[test]
    fn every_report_is_valid_by_the_shipped_schema() {
        let schema: serde_json::Value =
            serde_json::from_str(include_str!("../../../docs/report.schema.json")).expect("JSON");
        let mut schemas = boon::Schemas::new();
        let mut compiler = boon::Compiler::new();
        compiler.add_resource("report.json", schema).expect("added");
        let index = compiler.compile("report.json", &mut schemas).expect("a schema");
        let validate = |report: &Report| {
            let value = serde_json::to_value(report).expect("JSON");
            if let Err(error) = schemas.validate(&value, index) {
                panic!("{error}\n{value:#}");
            }
        };
        let mut diagnosis = Diagnosis { findings: vec![finding(Severity::Error)], ..Diagnosis::default() };
        diagnosis.pass("replicas", "3 ready");
        diagnosis.skip("clusters", "waits for lease");
        diagnosis.rancher_version = Some("v2.13.2".into());
        diagnosis.inventory = Some(Inventory {
            columns: vec![Column { name: "NODE REF", wide: true }],
            rows: vec![Row {
                object: ObjectRef::new(&PODS, None, "a"),
                severity: Some(Severity::Warning),
                cells: vec!["x".into()],
                below: vec!["`- b".into()],
            }],
        });
        let mut full = report(&diagnosis, FailOn::Error);
        validate(&full);
        let plan = plan_with_all();
        full.plan = Some(PlanReport {
            digest: plan.digest(),
            reversibility: plan.reversibility(),
            backup: Some("/x".into()),
            checked: vec!["ok".into()],
            plan,
        });
        full.result = Some(Outcome {
            next: vec!["x".into()],
            undo: Some(vec!["x".into()]),
            stuck: Some("x".into()),
            backup: Some("/x".into()),
            ..Outcome::default()
        });
        full.conclude(Verdict::Fixed, Exit::Ok);
        validate(&full);
        validate(&Report::failure(&ABOUT, Exit::CouldNotRun, "no", Some("hint")));
        assert!(schemas.validate(&json!({"kind": "Report"}), index).is_err(), "the schema accepts anything");
    }

    /// A plan that waits and takes companions along.
    fn plan_with_all() -> Plan {
        let mut plan = crate::plan::tests_support::delete_lease_plan();
        let object = plan.actions[0].object.clone();
        let named = |name: &str| ObjectRef { name: name.to_owned(), ..object.clone() };
        plan.actions[0].dependents = vec![
            Dependent { resource: LEASES, object: named("goes"), goes: true },
            Dependent { resource: LEASES, object: named("stays"), goes: false },
        ];
        let untils = [
            Until::Gone,
            Until::Present { pointer: "/a".into() },
            Until::Field { pointer: "/a".into(), value: json!(null) },
            Until::Condition { kind: "Drained".into(), status: "True".into() },
        ];
        for until in untils {
            let mut action = plan.actions[0].clone();
            let text = "the node\u{1b} is drained".to_owned();
            action.dependents.clear();
            action.wait = Some(Await { text, resource: LEASES, object: object.clone(), until, seconds: 120 });
            plan.actions.push(action);
        }
        plan
    }

    #[test]
    fn a_plan_says_what_it_waits_for_and_what_else_it_saves() {
        let mut plan = plan_with_all();
        plan.actions.truncate(2);
        let digest = "0123456789ab".to_owned();
        let shown = PlanReport { digest, reversibility: plan.reversibility(), backup: None, checked: Vec::new(), plan };
        insta::assert_snapshot!(plan_text(&shown, "t", &Styles::default(), 100), @r"
        Plan 0123456789ab for t   reversible
          1 delete  Lease n/l   (reversible)
                    why        w
                    only if    same object, and unchanged until the write: spec.holderIdentity
                    goes too   Lease n/goes
                    backed up  Lease n/stays
          2 delete  Lease n/l   (reversible)
                    why        w
                    wait       until the node\x1b is drained, at most 2m
                    only if    same object, and by then as foreseen: spec.holderIdentity
          then       t
        ");
    }

    #[test]
    fn text_is_escaped_and_commands_can_be_copied() {
        let diagnosis = Diagnosis { findings: vec![finding(Severity::Error)], ..Diagnosis::default() };
        for output in [Output::Table, Output::Wide, Output::Name] {
            let text = report(&diagnosis, FailOn::Error).render(output, &Styles::default(), 100);
            assert!(!text.contains('\u{1b}'), "{text}");
        }
        let text = report(&diagnosis, FailOn::Error).render(Output::Table, &Styles::default(), 100);
        insta::assert_snapshot!(text, @r"
        context prod\x1b[31m   server https://192.0.2.1:6443

        [XX] RL101 lease        held by a\x1b[2J pod that is gone
                                holder      x\ny
                                fix         kubectl rancher-lease fix --context 'a b'
        [--] RX001 not read     pods in cattle-system: no
                                needs       list pods in cattle-system

        Result: 1 problem, 1 optional read not made.  Exit 3.
        ");
    }

    #[test]
    fn names_are_those_of_kubectl() {
        let diagnosis =
            Diagnosis { findings: vec![finding(Severity::Error), finding(Severity::Error)], ..Diagnosis::default() };
        let text = report(&diagnosis, FailOn::Error).render(Output::Name, &Styles::default(), 100);
        assert_eq!(text, "lease.coordination.k8s.io/cattle-controllers\n");

        let mut unread = finding(Severity::Unknown);
        unread.subject.name = "*".to_owned();
        let diagnosis = Diagnosis { findings: vec![unread], ..Diagnosis::default() };
        assert_eq!(report(&diagnosis, FailOn::Error).render(Output::Name, &Styles::default(), 100), "");
    }

    #[test]
    fn an_answer_without_findings_names_its_objects() {
        let row = |name| Row {
            object: ObjectRef::new(&PODS, None, name),
            severity: None,
            cells: vec![name.to_owned()],
            below: Vec::new(),
        };
        let columns = vec![Column { name: "POD", wide: false }];
        let inventory = Some(Inventory { columns, rows: vec![row("a"), row("b")] });
        let names = |findings, answers| {
            let diagnosis = Diagnosis { findings, inventory: inventory.clone(), ..Diagnosis::default() };
            let mut report = report(&diagnosis, FailOn::Error);
            report.answers = answers;
            report.render(Output::Name, &Styles::default(), 100)
        };
        assert_eq!(names(vec![], true), "pod/a\npod/b\n");
        assert_eq!(names(vec![], false), "");
        assert_eq!(names(vec![finding(Severity::Info)], true), "pod/a\npod/b\n");
        assert_eq!(names(vec![finding(Severity::Error)], true), "lease.coordination.k8s.io/cattle-controllers\n");
    }

    #[test]
    fn the_inventory_stands_between_header_and_checks() {
        let object = ObjectRef::new(&PODS, None, "a");
        let row = Row { object, severity: None, cells: vec!["a".into()], below: vec!["`- b".into()] };
        let inventory = Inventory { columns: vec![Column { name: "POD", wide: false }], rows: vec![row] };
        let mut diagnosis = Diagnosis { inventory: Some(inventory), ..Diagnosis::default() };
        diagnosis.pass("replicas", "3 ready");
        let text = report(&diagnosis, FailOn::Error).render(Output::Table, &Styles::default(), 100);
        assert!(text.contains("6443\n\nPOD\na\n  `- b\n\n[OK]       replicas"), "{text}");
        diagnosis.inventory = Some(Inventory::default());
        let text = report(&diagnosis, FailOn::Error).render(Output::Table, &Styles::default(), 100);
        assert!(text.contains("6443\n\n[OK]       replicas"), "{text}");
    }
}
