//! What is told of the access itself, by every plugin alike: what could not be read or understood (RX001), clocks that
//! differ (RX004), and which contexts may have been meant (RX002, RX005).

use crate::finding::{Evidence, Finding, shared};
use crate::kinds::{NAMESPACES, Namespace, PODS};
use crate::resource::ObjectRef;
use crate::snapshot::{Content, Need, Snapshot, Want};
use crate::text::some_of;

/// The namespace whose UID is the identity of a cluster: every cluster has it, and it is never made anew.
pub const KUBE_SYSTEM: &str = "kube-system";

/// From this difference on a clock is worth a warning, in seconds.
const SKEW: i64 = 5;

/// UID of the namespace kube-system.
#[must_use]
pub fn cluster_uid(snapshot: &Snapshot) -> Option<String> {
    snapshot.get::<Namespace>(None, KUBE_SYSTEM).ok().flatten()?.metadata.uid
}

/// RX004.
#[must_use]
pub fn clock_skew(snapshot: &Snapshot) -> Option<Finding> {
    let skew = snapshot.origin.clock_skew_seconds;
    if skew.abs() < SKEW {
        return None;
    }
    let direction = if skew > 0 { "behind" } else { "ahead of" };
    Some(
        Finding::new(
            &shared::CLOCK_SKEW,
            "connection",
            ObjectRef::new(&NAMESPACES, None, KUBE_SYSTEM),
            format!(
                "this machine's clock is {}s {direction} the API server's; ages are computed on the server's",
                skew.abs()
            ),
        )
        .evidence([Evidence::new("skew", format!("{skew}s")).from("the API server's Date header")])
        .advice("Set this machine's clock; time stamps in its own logs do not match those of the cluster."),
    )
}

/// RX001 for every required need without a usable answer, each question once.
#[must_use]
pub fn unread(needs: &[Need], snapshot: &Snapshot) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, need) in needs.iter().enumerate().filter(|(_, need)| need.required) {
        // A list of rows may have been asked for as one of whole objects.
        let newest = snapshot.at(&need.place).answers_to(&need.want).next_back();
        let problem = match newest.map(|reading| &reading.content) {
            Some(Content::Failed(failure)) => Some((failure.message.clone(), failure.kind == "Forbidden")),
            _ if snapshot.answers(need) => None,
            Some(_) => Some(("a second look was not taken".to_owned(), false)),
            None => Some(("it was not read".to_owned(), false)),
        };
        let told = needs[..index].iter().any(|other| {
            other.required
                && other.want == need.want
                && other.place == need.place
                && matches!(newest.map(|r| &r.content), Some(Content::Failed(_)) | None)
        });
        if let Some((problem, forbidden)) = problem.filter(|_| !told) {
            findings.push(cannot_read(need, &problem, forbidden));
        }
    }
    findings
}

/// RX001 for something that could not be read.
#[must_use]
pub fn cannot_read(need: &Need, problem: &str, forbidden: bool) -> Finding {
    let subject = match &need.want {
        Want::Get { resource, namespace, name } => ObjectRef::new(resource, namespace.as_deref(), name),
        Want::List { resource, namespace, .. } => ObjectRef::new(resource, namespace.as_deref(), "*"),
        Want::Log { namespace, pod, .. } => ObjectRef::new(&PODS, Some(namespace), pod),
        Want::Kinds { group, .. } => ObjectRef {
            group: group.to_string(),
            kind: "APIGroup".to_owned(),
            namespace: None,
            name: "*".to_owned(),
            uid: None,
        },
    };
    let right = need.want.right();
    let mut facts = vec![Evidence::new("not judged", need.why.clone().into_owned())];
    if forbidden {
        facts.push(Evidence::new("missing right", right.to_string()));
    }
    let place = if need.place.is_here() { String::new() } else { format!(" of {}", need.place) };
    let finding =
        Finding::new(&shared::CANNOT_READ, "access", subject, format!("cannot read {}{place}: {problem}", need.want))
            .evidence(facts);
    if forbidden {
        finding.advice("Ask for this right; the rbac verb prints all that are needed.").next_command(["SELF", "rbac"])
    } else {
        finding.advice("Run it again; what could not be read is never taken for healthy.")
    }
}

/// RX001 for an object of another shape than its kind.
#[must_use]
pub fn malformed(subject: &ObjectRef, problem: &str) -> Finding {
    Finding::new(&shared::CANNOT_READ, "access", subject.clone(), format!("cannot understand {subject}: {problem}"))
        .advice("Look at the object itself: it has another shape than its kind.")
}

/// What to do in the wrong place: use a kubeconfig of `cluster`, and which contexts could be meant, likely ones first.
#[must_use]
pub fn use_another_context(snapshot: &Snapshot, cluster: &str) -> String {
    let mut contexts = snapshot.origin.other_contexts.clone();
    contexts.sort_by_key(|name| {
        let lower = name.to_lowercase();
        let likely = ["rancher", "mgmt", "management", "local", "upstream"].iter().any(|word| lower.contains(word));
        (!likely, name.clone())
    });
    if contexts.is_empty() {
        format!("Use a kubeconfig of {cluster}.")
    } else {
        format!("Use the context of {cluster}; the kubeconfig also has: {}.", some_of(&contexts, 8))
    }
}
