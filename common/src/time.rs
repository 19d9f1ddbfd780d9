//! Times and durations as kubectl users write and read them.
//!
//! All ages are computed on the API server's clock; see [`crate::snapshot::Snapshot::as_of`].

use std::time::Duration;

pub use jiff::Timestamp;

/// The error of [`parse_duration`].
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not a duration; write for instance 30s, 5m or 1h30m")]
pub struct BadDuration(String);

/// Parses a Go-style duration (`30s`, `1m30s`, `1.5h`, `500ms`); a bare number means seconds, as for kubectl's
/// `--request-timeout` (kubernetes/kubernetes, staging/src/k8s.io/client-go/tools/clientcmd/helpers.go, `ParseTimeout`).
///
/// # Errors
/// When the text is empty, negative or has an unknown unit.
pub fn parse_duration(text: &str) -> Result<Duration, BadDuration> {
    let bad = || BadDuration(text.to_owned());
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Err(bad());
    }
    if trimmed.bytes().all(|byte| byte.is_ascii_digit()) {
        return trimmed.parse().map(Duration::from_secs).map_err(|_| bad());
    }
    let mut rest = trimmed;
    let mut seconds = 0.0_f64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(bad)?;
        let number: f64 = rest[..digits].parse().map_err(|_| bad())?;
        let tail = &rest[digits..];
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        seconds += number
            * match &tail[..unit_end] {
                "ns" => 1e-9,
                "us" | "µs" => 1e-6,
                "ms" => 1e-3,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                "d" => 86_400.0,
                _ => return Err(bad()),
            };
        rest = &tail[unit_end..];
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| bad())
}

/// A duration in at most two units, as kubectl prints ages: `41m`, `2h5m`, `45h`, `3d4h`.
#[must_use]
pub fn human(duration: Duration) -> String {
    let total = duration.as_secs();
    let (days, hours, minutes, seconds) = (total / 86_400, total / 3600 % 24, total / 60 % 60, total % 60);
    let pair = |large: u64, unit: &str, small: u64, small_unit: &str| {
        if small == 0 { format!("{large}{unit}") } else { format!("{large}{unit}{small}{small_unit}") }
    };
    match total {
        0..60 => format!("{seconds}s"),
        60..3600 => pair(minutes, "m", seconds, "s"),
        // Two days are still read in hours: the 45 hours of a development-mode Lease are known by that name.
        3600..172_800 => pair(total / 3600, "h", minutes, "m"),
        _ => pair(days, "d", hours, "h"),
    }
}

/// `later − earlier`, zero when `later` is the earlier one (clocks of two machines differ).
#[must_use]
pub fn between(earlier: Timestamp, later: Timestamp) -> Duration {
    Duration::try_from(later.duration_since(earlier)).unwrap_or(Duration::ZERO)
}

/// Adds a duration, staying at the largest representable time instead of overflowing.
#[must_use]
pub fn after(time: Timestamp, duration: Duration) -> Timestamp {
    time.checked_add(duration).unwrap_or(Timestamp::MAX)
}

/// RFC 3339 in UTC with whole seconds, cut as Kubernetes prints `metav1.Time`: a time shown must not be later than it was.
#[must_use]
pub fn rfc3339(time: Timestamp) -> String {
    format!("{time:.0}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_what_go_parses() {
        let cases = [
            ("0", 0.0),
            ("30", 30.0),
            ("30s", 30.0),
            ("1m30s", 90.0),
            ("1.5h", 5400.0),
            ("500ms", 0.5),
            ("45h", 162_000.0),
        ];
        for (text, seconds) in cases {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
        for text in ["", "-1s", "s", "5x", "1m 3", "1..2s", "9e99h"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn prints_two_units() {
        let cases = [
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (2460, "41m"),
            (125, "2m5s"),
            (7500, "2h5m"),
            (162_000, "45h"),
            (277_200, "3d5h"),
        ];
        for (seconds, text) in cases {
            assert_eq!(human(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn negative_spans_are_zero() {
        let now: Timestamp = "2026-12-01T00:00:00Z".parse().expect("a time");
        assert_eq!(between(after(now, Duration::from_secs(5)), now), Duration::ZERO);
        assert_eq!(rfc3339(now), "2026-12-01T00:00:00Z");
        assert_eq!(rfc3339(after(now, Duration::from_millis(900))), "2026-12-01T00:00:00Z");
    }
}
