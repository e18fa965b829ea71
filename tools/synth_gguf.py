#!/usr/bin/env python3
"""Writes a GGUF of a real model's shape with random weights: for measuring load times and speed without the model.

Owns: the file and the repetition of slabs. Must not know: ork, shapes (synth_shapes.py), block contents (synth_blocks.py).
The speed of an engine does not depend on the values, so a few random slabs a shape are drawn and repeated over experts and
layers; the text that such a model makes is noise. Norms are 1, routers and convolutions small random F32. Python's standard
library only; the disk sets the speed.
"""

import argparse
import dataclasses
import math
import os
import random
import struct
import sys
import time
from pathlib import Path

import synth_blocks
import synth_shapes

SLABS, ALIGNMENT = 6, 32
VOCABULARY_MIN = 512


class Filler:
    """Makes tensor contents; slabs of one size are drawn once and used again."""

    def __init__(self, seed):
        self.source = random.Random(seed)
        self.slabs = {}

    def slab(self, kind, weights):
        slabs = self.slabs.setdefault((kind, weights), [])
        if len(slabs) < SLABS:
            slabs.append(synth_blocks.draw(self.source, kind, weights))
            return slabs[-1]
        return self.source.choice(slabs)

    def pieces(self, name, dimensions, kind):
        if name.endswith("norm.weight"):
            yield struct.pack("<f", 1.0) * math.prod(dimensions)
        else:
            for _ in range(math.prod(dimensions[2:])):
                yield self.slab(kind, math.prod(dimensions[:2]))


def pad(file, position):
    gap = -position % ALIGNMENT
    file.write(b"\0" * gap)
    return gap


def write_header(file, listed, keys):
    """Returns the size of the data that follows."""
    file.write(struct.pack("<4sIQQ", b"GGUF", 3, len(listed), len(keys)))
    file.write(b"".join(keys))
    offset = 0
    for name, dimensions, kind in listed:
        file.write(synth_shapes.string(name) + struct.pack(f"<I{len(dimensions)}QIQ", len(dimensions), *dimensions,
                                                           synth_blocks.TYPES[kind].number, offset))
        offset += synth_blocks.size_bytes(kind, math.prod(dimensions))
        offset += -offset % ALIGNMENT
    pad(file, file.tell())
    return offset


def write(path, shape, layers, plan, seed):
    listed = synth_shapes.tensors(shape, layers, plan)
    filler, partial = Filler(seed), path.with_name(path.name + ".part")
    with open(partial, "wb", buffering=1 << 20) as file:
        whole = write_header(file, listed, synth_shapes.metadata(shape, layers, plan))
        done, started = 0, time.monotonic()
        for name, dimensions, kind in listed:
            for piece in filler.pieces(name, dimensions, kind):
                file.write(piece)
                done += len(piece)
            done += pad(file, done)
            if sys.stderr.isatty():
                print(f"\r{100 * done / whole:3.0f} %  {done / 1e6 / (time.monotonic() - started):.0f} MB/s ", end="",
                      file=sys.stderr, flush=True)
        file.flush()
        os.fsync(file.fileno())
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    os.replace(partial, path)
    return path.stat().st_size


def parse_options():
    shapes = synth_shapes.SHAPES
    listed = "\n".join(f"  {name:14s} {shape.about}, {shape.layers} layers ({shape.architecture})"
                       for name, shape in shapes.items())
    parser = argparse.ArgumentParser(description="Write a GGUF of a real model's shape with random weights.",
                                     epilog="shapes:\n" + listed, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--shape", choices=shapes, default="lfm2-8b-a1b", metavar="NAME", help="default: %(default)s")
    parser.add_argument("--type", type=str.lower, choices=synth_shapes.PLANS, default="q4_0",
                        help="as llama-quantize's file types, output in Q6_K (default: %(default)s)")
    parser.add_argument("--layers", type=int, metavar="N", help="only the first N layers")
    parser.add_argument("--experts", type=int, metavar="N", help="experts in a layer, for a smaller file")
    parser.add_argument("--vocabulary", type=int, metavar="N", help="tokens, for a smaller file")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    shape = shapes[options.shape]
    options.layers = shape.layers if options.layers is None else options.layers
    if not shape.layers_min() <= options.layers <= shape.layers:
        parser.error(f"--layers must be from {shape.layers_min()} to {shape.layers}")
    if options.experts is not None and not shape.experts_used <= options.experts <= shape.experts:
        parser.error(f"--experts must be from {shape.experts_used} to {shape.experts}")
    if options.vocabulary is not None and not VOCABULARY_MIN <= options.vocabulary <= shape.vocabulary:
        parser.error(f"--vocabulary must be from {VOCABULARY_MIN} to {shape.vocabulary}")
    options.chosen = dataclasses.replace(shape, experts=options.experts or shape.experts,
                                         vocabulary=options.vocabulary or shape.vocabulary)
    return options


def main():
    options = parse_options()
    started = time.monotonic()
    try:
        size = write(options.output, options.chosen, options.layers, options.type, options.seed)
    except OSError as error:
        options.output.with_name(options.output.name + ".part").unlink(missing_ok=True)
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{options.output}: {size / 1e9:.2f} GB in {time.monotonic() - started:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
