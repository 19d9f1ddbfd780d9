//! The ways the plugin is called: through kubectl under both names, directly, and as installed by Krew.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rancher_testkit::{ControlPlane, Program, World, binary};

use super::{PLUGIN, at_once};

/// A directory on the search path with kubectl and the plugin under both names.
fn installed(plane: &ControlPlane) -> PathBuf {
    let bin = plane.files().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    symlink(binary("kubectl"), bin.join("kubectl")).unwrap();
    for name in ["kubectl-rancher_lease", "kubectl-rancher-lease"] {
        symlink(PLUGIN, bin.join(name)).unwrap();
    }
    let helper = bin.join("kubectl_complete-rancher_lease");
    let script = Program::new(PLUGIN).args(["completion", "kubectl"]).run();
    std::fs::write(&helper, &script.expect_code(0).stdout).unwrap();
    executable(&helper);
    bin
}

fn executable(file: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn call(plane: &ControlPlane, bin: &Path, program: &str, args: &[&str]) -> Program {
    let path = format!("{}:/usr/bin:/bin", bin.display());
    Program::new(bin.join(program)).env("KUBECONFIG", plane.kubeconfig()).env("PATH", path).args(args)
}

#[test]
fn every_name_behaves_alike_and_says_how_it_was_called() {
    let world = World::start(&["--holder", "dead", "--clusters", "1"]);
    let bin = installed(&world);
    let ways: [(&str, &[&str], &str); 3] = [
        ("kubectl", &["rancher-lease"], "kubectl rancher-lease"),
        ("kubectl", &["rancher", "lease"], "kubectl rancher lease"),
        ("kubectl-rancher_lease", &[], "kubectl rancher-lease"),
    ];
    at_once(3, &ways, |(words, usage)| {
        let with = |more: &[&str]| installed.run(&[*words, more].concat());
        with(&["--help"]).expect_code(0).expect_words(&format!("Usage: {usage} "));
        with(&[]).expect_code(3).expect_words(&format!("{usage} fix"));
        with(&["fix"]).expect_code(6).expect_words(&format!("{usage} fix --confirm"));
        with(&["check", "--no-such-flag"]).expect_code(2).expect_words(&format!("Usage: {usage} "));
        with(&["explain", "RL101"]).expect_code(0);
        with(&["version"]).expect_code(0).expect_words(env!("CARGO_PKG_VERSION"));
    });
    // Called by a path that the shell would not find it under, it is offered under that path.
    let direct = Program::new(PLUGIN).args(["--help"]).run();
    direct.expect_code(0).expect_words(&format!("Usage: {PLUGIN} "));

    // kubectl sees both and warns of nothing that is ours.
    let listed = call(&world, &bin, "kubectl", &["plugin", "list"]).run();
    listed.expect_code(0).expect_words("kubectl-rancher_lease").expect_words("kubectl-rancher-lease");
    assert!(!listed.stderr.contains("rancher"), "{listed}");
}

#[test]
fn kubectl_completes_verbs_flags_and_live_names() {
    let world = World::start(&["--holder", "dead", "--clusters", "1"]);
    let bin = installed(&world);
    let complete = |words: &[&str]| {
        let output = call(&world, &bin, "kubectl", &[&["__complete", "rancher-lease"], words].concat()).run();
        output.expect_code(0);
        assert!(output.stdout.trim_end().ends_with(":4"), "{output}");
        output.stdout
    };
    let verbs = complete(&[""]);
    for verb in ["check\t", "fix\t", "undo\t", "watch\t"] {
        assert!(verbs.contains(verb), "{verbs}");
    }
    assert!(!verbs.lines().any(|line| line.starts_with('-')), "{verbs}");
    assert!(complete(&["check", "--fail"]).contains("--fail-on"));
    assert!(complete(&["check", "--fail-on", ""]).contains("warning"));
    assert!(complete(&["check", "--context", ""]).contains("management\t"));
    // Live names, through the context that was typed before.
    assert!(complete(&["check", "--context", "management", "-n", ""]).contains("cattle-system"));
    assert!(complete(&["check", "--rancher-namespace", "cattle-s"]).contains("cattle-system"));
    assert!(complete(&["explain", "RL1"]).contains("RL101\tHolderGone"));
    // A server that does not answer costs little and shows nothing.
    let started = std::time::Instant::now();
    let silent = complete(&["check", "--server", "https://192.0.2.1:6443", "-n", ""]);
    assert_eq!(silent, ":4\n");
    assert!(started.elapsed() < std::time::Duration::from_secs(5), "{:?}", started.elapsed());
}

#[test]
fn krew_installs_and_removes_it() {
    let world = World::start(&["--holder", "dead", "--clusters", "1"]);
    let root = world.files().join("krew");
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let dist = world.files().join("dist");
    for script in ["dist.sh", "krew.sh"] {
        let made = Program::new("/bin/sh")
            .args([repository.join("tests/scripts").join(script)])
            .args(["0.1.0", "rancher-lease"])
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("DIST", &dist)
            .env("BINARIES", Path::new(PLUGIN).parent().unwrap())
            .run();
        made.expect_code(0);
    }
    let manifest = dist.join("rancher-lease.yaml");
    let archive = std::fs::read_dir(&dist)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|ending| ending == "gz"))
        .unwrap();

    let validated =
        Program::new(binary("validate-krew-manifest")).args(["-skip-install", "-manifest"]).args([&manifest]);
    validated.run().expect_code(0);

    // krew 0.4.3 wants an index before it removes anything; a local repository is one.
    let index = world.files().join("index");
    std::fs::create_dir_all(index.join("plugins")).unwrap();
    std::fs::copy(&manifest, index.join("plugins/rancher-lease.yaml")).unwrap();
    for args in [
        &["init", "-q"][..],
        &["add", "."],
        &["-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "index"],
    ] {
        Program::new("/usr/bin/git").args(["-C".as_ref(), index.as_os_str()]).args(args).run().expect_code(0);
    }
    krew(&["index", "add", "default", &index.display().to_string()]).run().expect_code(0);
    krew(&["uninstall", "rancher-lease"]).run().expect_code(0);
    kubectl(&["rancher-lease", "version"]).run().expect_code(1);
}
