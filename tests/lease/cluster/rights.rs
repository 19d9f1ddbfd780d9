//! The rights that `rbac` prints are enough, are all that is used, and the lack of each is noticed.

use std::collections::BTreeSet;

use rancher_testkit::{Audit, ControlPlane, Output, Program, World};
use serde_json::{Value, json};

use super::{PLUGIN, at_once, plugin};

/// One rule as printed.
#[derive(Clone, Debug)]
struct Rule {
    /// `None` for a ClusterRole.
    namespace: Option<String>,
    rule: Value,
    optional: bool,
}

impl Rule {
    fn covers(&self, request: &Audit) -> bool {
        let [group, resource, namespace, name] = &request.object;
        let has = |key: &str, wanted: &str| self.rule[key].as_array().unwrap().iter().any(|value| value == wanted);
        self.namespace.as_ref().is_none_or(|own| own == namespace)
            && has("apiGroups", group)
            && has("resources", resource)
            && has("verbs", &request.verb)
            && (self.rule["resourceNames"].is_null() || has("resourceNames", name))
    }

    fn title(&self) -> String {
        let namespace = self.namespace.as_deref().unwrap_or("the cluster");
        format!("{} {} in {namespace}", self.rule["resources"], self.rule["resourceNames"])
    }
}

/// Role and ClusterRoles with their rules.
fn parse(printed: &str) -> Vec<Rule> {
    let mut rules = Vec::new();
    for document in printed.split("---\n").filter(|text| !text.is_empty()) {
        let role: Value = rancher_common::yaml::read(document).unwrap();
        let notes: Vec<&str> = document.lines().filter_map(|line| line.strip_prefix("  # ")).collect();
        let of_role = role["rules"].as_array().unwrap();
        assert_eq!(notes.len(), of_role.len(), "each rule has its reason\n{document}");
        for (note, rule) in notes.iter().zip(of_role) {
            let namespace = role["metadata"]["namespace"].as_str().map(str::to_owned);
            assert_eq!(namespace.is_none(), role["kind"] == "ClusterRole");
            rules.push(Rule { namespace, rule: rule.clone(), optional: note.ends_with("(optional)") });
        }
    }
    rules
}

fn binding(name: &str, namespace: Option<&str>, users: &[String]) -> Value {
    let (kind, role) =
        if namespace.is_some() { ("RoleBinding", "Role") } else { ("ClusterRoleBinding", "ClusterRole") };
    let subjects: Vec<Value> = users
        .iter()
        .map(|user| json!({"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}))
        .collect();
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name, "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name}, "subjects": subjects,
    })
}

fn namespaces(rules: &[Rule]) -> BTreeSet<Option<&str>> {
    rules.iter().map(|rule| rule.namespace.as_deref()).collect()
}

/// Applies the printed text as it is, and binds it to the user `viewer`.
fn grant(world: &ControlPlane, printed: &str, rules: &[Rule], name: &str) {
    world.apply(printed);
    let bindings: Vec<Value> =
        namespaces(rules).into_iter().map(|namespace| binding(name, namespace, &["viewer".to_owned()])).collect();
    world.apply(json!({"apiVersion": "v1", "kind": "List", "items": bindings}).to_string());
}

/// Gives the user `without-N` all rules but the Nth.
fn grant_all_but_one(world: &ControlPlane, rules: &[Rule]) {
    let mut items = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        let name = format!("rule-{index}");
        let users: Vec<String> =
            (0..rules.len()).filter(|other| *other != index).map(|other| format!("without-{other}")).collect();
        items.push(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": if rule.namespace.is_some() { "Role" } else { "ClusterRole" },
            "metadata": {"name": name, "namespace": rule.namespace}, "rules": [rule.rule],
        }));
        items.push(binding(&name, rule.namespace.as_deref(), &users));
    }
    world.apply(json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string());
}

/// Requests of this user since so many.
fn requests(world: &ControlPlane, user: &str, since: usize) -> Vec<Audit> {
    world.audit_of_plugin().into_iter().skip(since).filter(|entry| entry.user == user).collect()
}

fn expect_covered(requests: &[Audit], rules: &[Rule]) {
    assert!(!requests.is_empty());
    for request in requests {
        assert_ne!(request.code, 403, "{request:?}");
        // Everybody may ask what they may do, and which versions there are.
        let free = request.object[1] == "selfsubjectaccessreviews" || request.object[1].is_empty();
        assert!(free || rules.iter().any(|rule| rule.covers(request)), "not in the printed role: {request:?}");
    }
}

/// Takes each rule away in turn; `well` is how check ends with all of them.
fn without_each(world: &World, rules: &[Rule], well: &Output) {
    let since = world.audit_of_plugin().len();
    let indices: Vec<usize> = (0..rules.len()).collect();
    at_once(6, &indices, |index| {
        let rule = &rules[*index];
        let user = format!("without-{index}");
        let check = plugin(world, &["check", "--as", &user]).run();
        let denied = requests(world, &user, since).iter().filter(|entry| entry.code == 403).count();
        let what = format!("without {} ({denied} denied): {check}", rule.title());
        if denied == 0 {
            // Not asked for in this state of things.
            assert_eq!(check.code, well.code, "{what}");
        } else if rule.optional {
            assert_eq!(check.code, well.code, "{what}");
            assert!(check.stdout.contains("[--]"), "{what}");
        } else {
            assert!([3, 5].contains(&check.code), "{what}");
            assert!(well.code == 3 || check.code == 5, "{what}");
            assert!(check.stdout.contains("[??] RX001"), "{what}");
            assert!(check.says("forbidden") || check.says("may not"), "{what}");
        }
    });
}

#[test]
fn the_printed_rights_are_enough_and_each_is_missed() {
    let world = World::start(&["--holder", "dead", "--clusters", "2"]);
    let as_viewer = |args: &[&str]| {
        let kubeconfig = world.kubeconfig_of("viewer", world.text("server"), world.text("viewerToken"));
        Program::new(PLUGIN).env("KUBECONFIG", kubeconfig).args(args)
    };
    let nothing = as_viewer(&["check"]).run();
    nothing.expect_code(5).expect_words("forbidden");

    let printed =
        |purpose: &str| Program::new(PLUGIN).args(["rbac", "--for", purpose]).run().expect_code(0).stdout.clone();
    let (text, fix_text) = (printed("check"), printed("fix"));
    let (rules, fix_rules) = (parse(&text), parse(&fix_text));
    for namespace in namespaces(&rules).into_iter().flatten() {
        if world.get(&["namespace", namespace]).is_null() {
            world.kubectl(&["create", "namespace", namespace]);
        }
    }
    grant(&world, &text, &rules, "rancher-lease-check");
    grant_all_but_one(&world, &rules);

    let since = world.audit_of_plugin().len();
    let sick = as_viewer(&["check"]).run();
    sick.expect_code(3);
    assert!(!sick.stdout.contains("[--]") && !sick.stdout.contains("[??]"), "{sick}");
    expect_covered(&requests(&world, "viewer", since), &rules);
    without_each(&world, &rules, &sick);

    // Who may only look repairs nothing.
    let before = world.lease();
    let refused = as_viewer(&["fix", "--yes"]).run();
    refused.expect_code(6).expect_words("you may not delete");
    assert_eq!(world.lease(), before);

    grant(&world, &fix_text, &fix_rules, "rancher-lease-fix");
    let since = world.audit_of_plugin().len();
    as_viewer(&["fix", "--yes"]).run().expect_code(0);
    let asked = requests(&world, "viewer", since);
    expect_covered(&asked, &fix_rules);
    assert_eq!(asked.iter().filter(|entry| entry.is_delete()).count(), 1);

    let well = as_viewer(&["check"]).run();
    well.expect_code(0);
    without_each(&world, &rules, &well);
}
