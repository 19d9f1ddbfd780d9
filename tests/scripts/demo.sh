#!/bin/sh
# The demo: a real API server, three Rancher replicas with Rancher's real leader election, and a Lease of 45 hours that
# names a dead pod. `kubectl rancher-lease` finds it and repairs it.
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
    say "not shown: the repair (it needs a real API server), the new leader, and the clusters coming back"
    exit 0
fi

work=$(mktemp -d)
log=$work/build.log
echo "building the control plane and the plugin (some minutes the first time) …"
sh tests/control-plane/build.sh >"$log" 2>&1 &
plane=$!
cargo build --locked --workspace --bins
if ! wait "$plane"; then
    cat "$log" >&2
    exit 1
fi

bin=$work/bin
mkdir -p "$bin"
ln -s "$PWD/${CARGO_TARGET_DIR:-target}/debug/kubectl-rancher-lease" "$bin/kubectl-rancher_lease"
ln -s "$PWD/tests/control-plane/bin/kubectl" "$bin/kubectl"
PATH=$bin:$PATH
export PATH
XDG_STATE_HOME=$work/state
export XDG_STATE_HOME

echo "starting etcd, kube-apiserver, kube-controller-manager, kwok and three Rancher replicas …"
mkfifo "$work/stop"
# The world lives as long as its standard input is open.
tests/control-plane/bin/control-plane world --dir "$work/world" --holder dead --clusters 5 \
    <"$work/stop" >"$work/world.json" 2>"$work/world.log" &
world=$!
exec 9>"$work/stop"
finish() {
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
KUBECONFIG=$(sed -n 's/.*"kubeconfig":"\([^"]*\)".*/\1/p' "$work/world.json" | head -n 1)
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
