//! `kubectl rancher-lease` against a real API server: whole processes, real elections, real faults.
//!
//! `CONTROL_PLANE_BIN=tests/control-plane/bin cargo test -p kubectl-rancher-lease --test cluster`; the binaries come from
//! `tests/control-plane/build.sh`.
#![expect(clippy::unwrap_used, reason = "tests")]

mod consent;
mod incident;
#[cfg(unix)]
mod launch;
mod place;

use rancher_testkit::{ControlPlane, Program};

/// The plugin as cargo built it.
const PLUGIN: &str = env!("CARGO_BIN_EXE_kubectl-rancher-lease");

/// The plugin as administrator of this control plane.
fn plugin(plane: &ControlPlane, args: &[&str]) -> Program {
    Program::new(PLUGIN).env("KUBECONFIG", plane.kubeconfig()).args(args)
}
