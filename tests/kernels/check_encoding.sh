#!/bin/sh
# Guards that the kernels for processors without AVX-512 contain none of its instructions: EVEX encodings begin with the
# byte 62, which starts nothing else in 64-bit code. The AVX-512 kernels must have some, or the search is broken.
#
#   check_encoding.sh ARCHIVE
#
# Exit code 77 when there is nothing to look at: no objdump, or objects without machine code.
set -eu
archive=$1
if ! command -v objdump >/dev/null 2>&1; then
    echo "SKIPPED: objdump is not installed; encodings were NOT tested"
    exit 77
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
objdump -d -w "$archive" >"$work/all"
# Lines of objects: "matmul_i8_avxvnni.c.o:     file format elf64-x86-64"; of instructions: " 1f: 62 f2 ... \tvpdpbusd".
awk -F '\t' '
    / file format / { object = $0; sub(/:.*/, "", object); objects++ }
    NF >= 3 { instructions++ }
    NF >= 3 && $2 ~ /^62 / { if (object ~ /avx512/) wanted++; else { print object ": " $0; bad++ } }
    NF >= 3 && object ~ /avxvnni/ && $3 ~ /^\{vex\} vpdpbusd/ { vex++ }
    END {
        if (!instructions) { print "SKIPPED: no machine code"; exit 77 }
        printf "%d objects, %d instructions; EVEX: %d in AVX-512 objects, %d elsewhere; vpdpbusd in VEX encoding: %d\n",
               objects, instructions, wanted, bad, vex
        exit !(wanted && vex && !bad)
    }' "$work/all"
