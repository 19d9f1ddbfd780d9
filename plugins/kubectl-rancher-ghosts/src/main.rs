//! `kubectl rancher-ghosts`: which machines have no node behind them, what do they block, what is in their way?

use std::process::ExitCode;

fn main() -> ExitCode {
    rancher_common::cli::main(&kubectl_rancher_ghosts::GhostsDoctor)
}
