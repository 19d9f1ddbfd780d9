//! Backups: before the first write, everything that will be touched is saved with the plan, and every step is
//! journaled, so that nothing is lost even when this process is.
//!
//! ```text
//! $XDG_STATE_HOME/kubectl-rancher/<cluster uid>/<time>-<digest>/     0700
//!   plan.json                                                       0600, as are all files
//!   objects/001-lease-kube-system-cattle-controllers.yaml
//!   journal.jsonl
//! ```
//!
//! Objects are saved as the server gave them: a backup without its secrets would not be one.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Plan;
use crate::time::Timestamp;
use crate::yaml;

/// A backup that could not be written or read. A run that cannot back up does not write to the cluster.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// A file or directory could not be read or written.
    #[error("backup {path}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("backup {path}: {message}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// Neither XDG_STATE_HOME nor HOME says where backups go.
    #[error("no place for backups: neither XDG_STATE_HOME nor HOME is set; give --backup-dir")]
    NoHome,
    /// The directory is not ours alone.
    #[error("backup {0}: belongs to another user or is a symbolic link; give another --backup-dir")]
    NotOurs(PathBuf),
    /// No backup has this id.
    #[error("there is no backup {0}")]
    NotFound(String),
}

/// Where backups are kept: `--backup-dir`, or `kubectl-rancher` below the user's state directory (XDG Base Directory
/// Specification; `~/.local/state` where XDG_STATE_HOME is unset).
///
/// # Errors
/// When no home directory is known.
pub fn root(given: Option<&Path>) -> Result<PathBuf, BackupError> {
    if let Some(path) = given {
        return Ok(path.to_owned());
    }
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // The specification ignores relative paths.
    let state = variable("XDG_STATE_HOME").filter(|path| path.is_absolute());
    let home = || variable("HOME").map(|home| home.join(".local/state")).or_else(|| variable("LOCALAPPDATA"));
    state.or_else(home).map(|path| path.join("kubectl-rancher")).ok_or(BackupError::NoHome)
}

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// When, on this machine's clock.
    pub at: Timestamp,
    /// Number of the action, from 1; 0 for the run as a whole.
    pub action: usize,
    /// What happened: `begin`, `wait`, `write`, `applied`, `failed`, `unknown`, `verified`, `notVerified`, `stuck`, `undone`.
    pub event: String,
    /// Details; holds no secret.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// A backup on disk.
#[derive(Debug)]
pub struct Backup {
    directory: PathBuf,
    journal: File,
}

/// Where the backup of a plan goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where all backups are kept.
    pub root: PathBuf,
    /// The cluster's directory below it.
    cluster: String,
    /// The backup's id, its directory's name.
    pub id: String,
}

impl Place {
    /// The place of a plan that is made now.
    #[must_use]
    pub fn of(root: PathBuf, plan: &Plan, now: Timestamp) -> Self {
        Self { root, cluster: directory_name(&plan.cluster_uid), id: id(plan, now) }
    }

    /// The directory, for people.
    #[must_use]
    pub fn directory(&self) -> String {
        self.root.join(&self.cluster).join(&self.id).display().to_string()
    }
}

/// The id of the backup of a plan: time and digest, sortable.
#[must_use]
pub fn id(plan: &Plan, now: Timestamp) -> String {
    format!("{}-{}", now.strftime("%Y%m%dT%H%M%SZ"), plan.digest())
}

impl Backup {
    /// Writes plan and objects to a new directory and forces them to disk.
    ///
    /// # Errors
    /// When anything cannot be written, or the place is not the user's own.
    pub fn create(root: &Path, plan: &Plan, id: &str, objects: &[Value]) -> Result<Self, BackupError> {
        let cluster = root.join(directory_name(&plan.cluster_uid));
        make_private(&cluster)?;
        let directory = cluster.join(id);
        fs::create_dir(&directory).map_err(io_error(&directory))?;
        restrict(&directory)?;
        let objects_directory = directory.join("objects");
        fs::create_dir(&objects_directory).map_err(io_error(&objects_directory))?;
        restrict(&objects_directory)?;
        let text = serde_json::to_string_pretty(plan)
            .map_err(|error| BackupError::Malformed { path: directory.clone(), message: error.to_string() })?;
        write_new(&directory.join("plan.json"), text.as_bytes())?;
        for (index, object) in objects.iter().enumerate() {
            let metadata = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
            let kind = object["kind"].as_str().unwrap_or("object").to_lowercase();
            let name = [&kind, metadata("namespace"), metadata("name")]
                .iter()
                .filter(|part| !part.is_empty())
                .map(|part| directory_name(part))
                .collect::<Vec<_>>()
                .join("-");
            let path = objects_directory.join(format!("{:03}-{name}.yaml", index + 1));
            let text = yaml::write(object)
                .map_err(|error| BackupError::Malformed { path: path.clone(), message: error.to_string() })?;
            write_new(&path, text.as_bytes())?;
        }
        let journal = open_new(&directory.join("journal.jsonl"))?;
        for path in [&objects_directory, &directory, &cluster] {
            sync_directory(path)?;
        }
        Ok(Self { directory, journal })
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Adds a line to the journal and forces it to disk.
    ///
    /// # Errors
    /// When it cannot be written: then nothing more may be changed.
    pub fn journal(&mut self, action: usize, event: &str, detail: &str) -> Result<(), BackupError> {
        let entry = Entry { at: Timestamp::now(), action, event: event.to_owned(), detail: detail.to_owned() };
        let path = self.directory.join("journal.jsonl");
        let mut line = serde_json::to_string(&entry)
            .map_err(|error| BackupError::Malformed { path: path.clone(), message: error.to_string() })?;
        line.push('\n');
        self.journal.write_all(line.as_bytes()).and_then(|()| self.journal.sync_data()).map_err(io_error(&path))
    }
}

/// A backup read back.
#[derive(Debug)]
pub struct Saved {
    /// Its id.
    pub id: String,
    /// Its directory.
    pub directory: PathBuf,
    /// The plan that was applied.
    pub plan: Plan,
    /// The objects as they were, in the order of saving.
    pub objects: Vec<Value>,
    /// What happened.
    pub journal: Vec<Entry>,
}

impl Saved {
    /// The numbers of the actions that were applied, or may have been, because no answer came.
    #[must_use]
    pub fn applied(&self) -> Vec<usize> {
        self.journal
            .iter()
            .filter(|entry| entry.action > 0 && matches!(entry.event.as_str(), "applied" | "unknown"))
            .map(|entry| entry.action)
            .collect()
    }

    /// One word for the state the run left behind.
    #[must_use]
    pub fn state(&self) -> &'static str {
        let has = |event: &str| self.journal.iter().any(|entry| entry.event == event);
        if has("undone") {
            "undone"
        } else if has("verified") {
            "verified"
        } else if self.applied().len() == self.plan.actions.len() {
            "applied"
        } else if self.applied().is_empty() {
            "not applied"
        } else {
            "partly applied"
        }
    }
}

/// All backups below the root, newest first; unreadable ones are named in the second list.
///
/// # Errors
/// When the root itself cannot be listed. A missing root is an empty list.
pub fn list(root: &Path) -> Result<(Vec<Saved>, Vec<BackupError>), BackupError> {
    let mut saved = Vec::new();
    let mut broken = Vec::new();
    for cluster in subdirectories(root)? {
        for directory in subdirectories(&cluster)? {
            match read(&directory) {
                Ok(backup) => saved.push(backup),
                Err(error) => broken.push(error),
            }
        }
    }
    saved.sort_by(|a: &Saved, b: &Saved| b.id.cmp(&a.id));
    Ok((saved, broken))
}

/// Finds one backup by its id, or by an unambiguous beginning or the digest at its end.
///
/// # Errors
/// When there is none, or more than one.
pub fn find(root: &Path, id: &str) -> Result<Saved, BackupError> {
    let (saved, _) = list(root)?;
    let mut matching: Vec<Saved> = saved
        .into_iter()
        .filter(|backup| backup.id == id || (id.len() >= 8 && (backup.id.starts_with(id) || backup.id.ends_with(id))))
        .collect();
    match (matching.pop(), matching.is_empty()) {
        (Some(backup), true) => Ok(backup),
        _ => Err(BackupError::NotFound(id.to_owned())),
    }
}

fn read(directory: &Path) -> Result<Saved, BackupError> {
    let text = |path: &Path| fs::read_to_string(path).map_err(io_error(path));
    let malformed = |path: &Path, message: String| BackupError::Malformed { path: path.to_owned(), message };
    let plan_path = directory.join("plan.json");
    let plan: Plan =
        serde_json::from_str(&text(&plan_path)?).map_err(|error| malformed(&plan_path, error.to_string()))?;
    let objects_directory = directory.join("objects");
    let mut paths: Vec<PathBuf> = fs::read_dir(&objects_directory)
        .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect())
        .map_err(io_error(&objects_directory))?;
    paths.sort();
    let mut objects = Vec::with_capacity(paths.len());
    for path in paths {
        objects.push(yaml::read(&text(&path)?).map_err(|error| malformed(&path, error.to_string()))?);
    }
    let journal_path = directory.join("journal.jsonl");
    // A last line cut off by a crash is no reason to lose the rest.
    let journal = text(&journal_path)?.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let id = directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(Saved { id, directory: directory.to_owned(), plan, objects, journal })
}

/// Appends to the journal of an existing backup.
///
/// # Errors
/// When it cannot be written.
pub fn append(saved: &Saved, event: &str, detail: &str) -> Result<(), BackupError> {
    let path = saved.directory.join("journal.jsonl");
    let journal = File::options().append(true).open(&path).map_err(io_error(&path))?;
    Backup { directory: saved.directory.clone(), journal }.journal(0, event, detail)
}

fn subdirectories(path: &Path) -> Result<Vec<PathBuf>, BackupError> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(io_error(path))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(io_error(path))?;
        if entry.file_type().map_err(io_error(path))?.is_dir() {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// A name from the cluster as a file name.
fn directory_name(text: &str) -> String {
    let clean: String =
        text.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect();
    if clean.is_empty() || clean.starts_with('.') { format!("_{clean}") } else { clean }
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> BackupError {
    let path = path.to_owned();
    move |source| BackupError::Io { path, source }
}

/// Makes the directory for the user alone, and refuses one that somebody else could replace.
fn make_private(path: &Path) -> Result<(), BackupError> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(io_error(path))?;
        for place in [path.parent(), Some(path)].into_iter().flatten() {
            let metadata = fs::symlink_metadata(place).map_err(io_error(place))?;
            let ours = metadata.uid() == rustix::process::geteuid().as_raw();
            if metadata.file_type().is_symlink() || !ours {
                return Err(BackupError::NotOurs(place.to_owned()));
            }
        }
        restrict(path)
    }
    #[cfg(not(unix))]
    {
        fs::create_dir_all(path).map_err(io_error(path))
    }
}

#[cfg(unix)]
fn restrict(path: &Path) -> Result<(), BackupError> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(io_error(path))
}

/// On Windows the user's own state directory is private already.
#[cfg(not(unix))]
fn restrict(_: &Path) -> Result<(), BackupError> {
    Ok(())
}

fn open_new(path: &Path) -> Result<File, BackupError> {
    let mut options = File::options();
    options.append(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(io_error(path))
}

fn write_new(path: &Path, content: &[u8]) -> Result<(), BackupError> {
    let mut file = open_new(path)?;
    file.write_all(content).and_then(|()| file.sync_all()).map_err(io_error(path))
}

/// Makes the names in a directory durable. Windows has no such call; there the files' own sync must do.
fn sync_directory(path: &Path) -> Result<(), BackupError> {
    if cfg!(unix) { File::open(path).and_then(|file| file.sync_all()).map_err(io_error(path)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::action::tests_support::delete_lease_plan;
    use serde_json::json;

    fn lease() -> Value {
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
               "metadata": {"name": "../l", "namespace": "n", "uid": "u1"}, "spec": {"holderIdentity": "on"}})
    }

    #[test]
    fn what_is_saved_reads_back() {
        let home = tempfile::tempdir().expect("a directory");
        let plan = delete_lease_plan();
        let id = id(&plan, "2026-08-22T09:55:02Z".parse().expect("a time"));
        assert_eq!(id, format!("20260822T095502Z-{}", plan.digest()));
        let mut backup = Backup::create(home.path(), &plan, &id, &[lease()]).expect("saved");
        backup.journal(1, "applied", "").expect("journaled");
        let saved = find(home.path(), &plan.digest()).expect("found");
        assert_eq!(saved.plan, plan);
        assert_eq!(saved.objects, [lease()]);
        assert_eq!((saved.applied(), saved.state()), (vec![1], "applied"));
        append(&saved, "undone", "").expect("journaled");
        assert_eq!(find(home.path(), &id).expect("found").state(), "undone");
        assert!(matches!(find(home.path(), "20990101T000000Z"), Err(BackupError::NotFound(_))));
        // The same plan at the same second is not saved over.
        assert!(Backup::create(home.path(), &plan, &id, &[]).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_can_read_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let home = tempfile::tempdir().expect("a directory");
        let plan = delete_lease_plan();
        let backup = Backup::create(&home.path().join("state"), &plan, "x", &[lease()]).expect("saved");
        let mode = |path: &Path| fs::metadata(path).expect("metadata").permissions().mode() & 0o777;
        assert_eq!(mode(backup.directory()), 0o700);
        let mut files = 0;
        for directory in [backup.directory().to_owned(), backup.directory().join("objects")] {
            for entry in fs::read_dir(directory).expect("listed") {
                let path = entry.expect("entry").path();
                if path.is_file() {
                    files += 1;
                    assert_eq!(mode(&path), 0o600, "{}", path.display());
                }
            }
        }
        assert_eq!(files, 3);
    }

    #[cfg(unix)]
    #[test]
    fn a_symbolic_link_is_refused() {
        let home = tempfile::tempdir().expect("a directory");
        let elsewhere = tempfile::tempdir().expect("a directory");
        std::os::unix::fs::symlink(elsewhere.path(), home.path().join("state")).expect("linked");
        let error = Backup::create(&home.path().join("state"), &delete_lease_plan(), "x", &[]).expect_err("refused");
        assert!(matches!(error, BackupError::NotOurs(_)), "{error}");
        assert!(matches!(
            Backup::create(Path::new("/proc/nowhere"), &delete_lease_plan(), "x", &[]),
            Err(BackupError::Io { .. })
        ));
    }
}
