#!/bin/bash
# Tokens per second of ork, llama.cpp and ik_llama.cpp, interleaved in one run on this machine. Builds what is missing of ork,
# finds the peers, and leaves the measuring to versus.py; all further arguments go there (`bench/versus.sh --help`).
#
# A peer is a folder with a native build's llama-bench: ORK_PEER_LIBRARY (llama.cpp) and ORK_PEER_IK (ik_llama.cpp), by default
# those that tools/peer_build.py made in ork's cache. --make-peers makes both, once: about 40 minutes of one core. The synthetic
# models and ork's packs go to bench/ in ork's cache, 50 GB for all; --prepare makes them beforehand.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ "${1:-}" = --make-peers ]; then
    shift
    python3 -B tools/peer_build.py --peer all >&2
fi
export ORK_PEER_LIBRARY="${ORK_PEER_LIBRARY:-$(python3 -B tools/peer_build.py --peer llama --where)}"
export ORK_PEER_IK="${ORK_PEER_IK:-$(python3 -B tools/peer_build.py --peer ik --where)}"

if [ -z "${ORK:-}" ]; then
    make --no-print-directory all >&2
    ORK=build/release/cli/ork
fi
exec python3 -B bench/versus.py --ork "$ORK" "$@"
