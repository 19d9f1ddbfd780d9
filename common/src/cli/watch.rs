//! `watch`: look again on every change that counts and every so often, and print what changed.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use serde_json::{Value, json};

use super::flags::{Until, WatchArgs};
use super::interrupt::Interrupt;
use super::session::{Failure, Live, Session};
use crate::doctor::Doctor;
use crate::exit::Exit;
use crate::finding::Diagnosis;
use crate::kube::path::{resource_path, with_query};
use crate::report::{API_VERSION, Verdict, judge};
use crate::snapshot::Want;
use crate::text::escape;
use crate::time::{Timestamp, rfc3339};

/// What is known of one finding from look to look: the object and code are its identity.
type Known = BTreeMap<(String, &'static str), (crate::finding::Severity, String)>;

pub(super) async fn run<D: Doctor>(session: &Session<D>, args: WatchArgs<D::Question>) -> Result<Exit, Failure> {
    let question = session.question(args.question);
    let interrupt = Interrupt::listen();
    let live = session.connect_for(&question)?;
    let started = Instant::now();
    let mut known = Known::new();
    let mut verdict: Option<Verdict> = None;
    let mut last;
    loop {
        let looked = tokio::select! {
            biased;
            () = interrupt.pressed() => return Ok(Exit::Interrupted),
            looked = session.examine(&live, &question) => looked,
        };
        match looked {
            Ok((snapshot, diagnosis)) => {
                let (now, exit) = judge(&diagnosis, args.fail_on);
                last = exit;
                let found = findings(&diagnosis);
                for event in transitions(&known, &found) {
                    print(session, snapshot.as_of, &event);
                }
                if verdict != Some(now) {
                    let event = Event {
                        change: "verdict",
                        code: None,
                        subject: None,
                        severity: None,
                        text: format!("{now:?}"),
                    };
                    print(session, snapshot.as_of, &event);
                }
                known = found;
                verdict = Some(now);
                let reached = match args.until {
                    Some(Until::Ok) => super::check::settled(session, &diagnosis),
                    Some(Until::Problem) => matches!(now, Verdict::Problem | Verdict::WrongTarget),
                    None => false,
                };
                if reached || diagnosis.wrong_target {
                    return Ok(exit);
                }
            }
            Err(failure) => {
                // Told once; a server that comes back is a transition too.
                last = failure.exit;
                if verdict != Some(Verdict::Error) {
                    let event = Event {
                        change: "verdict",
                        code: None,
                        subject: None,
                        severity: None,
                        text: format!("Error: {}", failure.message),
                    };
                    print(session, live.collector.now(), &event);
                }
                verdict = Some(Verdict::Error);
            }
        }
        let left = args.timeout.map(|timeout| timeout.saturating_sub(started.elapsed()));
        if left == Some(Duration::ZERO) {
            return Ok(last);
        }
        let pause = left.map_or(args.interval, |left| left.min(args.interval));
        tokio::select! {
            biased;
            () = interrupt.pressed() => return Ok(if args.until.is_some() { Exit::Interrupted } else { last }),
            () = changed(session, &live, &question) => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Something that is different from the last look.
struct Event {
    change: &'static str,
    code: Option<&'static str>,
    subject: Option<String>,
    severity: Option<crate::finding::Severity>,
    text: String,
}

fn findings(diagnosis: &Diagnosis) -> Known {
    diagnosis
        .findings
        .iter()
        .map(|finding| ((finding.subject.to_string(), finding.rule.code), (finding.severity, finding.message.clone())))
        .collect()
}

/// Messages hold ages and counts that change with every look; only a finding that appears, goes or changes its severity
/// is news.
fn transitions(before: &Known, now: &Known) -> Vec<Event> {
    let event = |change,
                 (subject, code): &(String, &'static str),
                 (severity, text): &(crate::finding::Severity, String)| Event {
        change,
        code: Some(code),
        subject: Some(subject.clone()),
        severity: Some(*severity),
        text: text.clone(),
    };
    let gone = before.iter().filter(|(key, _)| !now.contains_key(*key)).map(|(key, value)| event("gone", key, value));
    let new = now.iter().filter_map(|(key, value)| match before.get(key) {
        None => Some(event("appeared", key, value)),
        Some(old) if old.0 != value.0 => Some(event("changed", key, value)),
        Some(_) => None,
    });
    gone.chain(new).collect()
}

fn print<D: Doctor>(session: &Session<D>, at: Timestamp, event: &Event) {
    if session.output.machine() {
        let mut document = json!({
            "apiVersion": API_VERSION, "kind": "Transition", "at": rfc3339(at), "change": event.change, "message": event.text,
        });
        if let Some(code) = event.code {
            document["code"] = json!(code);
            document["severity"] = json!(event.severity);
            document["subject"] = json!(event.subject);
        }
        session.ui.out(&format!("{document}\n"));
        return;
    }
    let code = event.code.map(|code| format!("{code} ")).unwrap_or_default();
    session.ui.out(&format!("{}  {:<8} {code}{}\n", rfc3339(at), event.change, escape(&event.text)));
}

/// Resolves when the watched object has changed in a field that counts; never, when it cannot be watched.
async fn changed<D: Doctor>(session: &Session<D>, live: &Live, question: &D::Question) {
    if let Some((Want::Get { resource, namespace, name }, pointers)) = session.doctor.watched(question) {
        let path =
            resource_path(&resource.group, &resource.version, &resource.plural, namespace.as_deref(), None, None);
        let selector = format!("metadata.name={name}");
        let path = with_query(&path, &[("watch", "true"), ("fieldSelector", &selector), ("timeoutSeconds", "300")]);
        if let Ok(stream) = live.collector.api().watch(&path).await {
            let mut stream = pin!(stream);
            let mut first: Option<Vec<Value>> = None;
            while let Some(Ok(event)) = stream.next().await {
                let deleted = event["type"] == "DELETED";
                let now: Vec<Value> = pointers
                    .iter()
                    .map(|pointer| event["object"].pointer(pointer).cloned().unwrap_or_default())
                    .collect();
                // The first event is the state we have just looked at.
                if deleted || first.as_ref().is_some_and(|first| *first != now) {
                    return;
                }
                first = Some(now);
            }
        }
    }
    std::future::pending::<()>().await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;

    #[test]
    fn only_news_is_told() {
        let known = |items: &[(&str, &'static str, Severity, &str)]| -> Known {
            items
                .iter()
                .map(|(subject, code, severity, text)| {
                    (((*subject).to_owned(), *code), (*severity, (*text).to_owned()))
                })
                .collect()
        };
        let before = known(&[
            ("a", "X1", Severity::Error, "41m ago"),
            ("b", "X2", Severity::Info, ""),
            ("c", "X3", Severity::Info, ""),
        ]);
        let now = known(&[
            ("a", "X1", Severity::Error, "42m ago"),
            ("b", "X2", Severity::Warning, ""),
            ("d", "X1", Severity::Error, ""),
        ]);
        let events: Vec<_> =
            transitions(&before, &now).into_iter().map(|e| (e.change, e.subject.unwrap_or_default())).collect();
        assert_eq!(events, [("gone", "c".to_owned()), ("changed", "b".to_owned()), ("appeared", "d".to_owned())]);
    }
}
