#!/bin/sh
# Archives the release binaries for this platform: one tar.gz per plugin with binary and LICENSE, and SHA256SUMS.
#
#   dist.sh VERSION PLUGIN…
#
# DIST: where to (default: dist). DIST_BINARIES: where from (default: the release build).
set -eu
cd "$(dirname "$0")/../.."
version=$1
shift

case $(uname -s) in
Linux) os=linux ;;
Darwin) os=darwin ;;
*)
    echo "dist: $(uname -s) is not packed here" >&2
    exit 1
    ;;
esac
case $(uname -m) in
x86_64 | amd64) arch=amd64 ;;
aarch64 | arm64) arch=arm64 ;;
*)
    echo "dist: $(uname -m) is not packed here" >&2
    exit 1
    ;;
esac

dist=${DIST:-dist}
binaries=${DIST_BINARIES:-${CARGO_TARGET_DIR:-target}/release}
mkdir -p "$dist"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for plugin in "$@"; do
    cp "$binaries/kubectl-$plugin" LICENSE README.md docs/report.schema.json "$work/"
    archive=kubectl-$plugin-v$version-$os-$arch.tar.gz
    # The same content gives the same archive: no times, no owners, sorted names.
    (cd "$work" && tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf - "kubectl-$plugin" LICENSE README.md report.schema.json) |
        gzip -n >"$dist/$archive"
    rm -f "$work"/*
    echo "$dist/$archive"
done
(cd "$dist" && { sha256sum ./*.tar.gz || shasum -a 256 ./*.tar.gz; } 2>/dev/null | sed 's|\./||' >SHA256SUMS)
