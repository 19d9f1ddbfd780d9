//! What can be asked: a fleet, a cluster, a machine; or which machine something is.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use rancher_common::kube::DownstreamFlags;
use serde_json::Value;

/// `CLUSTER` or `CLUSTER/MACHINE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Name of the provisioning Cluster, its id (`c-m-…`), or the name users see.
    pub cluster: String,
    /// Name of a Machine.
    pub machine: Option<String>,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (cluster, machine) = match text.split_once('/') {
            Some((cluster, machine)) => (cluster, Some(machine)),
            None => (text, None),
        };
        let bad =
            |part: &str| part.is_empty() || part.contains(|c: char| c == '/' || c.is_whitespace() || c.is_control());
        if bad(cluster) || machine.is_some_and(bad) {
            return Err("write CLUSTER or CLUSTER/MACHINE, for instance prod/custom-2d74d4c9a104".to_owned());
        }
        Ok(Self { cluster: cluster.to_owned(), machine: machine.map(str::to_owned) })
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.machine {
            Some(machine) => write!(f, "{}/{machine}", self.cluster),
            None => f.write_str(&self.cluster),
        }
    }
}

/// What a node's `/var/lib/rancher/agent/rancher2_connection_info.json` says of its plan Secret. The kubeconfig in it is
/// not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// The file.
    pub path: PathBuf,
    /// Namespace of the plan Secret.
    pub namespace: String,
    /// Name of the plan Secret.
    pub secret: String,
}

impl FromStr for ConnectionInfo {
    type Err = String;

    /// Reads the file at once, so that everything later is a function of values.
    fn from_str(path: &str) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        let json: Value = serde_json::from_str(&text).map_err(|error| {
            // serde_json's message holds no content; the file holds a token.
            format!("it is not JSON (line {}, column {}): an agent cannot read it either", error.line(), error.column())
        })?;
        let field = |name: &str| {
            json[name]
                .as_str()
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
                .ok_or_else(|| format!("it has no {name}: an agent cannot read it either"))
        };
        Ok(Self { path: path.into(), namespace: field("namespace")?, secret: field("secretName")? })
    }
}

/// The flags and arguments of all verbs.
#[derive(Clone, Debug, clap::Args)]
pub struct Question {
    /// One cluster, or one machine of it [default: all clusters]
    #[arg(value_name = "CLUSTER[/MACHINE]")]
    pub target: Option<Target>,

    /// The downstream cluster to look into.
    #[command(flatten)]
    pub downstream: DownstreamFlags,

    /// How long a machine may take to join, or a deletion to finish, before it counts as stuck
    #[arg(long, value_name = "DURATION", default_value = "30m", value_parser = duration)]
    pub grace: Duration,

    /// How long fix watches a step of a deletion stand still before it proposes to unblock it
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration)]
    pub patience: Duration,

    /// Show the objects that belong to each machine
    #[arg(long)]
    pub tree: bool,

    /// Copy of a node's rancher2_connection_info.json: also say whether Rancher knows the plan Secret it names
    #[arg(long, value_name = "FILE")]
    pub connection_info: Option<ConnectionInfo>,

    /// Look for leftovers of clusters that are gone in a fleet of any size (default: up to 2000 machines)
    #[arg(long)]
    pub orphans: bool,

    /// Print the registration token where fix prints the registration command
    #[arg(long)]
    pub show_token: bool,

    /// kubectl's -n: the workspace, where a cluster's name is not enough.
    #[arg(skip)]
    pub namespace: Option<String>,

    /// What `whois` asks for.
    #[arg(skip)]
    pub whois: Option<String>,
}

impl Default for Question {
    fn default() -> Self {
        Self {
            target: None,
            downstream: DownstreamFlags::default(),
            grace: Duration::from_secs(30 * 60),
            patience: Duration::from_secs(2 * 60),
            tree: false,
            connection_info: None,
            orphans: false,
            show_token: false,
            namespace: None,
            whois: None,
        }
    }
}

impl Question {
    /// Whether it is a question of identity, not of health.
    #[must_use]
    pub fn asks_who(&self) -> bool {
        self.whois.is_some()
    }

    /// The flags as typed, for commands that are offered to be copied. The target stands in the command itself, and what
    /// shows a secret or reads a file of this machine is not repeated.
    #[must_use]
    pub fn repeat(&self) -> Vec<String> {
        let standard = Self::default();
        let mut words = self.downstream.repeat();
        for (flag, value, usual) in
            [("--grace", self.grace, standard.grace), ("--patience", self.patience, standard.patience)]
        {
            if value != usual {
                words.extend([flag.to_owned(), rancher_common::time::human(value)]);
            }
        }
        if let Some(namespace) = &self.namespace {
            words.extend(["--namespace".to_owned(), namespace.clone()]);
        }
        words
    }

    /// The machine it is about, if it is about one.
    #[must_use]
    pub fn machine(&self) -> Option<&str> {
        self.target.as_ref()?.machine.as_deref()
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    rancher_common::time::parse_duration(text).map_err(|error| error.to_string())
}

/// The verbs of this plugin alone.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Verbs {
    /// Say which machine a name, node, address, UID, cattle-id or connection file belongs to
    Whois(Whois),
}

/// See [`Verbs::Whois`].
#[derive(Clone, Debug, clap::Args)]
#[group(id = "whois_subject", required = true, multiple = false, args = ["name", "whois_connection_info"])]
pub struct Whois {
    /// Name of a machine, node or plan Secret, an address, a UID, or a host's cattle-id
    #[arg(value_name = "NAME|NODE|IP|UID|ID")]
    pub name: Option<String>,

    /// Copy of a node's rancher2_connection_info.json
    #[arg(id = "whois_connection_info", long = "connection-info", value_name = "FILE")]
    pub connection_info: Option<ConnectionInfo>,

    /// The downstream cluster to look into.
    #[command(flatten)]
    pub downstream: DownstreamFlags,
}

impl Whois {
    /// The same as a question.
    #[must_use]
    pub fn question(&self) -> Question {
        let of_file = self.connection_info.as_ref().map(|info| info.secret.clone());
        Question {
            whois: self.name.clone().or(of_file),
            connection_info: self.connection_info.clone(),
            downstream: self.downstream.clone(),
            ..Question::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets() {
        assert_eq!("prod".parse::<Target>().map(|t| (t.cluster, t.machine)), Ok(("prod".into(), None)));
        assert_eq!(
            "prod/custom-1".parse::<Target>().map(|t| (t.cluster, t.machine)),
            Ok(("prod".into(), Some("custom-1".into())))
        );
        for bad in ["", "/", "a/", "/b", "a/b/c", "a b"] {
            assert!(bad.parse::<Target>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_broken_connection_file_is_told_without_its_content() {
        let directory = std::env::temp_dir().join(format!("ghosts-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let file = directory.join("info.json");
        let read = |text: &str| {
            std::fs::write(&file, text).expect("written");
            file.to_string_lossy().parse::<ConnectionInfo>()
        };
        let good = read(
            r#"{"kubeConfig": "token: secret", "namespace": "fleet-default", "secretName": "custom-1-machine-plan"}"#,
        );
        assert_eq!(good.map(|info| info.secret), Ok("custom-1-machine-plan".to_owned()));
        for text in ["", "machine not found by request", "{\"kubeConfig\": \"token: secret\""] {
            let error = read(text).expect_err("no JSON");
            assert!(!error.contains("secret") && !error.contains("machine not"), "{error}");
        }
        assert!(read("{\"namespace\": \"x\"}").expect_err("incomplete").contains("secretName"));
        std::fs::remove_dir_all(&directory).expect("removed");
    }
}
