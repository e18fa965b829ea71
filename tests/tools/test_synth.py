"""Guards tools/synth_gguf.py: the shapes have the sizes of the real models, every type is valid and of a sensible spread, and
ork packs and runs the files. The real sizes were read from files that llama-quantize wrote and llama.cpp loaded."""

import importlib.util
import json
import math
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get("ORK_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
COMMAND = [*shlex.split(os.environ.get("ORK_EMULATOR", "")), os.environ.get("ORK_PROGRAM", str(SOURCE / "build/release/cli/ork"))]
TIMEOUT = 600
sys.path.insert(0, str(SOURCE / "tools"))

import synth_blocks  # noqa: E402
import synth_shapes  # noqa: E402

# (shape, layers, file type): parameters and active ones in 10^9, file size in GB, bytes a token in MB.
REAL_SIZES = {
    ("lfm2-8b-a1b", 24, "q4_0"): (8.340, 1.558, 4.73, 916.5), ("lfm2-8b-a1b", 24, "q4_k_m"): (8.340, 1.558, 5.04, 962.5),
    ("lfm2-8b-a1b", 24, "iq4_nl"): (8.340, 1.558, 4.75, 922.0), ("lfm2-8b-a1b", 24, "q8_0"): (8.340, 1.558, 8.87, 1660.0),
    ("lfm2q", 24, "q4_0"): (8.843, 1.445, 5.01, 852.9), ("lfm2q", 24, "q4_k_m"): (8.843, 1.445, 5.38, 901.6),
    ("lfm2q", 24, "iq4_nl"): (8.843, 1.445, 5.06, 861.6), ("lfm2q", 24, "q8_0"): (8.843, 1.445, 9.40, 1539.7),
    ("qwen3-30b-a3b", 48, "q4_0"): (30.53, 3.042, 17.30, 1835.3), ("qwen3-30b-a3b", 12, "q8_0"): (8.10, 0.994, 8.62, 1065.4),
    ("smollm2-135m", 30, "q4_0"): (0.1345, 0.1345, 0.090, 89.9), ("smollm2-135m", 30, "q4_k_m"): (0.1345, 0.1345, 0.104, 103.7),
    ("smollm2-135m", 30, "iq4_nl"): (0.1345, 0.1345, 0.090, 90.3), ("smollm2-135m", 30, "q8_0"): (0.1345, 0.1345, 0.143, 143.0),
}


def sizes(shape, layers, plan):
    listed = synth_shapes.tensors(shape, layers, plan)
    result = [0, 0, 0, 0]
    for name, dimensions, kind in listed:
        count = math.prod(dimensions)
        size, part = synth_blocks.size_bytes(kind, count), 1.0
        if "_exps." in name:
            part = shape.experts_used / shape.experts
        elif name == "token_embd.weight" and not shape.tied:
            part = 0.0
        for i, amount in enumerate((count / 1e9, count * part / 1e9, size / 1e9, size * part / 1e6)):
            result[i] += amount
    return result


def packable():
    """The types that ork can pack, from the table of docs/gguf-support.md."""
    text = (SOURCE / "docs/gguf-support.md").read_text(encoding="utf-8")
    return re.search(r"^\| decoded \| (.+) \|$", text, re.M).group(1).split()


class Synth(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ork-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, *options):
        path = self.folder / "model.gguf"
        subprocess.run([sys.executable, "-B", SOURCE / "tools/synth_gguf.py", path, *map(str, options)], check=True,
                       timeout=TIMEOUT, stdout=subprocess.DEVNULL)
        return path

    def ork(self, *words):
        run = subprocess.run([*COMMAND, *map(str, words)], capture_output=True, text=True, timeout=TIMEOUT, check=False,
                             stdin=subprocess.DEVNULL)
        self.assertEqual(run.returncode, 0, f"ork {' '.join(map(str, words))}: {run.stderr}")
        return run.stdout

    def pack_and_run(self, model):
        pack = model.with_suffix(".orkpack")
        self.ork("pack", "--force", "-t", 1, "-q", model, pack)
        self.ork("verify", "-q", pack)
        rows = json.loads(self.ork("bench", pack, "-p", 8, "-n", 2, "-r", 1, "-t", 1, "-o", "json"))
        self.assertEqual([(row["n_prompt"], row["n_gen"]) for row in rows], [(8, 0), (0, 2)])
        self.assertTrue(all(math.isfinite(row["avg_ts"]) and row["avg_ts"] > 0 for row in rows))

    def test_sizes_are_the_real_ones(self):
        for (name, layers, plan), expected in REAL_SIZES.items():
            with self.subTest(shape=name, plan=plan):
                for ours, real in zip(sizes(synth_shapes.SHAPES[name], layers, plan), expected):
                    self.assertLessEqual(abs(ours - real), 0.006 * real, f"{ours} instead of {real}")

    def test_every_type(self):
        for plan, kind in synth_shapes.PLANS.items():
            with self.subTest(plan=plan):
                model = self.write("--shape", "lfm2-350m", "--layers", 3, "--vocabulary", 512, "--type", plan)
                info = json.loads(self.ork("info", "--json", "--tensors", model))
                self.assertEqual(info["architecture"], "lfm2")
                used = {tensor["type"] for tensor in info["tensors"]}
                self.assertIn(kind, used)
                if used <= set(packable()):
                    self.pack_and_run(model)
                else:
                    print(f"LEFT OUT: packing {plan}: ork does not read {', '.join(used - set(packable()))}", file=sys.stderr)

    def test_every_shape(self):
        for name, shape in synth_shapes.SHAPES.items():
            with self.subTest(shape=name):
                few = ["--experts", max(4, shape.experts_used)] if shape.experts else []
                model = self.write("--shape", name, "--layers", shape.layers_min(), "--vocabulary", 1000, *few)
                info = json.loads(self.ork("info", "--json", model))
                self.assertEqual((info["architecture"], info["layers"], info["vocabulary_size"], info["embedding_length"]),
                                 (shape.architecture, shape.layers_min(), 1000, shape.width))
                self.pack_and_run(model)

    def test_vocabulary_is_full_and_has_no_doubles(self):
        for size in (512, 49152, 65536, 151936):
            tokens, merges = synth_shapes.vocabulary(size)
            self.assertEqual((len(tokens), len(set(tokens))), (size, size))
            known = set(tokens)
            self.assertTrue(all(left in known and right in known for left, right in (merge.split(" ") for merge in merges)))

    def test_wrong_options(self):
        for words in (["--layers", "2"], ["--layers", "25"], ["--experts", "3"], ["--vocabulary", "9"], ["--type", "q9"],
                      ["--shape", "none"]):
            run = subprocess.run([sys.executable, "-B", SOURCE / "tools/synth_gguf.py", self.folder / "x", *words],
                                 capture_output=True, text=True, check=False, timeout=TIMEOUT)
            self.assertEqual(run.returncode, 2, words)
            self.assertFalse((self.folder / "x").exists())

    def test_values_in_the_eyes_of_the_gguf_package(self):
        if importlib.util.find_spec("gguf") is None:
            print("LEFT OUT: the values of random blocks: the Python package gguf is not there", file=sys.stderr)
            self.skipTest("no gguf package")
        import gguf
        import numpy as np
        for plan in synth_shapes.PLANS:
            with self.subTest(plan=plan):
                model = self.write("--shape", "lfm2-350m", "--layers", 3, "--vocabulary", 512, "--type", plan)
                reader = gguf.GGUFReader(model)
                names = [tensor.name for tensor in reader.tensors]
                self.assertEqual(names, [name for name, _, _ in synth_shapes.tensors(synth_shapes.SHAPES["lfm2-350m"], 3, plan)])
                for tensor in reader.tensors:
                    values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
                    self.assertTrue(np.isfinite(values).all(), tensor.name)
                    if tensor.name.endswith("norm.weight"):
                        self.assertTrue((values == 1).all(), tensor.name)
                    else:
                        self.assertLess(abs(values.mean()), 0.003, tensor.name)
                        self.assertTrue(0.015 < values.std() < 0.025, f"{tensor.name} {tensor.tensor_type}: {values.std()}")


if __name__ == "__main__":
    unittest.main()
