//! Redaction at the door: what is read is stripped of secrets before anything else sees it, so that no later code can
//! leak one into output, logs, snapshots or backups' names.
//!
//! Backups are the exception by necessity: they hold objects as they were, in files only their owner can read.

use std::borrow::Cow;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use serde_json::{Map, Value};

use super::machine_plan::{MACHINE_PLAN, MACHINE_PLAN_TYPE, MachinePlan};
use crate::resource::ResourceType;

/// What stands in the place of a secret.
const MARK: &str = "<redacted>";

/// What announces a secret: most names and nearly all text hold none of these, and are only read through once.
struct Hints {
    in_name: Option<AhoCorasick>,
    in_text: Option<AhoCorasick>,
}

static HINTS: LazyLock<Hints> = LazyLock::new(|| {
    let any_of = |words: &[&str]| AhoCorasick::builder().ascii_case_insensitive(true).build(words).ok();
    Hints {
        in_name: any_of(&["token", "pass", "secret", "config", "key", "bearer", "credential"]),
        in_text: any_of(&[
            "token",
            "passw",
            "secret",
            "config",
            "key",
            "bearer",
            "credential",
            "eyJ",
            "/v3/import/",
            "://",
        ]),
    }
});

/// Whether a text holds one of the words; without a searcher it might.
fn may_hold(words: Option<&AhoCorasick>, text: &str) -> bool {
    words.is_none_or(|words| words.is_match(text))
}

/// Names whose values are secret wherever they occur as a key or as the name of an environment variable.
fn is_secret_name(name: &str) -> bool {
    if !may_hold(HINTS.in_name.as_ref(), name) {
        return false;
    }
    let lower: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    // Names of Secrets and of files are what a diagnosis must show; the contents are not.
    if lower.ends_with("secretname")
        || lower.ends_with("tokensecret")
        || lower.ends_with("secretref")
        || lower.ends_with("keyref")
        || lower.ends_with("name")
        || lower.ends_with("path")
        || lower.ends_with("file")
        || lower.ends_with("checksum")
        || lower.starts_with("automount")
    {
        return false;
    }
    [
        "token",
        "password",
        "passwd",
        "secret",
        "kubeconfig",
        "privatekey",
        "bearer",
        "credential",
        "accesskey",
        "secretkey",
        "apikey",
    ]
    .iter()
    .any(|word| lower.ends_with(word))
        || ["serviceaccounttoken", "clientkeydata", "tokenhash"].iter().any(|word| lower.contains(word))
}

/// Strips an object of `managedFields`, of the copy `kubectl apply` keeps of it, and of every secret in it.
pub fn redact_object(resource: &ResourceType, object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        }
    }
    if resource.group.is_empty() && resource.plural == "secrets" {
        if object["type"] == MACHINE_PLAN_TYPE && object.get(MACHINE_PLAN).is_none() {
            // One that was not planned yet has no data at all.
            let plan = object.get("data").and_then(Value::as_object).map(MachinePlan::of_data).unwrap_or_default();
            object[MACHINE_PLAN] = serde_json::to_value(plan).unwrap_or_default();
        }
        for field in ["data", "stringData"] {
            if let Some(data) = object.get_mut(field).and_then(Value::as_object_mut) {
                for value in data.values_mut() {
                    *value = Value::String(MARK.to_owned());
                }
            }
        }
    }
    if resource.plural == "clusterregistrationtokens"
        && let Some(status) = object.get_mut("status").and_then(Value::as_object_mut)
    {
        // Every command and URL in it carries the token (rancher/rancher clusterregistrationtoken/status.go).
        for (key, value) in status.iter_mut() {
            if value.is_string() && key != "tokenSecretName" && key != "expiresAt" {
                *value = Value::String(MARK.to_owned());
            }
        }
    }
    // A setting's secret stands beside its name: `bootstrap-password` (rancher/rancher pkg/settings/setting.go).
    let secret_setting =
        resource.plural == "settings" && object["metadata"]["name"].as_str().is_some_and(is_secret_name);
    if secret_setting && let Some(setting) = object.as_object_mut() {
        for field in ["value", "default"] {
            if let Some(Value::String(text)) = setting.get_mut(field) {
                MARK.clone_into(text);
            }
        }
    }
    redact_value(object);
}

fn redact_value(value: &mut Value) {
    match value {
        Value::Object(map) => redact_map(map),
        Value::Array(items) => items.iter_mut().for_each(redact_value),
        Value::String(text) => {
            if let Cow::Owned(clean) = redact_text(text) {
                *text = clean;
            }
        }
        _ => {}
    }
}

fn redact_map(map: &mut Map<String, Value>) {
    // An environment variable: the secret stands beside its name, not under it.
    let secret_variable = map.get("name").and_then(Value::as_str).is_some_and(is_secret_name);
    for (key, value) in map.iter_mut() {
        let secret = is_secret_name(key) || (secret_variable && key == "value");
        match value {
            Value::String(text) if secret && !text.is_empty() => MARK.clone_into(text),
            _ => redact_value(value),
        }
    }
}

/// Strips free text, such as log lines and condition messages, of bearer tokens, JWTs, registration tokens in import
/// URLs, passwords in URLs, `token=…`-like assignments and private keys.
#[must_use]
pub fn redact_text(text: &str) -> Cow<'_, str> {
    if !may_hold(HINTS.in_text.as_ref(), text) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut in_key = false;
    for (index, line) in text.split('\n').enumerate() {
        if index > 0 {
            out.push('\n');
        }
        if in_key {
            in_key = !line.contains("-----END");
            continue;
        }
        if let Some(start) = line.find("-----BEGIN").filter(|_| line.contains("PRIVATE KEY")) {
            out.push_str(&redact_line(&line[..start]));
            out.push_str(MARK);
            in_key = !line.contains("-----END");
            continue;
        }
        out.push_str(&redact_line(line));
    }
    Cow::Owned(out)
}

/// Characters of tokens, keys and URLs.
fn is_token_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.~+/=:%@".contains(c)
}

fn redact_line(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    // The word before the one at hand, lower-case, to recognise `Bearer X`, `token: X`, `--token X`.
    let mut previous = String::new();
    while !rest.is_empty() {
        let start = rest.find(is_token_char).unwrap_or(rest.len());
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let end = rest.find(|c| !is_token_char(c)).unwrap_or(rest.len());
        let word = &rest[..end];
        if !word.is_empty() {
            out.push_str(&redact_word(word, &previous));
            // `"password":"x"` has its colon in a word of its own.
            if word.bytes().all(|byte| byte.is_ascii_punctuation()) {
                previous.push_str(word);
            } else {
                previous = word.to_ascii_lowercase();
            }
        }
        rest = &rest[end..];
    }
    out
}

fn redact_word(word: &str, previous: &str) -> String {
    let announced = previous == "bearer"
        || ["token:", "token=", "password:", "password=", "secret=", "--token", "--password"]
            .iter()
            .any(|end| previous.ends_with(end));
    if announced && word.len() >= 6 {
        return MARK.to_owned();
    }
    // JSON web tokens: three base64url parts, the first of which is a JSON object.
    if let Some(at) = word.find("eyJ")
        && word[at..].matches('.').count() >= 2
    {
        return format!("{}{MARK}", &word[..at]);
    }
    // https://rancher.example.com/v3/import/<token>_<cluster>.yaml
    if let Some(at) = word.find("/v3/import/") {
        let (head, tail) = word.split_at(at + "/v3/import/".len());
        let cluster = tail.rsplit_once('_').map_or("", |(_, cluster)| cluster);
        return format!("{head}{MARK}_{cluster}");
    }
    // https://user:password@host
    if let Some((scheme, rest)) = word.split_once("://")
        && let Some((head, host)) = rest.split_once('@')
        && head.contains(':')
    {
        return format!("{scheme}://{MARK}@{host}");
    }
    if let Some((name, value)) = word.split_once('=')
        && is_secret_name(name)
        && value.len() >= 4
    {
        return format!("{name}={MARK}");
    }
    if let Some((name, value)) = word.split_once(':')
        && is_secret_name(name)
        && value.len() >= 4
        && !value.starts_with("//")
    {
        return format!("{name}:{MARK}");
    }
    word.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{PODS, SECRETS};
    use serde_json::json;

    #[test]
    fn secrets_lose_their_values_and_keep_their_keys() {
        let mut secret =
            json!({"metadata": {"name": "s", "managedFields": [1]}, "data": {"token": "c2VjcmV0", "url": "aHR0cA=="}});
        redact_object(&SECRETS, &mut secret);
        assert_eq!(secret, json!({"metadata": {"name": "s"}, "data": {"token": MARK, "url": MARK}}));
    }

    #[test]
    fn settings_lose_secret_values_only() {
        let setting = |name: &str| {
            let mut setting = json!({"metadata": {"name": name}, "value": "v2.13.2"});
            redact_object(&crate::rancher::SETTINGS, &mut setting);
            setting["value"].clone()
        };
        assert_eq!(setting("server-version"), "v2.13.2");
        assert_eq!(setting("bootstrap-password"), MARK);
    }

    #[test]
    fn environment_variables_lose_secret_values_only() {
        let mut pod = json!({"spec": {"containers": [{"env": [
            {"name": "CATTLE_BOOTSTRAP_PASSWORD", "value": "hunter22"},
            {"name": "CATTLE_DEV_MODE", "value": "30"},
            {"name": "CATTLE_CA_CHECKSUM", "value": "abc"},
            {"name": "CATTLE_CREDENTIAL_NAME", "value": "cattle-credentials-0a1b2c3d4e"},
            {"name": "AWS_SECRET_ACCESS_KEY", "value": "k"},
            {"name": "X_TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "token"}}},
        ]}], "automountServiceAccountToken": true}});
        redact_object(&PODS, &mut pod);
        let env = &pod["spec"]["containers"][0]["env"];
        assert_eq!(env[0]["value"], MARK);
        assert_eq!(env[1]["value"], "30");
        assert_eq!(env[2]["value"], "abc");
        assert_eq!(env[3]["value"], "cattle-credentials-0a1b2c3d4e");
        assert_eq!(env[4]["value"], MARK);
        assert_eq!(env[5]["valueFrom"]["secretKeyRef"]["name"], "s");
    }

    #[test]
    fn free_text_loses_tokens() {
        let secrets = [
            "Authorization: Bearer abcdefghijkl",
            "kubectl apply -f https://rancher.example.com/v3/import/abcdefghijkl_c-m-1.yaml",
            "using token: abcdefghijkl now",
            "--token abcdefghijkl --etcd",
            "CATTLE_TOKEN=abcdefghijkl",
            "apiKey=abcdefghijkl",
            "BEARER abcdefghijkl",
            "https://admin:abcdefghijkl@registry.example.com/v2/",
            "x eyJabcdefghijkl.eyJzdWIiOiJ4In0.c2ln y",
            "-----BEGIN RSA PRIVATE KEY-----\nabcdefghijkl\n-----END RSA PRIVATE KEY-----",
            "{\"password\":\"abcdefghijkl\"}",
        ];
        for text in secrets {
            let clean = redact_text(text);
            assert!(!clean.contains("abcdefghijkl"), "{text} became {clean}");
        }
        assert!(redact_text(secrets[1]).contains("_c-m-1.yaml"));
        assert!(redact_text(&format!("{}\nafter", secrets[7])).ends_with("\nafter"));
    }

    #[test]
    fn harmless_text_stays() {
        for text in [
            "Failed to handle tunnel request from remote address 10.42.1.7:44320 (X-Forwarded-For: 192.0.2.7): response 401: failed authentication",
            "error retrieving resource lock kube-system/cattle-controllers: Get \"https://10.43.0.1:443/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/cattle-controllers?timeout=15m0s\": context deadline exceeded",
            "waiting for service account token secret to be populated for cluster [c-m-1]",
            "leaderelection lost for cattle-controllers",
        ] {
            assert_eq!(redact_text(text), text);
        }
    }
}
