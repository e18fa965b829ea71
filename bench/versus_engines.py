"""How each engine is run for the comparison: its benchmark program, its modes, and the rates out of its JSON.

Owns: command lines and their results. Must not know: models' shapes, rounds, tables.
All three programs run llama-bench's tests: a prompt of N tokens in batches, and N tokens one by one, random tokens, no sampling.
"""

import dataclasses
import os
from pathlib import Path

import bench_common as common

ORK, LLAMA, IK = "ork", "llama.cpp", "ik_llama.cpp"
WARM_UP_TOKENS = 32
OTHERS_CORES_MAX = 0.2
# {peer: {mode: options}}; the first mode is the one that file types are compared in.
MODES = {
    LLAMA: {"copied": ["-lm", "none"], "mapped": ["-lm", "mmap"]},
    IK: {"repacked": ["-rtr", "1"], "repacked, huge pages": ["-rtr", "1", "-thp", "1"], "copied": ["-mmp", "0"]},
}


@dataclasses.dataclass(frozen=True)
class Variant:
    """One way of one engine to run one model."""
    engine: str
    file: Path
    kind: str        # tier or file type
    mode: str = ""   # of a peer

    def label(self):
        if self.engine == ORK:
            return self.kind
        return f"{self.kind if ' ' in self.kind else self.kind.upper()}, {self.mode}".removesuffix(", ")


@dataclasses.dataclass(frozen=True)
class Work:
    """What one process has to do."""
    threads: int
    prompt: int      # tokens, 0 for no such test
    generate: int
    repetitions: int
    seconds_max: int

    def tests(self):
        return [name for name, count in (("pp", self.prompt), ("tg", self.generate)) if count]


def command(programs, variant, work):
    size = ["-m", variant.file, "-t", work.threads, "-r", work.repetitions, "-o", "json", "-n", work.generate]
    if variant.engine == ORK:
        return [programs[ORK], "bench", "--load", "copy", *size, "-p", work.prompt]
    words = [programs[variant.engine] / "llama-bench", *size, *MODES[variant.engine][variant.mode]]
    # ik_llama.cpp has its own warm-up: without it, its first generation runs at a fifth of the speed of the later ones.
    if variant.engine != LLAMA:
        return [*words, "-p", work.prompt, "-fmoe", "1"]
    # llama.cpp's warm-up is the whole prompt; 32 tokens warm the weights as well.
    prompts = f"{WARM_UP_TOKENS},{work.prompt}" if work.prompt not in (0, WARM_UP_TOKENS) else WARM_UP_TOKENS
    return [*words, "-p", prompts, "--no-warmup"]


def run(programs, variant, work):
    """{"pp" or "tg": tokens per second of each repetition}"""
    rows = common.run_json(command(programs, variant, work), work.seconds_max)
    found = {}
    for row in rows:
        name = "pp" if row["n_gen"] == 0 else "tg"
        if row["n_prompt" if name == "pp" else "n_gen"] == (work.prompt if name == "pp" else work.generate):
            found[name] = [float(rate) for rate in row["samples_ts"]]
    missing = [name for name in work.tests() if not found.get(name) or not all(rate > 0 for rate in found[name])]
    if missing:
        raise common.BenchError(f"{variant.engine} gave no result of {' and '.join(missing)}")
    return {name: found[name] for name in work.tests()}


def run_alone(programs, variant, work):
    """(rates, cores that others kept busy meanwhile). When those are too many the run is made once more, and the one that was
    disturbed less counts, whichever is faster: a thread without a core stops a whole engine at its next barrier."""
    best = None
    for _ in range(2):
        others = common.Bystanders()
        rates = run(programs, variant, work)
        cores = others.cores()
        if best is None or cores < best[1]:
            best = rates, cores
        if cores <= OTHERS_CORES_MAX:
            break
    return best


def describe(programs):
    """{peer: its version}, or its build's folder where tools/peer_build.py did not make it."""
    result = {}
    for engine, path in programs.items():
        if engine != ORK:
            build = path.absolute().parent.name  # as tools/peer_build.py names it
            result[engine] = build.removeprefix(f"build-{engine}-") if build.startswith(f"build-{engine}-") else build
    return result


def usable(path, program):
    return path is not None and os.access(path / program, os.X_OK)
