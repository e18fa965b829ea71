#!/bin/bash
# How fast a large pack loads, mapped and copied, what stays in the page cache, and how much memory it takes. Makes a
# synthetic model of LFM2-8B-A1B's shape and packs it once (4.7 + 4.5 GB in ork's cache, some minutes); the measuring is done by
# load.py, which gets all arguments (`bench/load.sh --help`).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [ -z "${ORK:-}" ]; then
    make --no-print-directory all >&2
    ORK=build/release/cli/ork
fi
exec python3 -B bench/load.py --ork "$ORK" "$@"
