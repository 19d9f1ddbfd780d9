//! How the plugin was called, so that usage lines and offered commands are what the user types.
//!
//! kubectl runs `kubectl rancher-lease` from a file `kubectl-rancher_lease`, and `kubectl rancher lease` from a file
//! `kubectl-rancher-lease` (kubernetes/kubectl pkg/cmd/plugin.go, HandlePluginCommand).

use std::ffi::OsStr;
use std::path::Path;

use crate::kube::ConnectionFlags;
use crate::report::Invocation;

/// The words to type for this program. kubectl starts a plugin with its full path, so a name without a slash was typed
/// by hand; a path that the search path would also find is one that kubectl may have used.
#[must_use]
pub(super) fn words(argv0: &OsStr, search_path: Option<&OsStr>) -> Vec<String> {
    let path = Path::new(argv0);
    let name = path.file_name().unwrap_or(argv0).to_string_lossy();
    let name = name.strip_suffix(".exe").unwrap_or(&name);
    let by_kubectl = path.components().count() > 1
        && search_path.is_some_and(|dirs| {
            std::env::split_paths(dirs).any(|dir| path.parent() == Some(dir.as_path()) && dir.is_absolute())
        });
    match name.strip_prefix("kubectl-") {
        Some(plugin) if by_kubectl => std::iter::once("kubectl".to_owned())
            // The first dash of the file name separates kubectl's words, an underscore is a dash in one of them.
            .chain(plugin.split('-').map(|word| word.replace('_', "-")))
            .collect(),
        _ => vec![argv0.to_string_lossy().into_owned()],
    }
}

/// The connection flags as they were given, for commands to copy. Never `--token`.
#[must_use]
pub(super) fn connection(flags: &ConnectionFlags) -> Vec<String> {
    let ConnectionFlags {
        kubeconfig,
        context,
        cluster,
        user,
        namespace,
        server,
        token: _,
        r#as,
        as_group,
        as_uid,
        certificate_authority,
        client_certificate,
        client_key,
        insecure_skip_tls_verify,
        tls_server_name,
        request_timeout,
    } = flags;
    let path = |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| path.to_string_lossy().into_owned());
    let single = [
        ("--kubeconfig", path(kubeconfig)),
        ("--context", context.clone()),
        ("--cluster", cluster.clone()),
        ("--user", user.clone()),
        ("--namespace", namespace.clone()),
        ("--server", server.clone()),
        ("--as", r#as.clone()),
        ("--as-uid", as_uid.clone()),
        ("--certificate-authority", path(certificate_authority)),
        ("--client-certificate", path(client_certificate)),
        ("--client-key", path(client_key)),
        ("--tls-server-name", tls_server_name.clone()),
        ("--request-timeout", request_timeout.clone()),
    ];
    let mut words: Vec<String> =
        single.into_iter().filter_map(|(flag, value)| Some([flag.to_owned(), value?])).flatten().collect();
    for group in as_group {
        words.extend(["--as-group".to_owned(), group.clone()]);
    }
    if *insecure_skip_tls_verify {
        words.push("--insecure-skip-tls-verify".to_owned());
    }
    words
}

/// The whole of it.
#[must_use]
pub(super) fn invocation(argv0: &OsStr, flags: &ConnectionFlags, question: Vec<String>) -> Invocation {
    let path = std::env::var_os("PATH");
    let mut given = self::connection(flags);
    // A namespace that the question has taken in is named by the question's own flag.
    if let Some(at) = given.iter().position(|word| word == "--namespace")
        && given.get(at + 1).is_some_and(|namespace| {
            // A target of the same name is another thing.
            question.windows(2).any(|pair| pair[0].starts_with("--") && pair[1] == *namespace)
        })
    {
        given.drain(at..at + 2);
    }
    let mut connection = question;
    connection.extend(given);
    Invocation { words: words(argv0, path.as_deref()), connection }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn usage_fits_the_way_it_was_called() {
        let search = OsStr::new("/usr/bin:/home/u/.krew/bin");
        let cases: [(&str, &[&str]); 6] = [
            ("/home/u/.krew/bin/kubectl-rancher_lease", &["kubectl", "rancher-lease"]),
            ("/usr/bin/kubectl-rancher-lease", &["kubectl", "rancher", "lease"]),
            ("kubectl-rancher_lease", &["kubectl-rancher_lease"]),
            ("target/debug/kubectl-rancher-lease", &["target/debug/kubectl-rancher-lease"]),
            ("/opt/x/kubectl-rancher_lease", &["/opt/x/kubectl-rancher_lease"]),
            ("/usr/bin/renamed", &["/usr/bin/renamed"]),
        ];
        for (argv0, expected) in cases {
            assert_eq!(words(OsStr::new(argv0), Some(search)), expected, "{argv0}");
        }
    }
}
