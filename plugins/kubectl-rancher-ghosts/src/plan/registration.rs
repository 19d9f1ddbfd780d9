//! How to clean a host and register it again, as Rancher's own command does it.

use rancher_common::kinds::SECRETS;
use rancher_common::rancher::{CLUSTER_REGISTRATION_TOKENS, Setting};
use rancher_common::snapshot::{Snapshot, Want};
use rancher_common::text::shell_word;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::Question;
use crate::model::fleet::{Cluster, Picture};

/// The registration token that `docs` and the UI use (rancher/rancher pkg/controllers/provisioningv2/cluster/controller.go).
const DEFAULT_TOKEN: &str = "default-token";

/// Where the token stands: in the object's status, or, from 2.13.8, 2.14.4 and 2.15 on, in a Secret that the status
/// names (pkg/controllers/dashboard/clusterregistrationtoken/status.go).
pub(crate) fn token_sources(snapshot: &Snapshot, cluster_id: &str) -> Vec<Want> {
    let Ok(tokens) = snapshot.raw_list(&CLUSTER_REGISTRATION_TOKENS, Some(cluster_id)) else { return Vec::new() };
    let Some(token) = chosen(&tokens) else { return Vec::new() };
    let name = token["metadata"]["name"].as_str().unwrap_or(DEFAULT_TOKEN);
    match token["status"]["tokenSecretName"].as_str().filter(|name| !name.is_empty()) {
        Some(secret) => vec![Want::get(SECRETS, Some(cluster_id), secret)],
        None => vec![Want::get(CLUSTER_REGISTRATION_TOKENS, Some(cluster_id), name)],
    }
}

fn chosen<'a>(tokens: &[&'a Value]) -> Option<&'a Value> {
    let named = |token: &&&Value| token["metadata"]["name"] == DEFAULT_TOKEN;
    tokens.iter().find(named).or(tokens.first()).copied()
}

/// The token itself, where the user asked for it to be shown.
fn token(snapshot: &Snapshot, cluster_id: &str) -> Option<String> {
    use base64::Engine as _;
    let want = token_sources(snapshot, cluster_id).into_iter().next()?;
    let object = snapshot.here().answer(&want).ok()?.first()?;
    let encoded = object["data"]["token"].as_str();
    let decoded = encoded
        .and_then(|text| base64::prelude::BASE64_STANDARD.decode(text).ok())
        .and_then(|bytes| String::from_utf8(bytes).ok());
    decoded.or_else(|| object["status"]["token"].as_str().map(str::to_owned)).filter(|token| !token.starts_with('<'))
}

/// A command that prints the token, for whoever does not want it on the screen.
fn token_command(snapshot: &Snapshot, cluster_id: &str) -> String {
    match token_sources(snapshot, cluster_id).first() {
        Some(Want::Get { resource, name, .. }) if *resource == SECRETS => format!(
            "kubectl get secret -n {} {} -o jsonpath='{{.data.token}}' | base64 -d",
            shell_word(cluster_id),
            shell_word(name)
        ),
        Some(Want::Get { name, .. }) => format!(
            "kubectl get clusterregistrationtokens.management.cattle.io -n {} {} -o jsonpath='{{.status.token}}'",
            shell_word(cluster_id),
            shell_word(name)
        ),
        _ => format!("kubectl get clusterregistrationtokens.management.cattle.io -n {}", shell_word(cluster_id)),
    }
}

/// The checksum of the CA as the server computes it: over the value with a newline at its end; none without a CA
/// (rancher/rancher pkg/systemtemplate/import.go).
pub(crate) fn ca_checksum(cacerts: &str) -> Option<String> {
    if cacerts.is_empty() {
        return None;
    }
    let mut text = cacerts.to_owned();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Some(Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect())
}

/// What a person does next, one line each.
pub(crate) fn afterwards(
    question: &Question,
    snapshot: &Snapshot,
    cluster: &Cluster,
    picture: &Picture,
) -> Vec<String> {
    let Some(machine) = picture.whole() else { return Vec::new() };
    if let Some(pool) = machine.pool() {
        return vec![format!("MachineSet {pool} has made a replacement already, unless its pool is smaller now.")];
    }
    let setting =
        |name: &str| snapshot.get::<Setting>(None, name).ok().flatten().map(|setting| setting.effective().to_owned());
    let mut lines = vec![
        "If the host is to come back, clean it first (this removes everything of RKE2 or K3s on it):".to_owned(),
        "  rancher-system-agent-uninstall.sh; rke2-uninstall.sh || k3s-uninstall.sh; rm -rf /var/lib/rancher/capr"
            .to_owned(),
    ];
    let Some(server) = setting("server-url").filter(|url| !url.is_empty()) else {
        lines.push(
            "then register it with the command of the cluster's Registration tab (server-url was not read)".to_owned(),
        );
        return lines;
    };
    let server = server.trim_end_matches('/');
    let roles: Vec<&str> = machine.roles().into_iter().map(crate::model::machine::Role::flag).collect();
    let id = cluster.id.as_deref().unwrap_or_default();
    let shown = if question.show_token { token(snapshot, id) } else { None };
    let masked = shown.is_none();
    let mut words = vec![
        format!(
            "curl {}-fL {} | sudo sh -s -",
            if setting("cacerts").is_some_and(|ca| !ca.is_empty()) { "--insecure " } else { "" },
            shell_word(&format!("{server}/system-agent-install.sh"))
        ),
        format!("--server {}", shell_word(server)),
        "--label cattle.io/os=linux".to_owned(),
        format!("--token {}", shown.map_or_else(|| "TOKEN".to_owned(), |token| shell_word(&token))),
    ];
    if let Some(sum) = setting("cacerts").as_deref().and_then(ca_checksum) {
        words.push(format!("--ca-checksum {sum}"));
    }
    words.extend(roles.into_iter().map(str::to_owned));
    lines.push("then, on the host:".to_owned());
    lines.push(format!("  {}", words.join(" ")));
    if masked {
        lines.push(format!("TOKEN is what this prints: {}", token_command(snapshot, id)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_checksum_ends_in_one_newline() {
        assert_eq!(ca_checksum(""), None);
        assert_eq!(ca_checksum("a"), ca_checksum("a\n"));
        assert_ne!(ca_checksum("a"), ca_checksum("a\n\n"));
        // printf 'a\n' | sha256sum
        assert_eq!(
            ca_checksum("a").as_deref(),
            Some("87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7")
        );
    }
}
