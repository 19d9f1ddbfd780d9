//! `kubectl rancher-lease`: is a working Rancher replica leading, and if not, why not?

use std::process::ExitCode;

fn main() -> ExitCode {
    rancher_common::cli::main(&kubectl_rancher_lease::LeaseDoctor)
}
