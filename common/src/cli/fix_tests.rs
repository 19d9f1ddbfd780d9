//! `fix` in rounds, against a server that keeps one Lease: the first plan sets the holder, the next one deletes the Lease.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::fix::repair;
use super::flags::{ConsentFlags, DryRun, FixArgs};
use super::interrupt::Interrupt;
use super::session::{Failure, Live, Session};
use crate::doctor::{About, Doctor, NoVerbs, Prescription, Verification, Verifier};
use crate::exit::Exit;
use crate::finding::Diagnosis;
use crate::kinds::LEASES;
use crate::kube::{ConnectionFlags, stub};
use crate::plan::backup::{self, Saved};
use crate::plan::{Action, Fact, Operation, Plan, Reversibility};
use crate::report::{Output, Report, Verdict};
use crate::resource::ObjectRef;
use crate::snapshot::{Collector, Need, Origin, Right, Snapshot, Want};
use crate::ui::Ui;

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/n/leases/l";

/// How the second round goes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Second {
    /// A plan to delete the Lease.
    Delete(Reversibility),
    /// The same, and a second action that cannot be taken any more.
    DeleteTwice,
    /// No plan.
    Refuse,
    /// All is well.
    Nothing,
    /// The holder is set to something else, for ever.
    Another,
    /// The plan of the first round again.
    Same,
}

#[derive(Clone, Copy, Debug)]
struct Rounds(Second);

#[derive(Clone, Debug, Default, clap::Args)]
struct Target {
    target: Option<String>,
}

fn lease() -> Want {
    Want::Get { resource: LEASES, namespace: Some("n".into()), name: "l".into() }
}

fn raw(snapshot: &Snapshot) -> Option<&Value> {
    snapshot.raw(&LEASES, Some("n"), "l").ok().flatten()
}

fn holder(snapshot: &Snapshot) -> String {
    raw(snapshot).and_then(|lease| lease["spec"]["holderIdentity"].as_str()).unwrap_or_default().to_owned()
}

/// Sees whether the Lease is gone; a Lease that is there is stuck.
struct Gone;

impl Verifier for Gone {
    fn needs(&self, _: &Snapshot) -> Vec<Need> {
        vec![Need::required(lease(), "to see it")]
    }

    fn observe(&mut self, snapshot: &Snapshot) -> Verification {
        match raw(snapshot) {
            None => Verification::Done("the Lease is gone".to_owned()),
            Some(_) => Verification::Stuck(format!("{} holds on", holder(snapshot))),
        }
    }
}

impl Rounds {
    fn action(lease: &Value, operation: Operation, reversibility: Reversibility) -> Action {
        let holder = lease["spec"]["holderIdentity"].clone();
        Action {
            resource: LEASES,
            object: ObjectRef::of(&LEASES, lease),
            operation,
            why: "a test".into(),
            changes: vec![],
            facts: vec![Fact { pointer: "/spec/holderIdentity".into(), value: holder }],
            wait: None,
            dependents: vec![],
            reversibility,
            leaves: vec![],
        }
    }

    fn set(lease: &Value, holder: &str) -> Vec<Action> {
        let operation = json!({"op": "replace", "path": "/spec/holderIdentity", "value": holder});
        vec![Self::action(lease, Operation::Patch { operations: vec![operation] }, Reversibility::Reversible)]
    }
}

impl Doctor for Rounds {
    type Question = Target;
    type Verbs = NoVerbs;

    fn about(&self) -> About {
        About { name: "rancher-toy", question: "?", version: "0", rules: &[], after_help: "" }
    }

    fn needs(&self, _: &Target, _: &Snapshot) -> Vec<Need> {
        vec![Need::required(lease(), "to judge")]
    }

    fn rights(&self, _: &Target) -> Vec<(Right, &'static str, bool)> {
        Vec::new()
    }

    fn repair_rights(&self, _: &Target) -> Vec<(Right, &'static str)> {
        Vec::new()
    }

    fn asked(&self, verb: &NoVerbs) -> Target {
        match *verb {}
    }

    fn diagnose(&self, _: &Target, _: &Snapshot) -> Diagnosis {
        Diagnosis { cluster_uid: Some("c".into()), ..Diagnosis::default() }
    }

    fn plan(&self, _: &Target, snapshot: &Snapshot, _: &Diagnosis) -> Prescription {
        let Some(lease) = raw(snapshot) else { return Prescription::NothingToDo("no Lease".to_owned()) };
        let delete =
            |reversibility| Self::action(lease, Operation::Delete { grace_period_seconds: None }, reversibility);
        let holder = holder(snapshot);
        let actions = match (holder.as_str(), self.0) {
            ("a", _) | (_, Second::Same) => Self::set(lease, "b"),
            (_, Second::Delete(reversibility)) => vec![delete(reversibility)],
            (_, Second::DeleteTwice) => {
                let mut set = Self::set(lease, "c").remove(0);
                // Its dry run passes, and what it waits for comes true; but the Lease is gone by then.
                set.wait = Some(crate::plan::Await {
                    text: "the Lease is gone".into(),
                    resource: LEASES,
                    object: set.object.clone(),
                    until: crate::plan::Until::Gone,
                    seconds: 10,
                });
                vec![delete(Reversibility::Reversible), set]
            }
            (_, Second::Refuse) => {
                return Prescription::Refused { why: "no more".into(), instead: vec!["do it yourself".into()] };
            }
            (_, Second::Nothing) => return Prescription::NothingToDo("well again".to_owned()),
            (holder, Second::Another) => Self::set(lease, &format!("{holder}b")),
        };
        Prescription::Plan(Plan {
            tool: "rancher-toy".into(),
            cluster_uid: "c".into(),
            repairs: vec!["XX001".into()],
            actions,
            then: "wait".into(),
        })
    }

    fn verifier(&self, _: &Target, _: &Snapshot, _: &Plan) -> Box<dyn Verifier> {
        Box::new(Gone)
    }

    fn afterwards(&self, _: &Target, before: &Snapshot, _: &Plan) -> Vec<String> {
        vec!["clean up".to_owned(), format!("forget {}", holder(before))]
    }

    fn target(&self, question: &Target) -> Option<String> {
        question.target.clone()
    }
}

/// The server's Lease, and where the backups go.
struct World {
    objects: Arc<Mutex<BTreeMap<String, Value>>>,
    url: String,
    home: tempfile::TempDir,
    /// Whether a signal has come.
    signal: Arc<AtomicBool>,
}

impl World {
    fn new() -> Self {
        Self::with(|_, _| None)
    }

    /// `meddle` may answer instead of the server.
    fn with(
        meddle: impl Fn(&stub::Asked, &mut BTreeMap<String, Value>) -> Option<stub::Answer> + Send + Sync + 'static,
    ) -> Self {
        let lease = json!({"kind": "Lease", "metadata": {"name": "l", "namespace": "n", "uid": "u", "resourceVersion": "1"},
                           "spec": {"holderIdentity": "a"}});
        let objects = Arc::new(Mutex::new(BTreeMap::from([(LEASE.to_owned(), lease)])));
        let kept = objects.clone();
        let url = stub::serve(move |asked| {
            let mut objects = kept.lock().unwrap();
            meddle(asked, &mut objects).unwrap_or_else(|| stub::keep(&mut objects, asked))
        });
        Self { objects, url, home: tempfile::tempdir().unwrap(), signal: Arc::default() }
    }

    async fn fix(&self, second: Second, flags: &[&str], answers: &[&str]) -> Result<(Report, Exit), Failure> {
        let confirm = flags.iter().find(|flag| flag.len() == 12).map(|digest| (*digest).to_owned());
        let consent = ConsentFlags {
            dry_run: DryRun::None,
            yes: flags.contains(&"--yes"),
            confirm,
            backup_dir: Some(self.home.path().join("backups")),
        };
        let doctor = Rounds(second);
        let ui = Ui::scripted(answers);
        let flags = ConnectionFlags { context: Some("c".into()), ..ConnectionFlags::default() };
        let session = Session::new(doctor, doctor.about(), ui, Output::Table, flags, "toy".into());
        let live = Live { collector: Collector::new(stub::api(&self.url)), origin: Origin::default() };
        let question = Target { target: Some("prod".into()) };
        repair(
            &session,
            &live,
            &Interrupt::of(self.signal.clone()),
            FixArgs { question, consent, output: super::flags::OutputFlag::default(), verify_timeout: None },
        )
        .await
    }

    fn holder(&self) -> Option<String> {
        let objects = self.objects.lock().unwrap();
        objects.get(LEASE).map(|lease| lease["spec"]["holderIdentity"].as_str().unwrap().to_owned())
    }

    /// The backups, newest first. Ids have whole seconds, so within one second they are told apart by their plans.
    fn backups(&self) -> Vec<Saved> {
        let root = self.home.path().join("backups");
        let (mut saved, broken) = backup::list(Path::new(&root)).unwrap();
        assert!(broken.is_empty());
        saved.sort_by_key(|saved| saved.journal[0].at);
        saved.reverse();
        saved
    }
}

/// Applied, standing still, and nothing of it is hidden.
fn assert_open(ended: &(Report, Exit), why: &str) -> crate::report::Outcome {
    let (report, exit) = ended;
    assert_eq!(
        (*exit, report.exit_code, report.verdict, report.changed),
        (Exit::NotVerified, 7, Verdict::Unverified, true)
    );
    let outcome = report.result.clone().expect("an outcome");
    for words in ["lease.coordination.k8s.io/l patched", "b holds on", why] {
        assert!(outcome.message.contains(words), "{words}: {}", outcome.message);
    }
    assert_eq!(outcome.stuck.as_deref(), Some("b holds on"));
    assert!(outcome.undo.is_some() && outcome.backup.is_some() && !outcome.verified, "{outcome:?}");
    let text = report.render(Output::Table, &crate::ui::Styles::default(), 100);
    assert!(text.contains("Result: APPLIED, but it STANDS STILL: ") && text.contains("Exit 7."), "{text}");
    outcome
}

#[tokio::test]
async fn each_round_has_its_own_backup_and_the_last_report_names_them_all() {
    let world = World::new();
    let (report, exit) = world.fix(Second::Delete(Reversibility::Reversible), &["--yes"], &[]).await.unwrap();
    assert_eq!((exit, report.verdict, report.changed, world.holder()), (Exit::Ok, Verdict::Fixed, true, None));
    let outcome = report.result.unwrap();
    assert_eq!((outcome.applied, outcome.of, outcome.verified), (2, 2, true));
    assert_eq!(outcome.message, "the Lease is gone");
    let saved = world.backups();
    let states: Vec<_> =
        saved.iter().map(|saved| (saved.state(), saved.objects[0]["spec"]["holderIdentity"].as_str())).collect();
    assert_eq!(states, [("verified", Some("b")), ("applied", Some("a"))]);
    let last = saved[1].journal.last().unwrap();
    assert_eq!((last.event.as_str(), last.detail.as_str()), ("stuck", "b holds on"));
    assert_eq!(outcome.undo.unwrap()[..3], ["toy", "undo", &saved[0].id]);
    assert_eq!(outcome.backup.unwrap(), saved[0].directory.display().to_string());
    // Said once, although both rounds say it.
    let older = format!("  toy undo {} --context c", saved[1].id);
    let undo = "to take back what earlier rounds did as well, after the last one:";
    assert_eq!(outcome.next, ["clean up", "forget a", "forget b", undo, &older]);
}

#[tokio::test]
async fn yes_never_covers_a_later_round_that_cannot_be_undone() {
    let world = World::new();
    let irreversible = Second::Delete(Reversibility::Irreversible);
    let ended = world.fix(irreversible, &["--yes"], &[]).await.unwrap();
    let outcome = assert_open(&ended, "not interactive");
    assert_eq!((outcome.applied, outcome.of, world.holder().as_deref()), (1, 2, Some("b")));
    let digest = ended.0.plan.unwrap().digest;
    assert!(outcome.next.contains(&format!("  toy fix prod --confirm {digest} --context c")), "{:?}", outcome.next);
    // The command that was offered goes on from there.
    let (report, exit) = world.fix(irreversible, &[&digest], &[]).await.unwrap();
    assert_eq!((exit, report.verdict, world.holder()), (Exit::Ok, Verdict::Fixed, None));
}

#[tokio::test]
async fn a_digest_covers_one_round() {
    let world = World::new();
    let dry = World::new();
    let first = dry.fix(Second::Delete(Reversibility::Reversible), &[], &[]).await.unwrap();
    assert_eq!((first.1, first.0.changed, dry.holder().as_deref()), (Exit::Refused, false, Some("a")));
    let digest = first.0.plan.unwrap().digest;
    let ended = world.fix(Second::Delete(Reversibility::Reversible), &[&digest], &[]).await.unwrap();
    assert_open(&ended, "not interactive");
    assert_ne!(ended.0.plan.unwrap().digest, digest);
    assert_eq!(world.backups().len(), 1);
}

#[tokio::test]
async fn a_person_is_asked_in_every_round() {
    let irreversible = Second::Delete(Reversibility::Irreversible);
    let world = World::new();
    let (report, exit) = world.fix(irreversible, &[], &["y", "l"]).await.unwrap();
    assert_eq!((exit, report.verdict, world.holder()), (Exit::Ok, Verdict::Fixed, None));

    // «y» is no name; and the answer to the first question is none to the second.
    for answers in [&["y", "y"][..], &["y"]] {
        let world = World::new();
        assert_open(&world.fix(irreversible, &[], answers).await.unwrap(), "declined");
        assert_eq!(world.holder().as_deref(), Some("b"));
    }
    let world = World::new();
    let (report, exit) = world.fix(irreversible, &[], &["n", "l"]).await.unwrap();
    assert_eq!((exit, report.verdict, report.changed), (Exit::Refused, Verdict::Refused, false));
    assert_eq!(world.holder().as_deref(), Some("a"));

    // A digest that was spent in the first round leaves the second to the person.
    let digest = World::new().fix(irreversible, &[], &[]).await.unwrap().0.plan.unwrap().digest;
    let world = World::new();
    let (_, exit) = world.fix(irreversible, &[&digest], &["l"]).await.unwrap();
    assert_eq!((exit, world.holder()), (Exit::Ok, None));
}

#[tokio::test]
async fn a_refusal_in_a_later_round_does_not_hide_what_was_done() {
    let world = World::new();
    let outcome = assert_open(&world.fix(Second::Refuse, &["--yes"], &[]).await.unwrap(), "no more");
    assert_eq!(outcome.next, ["do it yourself"]);
    assert_open(&World::new().fix(Second::Same, &["--yes"], &[]).await.unwrap(), "the same plan is due again");
}

#[tokio::test]
async fn well_again_is_well_again() {
    let (report, exit) = World::new().fix(Second::Nothing, &["--yes"], &[]).await.unwrap();
    let outcome = report.result.unwrap();
    assert_eq!((exit, report.verdict, outcome.verified, outcome.applied), (Exit::Ok, Verdict::Fixed, true, 1));
    assert_eq!(outcome.message, "well again");
    assert!(outcome.undo.is_some());
}

#[tokio::test]
async fn half_a_later_round_is_a_partial_apply() {
    let world = World::new();
    let (report, exit) = world.fix(Second::DeleteTwice, &["--yes"], &[]).await.unwrap();
    assert_eq!((exit, report.verdict, report.changed), (Exit::Partial, Verdict::Partial, true));
    let outcome = report.result.unwrap();
    assert_eq!((outcome.applied, outcome.of), (2, 3));
    assert!(outcome.next.last().unwrap().starts_with("  toy undo "), "{:?}", outcome.next);
}

#[tokio::test]
async fn a_write_of_a_later_round_that_is_not_answered_names_its_own_backup() {
    let world = World::with(|asked, objects| {
        let deleted = objects.contains_key("deleted");
        if asked.method == "DELETE" && !asked.dry_run {
            objects.insert("deleted".to_owned(), json!(true));
            return Some(None);
        }
        // Nor can it be looked at what came of it.
        deleted.then(|| stub::status(401, "Unauthorized", "who are you"))
    });
    let (report, exit) = world.fix(Second::Delete(Reversibility::Reversible), &["--yes"], &[]).await.unwrap();
    assert_eq!((exit, report.verdict, report.changed), (Exit::Partial, Verdict::Partial, true));
    let (outcome, saved) = (report.result.unwrap(), world.backups());
    assert_eq!((outcome.applied, outcome.of, outcome.undo), (1, 2, None));
    assert_eq!(outcome.backup.unwrap(), saved[0].directory.display().to_string());
    assert_eq!(outcome.next.last().unwrap(), &format!("  toy undo {} --context c", saved[1].id));
}

#[tokio::test]
async fn rounds_come_to_an_end() {
    let world = World::new();
    let (report, exit) = world.fix(Second::Another, &["--yes"], &[]).await.unwrap();
    assert_eq!((exit, report.verdict), (Exit::NotVerified, Verdict::Unverified));
    let outcome = report.result.unwrap();
    let saved = world.backups();
    assert_eq!((outcome.applied, outcome.of, saved.len()), (8, 8, 8));
    assert_eq!(outcome.undo.unwrap()[2], saved[0].id);
    let earlier: Vec<String> = saved[1..].iter().map(|saved| format!("  toy undo {} --context c", saved.id)).collect();
    assert_eq!(outcome.next[1..], earlier);
    assert!(outcome.message.starts_with("after 8 rounds: bbbbbbbb holds on"), "{}", outcome.message);
}

#[tokio::test]
async fn a_server_that_goes_away_between_rounds_does_not_make_it_a_run_that_did_nothing() {
    let patched = |asked: &stub::Asked, objects: &mut BTreeMap<String, Value>| {
        let looks_again = objects[LEASE]["metadata"]["resourceVersion"] == "2" && asked.method == "GET";
        // The verifier's look is the first one after the write.
        let before = objects.insert("looks".to_owned(), json!(looks_again))?;
        (looks_again && before == json!(true)).then(|| stub::status(401, "Unauthorized", "who are you"))
    };
    let world = World::with(patched);
    let ended = world.fix(Second::Delete(Reversibility::Reversible), &["--yes"], &[]).await.unwrap();
    assert_open(&ended, "who are you");
    assert!(ended.0.plan.is_none());
    // The same before the first write is a run that could not be made.
    let world = World::with(|_, _| Some(stub::status(401, "Unauthorized", "who are you")));
    let failure = world.fix(Second::Nothing, &["--yes"], &[]).await.unwrap_err();
    assert_eq!(failure.exit, Exit::CouldNotRun);
}

#[tokio::test]
async fn ctrl_c_between_rounds_does_not_say_that_nothing_was_changed() {
    let signal: Arc<AtomicBool> = Arc::default();
    let raise = signal.clone();
    let world = World::with(move |asked, objects| {
        let looks_again = objects[LEASE]["metadata"]["resourceVersion"] == "2" && asked.method == "GET";
        let before = objects.insert("looks".to_owned(), json!(looks_again))?;
        raise.fetch_or(looks_again && before == json!(true), Ordering::SeqCst);
        None
    });
    let world = World { signal, ..world };
    let ended = world.fix(Second::Delete(Reversibility::Reversible), &["--yes"], &[]).await.unwrap();
    assert_open(&ended, "interrupted");
    assert!(!ended.0.result.unwrap().message.contains("nothing was changed"));
    assert_eq!(world.holder().as_deref(), Some("b"));
}
