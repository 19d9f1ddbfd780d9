#!/bin/sh
# Formatting, clippy and documentation with warnings denied, licences and bans, shell syntax.
set -eu
cd "$(dirname "$0")/../.."

cargo fmt --all --check
cargo clippy --locked --workspace --all-targets -- -D warnings
# The tests that need the control plane are no default targets; they are linted all the same.
cargo clippy --locked --workspace --test cluster --test bench --test bench-fleet -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --quiet
for script in tests/scripts/*.sh tests/control-plane/build.sh; do
    sh -n "$script"
done
if command -v go >/dev/null; then
    unformatted=$(gofmt -l tests/control-plane/*.go)
    if [ -n "$unformatted" ]; then
        echo "gofmt: $unformatted" >&2
        exit 1
    fi
fi
if command -v cargo-deny >/dev/null; then
    cargo deny --locked --all-features check --hide-inclusion-graph bans licenses sources
elif [ "${CI:-}" = true ]; then
    echo "lint: cargo-deny is missing; install it with: cargo install --locked cargo-deny" >&2
    exit 1
else
    echo "lint: NOT RUN: licences and bans (cargo-deny is not installed: cargo install --locked cargo-deny)" >&2
fi
