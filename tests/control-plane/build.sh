#!/bin/sh
# Builds control-plane, cluster-api-core, kwok, helm, kubectl, krew and validate-krew-manifest into DIR (default: bin
# beside this script), with Cluster API's definitions in DIR/cluster-api. Returns at once when nothing that goes into
# them has changed.
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
complete=true
for program in control-plane cluster-api-core kwok helm kubectl krew validate-krew-manifest; do
    [ -x "$out/$program" ] || complete=false
done
[ -f "$out/cluster-api/webhooks.yaml" ] || complete=false
if [ "$(cat "$out/.stamp" 2>/dev/null)" = "$stamp" ] && $complete; then
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
mv "$out/core" "$out/cluster-api-core"
# Cluster API's definitions come from the module that its controller is built from, so that the two always fit.
capi=$(go list -m -f '{{.Dir}}' sigs.k8s.io/cluster-api)/core/config
rm -rf "$out/cluster-api"
mkdir -p "$out/cluster-api/crds"
cat "$capi/webhook/manifests.yaml" >"$out/cluster-api/webhooks.yaml.new"
for crd in "$capi"/crd/bases/*.yaml; do
    # The module cache is read-only; what is made from it must not be.
    cat "$crd" >"$out/cluster-api/crds/${crd##*/}"
done
mv "$out/cluster-api/webhooks.yaml.new" "$out/cluster-api/webhooks.yaml"
# Krew stands outside the module: its dependencies are of another time. 0.4.3 is the newest that the module proxy serves.
GOBIN=$(cd "$out" && pwd) CGO_ENABLED=0 go install -ldflags "-s -w" \
    sigs.k8s.io/krew/cmd/krew@v0.4.3 sigs.k8s.io/krew/cmd/validate-krew-manifest@v0.4.3
echo "$stamp" >"$out/.stamp"
