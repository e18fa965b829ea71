#!/bin/bash
# Tokens per second of ork and of llama.cpp, interleaved in one run on this machine. Builds what is missing of ork, finds the
# peer, and leaves the measuring to versus.py; all further arguments go there (`bench/versus.sh --help`).
#
# The peer is a Python with the packages of tools/requirements-peers.txt (ORK_PEER_PYTHON, default: the virtual environment
# `venv` in ork's cache under peers/) and a native build of llama.cpp (ORK_PEER_LIBRARY, default: the newest that
# tools/peer_build.py made there). --make-peer makes both, once: about 15 minutes of one core.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

peers="${ORK_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/ork}/peers"
python="${ORK_PEER_PYTHON:-$peers/venv/bin/python}"

if [ "${1:-}" = --make-peer ]; then
    shift
    [ -x "$python" ] || python3 -m venv "$peers/venv"
    "$python" -m pip install --quiet --disable-pip-version-check -r tools/requirements-peers.txt
    [ -n "${ORK_PEER_LIBRARY:-}" ] || python3 -B tools/peer_build.py
fi
if [ -z "${ORK_PEER_LIBRARY:-}" ]; then
    ORK_PEER_LIBRARY="$(find "$peers" -maxdepth 2 -path '*/build-*/bin' -type d 2>/dev/null | sort | tail -n 1)"
fi
if [ ! -x "$python" ] || [ -z "$ORK_PEER_LIBRARY" ]; then
    echo "versus.sh: there is no llama.cpp to compare with; bench/versus.sh --make-peer makes one (about 15 minutes)" >&2
    exit 1
fi
export ORK_PEER_LIBRARY

if [ -z "${ORK:-}" ]; then
    make --no-print-directory all >&2
    ORK=build/release/cli/ork
fi
mkdir -p build/bench
cc -O3 -pthread bench/probe_bandwidth.c -o build/bench/probe_bandwidth
exec python3 -B bench/versus.py --ork "$ORK" --peer-python "$python" --probe build/bench/probe_bandwidth "$@"
