//! The ways it is called: by kubectl under both names, directly, completed by kubectl, installed by Krew.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use rancher_testkit::{Output, Program, World, binary};

use super::{PLUGIN, at_once};

/// A directory for the PATH with kubectl and the plugin under the names that kubectl finds.
struct Installed {
    directory: tempfile::TempDir,
    kubeconfig: PathBuf,
}

impl Installed {
    fn new(world: &World) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for (name, file) in [
            ("kubectl-rancher_lease", Path::new(PLUGIN)),
            ("kubectl-rancher-lease", Path::new(PLUGIN)),
            ("kubectl", &binary("kubectl")),
        ] {
            symlink(file, directory.path().join(name)).unwrap();
        }
        Self { directory, kubeconfig: world.kubeconfig() }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A program found as the shell would.
    fn run(&self, words: &[&str]) -> Output {
        let path = format!("{}:/usr/bin:/bin", self.directory.path().display());
        Program::new(self.file(words[0])).env("PATH", path).env("KUBECONFIG", &self.kubeconfig).args(&words[1..]).run()
    }
}

#[test]
fn however_it_is_called() {
    let world = World::start(&["--holder", "dead", "--clusters", "1", "--start-replicas=false"]);
    let installed = Installed::new(&world);

    let ways: [(&[&str], &str); 3] = [
        (&["kubectl", "rancher-lease"], "kubectl rancher-lease"),
        (&["kubectl", "rancher", "lease"], "kubectl rancher lease"),
        (&["kubectl-rancher_lease"], "kubectl rancher-lease"),
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

    let helper = installed.run(&["kubectl", "rancher-lease", "completion", "kubectl"]);
    let file = installed.file("kubectl_complete-rancher_lease");
    assert!(helper.expect_code(0).stderr.contains("kubectl_complete-rancher_lease"), "{helper}");
    std::fs::write(&file, &helper.stdout).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    let complete = |words: &[&str], expected: &[&str]| {
        let output = installed.run(&[&["kubectl", "__complete", "rancher-lease"], words].concat());
        output.expect_code(0);
        let values: Vec<&str> = output.stdout.lines().filter_map(|line| line.split('\t').next()).collect();
        for value in expected {
            assert!(values.contains(value), "{words:?} does not offer {value}: {output}");
        }
    };
    complete(&[""], &["check", "fix", "undo", "explain", "watch", "snapshot", "rbac", "completion", "version"]);
    complete(&["fi"], &["fix"]);
    complete(&["check", "--context", ""], &["management"]);
    complete(&["--context", ""], &["management"]);
    complete(&["-n", ""], &["kube-system", "cattle-system", "default"]);
    complete(&["check", "--rancher-namespace", ""], &["cattle-system"]);
    complete(&["explain", ""], &["RL101", "RX002"]);
    complete(&["check", "--fail-on", ""], &["error", "warning", "never"]);
}

#[test]
fn krew_installs_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let work = tempfile::tempdir().unwrap();
    let dist = work.path().join("dist");
    let version = env!("CARGO_PKG_VERSION");
    for script in ["dist.sh", "krew.sh"] {
        let made = Program::new("/bin/sh")
            .env("PATH", "/usr/bin:/bin")
            .env("DIST", &dist)
            .env("DIST_BINARIES", Path::new(PLUGIN).parent().unwrap())
            .args([root.join("tests/scripts").join(script)])
            .args([version, "rancher-lease"]);
        made.run().expect_code(0);
    }
    let manifest = dist.join("rancher-lease.yaml");
    let archive = std::fs::read_dir(&dist)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|extension| extension == "gz"))
        .unwrap();

    let validated =
        Program::new(binary("validate-krew-manifest")).args(["-skip-install", "-manifest"]).args([&manifest]);
    validated.run().expect_code(0);

    let krew_root = work.path().join("krew");
    let path = format!("{}:{}:/usr/bin:/bin", krew_root.join("bin").display(), work.path().display());
    symlink(binary("kubectl"), work.path().join("kubectl")).unwrap();
    symlink(binary("krew"), work.path().join("kubectl-krew")).unwrap();
    let kubectl = Program::new(work.path().join("kubectl")).env("PATH", path).env("KREW_ROOT", &krew_root);
    let kubectl = |words: &[&str]| kubectl.clone().args(words).run();
    let (manifest, archive) = (manifest.display().to_string(), archive.display().to_string());
    kubectl(&["krew", "install", &format!("--manifest={manifest}"), &format!("--archive={archive}")])
        .expect_code(0)
        .expect_words("Installed plugin: rancher-lease");
    assert!(krew_root.join("bin/kubectl-rancher_lease").exists());
    kubectl(&["rancher-lease", "version"]).expect_code(0).expect_words(version);
    kubectl(&["rancher-lease", "--help"]).expect_code(0).expect_words("Usage: kubectl rancher-lease ");
    // Uninstalling wants an index first, which is a git repository with the manifest.
    let index = work.path().join("index");
    std::fs::create_dir_all(index.join("plugins")).unwrap();
    std::fs::copy(&manifest, index.join("plugins/rancher-lease.yaml")).unwrap();
    let git = |words: &[&str]| {
        let program = Program::new("/usr/bin/env").env("PATH", "/usr/local/bin:/usr/bin:/bin").args(["git", "-C"]);
        let who = ["-c", "user.name=test", "-c", "user.email=test@localhost"];
        program.args([&index]).args(who).args(words).run().expect_code(0).clone()
    };
    git(&["init", "--quiet"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "-m", "index"]);
    kubectl(&["krew", "index", "add", "default", &index.display().to_string()]).expect_code(0);
    kubectl(&["krew", "uninstall", "rancher-lease"]).expect_code(0);
    assert!(!krew_root.join("bin/kubectl-rancher_lease").exists());
}
