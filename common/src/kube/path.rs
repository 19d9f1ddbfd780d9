//! Paths of the Kubernetes API, and how a request is named in messages.

use std::fmt::Write as _;

/// The path of a resource or of its collection.
///
/// `group` is empty for the core API (`/api/v1/…`). Without `name` it is the collection, without `namespace` the
/// collection over all namespaces or a cluster-wide resource. Names are percent-encoded: they come from clusters and
/// command lines, and must not be able to reach another path.
///
/// ```
/// use rancher_common::kube::path::resource_path;
/// assert_eq!(
///     resource_path("coordination.k8s.io", "v1", "leases", Some("kube-system"), Some("cattle-controllers"), None),
///     "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/cattle-controllers"
/// );
/// ```
pub fn resource_path(
    group: &str,
    version: &str,
    plural: &str,
    namespace: Option<&str>,
    name: Option<&str>,
    subresource: Option<&str>,
) -> String {
    let mut path = String::with_capacity(96);
    if group.is_empty() {
        path.push_str("/api/");
    } else {
        path.push_str("/apis/");
        encode_into(&mut path, group);
        path.push('/');
    }
    encode_into(&mut path, version);
    if let Some(namespace) = namespace.filter(|namespace| !namespace.is_empty()) {
        path.push_str("/namespaces/");
        encode_into(&mut path, namespace);
    }
    path.push('/');
    encode_into(&mut path, plural);
    if let Some(name) = name {
        path.push('/');
        encode_into(&mut path, name);
    }
    if let Some(subresource) = subresource {
        path.push('/');
        // A sub-resource is ours, never a cluster's, and may have several segments (`proxy/stats/summary`).
        for (index, segment) in subresource.split('/').enumerate() {
            if index > 0 {
                path.push('/');
            }
            encode_into(&mut path, segment);
        }
    }
    path
}

/// `path` with query parameters added, encoded; what `path` already asks for stays.
pub fn with_query(path: &str, parameters: &[(&str, &str)]) -> String {
    let mut result = path.to_owned();
    let mut separator = if path.contains('?') { '&' } else { '?' };
    for (key, value) in parameters {
        result.push(separator);
        separator = '&';
        encode_into(&mut result, key);
        result.push('=');
        encode_into(&mut result, value);
    }
    result
}

/// Percent-encodes everything that is not unreserved in RFC 3986, and a segment that is only dots.
fn encode_into(out: &mut String, segment: &str) {
    // "." and ".." would be resolved away by a proxy on the way.
    let only_dots = matches!(segment, "." | "..");
    for byte in segment.bytes() {
        match byte {
            b'.' if only_dots => out.push_str("%2E"),
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            _ => {
                // Writing to a String does not fail.
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
}

/// Percent-decodes; what is no escape stays as it is.
pub(crate) fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut index = 0;
    while index < bytes.len() {
        let hex = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        match (bytes[index], hex(index + 1), hex(index + 2)) {
            (b'%', Some(high), Some(low)) => {
                // Two hexadecimal digits fit into a byte.
                out.push((high * 16 + low) as u8);
                index += 3;
            }
            (byte, ..) => {
                out.push(byte);
                index += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Names a request for people: `GET leases kube-system/cattle-controllers`.
///
/// What is no resource path (`/version`, `/readyz`) is named by its path. The query is left out.
pub fn describe(method: &str, path: &str) -> String {
    let bare = path.split(['?', '#']).next().unwrap_or_default();
    let segments: Vec<&str> = bare.split('/').filter(|segment| !segment.is_empty()).collect();
    let rest = match segments.as_slice() {
        ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => rest,
        _ => &[],
    };
    match rest {
        [] => format!("{method} {bare}"),
        // The namespace itself, or its sub-resource.
        ["namespaces"] => format!("{method} namespaces"),
        ["namespaces", name] => format!("{method} namespaces {name}"),
        ["namespaces", name, "finalize"] => format!("{method} namespaces/finalize {name}"),
        ["namespaces", namespace, plural] => format!("{method} {plural} in {namespace}"),
        ["namespaces", namespace, plural, name] => format!("{method} {plural} {namespace}/{name}"),
        ["namespaces", namespace, plural, name, sub @ ..] => {
            format!("{method} {plural}/{} {namespace}/{name}", sub.join("/"))
        }
        [plural] => format!("{method} {plural}"),
        [plural, name] => format!("{method} {plural} {name}"),
        [plural, name, sub @ ..] => format!("{method} {plural}/{} {name}", sub.join("/")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_all_shapes() {
        let cases = [
            (("", "v1", "pods", None, None, None), "/api/v1/pods"),
            (("", "v1", "pods", Some("cattle-system"), None, None), "/api/v1/namespaces/cattle-system/pods"),
            (
                ("", "v1", "pods", Some("cattle-system"), Some("rancher-0"), Some("log")),
                "/api/v1/namespaces/cattle-system/pods/rancher-0/log",
            ),
            (
                ("", "v1", "nodes", None, Some("n1"), Some("proxy/stats/summary")),
                "/api/v1/nodes/n1/proxy/stats/summary",
            ),
            (
                ("management.cattle.io", "v3", "clusters", None, Some("c-m-1"), None),
                "/apis/management.cattle.io/v3/clusters/c-m-1",
            ),
            (("", "v1", "pods", Some(""), None, None), "/api/v1/pods"),
            (("", "v1", "secrets", Some("../.."), Some(".."), None), "/api/v1/namespaces/..%2F../secrets/%2E%2E"),
            (
                ("", "v1", "secrets", Some("a b"), Some("x?watch=1#é"), None),
                "/api/v1/namespaces/a%20b/secrets/x%3Fwatch%3D1%23%C3%A9",
            ),
        ];
        for ((group, version, plural, namespace, name, sub), want) in cases {
            assert_eq!(resource_path(group, version, plural, namespace, name, sub), want);
        }
    }

    #[test]
    fn query_is_encoded_and_added() {
        assert_eq!(with_query("/api/v1/pods", &[]), "/api/v1/pods");
        assert_eq!(
            with_query("/api/v1/pods", &[("labelSelector", "app=rancher,tier in (a)"), ("limit", "5")]),
            "/api/v1/pods?labelSelector=app%3Drancher%2Ctier%20in%20%28a%29&limit=5"
        );
        assert_eq!(
            with_query("/api/v1/pods?limit=5", &[("continue", "a/b+c=")]),
            "/api/v1/pods?limit=5&continue=a%2Fb%2Bc%3D"
        );
    }

    #[test]
    fn requests_are_named_for_people() {
        let cases = [
            (
                "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/cattle-controllers",
                "GET leases kube-system/cattle-controllers",
            ),
            ("/api/v1/namespaces/cattle-system/pods?labelSelector=app%3Drancher", "GET pods in cattle-system"),
            ("/api/v1/namespaces/cattle-system/pods/rancher-0/log?tailLines=5", "GET pods/log cattle-system/rancher-0"),
            ("/api/v1/nodes/n1/proxy/configz", "GET nodes/proxy/configz n1"),
            ("/api/v1/namespaces/kube-system", "GET namespaces kube-system"),
            ("/api/v1/namespaces", "GET namespaces"),
            ("/api/v1/namespaces/x/finalize", "GET namespaces/finalize x"),
            ("/apis/management.cattle.io/v3/clusters", "GET clusters"),
            ("/apis/management.cattle.io/v3/clusters/local", "GET clusters local"),
            ("/apis/management.cattle.io/v3", "GET /apis/management.cattle.io/v3"),
            ("/version", "GET /version"),
            ("/readyz?verbose", "GET /readyz"),
            ("/", "GET /"),
        ];
        for (path, want) in cases {
            assert_eq!(describe("GET", path), want);
        }
    }
}
