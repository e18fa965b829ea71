#!/usr/bin/env python3
"""Measures how sensitive a model's matrices are, for the overlay's plan: what KL divergence the base of n8 alone costs, for each
kind of matrix in each band of layers while everything else is i8, divided by their number.

Owns: which matrices are measured together. Must not know: how divergence is computed, or what a plan makes of it.
Prints rules for `ork pack --tier`, one a line. Take a text that nothing is judged by later.

    bench/sensitivity.py --ork build/release/cli/ork --model models/demo-lfm2moe.gguf --text models/demo-heldout.txt
"""

import argparse
import re
import sys
import tempfile
from pathlib import Path

import bench_common as common
from overlay_quality import ROWS, SECONDS_MAX, SETS, find_model, on_cpu

LEAST = 1e-9  # nats; a rule's number must be above 0


def bands(tensors, count):
    """[(regex, number of tensors)] for each kind of matrix and each of count bands of layers."""
    layers, kinds = set(), {}
    for name in (tensor["name"] for tensor in tensors):
        if re.search(SETS["all"], name):
            _, layer, kind = name.removesuffix(".weight").split(".", 2)
            layers.add(int(layer))
            kinds.setdefault(kind, set()).add(int(layer))
    order = sorted(layers)
    size = -(-len(order) // count)
    found = []
    for begin in range(0, len(order), size):
        for kind in sorted(kinds):
            members = [str(layer) for layer in order[begin:begin + size] if layer in kinds[kind]]
            if members:
                found.append((rf"^blk\.({'|'.join(members)})\.{re.escape(kind)}\.weight$", len(members)))
    return found


class Meter:
    def __init__(self, options, directory):
        self.options, self.directory, self.reference = options, directory, directory / "reference.kld"
        path = self.pack("--default-tier", "f32")
        common.run_json([options.ork, "perplexity", path, "-f", options.text, "-c", options.context, "--chunks", options.chunks,
                         "--kl-divergence-base", self.reference, "--json", "-q"], SECONDS_MAX)

    def pack(self, *words):
        path = self.directory / "measured.orkpack"
        common.run_json([self.options.ork, "pack", self.options.model, path, "--force", "--json", "-q", *words], SECONDS_MAX)
        return path

    def divergence(self, path, planes):
        return common.run_json([self.options.ork, "perplexity", path, "--kl-divergence", "--kl-divergence-base", self.reference,
                                "--json", "-q", "-t", self.options.threads, *on_cpu(ROWS, planes)], SECONDS_MAX)["kld"]

    def measure(self, regex, count):
        path = self.pack("--default-tier", "i8", "--tier", f"{regex}=n8")
        return max((self.divergence(path, "base") - self.divergence(path, "full")) / count, LEAST)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ork", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True, help="a GGUF, or its name in the cache")
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("-c", "--context", type=int, default=256)
    parser.add_argument("--chunks", type=int, default=4)
    parser.add_argument("--bands", type=int, default=6, help="of layers")
    parser.add_argument("-t", "--threads", type=int, default=1)
    options = parser.parse_args()
    if min(options.bands, options.chunks) < 1:
        parser.error("--bands and --chunks must be 1 or more")
    options.model = find_model(options.model)
    try:
        with tempfile.TemporaryDirectory() as directory:
            meter = Meter(options, Path(directory))
            for regex, count in bands(common.info(options.ork, options.model)["tensors"], options.bands):
                print(f"{regex}=n8:{meter.measure(regex, count):.4g}", flush=True)
    except (common.BenchError, OSError) as error:
        print(f"sensitivity: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
