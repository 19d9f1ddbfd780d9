//! The exit codes of the suite: public API, the same for every output format and repeated in the JSON.
//!
//! 0–6 mean that a failed run changed nothing; 7 and 8 mean that it did.

use std::process::ExitCode;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exit {
    /// 0: ok, fixed and verified, or nothing to do.
    Ok,
    /// 1: could not run, for instance because the API server cannot be reached.
    CouldNotRun,
    /// 2: wrong usage, unknown target or the wrong cluster.
    Usage,
    /// 3: a problem was found.
    Problem,
    /// 4: only warnings were found, and `--fail-on=warning` was given.
    Warnings,
    /// 5: inconclusive: a required read failed and no problem was proven.
    Inconclusive,
    /// 6: refused or declined; nothing was changed.
    Refused,
    /// 7: applied, but the symptom was not gone in time.
    NotVerified,
    /// 8: partly applied, then stopped.
    Partial,
    /// 130: interrupted before any write.
    Interrupted,
}

impl Exit {
    /// Every exit code, for documentation and tests.
    pub const ALL: [Self; 10] = [
        Self::Ok,
        Self::CouldNotRun,
        Self::Usage,
        Self::Problem,
        Self::Warnings,
        Self::Inconclusive,
        Self::Refused,
        Self::NotVerified,
        Self::Partial,
        Self::Interrupted,
    ];

    /// The number the process ends with.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::CouldNotRun => 1,
            Self::Usage => 2,
            Self::Problem => 3,
            Self::Warnings => 4,
            Self::Inconclusive => 5,
            Self::Refused => 6,
            Self::NotVerified => 7,
            Self::Partial => 8,
            Self::Interrupted => 130,
        }
    }

    /// What the code means, in the words of the help text and the README.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Ok => "ok, fixed and verified, or nothing to do",
            Self::CouldNotRun => "could not run (API server unreachable)",
            Self::Usage => "wrong usage, unknown target or the wrong cluster",
            Self::Problem => "a problem was found",
            Self::Warnings => "warnings only (with --fail-on=warning)",
            Self::Inconclusive => "inconclusive: a required read failed and no problem was proven",
            Self::Refused => "refused or declined, nothing was changed",
            Self::NotVerified => "applied, but not verified in time",
            Self::Partial => "partly applied, then stopped",
            Self::Interrupted => "interrupted before any write",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_the_documented_numbers() {
        let codes: Vec<u8> = Exit::ALL.iter().map(|exit| exit.code()).collect();
        assert_eq!(codes, [0, 1, 2, 3, 4, 5, 6, 7, 8, 130]);
    }
}
