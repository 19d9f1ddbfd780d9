//! Where a command goes, for every way in which kube-rs and kubectl differ.
//!
//! The expected servers and namespaces were read off `kubectl config view --minify` and `kubectl get ns -v6` (v1.32) for
//! the same files.

use std::path::{Path, PathBuf};

use clap::Parser as _;
use tempfile::TempDir;

use super::{
    config::{ConfigError, Environment, contexts, resolve},
    flags::ConnectionFlags,
};

const CA: &str = include_str!("testdata/ca.pem");
const CLIENT: &str = include_str!("testdata/client.pem");
const CLIENT_KEY: &str = include_str!("testdata/client.key");

const ONE: &str = r#"
clusters:
- name: a
  cluster: {server: "https://one:1"}
contexts:
- name: c
  context: {cluster: a, namespace: n1}
- name: d
  context: {cluster: a}
current-context: ""
"#;
const TWO: &str = r#"
apiVersion: v1
kind: Config
preferences: {}
clusters:
- name: a
  cluster: {server: "https://two:1", tls-server-name: two}
- name: b
  cluster: {server: "https://b:1", certificate-authority-data: ""}
contexts:
- name: c
  context: {cluster: b, namespace: n2}
- name: e
  context: {cluster: b, namespace: "", user: ""}
- name: f
  context: {namespace: v}
- name: g
current-context: d
users: null
"#;

/// A directory with files, and the environment that points to it.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    fn with(text: &str) -> (Self, Environment) {
        let place = Self::new();
        let path = place.file("config", text);
        (place, kubeconfig(&[&path]))
    }
}

fn kubeconfig(paths: &[&Path]) -> Environment {
    Environment::from_variables([("KUBECONFIG", std::env::join_paths(paths).unwrap())])
}

#[derive(clap::Parser)]
struct Cli {
    #[command(flatten)]
    connection: ConnectionFlags,
}

fn flags(args: &[&str]) -> ConnectionFlags {
    Cli::try_parse_from(std::iter::once(&"test").chain(args)).unwrap().connection
}

/// server|namespace|tls-server-name, the form in which kubectl was asked.
fn where_to(args: &[&str], environment: &Environment) -> String {
    match resolve(&flags(args), environment) {
        Ok((target, config)) => {
            format!("{}|{}|{}", target.server, target.namespace, config.tls_server_name.unwrap_or_default())
        }
        Err(error) => format!("error: {error}"),
    }
}

fn error(args: &[&str], environment: &Environment) -> ConfigError {
    resolve(&flags(args), environment).map(|(target, _)| target).unwrap_err()
}

fn headers(config: &::kube::Config) -> String {
    format!("{:?}", config.auth_info)
}

#[test]
fn lists_of_files_are_merged_as_kubectl_does() {
    let place = Place::new();
    let one = place.file("one", ONE);
    let two = place.file("two", TWO);
    let missing = place.path("missing");
    let empty = place.file("empty", "");
    let none = PathBuf::new();
    let none = none.as_path();
    let cases: [(&[&Path], &[&str], &str); 13] = [
        (&[&one, &two], &[], "https://one:1|default|"),
        (&[&two, &one], &[], "https://two:1|default|two"),
        (&[&one, &two], &["--context", "c"], "https://one:1|n1|"),
        (&[&two, &one], &["--context", "c"], "https://b:1|n2|"),
        (&[&one, &two], &["--context", "e"], "https://b:1|default|"),
        (&[&one, &two], &["--context", "e", "-n", "x"], "https://b:1|x|"),
        (&[&two, &one], &["--context", "e", "--cluster", "a"], "https://two:1|default|two"),
        (&[&missing, &two, &two, none, &empty], &["--context", "c"], "https://b:1|n2|"),
        // kubectl would go to localhost:8080 for these.
        (&[&two], &["--context", "f"], "error: cluster of context \"f\": is missing"),
        (&[&two], &["--context", "g"], "error: cluster of context \"g\": is missing"),
        (&[&one], &[], "error: the kubeconfig has no current-context and no --context is given"),
        (&[&one], &["--cluster", "a"], "https://one:1|default|"),
        (
            &[&one],
            &["--context", "", "-s", ""],
            "error: the kubeconfig has no current-context and no --context is given",
        ),
    ];
    for (paths, args, want) in cases {
        assert_eq!(where_to(args, &kubeconfig(paths)), want, "{paths:?} {args:?}");
    }

    let (target, _) = resolve(&flags(&[]), &kubeconfig(&[&missing, &two, &one, &two])).unwrap();
    assert_eq!(target.kubeconfig, [two, one]);
    assert_eq!(target.context.as_deref(), Some("d"));
    assert_eq!(target.context_from, "kubeconfig");
    let shown: Vec<String> = target
        .contexts
        .iter()
        .map(|c| format!("{} {} {}", c.name, c.server.as_deref().unwrap_or("-"), c.current))
        .collect();
    assert_eq!(shown, ["c https://b:1 false", "e https://b:1 false", "f - false", "g - false", "d https://two:1 true"]);
}

#[test]
fn an_explicit_file_must_be_there_and_is_the_only_one() {
    let place = Place::new();
    let one = place.file("one", ONE);
    let two = place.file("two", TWO);
    let environment = kubeconfig(&[&two]);
    assert_eq!(where_to(&["--kubeconfig", one.to_str().unwrap(), "--context", "c"], &environment), "https://one:1|n1|");
    let error = error(&["--kubeconfig", place.path("no").to_str().unwrap()], &environment);
    assert!(matches!(error, ConfigError::FileMissing { .. }) && error.is_usage(), "{error}");
}

#[test]
fn the_default_file_is_below_home() {
    let place = Place::new();
    place.file(".kube/config", TWO.replace("current-context: d", "current-context: e"));
    let home = place.0.path().as_os_str().to_owned();
    assert_eq!(where_to(&[], &Environment::from_variables([("HOME", home.clone())])), "https://b:1|default|");
    // An empty KUBECONFIG is none; one that names nothing is one.
    let with = |list: &str| Environment::from_variables([("HOME", home.clone()), ("KUBECONFIG", list.into())]);
    assert_eq!(where_to(&[], &with("")), "https://b:1|default|");
    assert!(matches!(error(&[], &with(":")), ConfigError::NoKubeconfig { tried } if tried.is_empty()));
    assert!(matches!(error(&[], &with("/no/such/file")), ConfigError::NoKubeconfig { tried } if tried.len() == 1));
    let nothing = Environment::from_variables::<String, String>([]);
    let error = error(&[], &nothing);
    assert!(error.is_usage() && error.hint().unwrap().contains("--kubeconfig"));
    assert!(contexts(&flags(&[]), &nothing).is_empty());
}

#[test]
fn a_server_alone_is_enough() {
    let nothing = Environment::from_variables::<String, String>([]);
    assert_eq!(where_to(&["-s", "https://x:6443"], &nothing), "https://x:6443|default|");
    // kubectl reads an address without a scheme as http, whatever is said about TLS.
    assert_eq!(where_to(&["-s", "127.0.0.1:1", "-n", "k"], &nothing), "http://127.0.0.1:1|k|");
    let (target, _) = resolve(&flags(&["-s", "https://x"]), &nothing).unwrap();
    assert_eq!((target.context, target.context_from), (None, "flag"));
    for bad in ["https://", "ftp://x", "https://user:hunter2@x", "https://x y", "https://x?y=1"] {
        let error = error(&["-s", bad], &nothing);
        assert!(matches!(error, ConfigError::BadServer { .. }) && error.is_usage(), "{bad}: {error}");
        assert!(!error.to_string().contains("hunter2"));
    }
}

#[test]
fn names_that_are_not_there_are_errors_with_those_that_are() {
    let (_place, environment) = Place::with(
        r#"
clusters: [{name: a, cluster: {server: "https://a"}}, {name: e, cluster: {server: ""}}]
users: [{name: u, user: {token: t}}]
contexts:
- {name: a, context: {cluster: a, user: u}}
- {name: nocluster, context: {cluster: nope, user: u}}
- {name: nouser, context: {cluster: a, user: nope}}
- {name: noserver, context: {cluster: e, user: u}}
current-context: gone
"#,
    );
    let text = |args: &[&str]| {
        let error = error(args, &environment);
        assert!(error.is_usage());
        format!("{error}; {}", error.hint().unwrap_or_default())
    };
    let contexts = "there are: a, nocluster, noserver, nouser";
    assert_eq!(text(&[]), format!("no context \"gone\" in the kubeconfig (named by current-context); {contexts}"));
    assert_eq!(
        text(&["--context", "x"]),
        format!("no context \"x\" in the kubeconfig (named by --context); {contexts}")
    );
    assert_eq!(
        text(&["--context", "a", "--cluster", "x"]),
        "no cluster \"x\" in the kubeconfig (named by --cluster); there are: a, e"
    );
    assert_eq!(
        text(&["--context", "nocluster"]),
        "no cluster \"nope\" in the kubeconfig (named by context \"nocluster\"); there are: a, e"
    );
    assert_eq!(
        text(&["--context", "nouser"]),
        "no user \"nope\" in the kubeconfig (named by context \"nouser\"); there are: u"
    );
    assert_eq!(
        text(&["--context", "a", "--user", "x"]),
        "no user \"x\" in the kubeconfig (named by --user); there are: u"
    );
    assert_eq!(text(&["--context", "noserver"]), "cluster \"e\" of the kubeconfig has no server; ");
    // What the flags bring is not missed in the file.
    assert_eq!(where_to(&["--context", "nouser", "--token", "x"], &environment), "https://a|default|");
    assert_eq!(where_to(&["--context", "nocluster", "-s", "https://y"], &environment), "https://y|default|");
}

#[test]
fn a_broken_file_is_an_error_that_shows_nothing_of_it() {
    let secret = "kubeconfig-u-abc:SECRETSECRET";
    let broken = [
        format!("users:\n- name: u\n  user:\n    token: \"{secret}\n"),
        format!("users:\n- name: u\n  user:\n    token: {secret}: x\n"),
        format!("users:\n- name: u\n  user: {secret}\n"),
        format!("users: {secret}\n"),
        format!("users:\n- name: u\n  user:\n    token: [{secret}]\n"),
        format!("users:\n- name: u\n  user:\n    exec: {{env: {secret}}}\n"),
        format!("users:\n- name: u\n  user:\n\ttoken: {secret}\n"),
        format!("{secret}\n"),
        format!("kind: Pod\nusers: [{{name: u, user: {{token: \"{secret}\"}}}}]\n"),
        format!("users: [{{name: u, user: {{token: \"{secret}\"}}}}, {{name: u}}]\n"),
    ];
    for text in broken {
        let (_place, environment) = Place::with(&text);
        let error = error(&[], &environment);
        assert!(matches!(error, ConfigError::Parse { .. }) && !error.is_usage(), "{text:?}: {error}");
        for shown in [error.to_string(), format!("{error:?}"), format!("{:?}", error.hint())] {
            assert!(!shown.contains("SECRET"), "{text:?}: {shown}");
        }
        assert!(error.to_string().contains("/config"), "{error}");
        assert!(contexts(&flags(&[]), &environment).is_empty());
    }
    let (_place, environment) = Place::with("clusters: []\nusers:\n- name: u\n  user:\n    token: \"abc\n");
    assert!(error(&[], &environment).to_string().contains("line "), "{}", error(&[], &environment));
    let (_place, environment) = Place::with("a\0b");
    assert!(matches!(error(&[], &environment), ConfigError::Parse { .. }));
}

#[test]
fn what_kubectl_reads_is_read() {
    // Twice the same key: the last one. A second document: ignored. UTF-16: as PowerShell writes it.
    let twice = ONE.replace(r#"{server: "https://one:1"}"#, r#"{server: "https://x:1", server: "https://y:1"}"#);
    let (_place, environment) = Place::with(&twice);
    assert_eq!(where_to(&["--context", "d"], &environment), "https://y:1|default|");
    let (_place, environment) = Place::with(&format!("{ONE}---\n{TWO}"));
    assert_eq!(where_to(&["--context", "c"], &environment), "https://one:1|n1|");
    let place = Place::new();
    let mut utf16 = vec![0xFF, 0xFE];
    utf16.extend(ONE.encode_utf16().flat_map(u16::to_le_bytes));
    let utf16 = place.file("utf16", utf16);
    assert_eq!(where_to(&["--context", "c"], &kubeconfig(&[&utf16])), "https://one:1|n1|");
    let bom = place.file("bom", format!("\u{feff}{ONE}"));
    assert_eq!(where_to(&["--context", "c"], &kubeconfig(&[&bom])), "https://one:1|n1|");
    let json = place.file(
        "json",
        "{\n\t\"clusters\": [{\"name\": \"a\", \"cluster\": {\"server\": \"https://j\"}}],\n\t\"contexts\": [{\"name\": \"a\", \"context\": {\"cluster\": \"a\"}}], \"current-context\": \"a\"}",
    );
    assert_eq!(where_to(&[], &kubeconfig(&[&json])), "https://j|default|");
}

#[cfg(unix)]
#[test]
fn an_unreadable_file_is_an_error_and_no_reason_to_look_elsewhere() {
    let place = Place::new();
    let directory = place.path("");
    let environment = Environment::from_variables([
        ("KUBECONFIG", directory.as_os_str().to_owned()),
        ("KUBERNETES_SERVICE_HOST", "10.0.0.1".into()),
        ("KUBERNETES_SERVICE_PORT", "443".into()),
    ])
    .with_service_account(service_account(&place));
    let error = error(&[], &environment);
    assert!(matches!(error, ConfigError::Unreadable { .. }) && !error.is_usage(), "{error}");
}

fn service_account(place: &Place) -> PathBuf {
    place.file("sa/token", "sa-token");
    place.file("sa/ca.crt", CA);
    place.file("sa/namespace", "cattle-system\n");
    place.path("sa")
}

#[test]
fn a_pod_uses_its_service_account_only_if_nothing_else_is_meant() {
    let place = Place::new();
    let account = service_account(&place);
    let home = place.0.path().as_os_str().to_owned();
    let pod = |extra: &[(&str, &str)]| {
        let fixed = [
            ("HOME", home.to_str().unwrap()),
            ("KUBERNETES_SERVICE_HOST", "fd00::1"),
            ("KUBERNETES_SERVICE_PORT", "6443"),
        ];
        Environment::from_variables(fixed.iter().chain(extra).copied()).with_service_account(&account)
    };
    let (target, config) = resolve(&flags(&["--as", "x"]), &pod(&[])).unwrap();
    assert_eq!(target.context_from, "in-cluster");
    assert_eq!((target.server.as_str(), target.namespace.as_str()), ("https://[fd00::1]:6443", "cattle-system"));
    assert_eq!(config.auth_info.impersonate.as_deref(), Some("x"));
    assert_eq!(config.auth_info.token_file.as_deref(), account.join("token").to_str());
    assert!(config.root_cert.is_some() && config.root_cert_file.is_some());
    assert_eq!(where_to(&["-n", "x"], &pod(&[("POD_NAMESPACE", "y")])), "https://[fd00::1]:6443|x|");
    assert_eq!(where_to(&[], &pod(&[("POD_NAMESPACE", "y")])), "https://[fd00::1]:6443|y|");
    let (_, config) = resolve(&flags(&["--token", "t"]), &pod(&[])).unwrap();
    assert!(config.auth_info.token.is_some() && config.auth_info.token_file.is_none());

    for args in [
        ["--context", "x"],
        ["--cluster", "x"],
        ["--user", "x"],
        ["--certificate-authority", "/x"],
        ["--tls-server-name", "x"],
    ] {
        assert!(matches!(error(&args, &pod(&[])), ConfigError::NoKubeconfig { .. }), "{args:?}");
    }
    assert_eq!(where_to(&["-s", "https://x"], &pod(&[])), "https://x|default|");
    assert!(matches!(error(&[], &pod(&[("KUBECONFIG", "/no/such")])), ConfigError::NoKubeconfig { .. }));
    place.file(".kube/config", "users: [");
    assert!(matches!(error(&[], &pod(&[])), ConfigError::Parse { .. }));
    place.file(".kube/config", TWO.replace("current-context: d", "current-context: e"));
    assert_eq!(where_to(&[], &pod(&[])), "https://b:1|default|");
}

/// A kubeconfig with one context of everything given.
fn single(cluster: &str, user: &str) -> String {
    format!(
        "clusters: [{{name: c, cluster: {{server: \"https://rancher.example.com/k8s/clusters/c-m-1\", {cluster}}}}}]\n\
         users: [{{name: u, user: {{{user}}}}}]\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
    )
}

#[test]
fn rancher_s_proxy_is_recognised() {
    let (_place, environment) = Place::with(&single("", "token: t"));
    let id = |args: &[&str]| resolve(&flags(args), &environment).unwrap().0.rancher_proxy;
    assert_eq!(id(&[]).as_deref(), Some("c-m-1"));
    assert_eq!(id(&["-s", "https://r/x/k8s/clusters/local/"]).as_deref(), Some("local"));
    assert_eq!(id(&["-s", "https://r/k8s/clusters"]), None);
    assert_eq!(id(&["-s", "https://r:6443"]), None);
}

#[test]
fn paths_in_a_file_are_relative_to_the_file() {
    let place = Place::new();
    place.file("dir/pki/ca.pem", CA);
    place.file("dir/client.pem", CLIENT.trim_end());
    place.file("dir/client.key", CLIENT_KEY.trim_end());
    let config = place.file(
        "dir/config",
        single(
            "certificate-authority: pki/ca.pem",
            "client-certificate: client.pem, client-key: ./client.key, exec: {command: ./bin/login, apiVersion: v1}",
        ),
    );
    let (_, config) = resolve(&flags(&[]), &kubeconfig(&[&config])).unwrap();
    assert_eq!(config.root_cert.as_ref().map(Vec::len), Some(1));
    assert!(config.auth_info.client_certificate_data.is_some() && config.auth_info.client_key_data.is_some());
    let exec = config.auth_info.exec.as_ref().unwrap();
    assert_eq!(exec.command.as_deref(), place.path("dir/./bin/login").to_str());
    // kube would otherwise glue key and certificate together on one line.
    super::client::connect(without_exec(config), "test", super::Timeouts::default()).unwrap();
}

fn without_exec(mut config: ::kube::Config) -> ::kube::Config {
    config.auth_info.exec = None;
    config
}

#[test]
fn data_wins_over_files_and_empty_strings_are_nothing() {
    use base64::Engine as _;
    let data = base64::engine::general_purpose::STANDARD.encode(CA);
    let (a, b) = data.split_at(60);
    let folded = format!("certificate-authority: /no/such, certificate-authority-data: \"{a}\\n{b}\"");
    let (_place, environment) =
        Place::with(&single(&folded, "token: '', tokenFile: '', as: '', client-certificate-data: ''"));
    let (_, config) = resolve(&flags(&[]), &environment).unwrap();
    assert!(config.root_cert.is_some());
    assert!(config.auth_info.token.is_none() && config.auth_info.impersonate.is_none());
    for (cluster, user, want) in [
        ("certificate-authority-data: '%%'", "", "certificate-authority-data of cluster \"c\": is no valid base64"),
        ("certificate-authority-data: YWJj", "", "certificate-authority of cluster \"c\": holds no certificate in PEM"),
        ("", "client-certificate-data: YWJj", "client-key of user \"u\": is missing"),
        ("", "client-key-data: YWJj", "client-certificate of user \"u\": is missing"),
        ("", "client-key: /no/such", "cannot read the client key /no/such: "),
        ("", "tokenFile: /no/such", "cannot read the token file /no/such: "),
        ("", "as-groups: [x]", "as-groups, as-uid, as-user-extra of user \"u\": need as"),
        (
            &format!("certificate-authority-data: {data}, insecure-skip-tls-verify: true"),
            "",
            "insecure-skip-tls-verify of cluster \"c\": cannot",
        ),
    ] {
        let (_place, environment) = Place::with(&single(cluster, user));
        let error = error(&[], &environment);
        assert!(error.to_string().starts_with(want) && !error.is_usage(), "{error}");
    }
}

#[test]
fn flags_replace_what_the_kubeconfig_says() {
    let place = Place::new();
    let ca = place.file("ca.pem", CA);
    let ca = ca.to_str().unwrap();
    let (cert, key) = (place.file("c.pem", CLIENT), place.file("c.key", CLIENT_KEY));
    let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
    let config = place.file(
        "config",
        single(
            "certificate-authority-data: YWJj, tls-server-name: inside",
            &format!(
                "client-certificate: {cert}, client-key: {key}, username: u, password: p, as: boss, as-groups: [g], exec: {{command: never-run}}"
            ),
        ),
    );
    let environment = kubeconfig(&[&config]);
    let with = |args: &[&str]| resolve(&flags(args), &environment);

    // Trust: one flag replaces all that the kubeconfig says about it.
    assert!(with(&[]).is_err());
    let (target, config) = with(&["--insecure-skip-tls-verify"]).unwrap();
    assert!(target.insecure && config.accept_invalid_certs && config.root_cert.is_none());
    let (target, config) = with(&["--certificate-authority", ca]).unwrap();
    assert!(!target.insecure && config.root_cert.is_some());
    assert_eq!(config.tls_server_name.as_deref(), Some("inside"));
    let (_, config) = with(&["--certificate-authority", ca, "-s", "https://other"]).unwrap();
    assert_eq!(config.tls_server_name, None);
    let (_, config) = with(&["--certificate-authority", ca, "-s", "https://other", "--tls-server-name", "n"]).unwrap();
    assert_eq!(config.tls_server_name.as_deref(), Some("n"));
    let error = with(&["--certificate-authority", ca, "--insecure-skip-tls-verify"]).unwrap_err();
    assert!(error.is_usage());
    let error = with(&["--certificate-authority", "/no/such"]).unwrap_err();
    assert!(matches!(error, ConfigError::Unreadable { .. }));

    // Credentials.
    let (_, config) = with(&["--certificate-authority", ca]).unwrap();
    assert!(config.auth_info.client_key_data.is_some() && config.auth_info.exec.is_some());
    let (_, config) = with(&["--certificate-authority", ca, "--token", "mine"]).unwrap();
    let auth = &config.auth_info;
    assert!(auth.token.is_some() && auth.client_key_data.is_none() && auth.client_certificate_data.is_none());
    assert!(auth.exec.is_none() && auth.username.is_none() && auth.password.is_none());
    assert_eq!(auth.impersonate.as_deref(), Some("boss"));
    assert!(!headers(&config).contains("mine"));
    let (_, config) =
        with(&["--certificate-authority", ca, "--token", "t", "--client-certificate", cert, "--client-key", key])
            .unwrap();
    assert!(config.auth_info.token.is_some() && config.auth_info.client_key_data.is_some());

    // Impersonation.
    let (_, config) =
        with(&["--certificate-authority", ca, "--as", "me", "--as-uid", "7", "--as-group", "a", "--as-group", "b"])
            .unwrap();
    assert_eq!(config.auth_info.impersonate.as_deref(), Some("me"));
    assert_eq!(config.auth_info.impersonate_uid.as_deref(), Some("7"));
    assert_eq!(config.auth_info.impersonate_groups.as_deref(), Some(&["a".to_owned(), "b".to_owned()][..]));
    let nothing = Environment::from_variables::<String, String>([]);
    for args in [["-s", "https://x", "--as-group", "g"], ["-s", "https://x", "--as-uid", "1"]] {
        assert!(resolve(&flags(&args), &nothing).unwrap_err().is_usage(), "{args:?}");
    }
}

#[test]
fn credentials_are_not_sent_over_plain_http() {
    let (_place, environment) =
        Place::with(&single("certificate-authority: /no/such", "token: t, exec: {command: never}, as: x"));
    let (target, config) = resolve(&flags(&["-s", "http://localhost:8001"]), &environment).unwrap();
    assert_eq!(target.server, "http://localhost:8001");
    assert!(
        config.auth_info.token.is_none() && config.auth_info.exec.is_none() && config.auth_info.impersonate.is_none()
    );
    for args in [["-s", "http://x", "--token", "t"], ["-s", "http://x", "--as", "t"]] {
        assert!(error(&args, &environment).is_usage());
    }
}

#[test]
fn token_files_are_trimmed_and_win_over_tokens() {
    let place = Place::new();
    place.file("plain", "abc");
    place.file("newline", "abc\n");
    let auth = |user: &str| {
        let config = place.file("config", single("", user));
        resolve(&flags(&[]), &kubeconfig(&[&config])).unwrap().1.auth_info
    };
    let plain = auth("tokenFile: plain, token: other");
    assert!(plain.token.is_none() && plain.token_file.is_some());
    let newline = auth("tokenFile: newline");
    assert!(newline.token.is_some() && newline.token_file.is_none());
    let missing = auth("tokenFile: missing, token: other");
    assert!(missing.token.is_some() && missing.token_file.is_none());
}

#[test]
fn proxies() {
    let (_place, plain) = Place::with(&single("", "token: t"));
    let (_place2, own) = Place::with(&single("proxy-url: \"http://own:1\"", "token: t"));
    let (_place3, bad) = Place::with(&single("proxy-url: \"ftp://user:hunter2@own:1\"", "token: t"));
    let list = |environment: &Environment| environment.variables["KUBECONFIG"].clone();
    let proxy = |base: &Environment, extra: &[(&str, &str)], args: &[&str]| {
        let variables = extra.iter().map(|(name, value)| ((*name).to_owned(), (*value).into()));
        let environment = Environment::from_variables(variables.chain([("KUBECONFIG".to_owned(), list(base))]));
        match resolve(&flags(args), &environment) {
            Ok((_, config)) => config.proxy_url.map(|url| url.to_string()).unwrap_or_default(),
            Err(error) => format!("error: {error}"),
        }
    };
    let env: (&str, &str) = ("HTTPS_PROXY", "http://proxy:3128");
    assert_eq!(proxy(&plain, &[], &[]), "");
    assert_eq!(proxy(&plain, &[env], &[]), "http://proxy:3128/");
    assert_eq!(proxy(&plain, &[("https_proxy", "proxy:3128")], &[]), "http://proxy:3128/");
    assert_eq!(proxy(&plain, &[env, ("HTTPS_PROXY", "")], &[]), "");
    // NO_PROXY is about the API server, not the proxy, and a trailing comma is nothing.
    assert_eq!(proxy(&plain, &[env, ("NO_PROXY", "proxy,")], &[]), "http://proxy:3128/");
    assert_eq!(proxy(&plain, &[env, ("NO_PROXY", ".example.com,")], &[]), "");
    assert_eq!(proxy(&plain, &[env, ("no_proxy", "rancher.example.com:443")], &[]), "");
    assert_eq!(proxy(&plain, &[env, ("NO_PROXY", "10.0.0.0/8")], &["-s", "https://10.1.1.1:6443"]), "");
    assert_eq!(proxy(&plain, &[env], &["-s", "https://127.0.0.1:6443"]), "");
    assert_eq!(proxy(&plain, &[env], &["-s", "https://[::1]:6443"]), "");
    assert_eq!(proxy(&plain, &[env], &["-s", "http://x:80"]), "");
    assert_eq!(proxy(&plain, &[("HTTP_PROXY", "http://p:1")], &["-s", "http://x:80"]), "http://p:1/");
    assert_eq!(proxy(&plain, &[("HTTP_PROXY", "http://p:1"), ("REQUEST_METHOD", "GET")], &["-s", "http://x:80"]), "");
    // The kubeconfig's own proxy is not subject to NO_PROXY.
    assert_eq!(proxy(&own, &[env, ("NO_PROXY", "*")], &[]), "http://own:1/");
    let error = proxy(&bad, &[], &[]);
    assert!(error.starts_with("error: proxy-url of cluster \"c\"") && !error.contains("hunter2"), "{error}");
    assert_eq!(proxy(&plain, &[("HTTPS_PROXY", "socks5h://p:1")], &[]), "socks5h://p:1/");
}

#[test]
fn a_plugin_that_must_ask_needs_a_terminal() {
    let exec = |mode: &str| {
        format!("exec: {{command: login, apiVersion: client.authentication.k8s.io/v1{mode}, provideClusterInfo: true}}")
    };
    let (_place, environment) = Place::with(&single("", &exec(", interactiveMode: Always")));
    assert!(matches!(error(&[], &environment), ConfigError::ExecNeedsTerminal { .. }));
    for mode in ["", ", interactiveMode: IfAvailable", ", interactiveMode: Never"] {
        let (_place, environment) = Place::with(&single("", &exec(mode)));
        let (_, config) = resolve(&flags(&[]), &environment).unwrap();
        let exec = config.auth_info.exec.unwrap();
        assert_eq!(exec.interactive_mode, Some(::kube::config::ExecInteractiveMode::Never));
        assert_eq!(exec.cluster.unwrap().server.as_deref(), Some("https://rancher.example.com/k8s/clusters/c-m-1"));
    }
}

#[test]
fn flags_of_kubectl_that_are_not_here_are_refused() {
    for flag in [
        "--cache-dir=/x",
        "--disable-compression",
        "--as-user-extra=a=b",
        "--username=x",
        "--password=x",
        "--profile=cpu",
        "--match-server-version",
        "--warnings-as-errors",
        "--v=6",
    ] {
        let error = Cli::try_parse_from(["test", flag]).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), clap::error::ErrorKind::UnknownArgument, "{flag}");
    }
}

#[test]
fn the_flags_of_kubectl() {
    let all = flags(&[
        "--kubeconfig=/k",
        "--context",
        "c",
        "--cluster",
        "cl",
        "--user",
        "u",
        "-n",
        "ns",
        "-s",
        "https://x",
        "--token",
        "hunter2",
        "--as",
        "a",
        "--as-group",
        "g1",
        "--as-group",
        "g2",
        "--as-uid",
        "1",
        "--certificate-authority",
        "/ca",
        "--client-certificate",
        "/cc",
        "--client-key",
        "/ck",
        "--insecure-skip-tls-verify",
        "--tls-server-name",
        "t",
        "--request-timeout",
        "1m30s",
    ]);
    assert!(all.insecure_skip_tls_verify);
    assert_eq!(all.as_group, ["g1", "g2"]);
    let debug = format!("{all:?}");
    assert!(!debug.contains("hunter2") && debug.contains("<redacted>"), "{debug}");
    assert!(!flags(&["--insecure-skip-tls-verify=false"]).insecure_skip_tls_verify);
    // As with kubectl the last one counts, so that an alias can be overruled.
    assert_eq!(flags(&["--context", "a", "--context", "b"]).context.as_deref(), Some("b"));
    let help = <Cli as clap::CommandFactory>::command().render_long_help().to_string();
    assert!(help.contains("Connection:") && help.contains("--as-group"), "{help}");
}

#[test]
fn time_limits_are_spelled_as_kubectl_s() {
    let limit = |text: &str| flags(&[&format!("--request-timeout={text}")]).request_timeout();
    let millis = |text: &str| limit(text).unwrap().map(|limit| limit.as_millis());
    assert_eq!(flags(&[]).request_timeout().unwrap().map(|limit| limit.as_secs()), Some(30));
    for (text, want) in [
        ("0", None),
        ("0s", None),
        ("30", Some(30_000)),
        ("30s", Some(30_000)),
        ("1m30s", Some(90_000)),
        ("1.5h", Some(5_400_000)),
        ("250ms", Some(250)),
        ("2h0m1s", Some(7_201_000)),
    ] {
        assert_eq!(millis(text), want, "{text}");
    }
    for text in ["1x", "-3", "s", "1m30", "1..5s", "1 s", "abc", "1e3s", "99999999999999999999h"] {
        assert!(limit(text).unwrap_err().is_usage(), "{text}");
    }
}

#[test]
fn the_environment_s_values_are_not_shown() {
    let environment = Environment::from_variables([("HTTPS_PROXY", "http://u:hunter2@p")]);
    assert!(!format!("{environment:?}").contains("hunter2"));
}
