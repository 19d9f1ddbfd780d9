//! Applying a plan: the only code that writes to a cluster.
//!
//! Before the question: permissions, a dry run by the server, and who owns the objects. After it: one action at a time,
//! each read once more just before the write, each write with UID and resourceVersion as preconditions, no write ever
//! repeated. The first surprise stops everything.

use serde_json::{Value, json};

use super::backup::{Backup, BackupError};
use super::consent::Confirmed;
use super::{Action, Operation, Plan};
use crate::kube::client::Api;
use crate::kube::error::{ApiError, ApiErrorKind};
use crate::kube::path::{resource_path, with_query};
use crate::snapshot::{Collector, Right};

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
    resource: &crate::resource::ResourceType,
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
/// # Errors
/// The first hindrance.
pub async fn preflight(collector: &Collector, plan: &Plan) -> Result<Preflight, Hindrance> {
    let api = collector.api();
    let mut found = Preflight::default();
    for action in &plan.actions {
        let path = object_path(collector, action).await?;
        let object = read(api, &path).await?;
        if let Some(hindrance) = unlike_plan(action, object.as_ref()) {
            return Err(hindrance);
        }
        allowed(api, &action.right()).await?;
        write(collector, action, object.as_ref(), true).await.map_err(|error| match error.kind {
            ApiErrorKind::Forbidden => Hindrance::Forbidden(action.right()),
            _ => changed_meanwhile(action, &error).unwrap_or(Hindrance::DryRun(error)),
        })?;
        if let Some(object) = object {
            if let (Operation::Patch { .. }, Some(owner)) = (&action.operation, owner(&object)) {
                found.temporary.push(format!("{} is managed by {owner}, which will revert this change", action.object));
            }
            found.objects.push(with_type(&action.resource, object));
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
                found.objects.push(with_type(&dependent.resource, object));
            }
        }
    }
    found.checked.push("permissions ok".to_owned());
    found.checked.push("server dry run ok".to_owned());
    if found.temporary.is_empty() {
        found.checked.push("no Helm or GitOps owner reverts it".to_owned());
    }
    Ok(found)
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
fn with_type(resource: &crate::resource::ResourceType, mut object: Value) -> Value {
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

/// Whether a write that was not answered has been made, judged from the object as it is now.
fn was_applied(action: &Action, now: Option<&Value>) -> bool {
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
        (Operation::Patch { .. }, None) => false,
        (Operation::Create { .. }, now) => now.is_some(),
    }
}

/// Applies the plan that was agreed to. `stop` is asked before each write: Ctrl-C lets the call in flight finish, then
/// nothing more is written.
///
/// # Errors
/// Only when the journal cannot be written before the first write; everything later is in [`Applied`].
pub async fn apply(
    collector: &Collector,
    plan: &Plan,
    confirmed: Confirmed,
    backup: &mut Backup,
    stop: impl Fn() -> bool,
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
        let step = one(collector, action, number, backup).await;
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

/// Applies one action.
async fn one(collector: &Collector, action: &Action, number: usize, backup: &mut Backup) -> Step {
    let path = match object_path(collector, action).await {
        Ok(path) => path,
        Err(error) => return Step::Stopped(error.to_string()),
    };
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
    if !error.write_outcome_unknown() {
        let changed = changed_meanwhile(action, &error);
        return Step::Stopped(changed.map_or_else(|| error.to_string(), |hindrance| hindrance.to_string()));
    }
    // Never repeated blindly: look at what happened.
    match read(collector.api(), &path).await {
        Ok(now) if was_applied(action, now.as_ref()) => Step::Done,
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
    use super::*;
    use crate::plan::action::tests_support::delete_lease_plan;

    #[test]
    fn what_an_unanswered_delete_did_is_read_off_the_object() {
        let action = &delete_lease_plan().actions[0];
        assert!(was_applied(action, None));
        assert!(was_applied(action, Some(&json!({"metadata": {"uid": "u2"}}))));
        assert!(was_applied(
            action,
            Some(&json!({"metadata": {"uid": "u1", "deletionTimestamp": "2026-01-01T00:00:00Z"}}))
        ));
        assert!(!was_applied(action, Some(&json!({"metadata": {"uid": "u1"}}))));
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
        assert!(was_applied(&action, Some(&object(json!(["b"]), json!(1)))));
        assert!(!was_applied(&action, Some(&object(json!(["a", "b"]), json!(1)))));
        assert!(!was_applied(&action, Some(&object(json!(["b"]), json!(null)))));
        assert!(!was_applied(&action, None));
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
}
