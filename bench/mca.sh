#!/bin/bash
# What the AArch64 kernels cost on a Cortex-A76, estimated without one: builds the kernel room with the cross compiler and
# the project's own flags and leaves the rest to mca.py; arguments go there (`bench/mca.sh --help`).
#
# Needs, on Debian: apt-get install gcc-aarch64-linux-gnu llvm-19 (and, for the second opinion, llvm-22; for whole calls,
# qemu-user-static). Without the first two it says so and ends with 77.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for tool in aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu llvm-mca-19:llvm-19 cmake:cmake ninja:ninja-build; do
    if ! command -v "${tool%%:*}" >/dev/null 2>&1; then
        echo "SKIPPED: ${tool%%:*} is not installed (Debian: apt-get install ${tool##*:})"
        exit 77
    fi
done

build="${ORK_MCA_BUILD:-build/mca}"
mkdir -p "$build"
if ! { cmake -S tests/kernels/standalone -B "$build" -G Ninja --toolchain "$PWD/tools/aarch64-toolchain.cmake" &&
    ninja -j1 -C "$build" mca_call; } >"$build/build.log" 2>&1; then
    cat "$build/build.log" >&2
    exit 1
fi
exec python3 -B bench/mca.py --build "$build" "$@"
