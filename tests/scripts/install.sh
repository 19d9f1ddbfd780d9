#!/bin/sh
# Installs the plugins under the names by which kubectl finds them, or removes them.
#
#   install.sh [--remove] PREFIX PLUGIN…
#
# kubectl-rancher_lease          answers `kubectl rancher-lease`
# kubectl-rancher-lease          answers `kubectl rancher lease`
# kubectl_complete-rancher_lease completes `kubectl rancher-lease <TAB>`
# kubectl_complete-rancher-lease completes `kubectl rancher lease <TAB>`
set -eu
cd "$(dirname "$0")/../.."

remove=
if [ "$1" = --remove ]; then
    remove=yes
    shift
fi
bin=$1/bin
shift
target=${CARGO_TARGET_DIR:-target}

for plugin in "$@"; do
    underscore=$(printf %s "$plugin" | tr - _)
    if [ -n "$remove" ]; then
        rm -f "$bin/kubectl-$underscore" "$bin/kubectl-$plugin" \
            "$bin/kubectl_complete-$underscore" "$bin/kubectl_complete-$plugin"
        echo "removed kubectl $plugin from $bin"
        continue
    fi
    mkdir -p "$bin"
    # A running program's file cannot be overwritten, but replaced.
    cp "$target/release/kubectl-$plugin" "$bin/.kubectl-$underscore.new"
    chmod 755 "$bin/.kubectl-$underscore.new"
    mv -f "$bin/.kubectl-$underscore.new" "$bin/kubectl-$underscore"
    ln -sf "kubectl-$underscore" "$bin/kubectl-$plugin"
    "$bin/kubectl-$underscore" completion kubectl --quiet >"$bin/kubectl_complete-$underscore"
    chmod 755 "$bin/kubectl_complete-$underscore"
    ln -sf "kubectl_complete-$underscore" "$bin/kubectl_complete-$plugin"
    echo "installed kubectl $plugin in $bin"
done
if [ -z "$remove" ]; then
    case ":$PATH:" in
    *":$bin:"*) ;;
    *) echo "note: $bin is not in your PATH; kubectl finds plugins only there: export PATH=\"$bin:\$PATH\"" ;;
    esac
fi
