//! Every code has its pages and its incidents.

use std::collections::BTreeMap;

use rancher_common::finding::{Rule, shared};

use crate::catalogue::{self, Role};

/// Shared codes that this plugin never reports: it does not ask whether it stands behind Rancher's proxy, and says
/// «no Rancher here» where another cluster is meant.
const NOT_OURS: [&str; 2] = ["RX002", "RX003"];

fn rules() -> impl Iterator<Item = &'static Rule> {
    kubectl_rancher_ghosts::RULES.iter().chain(&shared::ALL).copied()
}

#[test]
fn every_code_has_pages_in_both_languages() {
    for rule in rules() {
        let title = format!("# {} {}", rule.code, rule.name);
        for (language, page) in [("en", rule.page), ("zh-CN", rule.page_zh_cn)] {
            assert_eq!(page.lines().next(), Some(title.as_str()), "{} ({language})", rule.code);
            assert!(page.lines().count() > 5, "{} ({language}) is empty", rule.code);
        }
        assert_ne!(rule.page, rule.page_zh_cn, "{} is not translated", rule.code);
    }
}

#[test]
fn codes_are_unique_and_sorted() {
    let codes: Vec<&str> = rules().map(|rule| rule.code).collect();
    let mut sorted = codes.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(codes, sorted);
}

#[test]
fn every_code_has_an_incident_and_a_look_alike() {
    let mut kept: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for incident in catalogue::all() {
        let (triggers, looks_like) = kept.entry(incident.code()).or_default();
        match incident.role {
            Role::Triggers => *triggers += 1,
            Role::LooksLike => *looks_like += 1,
        }
    }
    for rule in rules().filter(|rule| !NOT_OURS.contains(&rule.code)) {
        let (triggers, looks_like) = kept.remove(rule.code).unwrap_or_default();
        assert!(triggers > 0, "no incident triggers {}", rule.code);
        assert!(looks_like > 0, "no incident looks like {} without being it", rule.code);
    }
    assert!(kept.is_empty(), "incidents of codes that do not exist: {:?}", kept.keys());
}
