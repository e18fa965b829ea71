"""Random blocks of GGUF's tensor types, for tools/synth_gguf.py.

Owns: each type's number, its size and what a block must hold so that its weights have a standard deviation near 0.02.
Must not know: models and files. Codes are uniformly random bits; only scales and minima are set, so that a block is valid in
every engine and drawing is as fast as the generator of random bytes.
"""

import dataclasses
import struct

CHUNK = 1 << 20


@dataclasses.dataclass(frozen=True)
class Type:
    """A tensor type. `fixed` is {byte offset in the block: bytes that stand there}; floats have `keep` and `set` instead:
    the bits of a weight that stay random, and those that are one."""
    number: int
    file_type: int   # general.file_type of a file of this type
    weights: int
    size: int
    fixed: dict = dataclasses.field(default_factory=dict)
    keep: bytes = b""
    set: bytes = b""


def half(*numbers):
    return struct.pack(f"<{len(numbers)}e", *numbers)


def k_scales(scales, minima):
    """The 12 bytes that hold eight 6-bit scales and eight 6-bit minima in Q4_K and Q5_K."""
    low = [scales[i] | (scales[i + 4] >> 4) << 6 for i in range(4)]
    middle = [minima[i] | (minima[i + 4] >> 4) << 6 for i in range(4)]
    return bytes(low + middle + [scales[i] & 15 | (minima[i] & 15) << 4 for i in range(4, 8)])


# A block's weight is scale * code - minimum; the minima below put the middle of the codes at zero. Q4_K's and Q5_K's
# sub-blocks have scales from 17 to 31, Q2_K's from 8 to 11.
STEPS = [17, 31, 19, 29, 21, 27, 23, 25]
PACKED = k_scales(STEPS, STEPS)
NIBBLES = bytes(17 * (8 + i % 4) for i in range(16))

# Floats: sign, the exponent's lowest bit and the fraction are random, so magnitudes are 2^-7 to 2^-5.
TYPES = {
    "F32": Type(0, 0, 1, 4, keep=bytes.fromhex("ffffff80"), set=bytes.fromhex("0000003c")),
    "F16": Type(1, 1, 1, 2, keep=bytes.fromhex("ff87"), set=bytes.fromhex("0020")),
    "BF16": Type(30, 32, 1, 2, keep=bytes.fromhex("ff80"), set=bytes.fromhex("003c")),
    "Q4_0": Type(2, 2, 32, 18, {0: half(0.0043)}),
    "Q4_1": Type(3, 3, 32, 20, {0: half(0.0043, -0.0323)}),
    "Q5_0": Type(6, 8, 32, 22, {0: half(0.00216)}),
    "Q5_1": Type(7, 9, 32, 24, {0: half(0.00216, -0.0335)}),
    "Q8_0": Type(8, 7, 32, 34, {0: half(0.00027)}),
    "Q2_K": Type(10, 10, 256, 84, {0: NIBBLES, 80: half(0.00188, 0.00282)}),
    "Q3_K": Type(11, 12, 256, 110, {108: half(0.00046)}),
    "Q4_K": Type(12, 15, 256, 144, {0: half(0.00018, 0.00135) + PACKED}),
    "Q5_K": Type(13, 17, 256, 176, {0: half(0.00009, 0.001395) + PACKED}),
    "Q6_K": Type(14, 18, 256, 210, {208: half(0.0000147)}),
    "IQ4_NL": Type(20, 25, 32, 18, {0: half(0.0003)}),
}


def size_bytes(kind, weights):
    return weights // TYPES[kind].weights * TYPES[kind].size


def draw_floats(source, kind, count):
    """Random bytes with the bits of `set` set and only those of `keep` random, by whole-number arithmetic on long pieces."""
    total, pieces = count * kind.size, []
    for start in range(0, total, CHUNK):
        length = min(CHUNK, total - start)
        keep, fixed = (int.from_bytes(word * (length // kind.size), "little") for word in (kind.keep, kind.set))
        pieces.append((int.from_bytes(source.randbytes(length), "little") & keep | fixed).to_bytes(length, "little"))
    return b"".join(pieces)


def draw(source, name, weights):
    """The bytes of so many weights, a multiple of the block's."""
    kind = TYPES[name]
    count = weights // kind.weights
    if kind.keep:
        return draw_floats(source, kind, count)
    data = bytearray(source.randbytes(count * kind.size))
    for offset, fixed in kind.fixed.items():
        for i, byte in enumerate(fixed):
            data[offset + i::kind.size] = bytes([byte]) * count
    return bytes(data)
