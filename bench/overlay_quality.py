#!/usr/bin/env python3
"""Measures what the overlay does for quality: perplexity and KL divergence by how many chains are in time, how late they are
taken in, and how much of the weights they cover.

Owns: which packs and settings are compared, and the checks of the curve. Must not know: how perplexity, divergence or the
overlay are computed; all figures are `ork perplexity`'s.

The overlaid set is n8, all other matrices are i8, vectors f32. Two sets: every matrix of the layers but experts, and those of
them that write the residual stream, which late corrections are limited to. Decoded token by token on the software device's own
clock with a fault script that makes a part of the chains late, so that the same seed gives the same figures everywhere. The
program fails unless
  - all chains in time give every figure of the CPU reading both planes (`--nested full`), to the last digit,
  - no chain in time gives every figure of the CPU reading the base alone,
  - KL divergence falls with each step of the hit rate, as the mean of all seeds,
  - a seed gives the same figures and counts again.
Both references compute with activation scales for whole rows as chains do; rows named "blocks" have the engine's default blocks.
A window of 256 tokens takes a run about 1 s on the demo model and 10 s on SmolLM2-135M; there are 30 runs with the overlay, and 15
more with --coverage and --rules.

    bench/overlay_quality.py --ork build/release/cli/ork --model models/demo-lfm2moe.gguf --text models/demo-heldout.txt
"""

import argparse
import concurrent.futures
import json
import os
import sys
import tempfile
from pathlib import Path

import bench_common as common
import overlay_report as report

SECONDS_MAX = 3600
LAYER_MATRIX = r"^blk\.\d+\.({})\.weight$"
SETS = {
    "all": LAYER_MATRIX.format(r"attn_(q|k|v|output)|ffn_(gate|up|down)(_shexp)?|shortconv\.(in|out)_proj"),
    "residual": LAYER_MATRIX.format(r"attn_output|ffn_down(_shexp)?|shortconv\.out_proj"),
}
WINDOW_US = 1000
LATE_US = 1200  # past the window, and done before the next chain, which begins two windows after
RATES = (0, 25, 50, 75, 100)
LATE_LAYERS = (1, 2, 4)
COVERAGE = (2, 5, 10, 25, 50)
ROWS, BLOCKS = -1, 0
# What a run says beside its figures.
NOT_FIGURES = ("model", "pack", "file", "seconds", "npu")


class Evaluation:
    """Runs `ork perplexity` against one reference, each command once."""

    def __init__(self, options, directory):
        self.options, self.directory = options, directory
        self.packs, self.results = {}, {}
        self.reference = directory / f"{options.model.stem}-{options.context}-{options.chunks}.kld"

    def pack(self, tier, *rules):
        """A pack of the model: everything i8 but what the rules say; tier is part of the file's name."""
        path = self.directory / f"{self.options.model.stem}-{tier}.orkpack"
        if not path.is_file():
            words = [word for rule in rules for word in ("--tier", rule)]
            common.run_json([self.options.ork, "pack", self.options.model, path, "--json", "-q", "--default-tier",
                             "i8" if rules else tier, *words], SECONDS_MAX)
        self.packs[tier] = path
        return path

    def make_reference(self):
        if not self.reference.is_file():
            common.run_json([self.options.ork, "perplexity", self.pack("f32"), "-f", self.options.text, "-c",
                             self.options.context, "--chunks", self.options.chunks, "--kl-divergence-base",
                             self.reference, "--json", "-q"], SECONDS_MAX)

    def prepare(self):
        self.make_reference()
        for name, pattern in SETS.items():
            self.pack(f"{name}-n8", f"{pattern}=n8")
        self.pack("i8")
        if self.options.rules:
            self.pack("measured-n8", *self.options.rules.read_text(encoding="utf-8").split())
        if not self.options.quick:
            for tier in ("i4", "nf4"):
                self.pack(f"all-{tier}", f"{SETS['all']}={tier}")

    def run(self, pack, words):
        """(figures, the overlay's counts) of a run."""
        result = common.run_json([self.options.ork, "perplexity", self.packs[pack], "--kl-divergence",
                                  "--kl-divergence-base", self.reference, "--json", "-q", "-t", self.options.threads,
                                  *words], SECONDS_MAX)
        overlay = (result["npu"] or {}).get("overlay")
        if "--overlay" in words and not (overlay and overlay["on"]):
            raise common.BenchError(f"{pack}: the overlay is not in use: {(overlay or {}).get('why')}")
        return {key: value for key, value in result.items() if key not in NOT_FIGURES}, overlay


def on_cpu(activation, planes="full"):
    return ["--activation-block", activation, "--nested", planes]


def with_overlay(mode, rate, seed, *words, activation=ROWS):
    """Late ones take longer than the window by the script, the others never do."""
    script = [] if rate == 100 else ["--npu-faults", f"seed={seed};late:p={(100 - rate) / 100:g},us={LATE_US}"]
    return ["-b", "1", "--activation-block", activation, "--npu", "soft", "--overlay", mode, "--overlay-all",
            "--overlay-window", WINDOW_US, *script, *words]


def seeds_of(rate, count):
    return range(1, count + 1 if rate not in (0, 100) else 2)


def cases(options):
    """{key: (pack, words)}; keys are tuples that the report knows."""
    found = {}
    for name in SETS:
        pack = f"{name}-n8"
        found[name, "base"] = pack, on_cpu(ROWS, "base")
        found[name, "full"] = pack, on_cpu(ROWS)
        for rate in RATES if name == "all" or not options.quick else ():
            for seed in seeds_of(rate, options.seeds):
                found[name, "join", rate, seed] = pack, with_overlay("on", rate, seed)
        for layers in LATE_LAYERS if not options.quick else LATE_LAYERS[:1]:
            found[name, "late", layers] = pack, with_overlay("late", 100, 1, "--overlay-layers", layers)
    found["all", "again"] = "all-n8", with_overlay("on", 50, 1)
    if options.quick:
        return found
    found["i8",] = "i8", on_cpu(ROWS)
    for tier in ("i4", "nf4"):
        found[tier,] = f"all-{tier}", on_cpu(ROWS)
        found[tier, "blocks"] = f"all-{tier}", on_cpu(BLOCKS)
    found["i8", "blocks"] = "i8", on_cpu(BLOCKS)
    found["all", "base", "blocks"] = "all-n8", on_cpu(BLOCKS, "base")
    found["all", "full", "blocks"] = "all-n8", on_cpu(BLOCKS)
    found["all", "join", "blocks"] = "all-n8", with_overlay("on", 100, 1, activation=BLOCKS)
    return found


def coverage_cases(options, total_bytes):
    """Chains for so many per cent of the overlaid bytes, in the order of the plan; the device's memory is the limit."""
    orders = {"size": ("all-n8", "on"), "late": ("measured-n8" if options.rules else "all-n8", "late")}
    if options.rules:
        orders["measured"] = "measured-n8", "on"
    found = {}
    for percent in COVERAGE:
        mebibytes = round(total_bytes * percent / 100 / 2**20)
        for order, (pack, mode) in orders.items():
            if mebibytes >= 1:
                found["coverage", order, percent] = pack, with_overlay(mode, 100, 1, "--npu-memory", mebibytes)
    return found


def earlier(options):
    """What --json wrote in an earlier run."""
    return json.loads(options.resume.read_text(encoding="utf-8")) if options.resume else {"rows": [], "commit": ""}


def take_known(options, work):
    """{key: result} of an earlier run, for the same pack and options."""
    known = {(row["pack"], row["options"]): row for row in earlier(options)["rows"]}
    found = {}
    for key, (pack, words) in work.items():
        row = known.get((pack, report.spell(words)))
        if row:
            found[key] = {name: value for name, value in row.items() if name not in report.NOT_FIGURES}, row["overlay"]
    return found


def run_all(evaluation, work):
    evaluation.results |= take_known(evaluation.options, work)
    work = {key: case for key, case in work.items() if key not in evaluation.results}
    with concurrent.futures.ThreadPoolExecutor(evaluation.options.jobs) as pool:
        waiting = {pool.submit(evaluation.run, *case): key for key, case in work.items()}
        for done, future in enumerate(concurrent.futures.as_completed(waiting), 1):
            key = waiting[future]
            evaluation.results[key] = future.result()
            figures = evaluation.results[key][0]
            print(f"[{done}/{len(work)}] {' '.join(map(str, key))}: perplexity "
                  f"{figures['perplexity']:.4f}, divergence {figures['kld']:.6f}", file=sys.stderr, flush=True)


def check(results, seeds):
    """What does not hold, as sentences."""
    problems = []

    def same(one, other):
        if results[one][0] != results[other][0]:
            differing = [key for key, value in results[one][0].items() if value != results[other][0][key]]
            problems.append(f"{one} differs from {other} in {', '.join(differing)}")

    for name in SETS:
        rates = [rate for rate in RATES if (name, "join", rate, 1) in results]
        if not rates:
            continue
        same((name, "join", 100, 1), (name, "full"))
        same((name, "join", 0, 1), (name, "base"))
        divergences = [report.mean(results[name, "join", rate, seed][0]["kld"] for seed in seeds_of(rate, seeds))
                       for rate in rates]
        for i in range(1, len(rates)):
            if not divergences[i] < divergences[i - 1]:
                problems.append(f"{name}: divergence {divergences[i]:.6g} at {rates[i]} % is not below "
                                f"{divergences[i - 1]:.6g} at {rates[i - 1]} %")
    for key, (_, overlay) in results.items():
        if overlay and overlay["busy"] + overlay["faulted"]:
            problems.append(f"{key}: {overlay['busy']} chains found the device busy, {overlay['faulted']} faulted")
    same(("all", "again"), ("all", "join", 50, 1))
    if results["all", "again"][1] != results["all", "join", 50, 1][1]:
        problems.append("the same seed gives other counts")
    if seeds > 1 and results["all", "join", 50, 1][0] == results["all", "join", 50, 2][0]:
        problems.append("another seed gives the same figures")
    return problems


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ork", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True, help="a GGUF, or its name in the cache")
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("-c", "--context", type=int, default=256, help="tokens of a window, half of them scored")
    parser.add_argument("--chunks", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="only what the checks need")
    parser.add_argument("--coverage", action="store_true", help="also by the part of the weights that has chains")
    parser.add_argument("--rules", type=Path, help="coverage also in the order of sensitivities: what bench/sensitivity.py prints")
    parser.add_argument("-t", "--threads", type=int, default=1, help="of one run")
    parser.add_argument("-j", "--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--directory", type=Path, help="keep packs and reference there and take those that are there")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--resume", type=Path, help="what --json wrote: its rows are taken where pack and options are the same")
    parser.add_argument("--output", type=Path, help="Markdown file whose block is replaced; else the table is printed")
    options = parser.parse_args()
    if min(options.chunks, options.seeds, options.jobs) < 1:
        parser.error("--chunks, --seeds and --jobs must be 1 or more")
    words = sys.argv[1:]
    hidden = ("--directory", "--json", "--resume", "--output", "-j", "--jobs")
    shown = [word for i, word in enumerate(words) if word not in hidden and (i == 0 or words[i - 1] not in hidden)]
    options.model = find_model(options.model)
    options.given = [os.path.basename(word) if os.path.isabs(word) else word for word in shown]
    return options


def find_model(path):
    """A file, or the name of one that tools/fetch_models.py has fetched."""
    return path if path.is_file() else common.ork_cache() / "models" / path


def measure(options, directory):
    evaluation = Evaluation(options, directory)
    evaluation.prepare()
    work = cases(options)
    run_all(evaluation, work)
    if options.coverage:
        work |= coverage_cases(options, evaluation.results["all", "join", 100, 1][1]["resident_bytes"])
        run_all(evaluation, work)
    return work, evaluation.results


def main():
    options = parse_options()
    try:
        with tempfile.TemporaryDirectory() as temporary:
            directory = options.directory or Path(temporary)
            directory.mkdir(parents=True, exist_ok=True)
            work, results = measure(options, directory)
    except (common.BenchError, OSError) as error:
        print(f"overlay_quality: error: {error}", file=sys.stderr)
        return 1
    problems = check(results, options.seeds)
    facts = {"model": options.model.name, "text": options.text.name, "context": options.context, "chunks": options.chunks,
             "seeds": options.seeds,
             "commit": ", ".join(dict.fromkeys([*filter(None, earlier(options)["commit"].split(", ")), common.commit()]))}
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report.as_json(facts, work, results, problems), indent=1) + "\n", encoding="utf-8")
    text = report.as_markdown(facts, results, options.given)
    if options.output:
        common.replace_block(options.output, f"overlay {options.model.stem}", text)
    else:
        print(text)
    for problem in problems:
        print(f"overlay_quality: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
