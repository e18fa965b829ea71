"""The models of the comparison with the peers: which files and packs each needs, and making what is missing.

Owns: the list of comparisons, the files' names in ork's cache and their making. Must not know: engines, measuring, tables.
A comparison is one model in one width of weights: ork's tiers of 4 bits stand against the peers' 4-bit files, i8 against Q8_0.
"""

import dataclasses
import subprocess
import sys
from pathlib import Path

import bench_common as common

SECONDS_MAX = 1800
# Peers that have no architecture for these: shown as missing, with this reason.
LACKS_LFM2 = "has no LFM2 architecture"


@dataclasses.dataclass(frozen=True, eq=False)
class Comparison:
    name: str
    title: str
    tiers: tuple             # of ork
    plans: dict              # {peer: file types, the best of which counts}
    shape: str = ""          # random weights of this shape ...
    layers: int = 0          # ... and so many layers, 0 for all; or
    source: Path = None      # a real GGUF, from which llama-quantize makes the other types
    lacking: dict = dataclasses.field(default_factory=dict)  # {peer: why it cannot run this}
    stand_in: str = ""       # comparison whose figures count for a peer that lacks this one, scaled by bytes or operations
    large: bool = False      # takes seconds to load: one repetition, fewer tokens

    def stem(self):
        return self.source.stem if self.source else self.shape + (f"-{self.layers}" if self.layers else "")

    def pack_source(self):
        """The file type that ork packs: the widest that is there, so that a narrow tier is not rounded twice."""
        return "" if self.source else ("q8_0" if "i8" in self.tiers else "q4_0")


def both(*plans):
    return {"llama.cpp": plans, "ik_llama.cpp": plans}


def known():
    """All comparisons. Of the 4-bit types those are left out that were not the fastest (tokens/s, two threads). LFM2-8B-A1B in
    llama.cpp: IQ4_NL 29.4 and Q4_K_M 30.6 against 32.4 of Q4_0, though the prompt of Q4_K_M was 3 % faster. Its experts in
    ik_llama.cpp: Q4_K_M 35.9 and IQ4_NL 30.1 against 36.4. Qwen3-30B-A3B: Q4_K_M 34.6 in llama.cpp against 41.1 of IQ4_NL, and
    IQ4_NL 32.1 in ik_llama.cpp against 47.2 of Q4_0."""
    models = common.ork_cache() / "models"
    smollm2, demo = models / "SmolLM2-135M-Instruct.gguf", common.ROOT / "models/demo-lfm2moe.gguf"
    no_ik = {"ik_llama.cpp": LACKS_LFM2}
    only_llama = ("q4_0", "iq4_nl", "q4_k_m")
    return [
        Comparison("lfm2-8b-a1b", "LFM2-8B-A1B shape", ("nf4", "i4", "auto"), {"llama.cpp": ("q4_0",)}, "lfm2-8b-a1b", lacking=no_ik,
                   stand_in="lfm2q", large=True),
        Comparison("lfm2q", "LFM2-8B-A1B's experts in a Qwen3 graph", ("nf4",), both("q4_0"), "lfm2q", large=True),
        Comparison("qwen3-30b-a3b", "Qwen3-30B-A3B shape, 12 of 48 layers", ("nf4",),
                   {"llama.cpp": ("q4_0", "iq4_nl"), "ik_llama.cpp": ("q4_0",)},
                   "qwen3-30b-a3b", 12, large=True),
        Comparison("lfm2q-8bit", "LFM2-8B-A1B's experts in a Qwen3 graph, 8 of 24 layers, 8 bits", ("i8",), both("q8_0"),
                   "lfm2q", 8, large=True),
        Comparison("smollm2-135m", "SmolLM2-135M", ("nf4", "i4"), both("", "q4_0", "iq4_nl", "q4_k_m"), source=smollm2),
        Comparison("smollm2-135m-8bit", "SmolLM2-135M, 8 bits", ("i8",), both("q8_0"), source=smollm2),
        Comparison("lfm2-350m", "LFM2-350M shape", ("nf4", "i4"), {"llama.cpp": only_llama}, "lfm2-350m", lacking=no_ik),
        Comparison("lfm2-350m-8bit", "LFM2-350M shape, 8 bits", ("i8",), {"llama.cpp": ("q8_0",)}, "lfm2-350m", lacking=no_ik),
        Comparison("demo", "demo model", ("nf4", "i4"), {"llama.cpp": only_llama}, source=demo, lacking=no_ik),
        Comparison("demo-8bit", "demo model, 8 bits", ("i8",), {"llama.cpp": ("q8_0",)}, source=demo, lacking=no_ik),
    ]


def of_file(path, tiers):
    """A GGUF of the user's, as it is."""
    return Comparison(path.stem, path.stem, tuple(tiers), both(""), source=path)


def folder():
    path = common.ork_cache() / "bench"
    path.mkdir(parents=True, exist_ok=True)
    return path


def file_of(comparison, plan):
    """Where a file type of the model is or would be; the plan "" is the real model as it came."""
    if comparison.source and not plan:
        return comparison.source
    return folder() / f"{comparison.stem()}-{plan}.gguf"


def run(words):
    words = [str(word) for word in words]
    print(f"versus: {' '.join(words)}", file=sys.stderr)
    try:
        subprocess.run(words, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                       timeout=SECONDS_MAX)
    except subprocess.CalledProcessError as error:
        raise common.BenchError(f"ended with {error.returncode}: {' '.join(words)}: "
                                f"{common.cause(error.stderr.decode(errors='replace'))}") from None
    except subprocess.TimeoutExpired:
        raise common.BenchError(f"took more than {SECONDS_MAX} s: {' '.join(words)}") from None


def make_file(comparison, plan, quantize):
    """Returns the file, made if it is missing. `quantize` is llama.cpp's program of that name, or None."""
    path = file_of(comparison, plan)
    if path.is_file():
        return path
    if not comparison.source:
        words = [sys.executable, "-B", common.ROOT / "tools/synth_gguf.py", path, "--shape", comparison.shape, "--type", plan]
        run(words + (["--layers", comparison.layers] if comparison.layers else []))
    elif not comparison.source.is_file():
        raise common.BenchError(f"{comparison.source} is not there" +
                                ("; tools/fetch_models.py gets it" if "SmolLM2" in comparison.source.name else ""))
    elif quantize is None:
        raise common.BenchError(f"{path.name} needs llama.cpp's llama-quantize")
    else:
        partial = path.with_name(path.name + ".part")
        run([quantize, "--allow-requantize", comparison.source, partial, plan, "2"])
        partial.rename(path)
    return path


def pack_name(comparison, tier):
    return folder() / f"{comparison.stem()}.{tier.replace(':', '+').replace('=', '-')}.orkpack"


def make_pack(ork, comparison, tier, quantize, again):
    """Returns the pack, made if it is missing, older than its source or not readable. A tier is `TIER`, or
    `TIER:REGEX=TIER,...` with rules for tensors; `auto` is what ork pack chooses."""
    source = make_file(comparison, comparison.pack_source(), quantize)
    pack = pack_name(comparison, tier)
    if pack.is_file() and not again and pack.stat().st_mtime >= source.stat().st_mtime:
        try:
            common.info(ork, pack)
            return pack
        except common.BenchError as error:
            print(f"versus: packing again: {error}", file=sys.stderr)
    default, _, rules = tier.partition(":")
    words = [ork, "pack", "--force", "-q"] + ([] if default == "auto" else ["--default-tier", default])
    for rule in filter(None, rules.split(",")):
        words += ["--tier", rule]
    run([*words, source, pack])
    return pack

