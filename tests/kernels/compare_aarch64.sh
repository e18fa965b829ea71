#!/bin/sh
# Builds the kernel harness for aarch64, runs it under qemu on processors of each instruction set, and compares its
# checksums with those of this machine's tables: the numerics contract across architectures.
#
#   compare_aarch64.sh SOURCE_DIR BUILD_DIR HOST_HARNESS
#
# Exit code 77 when the tools are missing: nothing was tested.
set -eu
source_dir=$1 build_dir=$2 host_harness=$3

for tool in aarch64-linux-gnu-gcc qemu-aarch64-static cmake ninja; do
    if ! command -v "$tool" >/dev/null 2>&1; then
        echo "SKIPPED: $tool is not installed; the AArch64 kernels were NOT tested"
        exit 77
    fi
done

cmake -S "$source_dir/tests/kernels/standalone" -B "$build_dir" -G Ninja \
    --toolchain "$source_dir/tools/aarch64-toolchain.cmake" >"$build_dir.log" 2>&1 || { cat "$build_dir.log"; exit 1; }
ninja -j2 -C "$build_dir" checkkernels >"$build_dir.log" 2>&1 || { cat "$build_dir.log"; exit 1; }

"$host_harness" --quick >"$build_dir.host"
want=$(sed -n 's/^checksum scalar //p' "$build_dir.host")
echo "this machine: $want"
test -n "$want"

# Processor and the tables that it must have: Cortex-A53 knows no dot product, A76 and N1 no int8 matrix multiply.
run() {
    qemu-aarch64-static -cpu "$1" "$build_dir/harness/checkkernels" --quick >"$build_dir.qemu" ||
        { cat "$build_dir.qemu"; exit 1; }
    grep -qx "tables: $2" "$build_dir.qemu" || { echo "$1: wrong tables, want '$2'"; cat "$build_dir.qemu"; exit 1; }
    for table in $2; do
        got=$(sed -n "s/^checksum $table //p" "$build_dir.qemu")
        echo "$1 $table: $got"
        test "$got" = "$want" || { echo "$1 $table differs from this machine"; exit 1; }
    done
}
run max "scalar neon dotprod i8mm"
run cortex-a76 "scalar neon dotprod"
run neoverse-n1 "scalar neon dotprod"
run cortex-a53 "scalar neon"
