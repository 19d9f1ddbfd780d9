//! The rules that findings follow: code, name, severity, and the page that explains them.

use serde::{Deserialize, Serialize};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; changes no verdict.
    Info,
    /// Will hurt, or hurts somewhere else.
    Warning,
    /// Could not be judged although it must be.
    Unknown,
    /// Something is broken now.
    Error,
}

impl Severity {
    /// The ASCII mark that starts its line.
    #[must_use]
    pub fn mark(self) -> &'static str {
        match self {
            Self::Info => "[--]",
            Self::Warning => "[!!]",
            Self::Unknown => "[??]",
            Self::Error => "[XX]",
        }
    }
}

/// What a finding's code stands for. Codes are public API and never reused.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// Two letters of the plugin and three digits: `RL101`.
    pub code: &'static str,
    /// Name in one word: `HolderGone`.
    pub name: &'static str,
    /// Severity unless the finding says otherwise.
    pub severity: Severity,
    /// The page `docs/findings/<code>.md`, compiled in for `explain`.
    pub page: &'static str,
    /// The same page in 简体中文, `docs/findings/zh-CN/<code>.md`.
    pub page_zh_cn: &'static str,
}

impl Rule {
    /// A rule; see the fields.
    #[must_use]
    pub const fn new(
        code: &'static str,
        name: &'static str,
        severity: Severity,
        page: &'static str,
        page_zh_cn: &'static str,
    ) -> Self {
        Self { code, name, severity, page, page_zh_cn }
    }
}

/// Defines a rule whose pages are `docs/findings/<code>.md` and `docs/findings/zh-CN/<code>.md` of the repository.
///
/// `rule!("../../..", HOLDER_GONE, "RL101", "HolderGone", Error, "The holder …")`: the first argument is the way from
/// the calling file to the repository's root.
#[macro_export]
macro_rules! rule {
    ($root:literal, $(#[$attribute:meta])* $constant:ident, $code:literal, $name:literal, $severity:ident) => {
        $(#[$attribute])*
        pub static $constant: $crate::finding::Rule = $crate::finding::Rule::new(
            $code,
            $name,
            $crate::finding::Severity::$severity,
            include_str!(concat!($root, "/docs/findings/", $code, ".md")),
            include_str!(concat!($root, "/docs/findings/zh-CN/", $code, ".md")),
        );
    };
}

/// The rules every plugin shares.
pub mod shared {
    use super::Rule;

    crate::rule!("../../..",
        /// Something needed could not be read.
        CANNOT_READ, "RX001", "CannotRead", Unknown);
    crate::rule!("../../..",
        /// A downstream cluster where the management one is needed, or the reverse.
        WRONG_CLUSTER, "RX002", "WrongCluster", Error);
    crate::rule!("../../..",
        /// The connection passes through Rancher, which is what is to be repaired.
        THROUGH_RANCHER_PROXY, "RX003", "ThroughRancherProxy", Warning);
    crate::rule!("../../..",
        /// The local clock and the API server's clock differ.
        CLOCK_SKEW, "RX004", "ClockSkew", Warning);
    crate::rule!("../../..",
        /// No Rancher in this cluster.
        NO_RANCHER_HERE, "RX005", "NoRancherHere", Error);

    crate::rule!("../../..",
        /// What was named does not exist, or is not the only one of that name.
        NO_SUCH_TARGET, "RX006", "NoSuchTarget", Error);

    /// All shared rules, by code.
    pub static ALL: [&Rule; 6] =
        [&CANNOT_READ, &WRONG_CLUSTER, &THROUGH_RANCHER_PROXY, &CLOCK_SKEW, &NO_RANCHER_HERE, &NO_SUCH_TARGET];
}
