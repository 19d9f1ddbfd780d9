#!/bin/sh
# Builds control-plane, kwok, helm and kubectl into DIR (default: bin beside this
# script). Returns at once when nothing that goes into them has changed.
#
# Usage: build.sh [DIR]
set -eu
cd "$(dirname "$0")"
out=${1:-bin}

if ! command -v go >/dev/null; then
    echo "build.sh: Go 1.26 or newer is needed (https://go.dev/dl)" >&2
    exit 1
fi
checksum=$(command -v sha256sum || echo shasum -a 256)
stamp=$({ cat go.mod go.sum ./*.go build.sh; go env GOVERSION GOOS GOARCH; } | $checksum)
if [ "$(cat "$out/.stamp" 2>/dev/null)" = "$stamp" ] &&
    [ -x "$out/control-plane" ] && [ -x "$out/kwok" ] && [ -x "$out/helm" ] && [ -x "$out/kubectl" ]; then
    exit 0
fi

# Without a version the API server reports one that kubectl cannot parse, and
# every client calls itself v0.0.0.
version=$(sed -n 's|^[[:space:]]*k8s.io/kubernetes v\([0-9.]*\).*|\1|p' go.mod)
minor=${version#*.}
server=k8s.io/component-base/version
client=k8s.io/client-go/pkg/version
mkdir -p "$out"
rm -f "$out/.stamp"
CGO_ENABLED=0 go build -buildvcs=false \
    -ldflags "-s -w -X $server.gitVersion=v$version -X $server.gitMajor=${version%%.*} -X $server.gitMinor=${minor%%.*} -X $client.gitVersion=v$version" \
    -o "$out/" . tool
echo "$stamp" >"$out/.stamp"
