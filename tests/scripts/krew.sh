#!/bin/sh
# Writes dist/PLUGIN.yaml, the Krew manifest for the archives in dist/ (or in $DIST), from krew/PLUGIN.yaml.
#
#   krew.sh VERSION PLUGIN…
set -eu
cd "$(dirname "$0")/../.."
version=$1
shift
dist=${DIST:-dist}

for plugin in "$@"; do
    awk -v version="$version" -v plugin="$plugin" -v dist="$dist" '
        BEGIN {
            while ((getline line < (dist "/SHA256SUMS")) > 0) {
                split(line, part, / +/)
                sums[part[2]] = part[1]
            }
        }
        # A platform is a block from its selector to the next; it is written only if its archive is there.
        function flush_block() {
            if (block != "" && keep) { printf "%s", block; written++ }
            block = ""; keep = 0
        }
        { gsub(/@VERSION@/, version) }
        /^    - selector:/ { flush_block(); in_platforms = 1 }
        in_platforms {
            if (match($0, /@SHA256 [^@]+@/)) {
                archive = substr($0, RSTART + 8, RLENGTH - 9)
                if (archive in sums) { keep = 1; sub(/@SHA256 [^@]+@/, sums[archive]) }
            }
            block = block $0 "\n"
            next
        }
        { print }
        END {
            flush_block()
            if (!written) { print "krew: no archive of " plugin " in " dist > "/dev/stderr"; exit 1 }
        }
    ' "krew/$plugin.yaml" >"$dist/$plugin.yaml"
    echo "$dist/$plugin.yaml"
done
