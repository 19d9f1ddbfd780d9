//! Called by kubectl, completed by kubectl, installed by Krew.

use std::os::unix::fs::symlink;
use std::path::Path;

use rancher_testkit::{Program, World, binary};

use super::{CONTROL_PLANES, PLUGIN, edge};

#[test]
fn by_kubectl_and_krew() {
    let world = World::start(&["--holder", "live", "--downstream", "edge"]);
    edge(&world);
    let directory = tempfile::tempdir().unwrap();
    for (name, file) in [
        ("kubectl-rancher_ghosts", Path::new(PLUGIN)),
        ("kubectl-rancher-ghosts", Path::new(PLUGIN)),
        ("kubectl", &binary("kubectl")),
    ] {
        symlink(file, directory.path().join(name)).unwrap();
    }
    let path = format!("{}:/usr/bin:/bin", directory.path().display());
    let run = |words: &[&str]| {
        Program::new(directory.path().join(words[0]))
            .env("PATH", &path)
            .env("KUBECONFIG", world.kubeconfig())
            .args(&words[1..])
            .run()
    };
    run(&["kubectl", "rancher-ghosts"]).expect_code(0).expect_words("5 of 5 machines in 1 cluster");
    // What follows the plugin's name is a check, as with the verb.
    let bare = run(&["kubectl", "rancher", "ghosts", "edge", "-o", "json"]);
    bare.expect_code(0);
    assert_eq!(bare.json()["items"].as_array().unwrap().len(), 5, "{bare}");
    run(&["kubectl", "rancher-ghosts", "--help"]).expect_code(0).expect_words("Usage: kubectl rancher-ghosts");

    // kubectl's own protocol, with live names.
    let complete = |words: &[&str]| run(&[&["kubectl-rancher_ghosts", "__complete"], words].concat());
    let clusters = complete(&["check", ""]);
    clusters.expect_code(0);
    let machine = format!("edge/{}", CONTROL_PLANES[0].0);
    assert!(clusters.stdout.lines().any(|line| line.split('\t').next() == Some("edge")), "{clusters}");
    assert!(clusters.stdout.lines().any(|line| line.split('\t').next() == Some(&machine)), "{clusters}");
    assert!(complete(&["fix", "edge/custom-8"]).stdout.starts_with(&machine));

    // The archive and manifest that are made for the release.
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let dist = directory.path().join("dist");
    let binaries = Path::new(PLUGIN).parent().unwrap();
    for script in ["dist.sh", "krew.sh"] {
        Program::new("/bin/sh")
            .arg(format!("{root}/tests/scripts/{script}"))
            .args([env!("CARGO_PKG_VERSION"), "rancher-ghosts"])
            .env("DIST", &dist)
            .env("DIST_BINARIES", binaries)
            .env("PATH", "/usr/bin:/bin")
            .run()
            .expect_code(0);
    }
    let manifest = dist.join("rancher-ghosts.yaml");
    Program::new(binary("validate-krew-manifest"))
        .args(["-manifest", manifest.to_str().unwrap(), "-skip-install"])
        .run()
        .expect_code(0);
    let archive = std::fs::read_dir(&dist)
        .unwrap()
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|ending| ending == "gz"))
        .unwrap();
    let krew_root = directory.path().join("krew");
    Program::new(binary("krew"))
        .args(["install", "--manifest", manifest.to_str().unwrap(), "--archive", archive.to_str().unwrap()])
        .env("KREW_ROOT", &krew_root)
        .env("PATH", &path)
        .run()
        .expect_code(0);
    let installed = Program::new(binary("kubectl"))
        .env("PATH", format!("{}:/usr/bin:/bin", krew_root.join("bin").display()))
        .env("KUBECONFIG", world.kubeconfig())
        .args(["rancher-ghosts", "version"])
        .run();
    installed.expect_code(0).expect_words(env!("CARGO_PKG_VERSION"));
}
