#!/bin/sh
# Guards the numerics contract on whole models: every instruction set that this machine has gives the same logits, bit for
# bit. The committed hashes make other machines (and aarch64 under qemu) comparable with this one.
# Usage: same_bits.sh [emulator ...] logits_hash
set -u
here=$(dirname "$0")
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
ran=0
for mask in scalar avx2 avxvnni avx512 neon dotprod i8mm; do
    if ! ORK_CPU_MASK=$mask "$@" >"$work/$mask" 2>"$work/err"; then
        if grep -q "ORK_CPU_MASK" "$work/err"; then
            echo "$mask: not on this architecture"
            continue
        fi
        cat "$work/err"
        echo "$mask: failed"
        failed=1
        continue
    fi
    ran=$((ran + 1))
    if cmp -s "$here/logits.expected" "$work/$mask"; then
        echo "$mask: same"
    else
        echo "$mask: differs from logits.expected"
        diff "$here/logits.expected" "$work/$mask"
        failed=1
    fi
done
[ "$ran" -ge 2 ] || { echo "fewer than two instruction sets ran"; failed=1; }
exit $failed
