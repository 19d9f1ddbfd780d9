//! `kubectl rancher-ghosts`: which machines have no node behind them, what do they block, what is in their way?

use std::process::ExitCode;

// Why: see the dependency in the workspace's Cargo.toml.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    rancher_common::cli::main(&kubectl_rancher_ghosts::GhostsDoctor)
}
