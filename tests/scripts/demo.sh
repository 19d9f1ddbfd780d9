#!/bin/sh
# The demo: a real API server, three Rancher replicas with Rancher's real leader election, and a Lease of 45 hours that
# names a dead pod: `kubectl rancher-lease` finds it and repairs it. Then a downstream cluster with Cluster API's real
# controller, and a ghost machine that blocks a rotation of certificates: `kubectl rancher-ghosts` removes it.
#
# On a terminal it asks before it repairs, as on your own cluster; otherwise it agrees by flag and says so.
set -eu
cd "$(dirname "$0")/../.."

say() { printf '\n\033[1m# %s\033[0m\n' "$*"; }
[ -t 1 ] || say() { printf '\n# %s\n' "$*"; }

if ! command -v go >/dev/null; then
    cargo build --locked --quiet --workspace --bins
    say "Go 1.26 or newer is not installed: this is a recorded incident, not a live cluster"
    echo '$ kubectl rancher-lease check --from tests/incidents/rl101-holder-gone'
    "${CARGO_TARGET_DIR:-target}/debug/kubectl-rancher-lease" check --from tests/incidents/rl101-holder-gone || true
    echo '$ kubectl rancher-ghosts check --from tests/incidents/ghosts-rg101-rotation-waits'
    "${CARGO_TARGET_DIR:-target}/debug/kubectl-rancher-ghosts" check --from tests/incidents/ghosts-rg101-rotation-waits || true
    say "not shown: the repairs (they need a real API server), the new leader, the clusters coming back, the rotation going on"
    exit 0
fi

work=$(mktemp -d)
log=$work/build.log
echo "building the control plane and the plugins (some minutes the first time) …"
sh tests/control-plane/build.sh >"$log" 2>&1 &
plane=$!
cargo build --locked --workspace --bins
if ! wait "$plane"; then
    cat "$log" >&2
    exit 1
fi

bin=$work/bin
mkdir -p "$bin"
for plugin in lease ghosts; do
    ln -s "$PWD/${CARGO_TARGET_DIR:-target}/debug/kubectl-rancher-$plugin" "$bin/kubectl-rancher_$plugin"
done
ln -s "$PWD/tests/control-plane/bin/kubectl" "$bin/kubectl"
PATH=$bin:$PATH
export PATH
XDG_STATE_HOME=$work/state
export XDG_STATE_HOME

echo "starting etcd, kube-apiserver and kube-controller-manager twice, Cluster API, kwok and three Rancher replicas …"
mkfifo "$work/stop"
# The world lives as long as its standard input is open.
tests/control-plane/bin/control-plane world --dir "$work/world" --holder dead --clusters 5 --downstream edge \
    <"$work/stop" >"$work/world.json" 2>"$work/world.log" &
world=$!
exec 9>"$work/stop"
finish() {
    cd /
    exec 9>&-
    kill "$world" 2>/dev/null || true
    wait "$world" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM
until [ -s "$work/world.json" ]; do
    kill -0 "$world" 2>/dev/null || {
        cat "$work/world.log" >&2
        exit 1
    }
    sleep 0.2
done
# The first one in the line: those of downstream clusters follow.
KUBECONFIG=$(sed -n 's/^{"kubeconfig":"\([^"]*\)".*/\1/p' "$work/world.json" | head -n 1)
export KUBECONFIG

say "the clusters hang, and the Lease names a pod that is gone"
echo '$ kubectl get lease -n kube-system cattle-controllers'
kubectl get lease -n kube-system cattle-controllers
echo '$ kubectl get pods -n cattle-system'
kubectl get pods -n cattle-system

say "what is wrong?"
echo '$ kubectl rancher-lease'
kubectl rancher-lease || echo "(exit code $?)"

say "repair it"
if [ -t 0 ] && [ -t 2 ] && [ -z "${CI:-}" ]; then
    echo '$ kubectl rancher-lease fix'
    kubectl rancher-lease fix
else
    echo '$ kubectl rancher-lease fix --yes'
    kubectl rancher-lease fix --yes
fi

say "and now"
echo '$ kubectl rancher-lease'
kubectl rancher-lease

# What is said to the world, answered by one line each.
tell() {
    lines=$(wc -l <"$work/world.json")
    echo "$*" >&9
    until [ "$(wc -l <"$work/world.json")" -gt "$lines" ]; do sleep 0.1; done
}
cp "$work/world/downstream/edge/kubeconfig" "$work/edge.kubeconfig"
cd "$work"
for machine in custom-898d97f03763 custom-f489526f114a custom-0cf3ab0002bb; do
    tell machine edge $machine etcd,controlplane
done
tell machine edge custom-3524fa7f0d71 worker
node=1
for machine in custom-898d97f03763 custom-f489526f114a custom-0cf3ab0002bb custom-3524fa7f0d71; do
    tell join edge $machine node0$node
    node=$((node + 1))
done
until [ "$(kubectl get machines -n fleet-default | grep -c Running)" = 4 ]; do sleep 0.5; done
tell machine edge custom-2d74d4c9a104 etcd
tell rotate edge
sleep 3

say "certificates are to be rotated in cluster edge, and nothing happens"
echo '$ kubectl get machines -n fleet-default'
kubectl get machines -n fleet-default

say "which machine is it, and what waits for it? (30 minutes are 2 seconds here)"
echo '$ kubectl rancher-ghosts check edge --grace 2s --downstream-kubeconfig edge.kubeconfig'
kubectl rancher-ghosts check edge --grace 2s --downstream-kubeconfig edge.kubeconfig || echo "(exit code $?)"
echo '$ kubectl rancher-ghosts whois node01'
kubectl rancher-ghosts whois node01

say "remove it"
ghost="edge/custom-2d74d4c9a104 --grace 2s --downstream-kubeconfig edge.kubeconfig"
if [ -t 0 ] && [ -t 2 ] && [ -z "${CI:-}" ]; then
    echo "\$ kubectl rancher-ghosts fix $ghost"
    # shellcheck disable=SC2086 # words
    kubectl rancher-ghosts fix $ghost
else
    # shellcheck disable=SC2086 # words
    digest=$(kubectl rancher-ghosts fix $ghost -o json |
        sed -n 's/.*"digest": "\([0-9a-f]*\)".*/\1/p' | head -n 1)
    echo "\$ kubectl rancher-ghosts fix $ghost --confirm $digest"
    # shellcheck disable=SC2086 # words
    kubectl rancher-ghosts fix $ghost --confirm "$digest"
fi

say "and now"
echo '$ kubectl rancher-ghosts check edge --downstream-kubeconfig edge.kubeconfig'
kubectl rancher-ghosts check edge --downstream-kubeconfig edge.kubeconfig
