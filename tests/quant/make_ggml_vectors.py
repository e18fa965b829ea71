#!/usr/bin/env python3
"""Writes ggml_vectors.bin for test_ggml_blocks.c: blocks of each tensor type and what the PyPI package `gguf` (0.19.0)
makes of them.

Usage: make_ggml_vectors.py   (pip install gguf numpy)

The file, little endian, is a list of records:
  u32 type id, u32 block bytes, u32 block length, u32 explicit blocks, u32 hashed blocks,
  explicit blocks (bytes), their decoded floats (f32), u64 hash of the decoded hashed blocks.
Hashed blocks are not stored: their bytes come from splitmix64, which the test repeats, so that thousands of blocks with
uniformly random bits (every kind of half: subnormal, negative, infinite, NaN) cost eight bytes. For F16 and BF16 they
are all 65,536 values. The explicit blocks show where a difference is.
"""
import pathlib
import struct

import gguf
import numpy as np

HASHED_BLOCKS = 4096
Type = gguf.GGMLQuantizationType
# Type, and offsets of the halves in its block.
TYPES = [
    (Type.F32, []),
    (Type.F16, []),
    (Type.BF16, []),
    (Type.Q4_0, [0]),
    (Type.Q4_1, [0, 2]),
    (Type.Q5_0, [0]),
    (Type.Q5_1, [0, 2]),
    (Type.Q8_0, [0]),
    (Type.Q2_K, [80, 82]),
    (Type.Q3_K, [108]),
    (Type.Q4_K, [0, 2]),
    (Type.Q5_K, [0, 2]),
    (Type.Q6_K, [208]),
]
# Zeros, subnormals, smallest normal, one, ordinary, largest, infinity, NaN.
HALVES = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x0400, 0x3C00, 0xBC00, 0x2A66, 0xAA66, 0x7BFF, 0xFBFF,
          0x7C00, 0xFC00, 0x7E00]


def splitmix64(seed, count):
    """Outputs 1 to `count` of the generator started with `seed`."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def random_bytes(seed, count):
    return splitmix64(seed, (count + 7) // 8).astype("<u8").view(np.uint8)[:count]


def decode(blocks, kind):
    with np.errstate(all="ignore"):
        return gguf.quants.dequantize(blocks, kind).astype(np.float32).reshape(-1)


def hash_floats(values):
    """Sum over i of mix(bits of value i + i * 2^32): depends on every bit and its place. All NaN count as one."""
    bits = values.view(np.uint32).copy()
    bits[np.isnan(values)] = 0x7FC00000
    with np.errstate(over="ignore"):
        z = bits.astype(np.uint64) + (np.arange(len(bits), dtype=np.uint64) << np.uint64(32))
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return int(np.sum(z ^ (z >> np.uint64(31)), dtype=np.uint64))


def explicit_blocks(kind, halves, block_bytes):
    if not halves:
        return random_bytes(1000 + kind, 64 * block_bytes).reshape(64, block_bytes)
    # Large blocks are few: finite halves only, the rest is left to the hashed ones.
    wanted = HALVES if block_bytes < 64 else [0x2A66, 0xBC00, 0x0001, 0x83FF, 0x7BFF, 0xAA66]
    blocks = random_bytes(1000 + kind, len(wanted) * block_bytes).reshape(-1, block_bytes).copy()
    for i in range(len(wanted)):
        for j, offset in enumerate(halves):
            half = wanted[(i + 5 * j) % len(wanted)]
            blocks[i, offset:offset + 2] = np.frombuffer(struct.pack("<H", half), np.uint8)
    return blocks


def hashed_blocks(kind, block_bytes):
    if kind in (Type.F16, Type.BF16):
        return np.arange(65536, dtype="<u2").view(np.uint8).reshape(65536, 2)
    return random_bytes(int(kind), HASHED_BLOCKS * block_bytes).reshape(HASHED_BLOCKS, block_bytes)


def main():
    out = bytearray()
    for kind, halves in TYPES:
        block_length, block_bytes = gguf.GGML_QUANT_SIZES[kind]
        shown, hashed = explicit_blocks(kind, halves, block_bytes), hashed_blocks(kind, block_bytes)
        out += struct.pack("<5I", kind, block_bytes, block_length, len(shown), len(hashed))
        out += shown.tobytes() + decode(shown, kind).astype("<f4").tobytes()
        out += struct.pack("<Q", hash_floats(decode(hashed, kind)))
    path = pathlib.Path(__file__).with_name("ggml_vectors.bin")
    path.write_bytes(out)
    print(f"{path.name}: {len(out)} bytes")


if __name__ == "__main__":
    main()
