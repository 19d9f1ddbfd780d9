#!/bin/sh
# Archives the binaries for this platform into DIST (dist/): one tar.gz per plugin with binary, LICENSE and README, and
# SHA256SUMS. The binaries are the release build's unless BINARIES names another directory, as tests do.
#
#   dist.sh VERSION PLUGIN…
set -eu
cd "$(dirname "$0")/../.."
version=$1
shift
dist=${DIST:-dist}
binaries=${BINARIES:-${CARGO_TARGET_DIR:-target}/release}

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

mkdir -p "$dist"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for plugin in "$@"; do
    cp "$binaries/kubectl-$plugin" LICENSE README.md "$work/"
    archive=kubectl-$plugin-v$version-$os-$arch.tar.gz
    # The same content gives the same archive: no times, no owners, sorted names.
    (cd "$work" && tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf - "kubectl-$plugin" LICENSE README.md) |
        gzip -n >"$dist/$archive"
    rm -f "$work"/*
    echo "$dist/$archive"
done
(cd "$dist" && { sha256sum ./*.tar.gz || shasum -a 256 ./*.tar.gz; } 2>/dev/null | sed 's|\./||' >SHA256SUMS)
