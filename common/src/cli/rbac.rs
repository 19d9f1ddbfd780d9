//! `rbac`: the least rights, as YAML, from the same list that is collected.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::flags::{For, RbacArgs};
use super::session::{Failure, Session};
use crate::doctor::Doctor;
use crate::exit::Exit;
use crate::snapshot::Right;

#[expect(clippy::unnecessary_wraps, reason = "the verbs have one shape")]
pub(super) fn run<D: Doctor>(session: &Session<D>, args: &RbacArgs<D::Question>) -> Result<Exit, Failure> {
    let question = session.question(args.question.clone());
    let mut rights: Vec<(Right, &str, bool)> = session
        .doctor
        .rights(&question)
        .into_iter()
        .filter(|(_, _, required)| *required || !args.required_only)
        .collect();
    let suffix = match args.purpose {
        For::Check => "check",
        For::Fix => {
            rights.extend(session.doctor.repair_rights(&question).into_iter().map(|(right, why)| (right, why, true)));
            "fix"
        }
    };
    session.ui.out(&yaml(&format!("{}-{suffix}", session.about.name), &rights));
    let downstream: Vec<(Right, &str, bool)> = session
        .doctor
        .downstream_rights(&question)
        .into_iter()
        .filter(|(_, _, required)| *required || !args.required_only)
        .collect();
    if !downstream.is_empty() {
        session.ui.out("---\n# In each downstream cluster that is looked into:\n");
        session.ui.out(&yaml(&format!("{}-{suffix}", session.about.name), &downstream));
    }
    Ok(Exit::Ok)
}

/// Group, resource and name.
type Object<'a> = (&'a str, &'a str, Option<&'a str>);
/// One rule for the same object: all its verbs, the reason of the first, required if one of them is.
type Rule<'a> = (Vec<&'a str>, &'a str, bool);

/// ClusterRole and Roles, each rule with its reason.
fn yaml(name: &str, rights: &[(Right, &str, bool)]) -> String {
    let mut scopes: BTreeMap<Option<&str>, BTreeMap<Object<'_>, Rule<'_>>> = BTreeMap::new();
    for (right, why, required) in rights {
        let rule = scopes
            .entry(right.namespace.as_deref())
            .or_default()
            .entry((&right.group, &right.resource, right.name.as_deref()))
            .or_insert((Vec::new(), why, false));
        if !rule.0.contains(&right.verb.as_str()) {
            rule.0.push(&right.verb);
        }
        rule.2 |= required;
    }
    let mut out = String::new();
    for (namespace, rules) in &scopes {
        let _ = writeln!(out, "---");
        if namespace.is_some() && rules.values().all(|(_, _, required)| !required) {
            let _ = writeln!(out, "# Leave this out where there is no such namespace.");
        }
        let _ = writeln!(out, "apiVersion: rbac.authorization.k8s.io/v1");
        let _ = match namespace {
            None => writeln!(out, "kind: ClusterRole\nmetadata:\n  name: {name}\nrules:"),
            Some(namespace) => {
                writeln!(out, "kind: Role\nmetadata:\n  name: {name}\n  namespace: {namespace}\nrules:")
            }
        };
        for ((group, resource, object), (verbs, why, required)) in rules {
            let _ = writeln!(out, "  # {why}{}", if *required { "" } else { " (optional)" });
            let _ = writeln!(out, "  - apiGroups: [\"{group}\"]\n    resources: [\"{resource}\"]");
            if let Some(object) = object {
                let _ = writeln!(out, "    resourceNames: [\"{object}\"]");
            }
            let _ = writeln!(out, "    verbs: [{}]", verbs.join(", "));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_grouped_by_scope_and_object() {
        let right = |verb: &str, resource: &str, namespace: Option<&str>, name: Option<&str>| Right {
            verb: verb.into(),
            group: "g".into(),
            resource: resource.into(),
            namespace: namespace.map(Into::into),
            name: name.map(Into::into),
        };
        let text = yaml(
            "x",
            &[
                (right("get", "leases", Some("ns"), Some("l")), "why", false),
                (right("delete", "leases", Some("ns"), Some("l")), "why not", true),
                (right("list", "clusters", None, None), "names", false),
            ],
        );
        assert_eq!(
            text,
            "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: x\nrules:\n  # names (optional)\n  \
             - apiGroups: [\"g\"]\n    resources: [\"clusters\"]\n    verbs: [list]\n\
             ---\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata:\n  name: x\n  namespace: ns\nrules:\n  # why\n  \
             - apiGroups: [\"g\"]\n    resources: [\"leases\"]\n    resourceNames: [\"l\"]\n    verbs: [get, delete]\n"
        );
    }
}
