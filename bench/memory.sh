#!/bin/bash
# What ork keeps in memory: resident bytes against pack and KV cache, and whether they grow over 10,000 tokens. The measuring is
# done by memory.py, which gets all arguments (`bench/memory.sh --help`).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [ -z "${ORK:-}" ]; then
    make --no-print-directory all >&2
    ORK=build/release/cli/ork
fi
exec python3 -B bench/memory.py --ork "$ORK" "$@"
