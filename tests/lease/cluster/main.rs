//! `kubectl rancher-lease` against a real API server: whole processes, real elections, real faults.
//!
//! `CONTROL_PLANE_BIN=tests/control-plane/bin cargo test -p kubectl-rancher-lease --test cluster`; the binaries come from
//! `tests/control-plane/build.sh`.
#![expect(clippy::unwrap_used, reason = "tests")]

#[cfg(unix)]
mod consent;
mod faults;
mod incident;
#[cfg(unix)]
mod launch;
mod place;
mod races;
mod rights;

use rancher_testkit::{ControlPlane, Program};

/// The plugin as cargo built it.
const PLUGIN: &str = env!("CARGO_BIN_EXE_kubectl-rancher-lease");

/// The plugin as administrator of this control plane.
fn plugin(plane: &ControlPlane, args: &[&str]) -> Program {
    Program::new(PLUGIN).env("KUBECONFIG", plane.kubeconfig()).args(args)
}

/// Runs the cases at the same time, so many at once; each waits more than it works.
fn at_once<T: Sync>(threads: usize, cases: &[T], run: impl Fn(&T) + Sync) {
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads.min(cases.len()) {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    run(case);
                }
            });
        }
    });
}
