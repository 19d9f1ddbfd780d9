#!/bin/sh
# Benchmarks of the release binaries against kubectl, on a real API server. `bench.sh --plain-delete N` measures what a
# plain `kubectl delete lease` does to a living leader.
set -eu
cd "$(dirname "$0")/../.."

command -v go >/dev/null || {
    echo "bench: Go 1.26 or newer is needed for the real API server" >&2
    exit 1
}
sh tests/control-plane/build.sh
CONTROL_PLANE_BIN=$PWD/tests/control-plane/bin
release=$PWD/${CARGO_TARGET_DIR:-target}/release
PLUGIN=$release/kubectl-rancher-lease
PLUGIN_GHOSTS=$release/kubectl-rancher-ghosts
export CONTROL_PLANE_BIN PLUGIN PLUGIN_GHOSTS
# One selection of packages, as everywhere: another one would change the features of the dependencies and build them anew.
cargo test --locked --quiet --workspace --test bench --test bench-fleet --no-run
cargo test --locked --quiet --workspace --test bench -- "$@"
if [ $# -eq 0 ]; then
    cargo test --locked --quiet --workspace --test bench-fleet
fi
