//! A built plugin over the recorded incidents, without a cluster: every incident in every output format, and the answers
//! of the command line itself. What holds for all plugins alike is checked here; each suite calls it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// A plugin as a file, in an empty environment: what a test does not set, it does not depend on.
#[derive(Clone, Copy, Debug)]
pub struct Plugin {
    /// As kubectl users type it: `rancher-lease`.
    pub name: &'static str,
    /// The built file.
    pub binary: &'static str,
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Standard output or error of a process.
///
/// # Panics
/// When it is no UTF-8.
#[must_use]
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// The exit code of a process.
///
/// # Panics
/// When a signal ended it.
#[must_use]
pub fn code(output: &Output) -> i32 {
    output.status.code().expect("an exit code")
}

/// Whether what was reviewed is to be written anew: `INSTA_UPDATE=always`.
fn update() -> bool {
    std::env::var("INSTA_UPDATE").is_ok_and(|value| value == "always")
}

/// Validates reports against the shipped schema.
///
/// # Panics
/// When the schema is none.
pub fn validator() -> impl Fn(&Value) -> Result<(), String> {
    let schema = std::fs::read_to_string(repository().join("docs/report.schema.json")).expect("schema");
    let mut schemas = boon::Schemas::new();
    let mut compiler = boon::Compiler::new();
    compiler.add_resource("report.json", serde_json::from_str(&schema).expect("JSON")).expect("added");
    let index = compiler.compile("report.json", &mut schemas).expect("a schema");
    move |report| schemas.validate(report, index).map_err(|error| format!("{error}\n{report:#}"))
}

impl Plugin {
    /// The plugin with these arguments.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.binary);
        command.args(arguments).env_clear().env("COLUMNS", "100").env("HOME", "/nonexistent");
        command
    }

    /// What the plugin says to these arguments.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the plugin runs")
    }

    /// The directory of the recorded incidents.
    #[must_use]
    pub fn incidents_directory() -> PathBuf {
        repository().join("tests/incidents")
    }

    /// The incidents that were recorded by this plugin, by name.
    ///
    /// # Panics
    /// When there are none.
    #[must_use]
    pub fn incidents(&self) -> Vec<PathBuf> {
        let tool = format!("tool: {}", self.name);
        let ours = |path: &PathBuf| {
            std::fs::read_to_string(path.join("snapshot.yaml"))
                .is_ok_and(|index| index.lines().take(10).any(|line| line == tool))
        };
        let mut found: Vec<PathBuf> = std::fs::read_dir(Self::incidents_directory())
            .expect("incidents")
            .map(|entry| entry.expect("entry").path())
            .filter(ours)
            .collect();
        found.sort();
        assert!(!found.is_empty(), "no incidents of {} found", self.name);
        found
    }

    /// The words that ask about an incident: those of its file `arguments`, one a line, or `check`.
    fn question(incident: &Path) -> Vec<String> {
        match std::fs::read_to_string(incident.join("arguments")) {
            Ok(words) => words.lines().map(str::to_owned).collect(),
            Err(_) => vec!["check".to_owned()],
        }
    }

    /// What the plugin says about an incident, seen from the directory of all of them, so that no report names this
    /// machine's directories.
    fn about(&self, incident: &Path, more: &[&str]) -> Output {
        let name = incident.file_name().and_then(|name| name.to_str()).expect("UTF-8");
        let mut words = Self::question(incident);
        words.extend(["--from", name].iter().chain(more).map(|word| (*word).to_owned()));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.command(&words).current_dir(Self::incidents_directory()).output().expect("the plugin runs")
    }

    /// An incident ends with the same code in every format; JSON and YAML say the same and are what the schema says.
    ///
    /// # Panics
    /// When that is not so.
    pub fn every_incident_ends_alike_in_every_format(&self) {
        let validate = validator();
        for incident in self.incidents() {
            let path = incident.display();
            let table = self.about(&incident, &[]);
            let warnings = Self::question(&incident)[0] == "check";
            let strict = warnings.then(|| code(&self.about(&incident, &["--fail-on", "warning"])));
            let mut documents = Vec::new();
            for format in ["wide", "json", "yaml", "name"] {
                let output = self.about(&incident, &["-o", format]);
                assert_eq!(code(&output), code(&table), "{path} -o {format}");
                assert!(!output.stdout.contains(&0x1b), "{path} -o {format}: an escape byte");
                if let Some(strict) = strict {
                    let failing = self.about(&incident, &["-o", format, "--fail-on", "warning"]);
                    assert_eq!(code(&failing), strict, "{path} -o {format} --fail-on warning");
                }
                match format {
                    "json" => documents.push(serde_json::from_slice(&output.stdout).expect("one JSON document")),
                    "yaml" => documents.push(rancher_common::yaml::read::<Value>(&text(&output.stdout)).expect("YAML")),
                    _ => {}
                }
            }
            validate(&documents[0]).unwrap_or_else(|error| panic!("{path}: {error}"));
            assert_eq!(documents[0]["exitCode"], code(&table), "{path}");
            assert_eq!(documents[0], documents[1], "{path}: JSON and YAML differ");
            let last = text(&table.stdout).trim_end().lines().last().map(str::to_owned).unwrap_or_default();
            assert!(last.ends_with(&format!("Exit {}.", code(&table))), "{path}: {last}");
            let known = documents[0]["findings"].as_array().expect("findings");
            let mut codes: Vec<&str> = known.iter().filter_map(|finding| finding["code"].as_str()).collect();
            codes.sort_unstable();
            let expected = std::fs::read_to_string(incident.join("expected-codes")).expect("expected-codes");
            assert_eq!(codes, expected.split_whitespace().collect::<Vec<_>>(), "{path}");
        }
    }

    /// The text of every incident, reviewed: a change of words shows in the diff of `report.txt` beside the snapshot.
    ///
    /// # Panics
    /// When one differs.
    pub fn every_incident_reads_as_reviewed(&self) {
        let mut different = Vec::new();
        for incident in self.incidents() {
            let output = self.about(&incident, &["-o", "wide"]);
            let report = self.as_typed(&text(&output.stdout));
            let file = incident.join("report.txt");
            if update() {
                std::fs::write(&file, &report).expect("written");
            } else if std::fs::read_to_string(&file).unwrap_or_default() != report {
                different.push(format!("{}:\n{report}", incident.display()));
            }
        }
        assert!(different.is_empty(), "reports differ from report.txt:\n{}", different.join("\n"));
    }

    /// A text that names the plugin as kubectl users type it.
    fn as_typed(&self, text: &str) -> String {
        text.replace(self.binary, &format!("kubectl {}", self.name))
    }

    /// The help of the bare command and of these verbs, reviewed: `tests/<suite>/cli/help.txt`.
    ///
    /// # Panics
    /// When it differs.
    pub fn help_reads_as_reviewed(&self, verbs: &[&str]) {
        let mut all = String::new();
        for verb in [""].iter().chain(verbs) {
            let arguments: Vec<&str> = [verb, "-h"].into_iter().filter(|word| !word.is_empty()).collect();
            let output = self.run(&arguments);
            assert_eq!(code(&output), 0, "{verb}");
            all.push_str(&format!("$ kubectl {} {}\n", self.name, arguments.join(" ")));
            all.push_str(&self.as_typed(&text(&output.stdout)));
            all.push('\n');
        }
        let suite = self.name.trim_start_matches("rancher-");
        let file = repository().join(format!("tests/{suite}/cli/help.txt"));
        if update() {
            std::fs::write(&file, &all).expect("written");
        }
        assert_eq!(all, std::fs::read_to_string(&file).unwrap_or_default(), "help differs from {}", file.display());
    }

    /// Wrong usage is 2, with nothing on standard output, or with one document where JSON was asked for.
    ///
    /// # Panics
    /// When that is not so.
    pub fn wrong_usage_is_2(&self, own: &[&[&str]]) {
        let validate = validator();
        let common: [&[&str]; 7] = [
            &["--bogus"],
            &["check", "--bogus"],
            &["--cache-dir", "/x", "check"],
            &["check", "--fail-on", "sometimes"],
            &["explain", "RL999"],
            &["check", "--from", "/nonexistent"],
            &["check", "--kubeconfig", "/nonexistent"],
        ];
        for arguments in common.iter().chain(own) {
            let output = self.run(arguments);
            assert_eq!(code(&output), 2, "{arguments:?}: {output:?}");
            assert!(output.stdout.is_empty(), "{arguments:?}");
            assert!(!output.stderr.is_empty(), "{arguments:?}");
            // Not all verbs know `-o`; those that do answer with a document.
            if arguments[0] != "explain" {
                let mut with_json = arguments.to_vec();
                with_json.extend(["-o", "json"]);
                let output = self.run(&with_json);
                assert_eq!(code(&output), 2, "{with_json:?}");
                let document: Value = serde_json::from_slice(&output.stdout)
                    .unwrap_or_else(|error| panic!("{with_json:?}: {error}: {}", text(&output.stdout)));
                validate(&document).unwrap_or_else(|error| panic!("{with_json:?}: {error}"));
                assert_eq!(document["verdict"], "Error", "{with_json:?}");
            }
        }
    }

    /// Every code that `version` lists has its page in both languages.
    ///
    /// # Panics
    /// When that is not so.
    pub fn every_code_is_explained_in_both_languages(&self, some: &[&str]) {
        let version: Value = serde_json::from_slice(&self.run(&["version", "-o", "json"]).stdout).expect("JSON");
        let codes: Vec<&str> = version["codes"].as_array().expect("codes").iter().filter_map(Value::as_str).collect();
        assert!(some.iter().all(|code| codes.contains(code)), "{codes:?}");
        let listed = text(&self.run(&["explain"]).stdout);
        for code in codes {
            assert!(listed.contains(code), "{code} is not listed");
            let english = text(&self.run(&["explain", code]).stdout);
            let lower = code.to_lowercase();
            let mut chinese = self.command(&["explain", &lower]);
            let chinese = text(&chinese.env("LANG", "zh_CN.UTF-8").output().expect("runs").stdout);
            assert!(english.starts_with(&format!("# {code} ")), "{english}");
            assert!(chinese.starts_with(&format!("# {code} ")), "{chinese}");
            assert_ne!(english, chinese, "{code} is not translated");
            assert_eq!(text(&self.run(&["explain", code, "--lang", "zh-CN"]).stdout), chinese);
        }
    }

    /// A closed pipe is no error: the exit code is that of the diagnosis.
    ///
    /// # Panics
    /// When that is not so.
    pub fn a_closed_pipe_is_no_error(&self, incident: &str, expected: i32) {
        let incident = Self::incidents_directory().join(incident);
        let script =
            format!("{{ '{}' check --from '{}'; echo \"exit $?\" >&2; }} | true", self.binary, incident.display());
        let output = Command::new("sh").args(["-c", &script]).output().expect("sh runs");
        assert_eq!(text(&output.stderr), format!("exit {expected}\n"));
    }

    /// The roles that `rbac` prints for these words.
    ///
    /// # Panics
    /// When it prints no YAML.
    #[must_use]
    pub fn roles(&self, arguments: &[&str]) -> Vec<Value> {
        text(&self.run(arguments).stdout)
            .split("---\n")
            .filter(|document| !document.trim().is_empty())
            .map(|document| rancher_common::yaml::read(document).expect("YAML"))
            // A comment between two of them.
            .filter(|role: &Value| !role.is_null())
            .collect()
    }

    /// `rbac` prints roles, and what `fix` needs is more than what `check` needs.
    ///
    /// # Panics
    /// When that is not so.
    pub fn rbac_grows_from_check_to_fix(&self) {
        let count =
            |roles: &[Value]| roles.iter().map(|role| role["rules"].as_array().map_or(0, Vec::len)).sum::<usize>();
        let required = self.roles(&["rbac", "--required-only"]);
        let check = self.roles(&["rbac"]);
        let fix = self.roles(&["rbac", "--for", "fix"]);
        assert!(count(&required) < count(&check), "{required:?}");
        assert!(text(&self.run(&["rbac", "--for", "fix"]).stdout).contains("delete"));
        assert!(!text(&self.run(&["rbac"]).stdout).contains("delete"));
        assert!(count(&check) <= count(&fix));
        for role in &fix {
            assert!(["Role", "ClusterRole"].contains(&role["kind"].as_str().unwrap_or_default()), "{role}");
        }
    }

    /// All files of an incident, by their path in it: for searching them.
    ///
    /// # Panics
    /// When one cannot be read.
    #[must_use]
    pub fn files(incident: &Path) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        let mut open = vec![incident.to_owned()];
        while let Some(directory) = open.pop() {
            for entry in std::fs::read_dir(&directory).expect("a directory") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    open.push(path);
                } else {
                    let text = std::fs::read_to_string(&path).expect("a text");
                    found.insert(path, text);
                }
            }
        }
        found
    }
}
