//! Applying a plan: the only code that writes to a cluster.
//!
//! Before the question: permissions, a dry run by the server, and who owns the objects. After it: one action at a time,
//! each read once more just before the write, each write with UID and resourceVersion as preconditions, no write ever
//! repeated. The first surprise stops everything.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::backup::{Backup, BackupError};
use super::consent::Confirmed;
use super::{Action, Await, Operation, Plan};
use crate::kube::client::Api;
use crate::kube::error::{ApiError, ApiErrorKind};
use crate::kube::path::{resource_path, with_query};
use crate::resource::ResourceType;
use crate::snapshot::{Collector, Right};
use crate::text::count;
use crate::time::human;

/// What was found out before asking.
#[derive(Debug, Default)]
pub struct Preflight {
    /// Every object of the plan as it is now, dependents included: what the backup holds.
    pub objects: Vec<Value>,
    /// What was checked, for the plan.
    pub checked: Vec<String>,
    /// Changes that somebody will revert, and the lasting place for each.
    pub temporary: Vec<String>,
}

/// Why a plan cannot be applied. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Hindrance {
    /// A right is missing.
    #[error("you may not {0}")]
    Forbidden(Right),
    /// An object is no longer what the plan was made for.
    #[error("{object} has changed since it was looked at: {}", facts.join("; "))]
    Changed {
        /// The object.
        object: String,
        /// `pointer: before => now`, each.
        facts: Vec<String>,
    },
    /// The server refuses the write already in a dry run.
    #[error("the server refuses a dry run of this change: {0}")]
    DryRun(#[source] ApiError),
    /// An object or a permission could not be read.
    #[error(transparent)]
    Read(#[from] ApiError),
}

/// How far applying came.
#[derive(Debug)]
pub struct Applied {
    /// Actions whose write is known to have been made.
    pub done: usize,
    /// Actions whose outcome is not known: the server did not answer, and could not be asked afterwards.
    pub unknown: usize,
    /// Why it stopped before the end.
    pub stopped: Option<String>,
    /// kubectl-like lines of what was done: `lease.coordination.k8s.io/cattle-controllers deleted`.
    pub log: Vec<String>,
}

/// The path of an action's object.
async fn object_path(collector: &Collector, action: &Action) -> Result<String, ApiError> {
    path_of(collector, &action.resource, action.object.namespace.as_deref(), Some(&action.object.name)).await
}

async fn path_of(
    collector: &Collector,
    resource: &ResourceType,
    namespace: Option<&str>,
    name: Option<&str>,
) -> Result<String, ApiError> {
    // A kind the server does not serve any more answers 404 under any version; the first will do to hear it.
    let version = match collector.version(resource).await? {
        Some(version) => version,
        None => resource.version.split(',').next().unwrap_or_default().to_owned(),
    };
    Ok(resource_path(&resource.group, &version, &resource.plural, namespace, name, None))
}

/// Reads an object; `None` when it does not exist.
async fn read(api: &Api, path: &str) -> Result<Option<Value>, ApiError> {
    match api.get(path).await {
        Ok(answer) => Ok(Some(answer.body)),
        Err(error) if matches!(error.kind, ApiErrorKind::NotFound | ApiErrorKind::NoSuchResource) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Checks everything that can be checked without changing anything.
///
/// An action with a [`wait`](Action::wait) rests on a state that does not exist yet: the actions before it bring it about.
/// Of it, UID, rights and what it waits for are checked here; its facts are not, they are compared just before the write
/// as all facts are. The server tries it, too, but on the object of today, so a precondition that fails in the dry run (409,
/// or the 422 of a `test` in the patch) says nothing about the write to come and is no hindrance. Every other answer
/// (forbidden, refused by a webhook, malformed, no such object) holds then as well and is one.
///
/// # Errors
/// The first hindrance.
pub async fn preflight(collector: &Collector, plan: &Plan) -> Result<Preflight, Hindrance> {
    let api = collector.api();
    let mut found = Preflight::default();
    let mut untried = 0;
    for action in &plan.actions {
        let path = object_path(collector, action).await?;
        let object = read(api, &path).await?;
        if let Some(hindrance) = unlike_plan(&as_of_now(action), object.as_ref()) {
            return Err(hindrance);
        }
        allowed(api, &action.right()).await?;
        if let Some(wait) = &action.wait {
            // Only whether it can be read: it need not be true or exist yet.
            awaited(collector, wait).await?;
        }
        match write(collector, action, object.as_ref(), true).await {
            Ok(_) => {}
            Err(error) if action.wait.is_some() && error.is_precondition() => untried += 1,
            Err(error) if error.kind == ApiErrorKind::Forbidden => return Err(Hindrance::Forbidden(action.right())),
            Err(error) => return Err(changed_meanwhile(action, &error).unwrap_or(Hindrance::DryRun(error))),
        }
        if let Some(object) = object {
            if let (Operation::Patch { .. }, Some(owner)) = (&action.operation, owner(&object)) {
                found.temporary.push(format!("{} is managed by {owner}, which will revert this change", action.object));
            }
            found.keep(&action.resource, object);
        }
        for dependent in &action.dependents {
            let path = path_of(
                collector,
                &dependent.resource,
                dependent.object.namespace.as_deref(),
                Some(&dependent.object.name),
            )
            .await?;
            if let Some(object) = read(api, &path).await? {
                found.keep(&dependent.resource, object);
            }
        }
    }
    found.checked.push("permissions ok".to_owned());
    found.checked.push(match untried {
        0 => "server dry run ok".to_owned(),
        _ => format!(
            "server dry run ok, but for {} that can be tried only when what is waited for has come true",
            count(untried, "change", "changes")
        ),
    });
    if found.temporary.is_empty() {
        found.checked.push("no Helm or GitOps owner reverts it".to_owned());
    }
    Ok(found)
}

impl Preflight {
    /// Keeps an object for the backup; once, however many actions it belongs to.
    fn keep(&mut self, resource: &ResourceType, object: Value) {
        let uid = &object["metadata"]["uid"];
        if uid.is_null() || !self.objects.iter().any(|kept| kept["metadata"]["uid"] == *uid) {
            self.objects.push(with_type(resource, object));
        }
    }
}

/// An action with only the facts that must hold before the first write: none but the UID for one that waits.
fn as_of_now(action: &Action) -> Action {
    let facts = if action.wait.is_some() { Vec::new() } else { action.facts.clone() };
    Action { facts, ..action.clone() }
}

/// Reads the object that shows what is waited for.
async fn awaited(collector: &Collector, wait: &Await) -> Result<Option<Value>, ApiError> {
    let path = path_of(collector, &wait.resource, wait.object.namespace.as_deref(), Some(&wait.object.name)).await?;
    read(collector.api(), &path).await
}

/// Whether an object is not what the plan was made for.
fn unlike_plan(action: &Action, object: Option<&Value>) -> Option<Hindrance> {
    let changed = |facts| Hindrance::Changed { object: action.object.to_string(), facts };
    match (&action.operation, object) {
        (Operation::Create { .. }, None) => None,
        (Operation::Create { .. }, Some(object)) => {
            let uid = object["metadata"]["uid"].as_str().unwrap_or("?");
            Some(changed(vec![format!("it exists again (uid {uid})")]))
        }
        (_, None) => Some(changed(vec!["it no longer exists".to_owned()])),
        (_, Some(object)) => {
            let facts = action.broken_facts(object);
            (!facts.is_empty()).then(|| changed(facts))
        }
    }
}

/// What an answer to a write says about the object: that it is another one than the one just read.
fn changed_meanwhile(action: &Action, error: &ApiError) -> Option<Hindrance> {
    let fact = match error.kind {
        ApiErrorKind::NotFound => "it no longer exists".to_owned(),
        _ if error.is_precondition() => format!("by somebody else, in this very moment ({})", error.message),
        _ => return None,
    };
    Some(Hindrance::Changed { object: action.object.to_string(), facts: vec![fact] })
}

/// An object of a list has no apiVersion and kind of its own; one that was read alone has.
fn with_type(resource: &ResourceType, mut object: Value) -> Value {
    if let Some(map) = object.as_object_mut() {
        map.entry("kind").or_insert_with(|| json!(resource.kind));
    }
    object
}

/// Asks whether we may do it (`SelfSubjectAccessReview`).
async fn allowed(api: &Api, right: &Right) -> Result<(), Hindrance> {
    let (resource, subresource) = right.resource.split_once('/').unwrap_or((&right.resource, ""));
    let question = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {
            "verb": right.verb, "group": right.group, "resource": resource, "subresource": subresource,
            "namespace": right.namespace.clone().unwrap_or_default(), "name": right.name.clone().unwrap_or_default(),
        }},
    });
    match api.ask("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &question).await {
        Ok(answer) if answer.body["status"]["allowed"] == true => Ok(()),
        Ok(_) => Err(Hindrance::Forbidden(right.clone())),
        // The review itself may be refused; then the dry run must tell.
        Err(error) if error.kind == ApiErrorKind::Forbidden => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Who would put a changed field back: the marks that Helm, Fleet, Argo CD, Flux and the k3s/rke2 add-on controller
/// leave on what they own, each with the place where a change lasts.
#[must_use]
pub fn owner(object: &Value) -> Option<String> {
    let metadata = &object["metadata"];
    let label = |name: &str| metadata["labels"][name].as_str();
    let annotation = |name: &str| metadata["annotations"][name].as_str();
    if let Some(release) = annotation("meta.helm.sh/release-name") {
        let namespace = annotation("meta.helm.sh/release-namespace").unwrap_or("?");
        return Some(format!("the Helm release {namespace}/{release} (its values last)"));
    }
    if let Some(addon) = annotation("objectset.rio.cattle.io/owner-name") {
        let kind = annotation("objectset.rio.cattle.io/owner-gvk").unwrap_or_default();
        return Some(if kind.contains("k3s.cattle.io") {
            format!("the k3s/rke2 add-on {addon} (the manifest file on the server nodes lasts)")
        } else {
            format!("{addon} (its source lasts)")
        });
    }
    if label("fleet.cattle.io/bundle-name").is_some() {
        return Some("Fleet (the Git repository lasts)".to_owned());
    }
    if label("argocd.argoproj.io/instance").is_some() || annotation("argocd.argoproj.io/tracking-id").is_some() {
        return Some("Argo CD (the Git repository lasts)".to_owned());
    }
    if label("kustomize.toolkit.fluxcd.io/name").is_some() || label("helm.toolkit.fluxcd.io/name").is_some() {
        return Some("Flux (the Git repository lasts)".to_owned());
    }
    None
}

/// Makes the write of one action, or lets the server try it.
async fn write(
    collector: &Collector,
    action: &Action,
    object: Option<&Value>,
    dry_run: bool,
) -> Result<Value, ApiError> {
    let api = collector.api();
    let mut query = vec![("fieldManager", "kubectl-rancher")];
    if dry_run {
        query.push(("dryRun", "All"));
    }
    let version = object.map(|object| object["metadata"]["resourceVersion"].clone()).unwrap_or_default();
    match &action.operation {
        Operation::Delete { grace_period_seconds } => {
            let mut options = json!({
                "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
                "preconditions": {"uid": action.object.uid, "resourceVersion": version},
            });
            if let Some(seconds) = grace_period_seconds {
                options["gracePeriodSeconds"] = json!(seconds);
            }
            if dry_run {
                options["dryRun"] = json!(["All"]);
            }
            Ok(api.delete(&object_path(collector, action).await?, &options).await?.body)
        }
        Operation::Patch { operations } => {
            let guarded: Vec<Value> = [
                json!({"op": "test", "path": "/metadata/uid", "value": action.object.uid}),
                json!({"op": "test", "path": "/metadata/resourceVersion", "value": version}),
            ]
            .into_iter()
            .chain(operations.iter().cloned())
            .collect();
            let patch: json_patch::Patch = serde_json::from_value(Value::Array(guarded))
                .map_err(|error| ApiError::new(ApiErrorKind::Invalid, action.object.to_string(), error.to_string()))?;
            let path = with_query(&object_path(collector, action).await?, &query);
            Ok(api.patch_json(&path, &patch).await?.body)
        }
        Operation::Create { object } => {
            let path = path_of(collector, &action.resource, action.object.namespace.as_deref(), None).await?;
            Ok(api.create(&with_query(&path, &query), object).await?.body)
        }
    }
}

/// Whether a write that was not answered has been made, judged from the object as it was just before and as it is now.
fn was_applied(action: &Action, before: Option<&Value>, now: Option<&Value>) -> bool {
    let same = |object: &Value| object["metadata"]["uid"].as_str() == action.object.uid.as_deref();
    match (&action.operation, now) {
        (Operation::Delete { .. }, None) => true,
        (Operation::Delete { .. }, Some(object)) => !same(object) || !object["metadata"]["deletionTimestamp"].is_null(),
        (Operation::Patch { operations }, Some(object)) => {
            same(object)
                && operations.iter().filter(|op| op["op"] != "test").all(|op| {
                    let value = op["path"].as_str().and_then(|path| object.pointer(path));
                    match op["op"].as_str() {
                        // A removed list element leaves another one in its place: compare the value it had.
                        Some("remove") => {
                            let removed = operations
                                .iter()
                                .find(|test| test["op"] == "test" && test["path"] == op["path"])
                                .map(|test| &test["value"]);
                            value.is_none() || removed.is_some_and(|removed| value != Some(removed))
                        }
                        _ => value == op.get("value"),
                    }
                })
        }
        // An object that is being deleted goes with its last finalizer: its end is what the patch was for.
        (Operation::Patch { .. }, None) => {
            before.is_some_and(|object| !object["metadata"]["deletionTimestamp"].is_null())
        }
        (Operation::Create { .. }, now) => now.is_some(),
    }
}

/// Applies the plan that was agreed to. `stop` is asked before each write and while something is waited for: Ctrl-C lets the
/// call in flight finish, then nothing more is written. `tell` hears what is waited for, again with every look.
///
/// # Errors
/// Only when the journal cannot be written before the first write; everything later is in [`Applied`].
pub async fn apply(
    collector: &Collector,
    plan: &Plan,
    confirmed: Confirmed,
    backup: &mut Backup,
    stop: impl Fn() -> bool,
    tell: impl Fn(&str),
) -> Result<Applied, BackupError> {
    let mut applied = Applied { done: 0, unknown: 0, stopped: None, log: Vec::new() };
    if confirmed.digest() != plan.digest() {
        applied.stopped = Some("the plan is not the one that was agreed to".to_owned());
        return Ok(applied);
    }
    backup.journal(0, "begin", confirmed.digest())?;
    for (index, action) in plan.actions.iter().enumerate() {
        let number = index + 1;
        if stop() {
            applied.stopped = Some("interrupted".to_owned());
            break;
        }
        let step = match wait(collector, action, number, backup, &stop, &tell).await {
            Ok(()) => one(collector, action, number, backup).await,
            Err(why) => Step::Stopped(why),
        };
        match step {
            Step::Done => {
                applied.done += 1;
                applied.log.push(format!("{} {}", action.object.kubectl_name(), action.past()));
                // The write is made: a journal that fails now must not hide it, but nothing more may follow.
                if let Err(error) = backup.journal(number, "applied", "") {
                    applied.stopped = Some(error.to_string());
                    break;
                }
            }
            Step::Stopped(why) => {
                let _ = backup.journal(number, "failed", &why);
                applied.stopped = Some(why);
                break;
            }
            Step::Unknown(why) => {
                let _ = backup.journal(number, "unknown", &why);
                applied.unknown += 1;
                applied.stopped = Some(why);
                break;
            }
        }
    }
    Ok(applied)
}

enum Step {
    Done,
    Stopped(String),
    Unknown(String),
}

/// Pause between two looks at what is waited for.
const POLL: Duration = Duration::from_secs(1);

/// Waits until an action may be taken; the error says why it may not.
async fn wait(
    collector: &Collector,
    action: &Action,
    number: usize,
    backup: &mut Backup,
    stop: &impl Fn() -> bool,
    tell: &impl Fn(&str),
) -> Result<(), String> {
    let Some(wait) = &action.wait else { return Ok(()) };
    backup.journal(number, "wait", &wait.text).map_err(|error| error.to_string())?;
    let patience = Duration::from_secs(wait.seconds.into());
    let started = Instant::now();
    loop {
        tell(&wait.text);
        let unread = match awaited(collector, wait).await {
            Ok(now) => match wait.came_true(now.as_ref()) {
                Ok(true) if stop() => return Err("interrupted".to_owned()),
                Ok(true) => return Ok(()),
                Ok(false) => None,
                Err(never) => return Err(format!("waited until {}: {never}", wait.text)),
            },
            // These do not get better by waiting; a server that is away for a moment may.
            Err(error) if matches!(error.kind, ApiErrorKind::Forbidden | ApiErrorKind::Unauthorized) => {
                return Err(format!("waited until {}: {error}", wait.text));
            }
            Err(error) => Some(error),
        };
        if stop() {
            return Err(format!("interrupted while waiting until {}", wait.text));
        }
        if started.elapsed() >= patience {
            let unread = unread.map(|error| format!(" ({error})")).unwrap_or_default();
            return Err(format!("waited {} until {}; it did not come true{unread}", human(patience), wait.text));
        }
        tokio::time::sleep(POLL.min(patience.saturating_sub(started.elapsed()))).await;
    }
}

/// How often an action that waited is tried: controllers are at work on what is waited for, and one of them may write
/// between our look and our write. Each try looks afresh, and goes on only if the plan's facts still hold.
const TRIES: usize = 5;

/// Applies one action.
async fn one(collector: &Collector, action: &Action, number: usize, backup: &mut Backup) -> Step {
    let mut tries = if action.wait.is_some() { TRIES } else { 1 };
    let path = match object_path(collector, action).await {
        Ok(path) => path,
        Err(error) => return Step::Stopped(error.to_string()),
    };
    loop {
        let object = match read(collector.api(), &path).await {
            Ok(object) => object,
            Err(error) => return Step::Stopped(error.to_string()),
        };
        if let Some(hindrance) = unlike_plan(action, object.as_ref()) {
            return Step::Stopped(hindrance.to_string());
        }
        if let Err(error) = backup.journal(number, "write", action.verb()) {
            return Step::Stopped(error.to_string());
        }
        let error = match write(collector, action, object.as_ref(), false).await {
            Ok(_) => return Step::Done,
            Err(error) => error,
        };
        if error.write_outcome_unknown() {
            return after_no_answer(collector, action, &path, object.as_ref(), &error).await;
        }
        let changed = changed_meanwhile(action, &error);
        tries -= 1;
        if changed.is_none() || tries == 0 {
            return Step::Stopped(changed.map_or_else(|| error.to_string(), |hindrance| hindrance.to_string()));
        }
    }
}

/// A write that was not answered is never repeated blindly: look at what happened.
async fn after_no_answer(
    collector: &Collector,
    action: &Action,
    path: &str,
    before: Option<&Value>,
    error: &ApiError,
) -> Step {
    match read(collector.api(), path).await {
        Ok(now) if was_applied(action, before, now.as_ref()) => Step::Done,
        Ok(_) => Step::Stopped(format!("{error}; the object is unchanged")),
        Err(second) => Step::Unknown(format!(
            "no answer to the {} of {} ({}), and it could not be looked at afterwards ({}): it may or may not have been made",
            action.verb(),
            action.object,
            error.message,
            second.message
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::kinds::LEASES;
    use crate::kube::stub;
    use crate::plan::action::tests_support::delete_lease_plan;
    use crate::plan::consent::{Consent, Given, ask};
    use crate::plan::{Dependent, Fact, Until};
    use crate::resource::ObjectRef;
    use crate::ui::Ui;

    #[test]
    fn what_an_unanswered_delete_did_is_read_off_the_object() {
        let action = &delete_lease_plan().actions[0];
        assert!(was_applied(action, None, None));
        assert!(was_applied(action, None, Some(&json!({"metadata": {"uid": "u2"}}))));
        assert!(was_applied(
            action,
            None,
            Some(&json!({"metadata": {"uid": "u1", "deletionTimestamp": "2026-01-01T00:00:00Z"}}))
        ));
        assert!(!was_applied(action, None, Some(&json!({"metadata": {"uid": "u1"}}))));
    }

    #[test]
    fn what_an_unanswered_patch_did_is_read_off_the_object() {
        let mut action = delete_lease_plan().actions.remove(0);
        action.operation = Operation::Patch {
            operations: vec![
                json!({"op": "test", "path": "/metadata/finalizers/0", "value": "a"}),
                json!({"op": "remove", "path": "/metadata/finalizers/0"}),
                json!({"op": "add", "path": "/spec/x", "value": 1}),
            ],
        };
        let object = |finalizers: Value, x: Value| json!({"metadata": {"uid": "u1", "finalizers": finalizers}, "spec": {"x": x}});
        assert!(was_applied(&action, None, Some(&object(json!(["b"]), json!(1)))));
        assert!(!was_applied(&action, None, Some(&object(json!(["a", "b"]), json!(1)))));
        assert!(!was_applied(&action, None, Some(&object(json!(["b"]), json!(null)))));
        assert!(!was_applied(&action, None, None));
        // A deleted object goes with its last finalizer.
        let deleted = json!({"metadata": {"uid": "u1", "deletionTimestamp": "2026-01-01T00:00:00Z"}});
        assert!(was_applied(&action, Some(&deleted), None));
        assert!(!was_applied(&action, Some(&object(json!(["a"]), json!(null))), None));
    }

    #[test]
    fn owners_are_told_by_their_marks() {
        let object =
            |labels: Value, annotations: Value| json!({"metadata": {"labels": labels, "annotations": annotations}});
        assert_eq!(owner(&object(json!({}), json!({}))), None);
        let cases = [
            (
                json!({}),
                json!({"meta.helm.sh/release-name": "rancher", "meta.helm.sh/release-namespace": "cattle-system"}),
                "Helm release cattle-system/rancher",
            ),
            (
                json!({}),
                json!({"objectset.rio.cattle.io/owner-name": "cluster-agent", "objectset.rio.cattle.io/owner-gvk": "k3s.cattle.io/v1, Kind=Addon"}),
                "add-on cluster-agent",
            ),
            (json!({"argocd.argoproj.io/instance": "x"}), json!({}), "Argo CD"),
            (json!({"kustomize.toolkit.fluxcd.io/name": "x"}), json!({}), "Flux"),
            (json!({"fleet.cattle.io/bundle-name": "x"}), json!({}), "Fleet"),
        ];
        for (labels, annotations, words) in cases {
            let found = owner(&object(labels, annotations)).unwrap_or_default();
            assert!(found.contains(words), "{found}");
        }
    }

    const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/n/leases/l";
    const BOOT: &str = "/apis/coordination.k8s.io/v1/namespaces/n/leases/boot";

    type Objects = Arc<Mutex<BTreeMap<String, Value>>>;

    fn object(name: &str, uid: &str, holder: &str) -> Value {
        json!({"kind": "Lease", "metadata": {"name": name, "namespace": "n", "uid": uid, "resourceVersion": "1"},
               "spec": {"holderIdentity": holder}})
    }

    fn world() -> Objects {
        let objects = [(LEASE, object("l", "u1", "a")), (BOOT, object("boot", "u2", ""))];
        Arc::new(Mutex::new(objects.map(|(path, object)| (path.to_owned(), object)).into()))
    }

    /// A server with these objects; `meddle` may answer instead of it, or change them first.
    fn collector(
        objects: &Objects,
        meddle: impl Fn(&stub::Asked, &mut BTreeMap<String, Value>) -> Option<stub::Answer> + Send + Sync + 'static,
    ) -> Collector {
        let objects = objects.clone();
        Collector::new(stub::api(&stub::serve(move |asked| {
            let mut objects = objects.lock().unwrap();
            meddle(asked, &mut objects).unwrap_or_else(|| stub::keep(&mut objects, asked))
        })))
    }

    fn untouched(_: &stub::Asked, _: &mut BTreeMap<String, Value>) -> Option<stub::Answer> {
        None
    }

    /// Sets the holder to `b`, then, when another object shows `ready`, deletes the Lease if the holder is `b`.
    fn plan_that_waits(seconds: u32) -> Plan {
        let mut plan = delete_lease_plan();
        let mut first = plan.actions[0].clone();
        first.operation = Operation::Patch {
            operations: vec![json!({"op": "replace", "path": "/spec/holderIdentity", "value": "b"})],
        };
        plan.actions[0].facts = vec![Fact { pointer: "/spec/holderIdentity".into(), value: json!("b") }];
        plan.actions[0].wait = Some(Await {
            text: "boot is ready".into(),
            resource: LEASES,
            object: ObjectRef::of(&LEASES, &object("boot", "u2", "")),
            until: Until::Field { pointer: "/spec/holderIdentity".into(), value: json!("ready") },
            seconds,
        });
        plan.actions.insert(0, first);
        plan
    }

    fn consent(plan: &Plan) -> Confirmed {
        let given = Given { yes: false, confirm: Some(plan.digest()) };
        match ask(plan, "t", &given, &Ui::scripted(&[])) {
            Consent::Confirmed(confirmed) => confirmed,
            other => panic!("{other:?}"),
        }
    }

    /// Applies, and hands back the journal's events too.
    async fn run(collector: &Collector, plan: &Plan, stop: impl Fn() -> bool) -> (Applied, Vec<String>) {
        let home = tempfile::tempdir().unwrap();
        let mut backup = Backup::create(home.path(), plan, "20260822T095502Z-x", &[]).unwrap();
        let applied = apply(collector, plan, consent(plan), &mut backup, stop, |_| ()).await.unwrap();
        let journal = std::fs::read_to_string(backup.directory().join("journal.jsonl")).unwrap();
        let entry = |line: &str| serde_json::from_str::<super::super::backup::Entry>(line).unwrap();
        let events =
            journal.lines().map(entry).map(|entry| format!("{} {} {}", entry.action, entry.event, entry.detail));
        (applied, events.map(|event| event.trim_end().to_owned()).collect())
    }

    #[tokio::test]
    async fn an_action_that_waits_is_taken_when_it_has_come_true() {
        let objects = world();
        let looks = Mutex::new(0);
        let collector = collector(&objects, move |asked, objects| {
            let mut looks = looks.lock().unwrap();
            *looks += usize::from(asked.path == BOOT);
            // The server is away for a moment, then it has come true.
            if asked.path == BOOT && *looks == 2 {
                return Some(stub::status(500, "InternalError", "etcd is away"));
            }
            if *looks == 4 {
                objects.insert(BOOT.to_owned(), object("boot", "u2", "ready"));
            }
            None
        });
        let plan = plan_that_waits(60);
        let preflight = preflight(&collector, &plan).await.expect("its facts are those of later");
        assert_eq!(preflight.objects.len(), 1, "the same object is kept once");
        assert!(preflight.checked.contains(&"server dry run ok".to_owned()), "{:?}", preflight.checked);
        let (applied, events) = run(&collector, &plan, || false).await;
        assert_eq!((applied.done, applied.stopped), (2, None));
        assert!(!objects.lock().unwrap().contains_key(LEASE));
        let digest = plan.digest();
        assert_eq!(
            events,
            [
                &format!("0 begin {digest}"),
                "1 write patch",
                "1 applied",
                "2 wait boot is ready",
                "2 write delete",
                "2 applied"
            ]
        );
    }

    #[tokio::test]
    async fn what_does_not_come_true_stops_the_plan() {
        let objects = world();
        let (applied, events) = run(&collector(&objects, untouched), &plan_that_waits(1), || false).await;
        assert_eq!(applied.stopped.as_deref(), Some("waited 1s until boot is ready; it did not come true"));
        assert_eq!((applied.done, applied.unknown), (1, 0));
        assert_eq!(events.last().unwrap(), "2 failed waited 1s until boot is ready; it did not come true");
        assert!(objects.lock().unwrap().contains_key(LEASE));

        // What can never come true is not waited for.
        let objects = world();
        objects.lock().unwrap().remove(BOOT);
        let (applied, _) = run(&collector(&objects, untouched), &plan_that_waits(600), || false).await;
        assert_eq!(applied.stopped.as_deref(), Some("waited until boot is ready: Lease n/boot is gone"));

        // Nor is what may not be looked at.
        let forbids =
            |asked: &stub::Asked, _: &mut _| (asked.path == BOOT).then(|| stub::status(403, "Forbidden", "no"));
        let (applied, _) = run(&collector(&world(), forbids), &plan_that_waits(600), || false).await;
        assert!(applied.stopped.as_deref().unwrap_or_default().contains("no"), "{applied:?}");
    }

    #[tokio::test]
    async fn ctrl_c_ends_the_waiting() {
        let objects = world();
        let pressed = Arc::new(AtomicBool::new(false));
        let press = pressed.clone();
        let looks = move |asked: &stub::Asked, _: &mut _| {
            press.fetch_or(asked.path == BOOT, Ordering::SeqCst);
            None
        };
        let stop = || pressed.load(Ordering::SeqCst);
        let (applied, _) = run(&collector(&objects, looks), &plan_that_waits(600), stop).await;
        assert_eq!(applied.done, 1);
        assert_eq!(applied.stopped.as_deref(), Some("interrupted while waiting until boot is ready"));

        // Pressed while it comes true: nothing is written any more either.
        objects.lock().unwrap().clear();
        objects
            .lock()
            .unwrap()
            .extend([(LEASE.to_owned(), object("l", "u1", "a")), (BOOT.to_owned(), object("boot", "u2", "ready"))]);
        pressed.store(false, Ordering::SeqCst);
        let press = pressed.clone();
        let looks = move |asked: &stub::Asked, _: &mut _| {
            press.fetch_or(asked.path == BOOT, Ordering::SeqCst);
            None
        };
        let (applied, _) = run(&collector(&objects, looks), &plan_that_waits(600), stop).await;
        assert_eq!((applied.done, applied.stopped.as_deref()), (1, Some("interrupted")));
        assert!(objects.lock().unwrap().contains_key(LEASE));
    }

    #[tokio::test]
    async fn facts_of_an_action_that_waits_are_compared_just_before_its_write() {
        let objects = world();
        let meddles = |_: &stub::Asked, objects: &mut BTreeMap<String, Value>| {
            if objects[LEASE]["spec"]["holderIdentity"] == "b" {
                objects.insert(LEASE.to_owned(), object("l", "u1", "c"));
                objects.insert(BOOT.to_owned(), object("boot", "u2", "ready"));
            }
            None
        };
        let (applied, _) = run(&collector(&objects, meddles), &plan_that_waits(60), || false).await;
        assert_eq!(
            applied.stopped.as_deref(),
            Some("Lease n/l has changed since it was looked at: /spec/holderIdentity: b => c")
        );
    }

    #[tokio::test]
    async fn a_controller_that_writes_in_between_is_no_end_while_the_facts_hold() {
        for (conflicts, done) in [(TRIES - 1, 2), (TRIES, 1)] {
            let objects = world();
            objects.lock().unwrap().insert(BOOT.to_owned(), object("boot", "u2", "ready"));
            let left = Mutex::new(conflicts);
            let meddles = move |asked: &stub::Asked, _: &mut _| {
                let mut left = left.lock().unwrap();
                let conflict = asked.method == "DELETE" && *left > 0;
                *left -= usize::from(conflict);
                conflict.then(|| stub::status(409, "Conflict", "the ResourceVersion in the precondition"))
            };
            let (applied, events) = run(&collector(&objects, meddles), &plan_that_waits(60), || false).await;
            assert_eq!(applied.done, done, "{events:?}");
            assert_eq!(objects.lock().unwrap().contains_key(LEASE), done == 1);
        }
    }

    /// A patch of the Lease that the server can try only when the holder is `b`.
    fn patch_for_later() -> Plan {
        let mut plan = plan_that_waits(60);
        plan.actions[1].operation = Operation::Patch {
            operations: vec![
                json!({"op": "test", "path": "/spec/holderIdentity", "value": "b"}),
                json!({"op": "add", "path": "/spec/x", "value": 1}),
            ],
        };
        plan
    }

    #[tokio::test]
    async fn only_a_precondition_of_later_is_no_hindrance_to_a_dry_run() {
        let plan = patch_for_later();
        let checked = preflight(&collector(&world(), untouched), &plan).await.expect("no hindrance").checked;
        assert!(
            checked.iter().any(|line| line.contains("but for 1 change that can be tried only when")),
            "{checked:?}"
        );

        // The same without a wait is one, since nothing stands between the preflight and the write.
        let mut at_once = plan.clone();
        at_once.actions[1].wait = None;
        at_once.actions[1].facts.clear();
        let hindrance = preflight(&collector(&world(), untouched), &at_once).await.unwrap_err();
        assert!(matches!(hindrance, Hindrance::Changed { .. }), "{hindrance}");

        // What is wrong with the write itself is wrong then, too.
        let answers = [(403, "Forbidden"), (400, "BadRequest"), (500, "InternalError")];
        for (code, reason) in answers {
            let refuses = move |asked: &stub::Asked, _: &mut _| {
                let second = asked.body.as_array().is_some_and(|operations| operations.len() == 4);
                (asked.method == "PATCH" && second).then(|| stub::status(code, reason, "no"))
            };
            assert!(preflight(&collector(&world(), refuses), &plan).await.is_err(), "{code}");
        }
        // Another object under the name is another object, whatever is waited for.
        let objects = world();
        objects.lock().unwrap().insert(LEASE.to_owned(), object("l", "u9", "a"));
        let mut only_second = plan.clone();
        only_second.actions.remove(0);
        assert!(preflight(&collector(&objects, untouched), &only_second).await.is_err());
        // What is waited for must be readable, but need not exist.
        let forbids =
            |asked: &stub::Asked, _: &mut _| (asked.path == BOOT).then(|| stub::status(403, "Forbidden", "no"));
        assert!(preflight(&collector(&world(), forbids), &plan).await.is_err());
        let objects = world();
        objects.lock().unwrap().remove(BOOT);
        assert!(preflight(&collector(&objects, untouched), &plan).await.is_ok());
    }

    #[tokio::test]
    async fn companions_are_saved_whether_they_go_or_not() {
        let mut plan = delete_lease_plan();
        let boot = ObjectRef::of(&LEASES, &object("boot", "u2", ""));
        let gone = ObjectRef::new(&LEASES, Some("n"), "gone");
        plan.actions[0].dependents = vec![
            Dependent { resource: LEASES, object: boot, goes: false },
            Dependent { resource: LEASES, object: gone, goes: true },
        ];
        let kept = preflight(&collector(&world(), untouched), &plan).await.unwrap().objects;
        let names: Vec<_> = kept.iter().map(|object| object["metadata"]["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["l", "boot"]);
    }
}
