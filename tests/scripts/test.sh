#!/bin/sh
# All tests. The hermetic ones always; those against the real control plane where Go is installed (or in CI, where its
# absence is a failure). The control plane is built beside the Rust side.
set -eu
cd "$(dirname "$0")/../.."

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

plane=
if command -v go >/dev/null; then
    echo "building the control plane for the tests (a few minutes the first time) …"
    sh tests/control-plane/build.sh >"$logs/go" 2>&1 &
    plane=$!
elif [ "${CI:-}" = true ]; then
    echo "test: Go is missing: the tests against the real control plane cannot run" >&2
    exit 1
fi

# `--no-run` first: compiling fails early, and the Go build runs beside it.
cargo test --locked --workspace --no-run
cargo test --locked --workspace

if [ -z "$plane" ]; then
    echo
    echo "NOT RUN: the tests against real API servers (tests/*/cluster), because Go 1.26 or newer is not installed: faults,"
    echo "         races, rights, consent in a terminal, kubectl and Krew, Cluster API, the incidents from end to end."
    exit 0
fi
if ! wait "$plane"; then
    cat "$logs/go" >&2
    exit 1
fi
CONTROL_PLANE_BIN=$PWD/tests/control-plane/bin
export CONTROL_PLANE_BIN
# They wait more than they work; at most four control planes run at once, whatever the number of threads. The same
# selection of packages as above: another one would change the features of the dependencies and build them anew.
cargo test --locked --workspace --test cluster -- --test-threads 4
