//! Saved snapshots: a directory or a `.tar.gz` with one index and one file per reading, made for people to look into
//! and for `--from` to diagnose.
//!
//! ```text
//! snapshot.yaml                                   index: where, when, what was asked, which file answers
//! objects/leases.coordination.k8s.io/….yaml       objects as served, redacted
//! logs/<namespace>/<pod>/<container>.log
//! ```

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Content, Failure, Origin, Place, Reading, Snapshot, Want};
use crate::time::Timestamp;
use crate::yaml;

/// Marks the format.
const API_VERSION: &str = "kubectl-rancher/v1alpha1";
/// The index.
const INDEX: &str = "snapshot.yaml";
/// Largest file read from a snapshot, in bytes: 256 MiB. Lists of a large fleet are some tens of MiB.
const MAX_FILE: u64 = 256 << 20;
/// Largest total read from an archive, in bytes: 1 GiB.
const MAX_TOTAL: u64 = 1 << 30;

/// A snapshot that could not be saved or read.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("{path}: {message}")]
    Malformed {
        /// The file, or the path inside the archive.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// The path to save to is taken.
    #[error("{0} exists already; give another path")]
    Exists(PathBuf),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Index {
    api_version: String,
    kind: String,
    /// What made it.
    tool: String,
    as_of: Timestamp,
    #[serde(default)]
    origin: Origin,
    readings: Vec<IndexEntry>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct IndexEntry {
    want: Want,
    #[serde(default, skip_serializing_if = "Place::is_here")]
    place: Place,
    at: Timestamp,
    #[serde(default)]
    required: bool,
    #[serde(default)]
    why: String,
    answer: Answer,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Answer {
    Objects(String),
    Table(String),
    Log(String),
    Count(usize),
    Absent,
    NotServed,
    Failed(Failure),
}

/// Saves a snapshot to a new directory, or to a new archive if the path ends in `.tar.gz` or `.tgz`.
///
/// # Errors
/// When the path exists or cannot be written. What was written until then is left for the user to look at.
pub fn save(snapshot: &Snapshot, tool: &str, path: &Path) -> Result<(), BundleError> {
    let files = files_of(snapshot, tool)?;
    let io = |source| BundleError::Io { path: path.to_owned(), source };
    if path.symlink_metadata().is_ok() {
        return Err(BundleError::Exists(path.to_owned()));
    }
    if is_archive(path) {
        let mut options = File::options();
        options.write(true).create_new(true);
        restrict(&mut options);
        let file = options.open(path).map_err(io)?;
        write_archive(file, &files, snapshot.as_of).map_err(io)
    } else {
        std::fs::create_dir_all(path).map_err(io)?;
        for (name, content) in &files {
            let target = path.join(name);
            let io = |source| BundleError::Io { path: target.clone(), source };
            if let Some(parent) = target.parent() {
                std::fs::create_dir_all(parent).map_err(io)?;
            }
            let mut options = File::options();
            options.write(true).create_new(true);
            restrict(&mut options);
            options.open(&target).map_err(io)?.write_all(content.as_bytes()).map_err(io)?;
        }
        Ok(())
    }
}

/// Snapshots are redacted, but names and addresses are nobody else's business either.
#[cfg(unix)]
fn restrict(options: &mut std::fs::OpenOptions) {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
}

#[cfg(not(unix))]
fn restrict(_: &mut std::fs::OpenOptions) {}

fn is_archive(path: &Path) -> bool {
    let name = path.to_string_lossy();
    name.ends_with(".tar.gz") || name.ends_with(".tgz")
}

fn write_archive(file: File, files: &[(String, String)], as_of: Timestamp) -> io::Result<()> {
    let mut archive = tar::Builder::new(GzEncoder::new(file, Compression::default()));
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(u64::try_from(as_of.as_second()).unwrap_or(0));
        header.set_cksum();
        archive.append_data(&mut header, name, content.as_bytes())?;
    }
    archive.into_inner()?.finish()?.sync_all()
}

/// The files of a snapshot: name and content.
fn files_of(snapshot: &Snapshot, tool: &str) -> Result<Vec<(String, String)>, BundleError> {
    let malformed =
        |path: &str, error: &yaml::YamlError| BundleError::Malformed { path: path.into(), message: error.to_string() };
    let mut taken = BTreeSet::new();
    let mut files = Vec::new();
    let mut readings = Vec::new();
    for reading in &snapshot.readings {
        let answer = match &reading.content {
            Content::Absent => Answer::Absent,
            Content::Count(count) => Answer::Count(*count),
            Content::NotServed => Answer::NotServed,
            Content::Failed(failure) => Answer::Failed(failure.clone()),
            Content::Objects(objects) => {
                let name = unique(&mut taken, &stem(&reading.place, &reading.want), "yaml");
                let text = yaml::write(&serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects}))
                    .map_err(|error| malformed(&name, &error))?;
                files.push((name.clone(), text));
                Answer::Objects(name)
            }
            Content::Table(table) => {
                let name = unique(&mut taken, &stem(&reading.place, &reading.want), "table.yaml");
                let text = yaml::write(table).map_err(|error| malformed(&name, &error))?;
                files.push((name.clone(), text));
                Answer::Table(name)
            }
            Content::Text(text) => {
                let name = unique(&mut taken, &stem(&reading.place, &reading.want), "log");
                files.push((name.clone(), text.clone()));
                Answer::Log(name)
            }
        };
        readings.push(IndexEntry {
            want: reading.want.clone(),
            place: reading.place.clone(),
            at: reading.at,
            required: reading.required,
            why: reading.why.clone(),
            answer,
        });
    }
    let index = Index {
        api_version: API_VERSION.to_owned(),
        kind: "Snapshot".to_owned(),
        tool: tool.to_owned(),
        as_of: snapshot.as_of,
        origin: snapshot.origin.clone(),
        readings,
    };
    let text = yaml::write(&index).map_err(|error| malformed(INDEX, &error))?;
    files.insert(0, (INDEX.to_owned(), text));
    Ok(files)
}

/// Where a reading's answer goes, without its ending.
fn stem(place: &Place, want: &Want) -> String {
    let inside = inner_stem(want);
    match place {
        Place::Here => inside,
        Place::Downstream => format!("downstream/{inside}"),
        Place::Proxied(id) => format!("downstream/{}/{inside}", safe(id)),
    }
}

fn inner_stem(want: &Want) -> String {
    match want {
        Want::Get { resource, namespace, name } => format!(
            "objects/{}/{}{}",
            safe(&resource.full_name()),
            namespace.as_deref().map(|ns| format!("{}/", safe(ns))).unwrap_or_default(),
            safe(name)
        ),
        Want::List { resource, namespace, .. } => format!(
            "objects/{}/{}list",
            safe(&resource.full_name()),
            namespace.as_deref().map(|ns| format!("{}/", safe(ns))).unwrap_or_default(),
        ),
        Want::Kinds { group, version } => format!("kinds/{}/{}", safe(group), safe(version)),
        Want::Log { namespace, pod, container, previous, .. } => format!(
            "logs/{}/{}/{}{}",
            safe(namespace),
            safe(pod),
            safe(container),
            if *previous { ".previous" } else { "" }
        ),
    }
}

/// A name from the cluster as one part of a file name.
fn safe(name: &str) -> String {
    let clean: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect();
    if clean.starts_with('.') { format!("_{clean}") } else { clean }
}

fn unique(taken: &mut BTreeSet<String>, stem: &str, ending: &str) -> String {
    let mut name = format!("{stem}.{ending}");
    let mut number = 2;
    while !taken.insert(name.clone()) {
        name = format!("{stem}.{number}.{ending}");
        number += 1;
    }
    name
}

/// Loads a snapshot from a directory or an archive.
///
/// # Errors
/// When it cannot be read, is not a snapshot, or points outside itself.
pub fn load(path: &Path) -> Result<Snapshot, BundleError> {
    let mut source =
        if path.is_dir() { Source::Directory(path.to_owned()) } else { Source::Archive(read_archive(path)?) };
    let malformed = |file: &str, message: String| BundleError::Malformed { path: path.join(file), message };
    let index: Index = yaml::read(&source.file(path, INDEX)?).map_err(|error| malformed(INDEX, error.to_string()))?;
    if index.api_version != API_VERSION || index.kind != "Snapshot" {
        return Err(malformed(
            INDEX,
            format!("is a {} of {}, not a Snapshot of {API_VERSION}", index.kind, index.api_version),
        ));
    }
    let mut readings = Vec::with_capacity(index.readings.len());
    for entry in index.readings {
        let content = match entry.answer {
            Answer::Absent => Content::Absent,
            Answer::Count(count) => Content::Count(count),
            Answer::NotServed => Content::NotServed,
            Answer::Failed(failure) => Content::Failed(failure),
            Answer::Log(file) => Content::Text(source.file(path, &file)?),
            Answer::Table(file) => Content::Table(
                yaml::read(&source.file(path, &file)?).map_err(|error| malformed(&file, error.to_string()))?,
            ),
            Answer::Objects(file) => {
                let list: Value =
                    yaml::read(&source.file(path, &file)?).map_err(|error| malformed(&file, error.to_string()))?;
                match list.get("items") {
                    Some(Value::Array(items)) => Content::Objects(items.clone()),
                    _ => return Err(malformed(&file, "has no items".to_owned())),
                }
            }
        };
        readings.push(Reading {
            want: entry.want,
            place: entry.place,
            at: entry.at,
            required: entry.required,
            why: entry.why,
            content,
        });
    }
    Ok(Snapshot { origin: index.origin, as_of: index.as_of, readings })
}

enum Source {
    Directory(PathBuf),
    Archive(std::collections::BTreeMap<PathBuf, String>),
}

impl Source {
    fn file(&mut self, root: &Path, name: &str) -> Result<String, BundleError> {
        let malformed = |message: &str| BundleError::Malformed { path: root.join(name), message: message.to_owned() };
        let relative = Path::new(name);
        if !relative.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(malformed("points outside the snapshot"));
        }
        match self {
            Self::Directory(directory) => {
                let path = directory.join(relative);
                let io = |source| BundleError::Io { path: path.clone(), source };
                let mut text = String::new();
                let file = File::open(&path).map_err(io)?;
                if file.metadata().map_err(io)?.len() > MAX_FILE {
                    return Err(malformed("is too large"));
                }
                file.take(MAX_FILE).read_to_string(&mut text).map_err(io)?;
                Ok(text)
            }
            Self::Archive(files) => files.get(relative).cloned().ok_or_else(|| malformed("is missing")),
        }
    }
}

fn read_archive(path: &Path) -> Result<std::collections::BTreeMap<PathBuf, String>, BundleError> {
    let io = |source| BundleError::Io { path: path.to_owned(), source };
    let file = File::open(path).map_err(io)?;
    let mut archive = tar::Archive::new(GzDecoder::new(file).take(MAX_TOTAL));
    let mut files = std::collections::BTreeMap::new();
    for entry in archive.entries().map_err(io)? {
        let mut entry = entry.map_err(io)?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let name = entry.path().map_err(io)?.into_owned();
        if entry.size() > MAX_FILE {
            return Err(BundleError::Malformed { path: name, message: "is too large".to_owned() });
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(io)?;
        files.insert(name, String::from_utf8_lossy(&bytes).into_owned());
    }
    Ok(strip_common_directory(files))
}

/// `tar czf x.tar.gz DIR` puts everything below one directory: look there.
fn strip_common_directory(
    files: std::collections::BTreeMap<PathBuf, String>,
) -> std::collections::BTreeMap<PathBuf, String> {
    if files.contains_key(Path::new(INDEX)) {
        return files;
    }
    let Some(prefix) = files
        .keys()
        .find(|name| name.file_name().is_some_and(|name| name == INDEX))
        .and_then(|name| name.parent())
        .map(Path::to_owned)
    else {
        return files;
    };
    files.into_iter().filter_map(|(name, text)| Some((name.strip_prefix(&prefix).ok()?.to_owned(), text))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{LEASES, PODS};
    use crate::snapshot::{Form, Table};
    use serde_json::json;

    fn sample() -> Snapshot {
        let at: Timestamp = "2026-08-22T09:55:02Z".parse().expect("a time");
        let origin =
            Origin { context: Some("prod".into()), server: "https://192.0.2.1:6443".into(), ..Origin::default() };
        let mut snapshot = Snapshot::new(origin, at);
        let reading =
            |want, content| Reading { want, place: Place::Here, at, required: true, why: "leader".into(), content };
        let lease =
            Want::Get { resource: LEASES, namespace: Some("kube-system".into()), name: "cattle-controllers".into() };
        snapshot.readings = vec![
            reading(
                lease.clone(),
                Content::Objects(vec![
                    json!({"metadata": {"name": "cattle-controllers", "namespace": "kube-system"}, "spec": {"holderIdentity": "on"}}),
                ]),
            ),
            reading(
                lease,
                Content::Objects(vec![
                    json!({"metadata": {"name": "cattle-controllers", "namespace": "kube-system"}, "spec": {"holderIdentity": "off"}}),
                ]),
            ),
            reading(
                Want::List {
                    resource: PODS,
                    namespace: Some("cattle-system".into()),
                    selector: None,
                    fields: None,
                    form: Form::Full,
                },
                Content::Failed(Failure {
                    kind: "Forbidden".into(),
                    code: Some(403),
                    message: "no".into(),
                    hint: None,
                }),
            ),
            reading(
                Want::Log {
                    namespace: "cattle-system".into(),
                    pod: "../evil".into(),
                    container: "rancher".into(),
                    previous: true,
                    lines: 10,
                },
                Content::Text("a\nb\n".into()),
            ),
            reading(Want::list(PODS, Some("kube-system"), Form::Count), Content::Count(9_999)),
            reading(
                Want::list(PODS, Some("kube-system"), Form::Table),
                Content::Table(Table { columns: vec!["Name".into()], rows: vec![vec!["a".into()], Vec::new()] }),
            ),
        ];
        snapshot
    }

    #[test]
    fn a_saved_snapshot_reads_back_equal() {
        let home = tempfile::tempdir().expect("a directory");
        for name in ["dir", "file.tar.gz"] {
            let path = home.path().join(name);
            save(&sample(), "test", &path).expect("saved");
            assert_eq!(load(&path).expect("loaded"), sample(), "{name}");
            assert!(matches!(save(&sample(), "test", &path), Err(BundleError::Exists(_))));
        }
        assert!(!home.path().join("evil").exists());
    }

    #[test]
    fn names_from_the_cluster_stay_inside() {
        for (name, _) in files_of(&sample(), "test").expect("files") {
            assert!(Path::new(&name).components().all(|part| matches!(part, Component::Normal(_))), "{name}");
        }
    }

    #[test]
    fn an_index_may_not_point_outside() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("dir");
        save(&sample(), "test", &path).expect("saved");
        let index = path.join(INDEX);
        let text = std::fs::read_to_string(&index).expect("index");
        std::fs::write(&index, text.replace("logs/cattle-system", "../logs")).expect("changed");
        assert!(matches!(load(&path), Err(BundleError::Malformed { .. })));
    }
}
