#!/usr/bin/env python3
"""A second reader of orkpacks, written from docs/orkpack-format.md alone, with nothing but Python's standard library.

Owns: header, metadata, index, checksums, every tier. Must not know: ork's source. A test compares what it decodes with
what ork decodes, bit for bit. Meant for small packs: plain Python takes about a microsecond a weight.

    read_orkpack.py FILE                checks everything and lists the tensors
    read_orkpack.py FILE --decode OUT   writes all weights as f32, tensors in index order, each [experts][n][k]
"""

import argparse
import math
import struct
import sys

from xxh3 import xxh3_64

MAGIC = b"\x89ORK\r\n\x1a\n"
PAGE = 4096
TIERS = ["f32", "f16", "bf16", "g8", "i8", "i4", "nf4", "i5", "i6", "n8"]
LAYOUTS = {"f32": 0, "f16": 0, "bf16": 0, "g8": 0, "i8": 1, "i4": 2, "nf4": 2, "i5": 3, "i6": 4, "n8": 5}
BRICK_BYTES = {"i8": 1024, "i4": 1024, "nf4": 1024, "i5": 1280, "i6": 1536, "n8": 1024}
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


class BadPack(Exception):
    pass


def require(condition, what):
    if not condition:
        raise BadPack(what)


def up(value, multiple):
    return -(-value // multiple) * multiple


def zero(part):
    return not any(part)


class Metadata:
    """The pairs as a dict, in file order."""

    def __init__(self, data, count):
        self.data, self.at, self.pairs = data, 0, {}
        for _ in range(count):
            key = self.string().decode("ascii")
            require(key and key not in self.pairs, f"key {key!r} is empty or there twice")
            self.pairs[key] = self.value(self.number("I"))
        require(self.at == len(data), "bytes left over behind the metadata")

    def take(self, count):
        require(count <= len(self.data) - self.at, "metadata cut off")
        self.at += count
        return self.data[self.at - count:self.at]

    def number(self, form):
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))[0]

    def string(self):
        return self.take(self.number("Q"))

    def value(self, kind):
        if kind == 8:
            return self.string().decode("utf-8", "surrogateescape")
        if kind == 9:
            element, count = self.number("I"), self.number("Q")
            require(element != 9, "nested array")
            if element == 8:
                return [self.value(8) for _ in range(count)]
            form = SCALARS[element]
            return list(struct.unpack(f"<{count}{form}", self.take(count * struct.calcsize("<" + form))))
        require(kind in SCALARS, f"metadata type {kind}")
        return self.number(SCALARS[kind])


class Tensor:
    def __init__(self, pack, entry):
        name, self.tier_number, self.layout, self.source_type, count = struct.unpack_from("<64s4I", entry, 0)
        dimensions = struct.unpack_from("<4Q", entry, 80)
        self.relative_error, self.sensitivity = struct.unpack_from("<2f", entry, 112)
        self.planes = [struct.unpack_from("<4Q", entry, 120 + 32 * i) for i in range(3)]
        require(zero(entry[216:256]), "reserved bytes of an entry are not zero")
        self.name = name.rstrip(b"\0").decode("utf-8")
        require(self.name and len(self.name) < 64 and b"\0" not in name.rstrip(b"\0"), "bad name")
        require(1 <= count <= 4 and all(dimensions) and all(d == 1 for d in dimensions[count:]), "bad dimensions")
        require(self.tier_number < len(TIERS), f"{self.name}: tier {self.tier_number}")
        self.tier = TIERS[self.tier_number]
        require(self.layout == LAYOUTS[self.tier], f"{self.name}: layout {self.layout} with tier {self.tier}")
        self.k, self.n, self.experts = dimensions[:3]
        require(dimensions[3] == 1, "four dimensions")
        self.pack = pack
        self.check_planes()

    def sizes(self):
        """Bytes of data and scales of one expert, and of the table."""
        kt = -(-self.k // 32)
        return {
            "f32": (4 * self.n * self.k, 0, 0),
            "f16": (2 * self.n * self.k, 0, 0),
            "bf16": (2 * self.n * self.k, 0, 0),
            "g8": (32 * kt * self.n, 2 * self.n * kt, 0),
            "i8": (-(-self.n // 32) * kt * 1024, 4 * up(self.n, 32), 0),
            "i4": (-(-self.n // 64) * kt * 1024, 4 * up(self.n, 64), 0),
            "nf4": (-(-self.n // 64) * kt * 1024, 4 * up(self.n, 64), 16),
            "i5": (-(-self.n // 64) * kt * 1280, 4 * up(self.n, 64), 0),
            "i6": (-(-self.n // 64) * kt * 1536, 4 * up(self.n, 64), 0),
            "n8": (up(-(-self.n // 64) * kt * 1024, PAGE) + -(-self.n // 64) * kt * 1024, 4 * up(self.n, 64), 16),
        }[self.tier]

    def check_planes(self):
        data, scales, table = self.sizes()
        stride = up(data, PAGE)
        wanted = [((self.experts - 1) * stride + data, stride), (self.experts * scales, scales), (table, 0)]
        for (offset, size, distance, checksum), (wanted_size, wanted_stride) in zip(self.planes, wanted):
            require((size, distance) == (wanted_size, wanted_stride if size else 0), f"{self.name}: plane of {size} bytes")
            if size == 0:
                require(offset == 0 and checksum == 0, f"{self.name}: empty plane with an offset")
                continue
            require(offset % PAGE == 0 and self.pack.planes_offset <= offset <= len(self.pack.file) - size,
                    f"{self.name}: plane at {offset}")
            require(xxh3_64(self.pack.file[offset:offset + size]) == checksum, f"{self.name}: checksum")
            require(zero(self.pack.file[offset + size:up(offset + size, PAGE)]), f"{self.name}: padding")

    def numbers(self, plane, expert, count, form):
        offset, _, stride, _ = self.planes[plane]
        return struct.unpack_from(f"<{count}{form}", self.pack.file, offset + expert * stride)

    def scales(self, expert, count, form):
        values = self.numbers(1, expert, count, form)
        require(all(map(math.isfinite, values)), f"{self.name}: scale")
        return values

    def float_rows(self, expert):
        count = self.n * self.k
        if self.tier == "bf16":
            upper = self.numbers(0, expert, count, "H")
            return struct.unpack(f"<{count}f", struct.pack(f"<{count}I", *(bits << 16 for bits in upper)))
        return self.numbers(0, expert, count, "f" if self.tier == "f32" else "e")

    def g8_rows(self, expert):
        kt = -(-self.k // 32)
        scales = self.scales(expert, self.n * kt, "e")
        codes = self.numbers(0, expert, self.n * kt * 32, "b")
        require(-128 not in codes, f"{self.name}: code -128")
        for c in range(self.n):
            require(zero(codes[c * kt * 32 + self.k:(c + 1) * kt * 32]), f"{self.name}: padding")
            for i in range(self.k):
                yield scales[c * kt + i // 32] * codes[c * kt * 32 + i]

    def code_at(self, kt, codes, c, i):
        if self.tier == "i8":
            return codes[(c // 32 * kt + i // 32) * 1024 + c % 32 * 32 + i % 32]
        if self.tier in ("i5", "i6"):
            bits = 1 if self.tier == "i5" else 2
            channels = 16 // bits
            part = ((c // 64 * kt + i // 32) * BRICK_BYTES[self.tier] + c % 64 // channels * (64 + 16 * channels))
            nibble = codes[part + 64 + c % channels * 16 + i % 32 // 2] >> (4 * (i % 2)) & 15
            upper = codes[part + c % 4 * 16 + i % 32 // 2] >> (c % channels // 4 * bits + 4 * (i % 2)) & (2 ** bits - 1)
            code = upper * 16 + nibble
            return code - 2 ** (4 + bits) if upper >> (bits - 1) else code
        at = (c // 64 * kt + i // 32) * 1024 + c % 64 * 16 + i % 32 // 2
        code = self.table[codes[at] >> 4 * (i % 2) & 15]
        if self.tier == "n8":
            residual = codes[up(-(-self.n // 64) * kt * 1024, PAGE) + at] >> 4 * (i % 2) & 15
            code = (code + 2 * (residual - 16 if residual > 7 else residual) + 128) % 256 - 128
        return code

    def brick_rows(self, expert):
        kt, channels = -(-self.k // 32), 32 if self.tier == "i8" else 64
        padded = up(self.n, channels)
        scales = self.scales(expert, padded, "f")
        count = self.sizes()[0] if self.tier == "n8" else padded // channels * kt * BRICK_BYTES[self.tier]
        codes = self.numbers(0, expert, count, "b" if self.tier == "i8" else "B")
        self.table = list(range(8)) + list(range(-8, 0))
        if self.tier in ("nf4", "n8"):
            self.table = self.numbers(2, 0, 16, "b")
            require(sorted(set(self.table)) == list(self.table) and 0 in self.table, f"{self.name}: table")
            require(self.table[0] < 0 < self.table[15], f"{self.name}: table")
        require(zero(scales[self.n:]), f"{self.name}: scale of a padding channel")
        require(self.tier != "i8" or -128 not in codes, f"{self.name}: code -128")
        for c in range(padded):
            require(zero(self.code_at(kt, codes, c, i) for i in range(self.k, kt * 32)), f"{self.name}: padding")
        for c in range(self.n):
            for i in range(self.k):
                yield scales[c] * self.code_at(kt, codes, c, i)

    def decode(self, expert):
        """Weights of one expert, row-major, as the bytes of f32. Products of f32 are exact in Python's doubles, so that
        packing them rounds once."""
        if self.tier in ("f32", "f16", "bf16"):
            weights = self.float_rows(expert)
        else:
            weights = self.g8_rows(expert) if self.tier == "g8" else self.brick_rows(expert)
        return struct.pack(f"<{self.n * self.k}f", *weights)


class Pack:
    def __init__(self, path):
        with open(path, "rb") as file:
            self.file = file.read()
        require(self.file[:8] == MAGIC, "no magic")
        (checksum, version, header, mandatory, self.optional, size, metadata, metadata_size, pairs, index, index_size,
         count, self.planes_offset) = struct.unpack_from("<QII10Q", self.file, 8)
        require(version == 1, f"version {version}")
        require(header == PAGE and metadata == PAGE and index == up(metadata + metadata_size, 64) and
                index_size == 256 * count and self.planes_offset == up(index + index_size, PAGE) <= len(self.file),
                "offsets")
        require(xxh3_64(self.file[16:self.planes_offset]) == checksum, "checksum of the front")
        require(mandatory == 0, f"mandatory flags {mandatory:x}")
        require(size == len(self.file), f"size {size}")
        require(zero(self.file[104:PAGE]) and zero(self.file[metadata + metadata_size:index]) and
                zero(self.file[index + index_size:self.planes_offset]), "padding")
        self.metadata = Metadata(self.file[metadata:metadata + metadata_size], pairs).pairs
        self.tensors = [Tensor(self, self.file[index + 256 * i:index + 256 * i + 256]) for i in range(count)]
        require(len({tensor.name for tensor in self.tensors}) == count, "two tensors of one name")
        ends = sorted((offset, up(offset + size, PAGE)) for tensor in self.tensors
                      for offset, size, _, _ in tensor.planes if size)
        require(all(before[1] <= after[0] for before, after in zip(ends, ends[1:])), "planes overlap")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--decode", metavar="OUT")
    options = parser.parse_args()
    try:
        pack = Pack(options.file)
        if options.decode is None:
            for tensor in pack.tensors:
                print(f"{tensor.name:40} {tensor.tier:5} {tensor.k} x {tensor.n} x {tensor.experts}")
            return 0
        with open(options.decode, "wb") as out:
            for tensor in pack.tensors:
                for expert in range(tensor.experts):
                    out.write(tensor.decode(expert))
    except (BadPack, UnicodeDecodeError, struct.error) as error:
        print(f"{options.file}: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
