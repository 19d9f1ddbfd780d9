//! The one door to YAML. Reading never puts a piece of the source into an error (it may hold a token), and writing
//! quotes what YAML 1.1 readers such as kubectl would take for something other than a string.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// YAML that could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct YamlError(String);

/// Reads one document.
///
/// # Errors
/// When the text is not YAML or does not have the expected shape; the message names the place, never the content.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, YamlError> {
    serde_yaml::from_str_with_options(text, serde_yaml::options! { with_snippet: false })
        .map_err(|error| YamlError(error.without_snippet().to_string()))
}

/// Writes one document, ending in a newline.
///
/// # Errors
/// When the value cannot be represented in YAML.
pub fn write<T: Serialize>(value: &T) -> Result<String, YamlError> {
    let mut text = serde_yaml::to_string(value).map_err(|error| YamlError(error.to_string()))?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn strings_stay_strings_for_yaml_1_1_readers() {
        let value = json!({"a": "yes", "b": "on", "c": "n", "d": "1e3", "e": "2026-12-01T00:00:00Z", "f": "0o7", "g": "", "h": "a\nb\n"});
        let text = write(&value).expect("written");
        for bare in ["a: yes", "b: on", "c: n", "d: 1e3"] {
            assert!(!text.lines().any(|line| line == bare), "{bare} is unquoted in\n{text}");
        }
        assert_eq!(read::<Value>(&text).expect("read"), value);
    }

    #[test]
    fn errors_do_not_show_the_source() {
        let error = read::<Value>("token: [s3cr3t-t0k3n\nx: }").expect_err("broken");
        assert!(!error.to_string().contains("s3cr3t"), "{error}");
    }
}
