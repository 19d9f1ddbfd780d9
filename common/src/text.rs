//! Text from a cluster is hostile: annotations, condition messages and log lines can be written by whoever may write
//! the object. It is escaped before it meets a terminal, a log or a prompt, and shell words are quoted before they are
//! offered for copying.

use std::borrow::Cow;
use std::fmt::Write as _;

/// True for characters that a terminal acts on or that hide or reorder text: C0 and C1 controls, DEL, zero-width and
/// bidirectional formatting characters, line and paragraph separators, and the byte order mark.
fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Escapes everything that a terminal would act on, on one line: a newline becomes `\n`, an escape byte `\x1b`.
#[must_use]
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hostile) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if is_hostile(c) && (c as u32) < 0x100 => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c if is_hostile(c) => {
                let _ = write!(out, "\\u{{{:x}}}", c as u32);
            }
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Escapes text of our own making that may hold line breaks on purpose: newlines stay, everything else is escaped.
#[must_use]
pub fn escape_lines(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| c != '\n' && is_hostile(c)) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.split('\n').map(escape).collect::<Vec<_>>().join("\n"))
}

/// Shortens to at most `limit` characters, with `…` as the last one when something was cut.
#[must_use]
pub fn shorten(text: &str, limit: usize) -> Cow<'_, str> {
    if text.chars().count() <= limit {
        return Cow::Borrowed(text);
    }
    let mut out: String = text.chars().take(limit.saturating_sub(1)).collect();
    out.push('…');
    Cow::Owned(out)
}

/// Quotes one word for a POSIX shell, only when it needs it. Hostile characters are escaped first, so that the quoted
/// word cannot act on the terminal it is printed to; such a word no longer names the object, which is the safe failure.
#[must_use]
pub fn shell_word(word: &str) -> String {
    let word = escape(word);
    let plain = !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./:=@%+,".contains(&b));
    if plain { word.into_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// A command line for copying, each word quoted by [`shell_word`].
#[must_use]
pub fn shell_line<S: AsRef<str>>(words: &[S]) -> String {
    words.iter().map(|word| shell_word(word.as_ref())).collect::<Vec<_>>().join(" ")
}

/// `1 cluster`, `3 clusters`.
#[must_use]
pub fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// The first few names and how many more there are: `a, b, c and 4 more`.
#[must_use]
pub fn some_of<S: AsRef<str>>(names: &[S], limit: usize) -> String {
    let shown: Vec<&str> = names.iter().take(limit).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(limit) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escapes_what_a_terminal_acts_on() {
        assert_eq!(escape("plain ünï 叢集"), "plain ünï 叢集");
        assert_eq!(escape("a\x1b[2Jb\r\n"), "a\\x1b[2Jb\\r\\n");
        assert_eq!(escape("\u{202e}evil\u{9b}31m"), "\\u{202e}evil\\x9b31m");
    }

    #[test]
    fn quotes_for_the_shell() {
        assert_eq!(shell_word("prod-mgmt"), "prod-mgmt");
        assert_eq!(shell_word("it's; rm -rf /"), r"'it'\''s; rm -rf /'");
        assert_eq!(shell_word(""), "''");
        assert_eq!(shell_line(&["kubectl", "--context", "a b"]), "kubectl --context 'a b'");
    }

    #[test]
    fn names_some_and_counts_the_rest() {
        assert_eq!(some_of(&["a", "b"], 3), "a, b");
        assert_eq!(some_of(&["a", "b", "c", "d"], 2), "a, b and 2 more");
        assert_eq!(count(1, "cluster", "clusters"), "1 cluster");
    }

    proptest! {
        #[test]
        fn nothing_hostile_survives(text in "\\PC*|[\\x00-\\x{10ffff}]*") {
            prop_assert!(!escape(&text).contains(is_hostile));
            prop_assert!(!shell_word(&text).contains(is_hostile));
            prop_assert!(!escape_lines(&text).chars().any(|c| c != '\n' && is_hostile(c)));
        }
    }
}
