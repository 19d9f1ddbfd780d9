//! `explain`: the page of a finding, offline.

use super::flags::ExplainArgs;
use super::session::{Failure, Session};
use crate::doctor::Doctor;
use crate::exit::Exit;
use crate::finding::{Rule, shared};

pub(super) fn run<D: Doctor>(session: &Session<D>, args: &ExplainArgs) -> Result<Exit, Failure> {
    let Some(code) = &args.code else {
        for rule in rules(&session.about) {
            session.ui.out(&format!("{}  {:<20} {}\n", rule.code, rule.name, first_sentence(rule.page)));
        }
        return Ok(Exit::Ok);
    };
    let wanted = code.to_uppercase();
    let rule = rules(&session.about)
        .find(|rule| rule.code == wanted || rule.name.eq_ignore_ascii_case(code))
        .ok_or_else(|| {
            let all: Vec<&str> = rules(&session.about).map(|rule| rule.code).collect();
            Failure::usage(format!("there is no finding {code} here")).hint(Some(format!("known: {}", all.join(" "))))
        })?;
    let chinese = match args.lang.as_deref() {
        Some(lang) => lang == "zh-CN",
        None => locale_is_chinese(),
    };
    session.ui.out(if chinese { rule.page_zh_cn } else { rule.page });
    Ok(Exit::Ok)
}

/// The plugin's own rules, then the shared ones.
pub(super) fn rules(about: &crate::doctor::About) -> impl Iterator<Item = &'static Rule> {
    about.rules.iter().copied().chain(shared::ALL)
}

/// The first paragraph under the heading.
fn first_sentence(page: &str) -> &str {
    page.lines().skip(1).find(|line| !line.trim().is_empty()).unwrap_or_default()
}

/// LC_ALL, else LC_MESSAGES, else LANG (POSIX, Environment Variables, 8.2): the first one that is set and not empty.
fn locale_is_chinese() -> bool {
    ["LC_ALL", "LC_MESSAGES", "LANG"]
        .iter()
        .filter_map(|name| std::env::var(name).ok())
        .find(|value| !value.is_empty())
        .is_some_and(|value| value.starts_with("zh"))
}
