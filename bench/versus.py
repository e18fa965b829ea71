#!/usr/bin/env python3
"""Measures ork, llama.cpp and ik_llama.cpp side by side: interleaved, in rounds, each run between two probes of the machine.

Owns: the plan of a comparison and its rounds. Must not know: how an engine works (versus_engines.py), which files there are
(versus_models.py), how figures are shown (versus_report.py, versus_plot.py).

A shared machine's memory changes its speed within minutes, so one engine's figure from now and the other's from then mean nothing.
In every round each engine runs once for each model and thread count, one after the other. Rounds go on until their number or the
time is reached; the first one is always whole.
"""

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

import bench_common as common
import versus_choice as choice
import versus_engines as engines
import versus_models as models
import versus_plot as plot
import versus_report as report

# Tokens and repetitions of a run: large models take long enough to be steady in one.
LARGE, SMALL = (512, 64, 1), (512, 128, 3)
QUICK = ("smollm2-135m", "smollm2-135m-8bit", "demo")


def say(text):
    print(f"versus: {text}", file=sys.stderr, flush=True)


class Versus:
    """One run of the comparison: what there is to run, and what came out."""

    def __init__(self, options):
        self.options = options
        self.programs = {engines.ORK: options.ork}
        self.missing = {}     # {(comparison, engine, threads): why}
        for peer, folder in (("llama.cpp", options.llama), ("ik_llama.cpp", options.ik)):
            if peer in options.peers and engines.usable(folder, "llama-bench"):
                self.programs[peer] = folder
        self.quantize = options.llama / "llama-quantize" if engines.usable(options.llama, "llama-quantize") else None
        self.probes = common.Probes(options.ork)
        self.plan = {}        # {(comparison, threads): [(variant, tests)]}
        self.costs, self.trials, self.samples = {}, {}, []

    def miss(self, comparison, engine, why, threads=None):
        for count in [threads] if threads else self.options.threads:
            self.missing[comparison.name, engine, count] = str(why)
        say(f"{comparison.name}, {engine}: missing: {why}")

    def cost(self, comparison, variant):
        facts = common.info(self.options.ork, variant.file)
        self.costs.setdefault(comparison.name, {})[variant.engine, variant.label()] = {
            "bytes_per_token": facts["bytes_per_token"], "macs_per_token": common.macs_per_token(facts),
            "size_bytes": facts["file_size_bytes"], "file": variant.file.name}

    def packs(self, comparison):
        """ork's variants, one a tier."""
        found = []
        for tier in self.options.tiers or comparison.tiers:
            try:
                pack = models.make_pack(self.options.ork, comparison, tier, self.quantize, self.options.repack)
                found.append(engines.Variant(engines.ORK, pack, tier))
                self.cost(comparison, found[-1])
            except common.BenchError as error:
                self.miss(comparison, f"{engines.ORK} {tier}", error)
        return found

    def files(self, comparison, peer):
        """{file type: path} of what the peer may run; none when it is missing, which is noted."""
        if peer in comparison.lacking:
            if not comparison.stand_in:
                self.miss(comparison, peer, comparison.lacking[peer])
            return {}
        if peer not in self.programs:
            self.miss(comparison, peer, "there is no build of it (bench/versus.sh --make-peers)")
            return {}
        found = {}
        for kind in comparison.plans[peer]:
            try:
                found[kind] = models.make_file(comparison, kind, self.quantize)
            except common.BenchError as error:
                say(f"{comparison.name}: left out: {error}")
        if not found:
            self.miss(comparison, peer, "none of its files could be made")
        return found

    def prepare(self, comparisons):
        """Files and packs. Returns {(comparison, peer): files}."""
        peer_files = {}
        for comparison in comparisons:
            for peer in self.options.peers:
                found = peer_files[comparison.name, peer] = self.files(comparison, peer)
                # A peer that something stands in for is scaled with the cost of this model in its file type.
                for kind, path in found.items() if comparison.stand_in else ():
                    self.cost(comparison, engines.Variant("file", path, kind.upper(), ""))
            found = [(variant, ["pp", "tg"]) for variant in self.packs(comparison)]
            for threads in self.options.threads:
                self.plan[comparison, threads] = list(found)
        return peer_files

    def choose(self, comparisons, peer_files):
        chooser = choice.Chooser(self.programs, self.options.timeout, self.options.choose)
        for comparison in comparisons:
            for peer in self.options.peers:
                files = peer_files[comparison.name, peer]
                for threads in self.options.threads if files else ():
                    try:
                        best, trials = chooser.choose(comparison, peer, threads, files)
                    except common.BenchError as error:
                        self.miss(comparison, peer, error, threads)
                        continue
                    self.trials[f"{comparison.name}, {peer}, {threads} threads"] = trials
                    for variant in dict.fromkeys(best.values()):
                        tests = [test for test, chosen in best.items() if chosen == variant]
                        self.plan[comparison, threads].append((variant, tests))
                        self.cost(comparison, variant)

    def work(self, comparison, threads, tests):
        prompt, generate, repetitions = LARGE if comparison.large else SMALL
        return engines.Work(threads, (self.options.n_prompt or prompt) if "pp" in tests else 0,
                            (self.options.n_gen or generate) if "tg" in tests else 0,
                            self.options.repetitions or repetitions, self.options.timeout)

    def run_unit(self, comparison, threads, number):
        """Every engine once, between probes of a buffer as large as the model, but of at most 1 GB."""
        sizes = [cost["size_bytes"] for cost in self.costs.get(comparison.name, {}).values()]
        megabytes = int(min(max([*sizes, 64e6]), 1024e6) / 1e6)
        before, dots = self.probes.read(threads, megabytes), self.probes.dots(threads)
        for variant, tests in self.plan[comparison, threads]:
            try:
                rates, others = engines.run_alone(self.programs, variant, self.work(comparison, threads, tests))
            except common.BenchError as error:
                name = f"{engines.ORK} {variant.kind}" if variant.engine == engines.ORK else variant.engine
                self.miss(comparison, name, f"{error} (round {number})", threads)
                continue
            after = self.probes.read(threads, megabytes)
            for test, found in rates.items():
                self.samples.append({
                    "comparison": comparison.name, "engine": variant.engine, "label": variant.label(), "threads": threads,
                    "round": number, "test": test, "rate": statistics.median(found), "rates": found, "others_cores": others,
                    "read_gb_per_s": (before + after) / 2, "dot_gmac_per_s": dots})
            shown = ", ".join(f"{test} {statistics.median(found):.4g}" for test, found in rates.items())
            say(f"round {number}/{self.options.rounds}, {comparison.name}, {threads} threads, {variant.engine} "
                f"({variant.label()}): {shown} tokens/s; memory {before:.1f}, {after:.1f} GB/s" +
                (f"; others kept {others:.1f} cores busy" if others > engines.OTHERS_CORES_MAX else ""))
            before = after

    def measure(self):
        started, lasted = time.monotonic(), {}
        for number in range(1, self.options.rounds + 1):
            for unit in self.plan:
                left = self.options.minutes * 60 - (time.monotonic() - started)
                if number > 1 and lasted[unit] > left:
                    continue
                unit_started = time.monotonic()
                self.run_unit(*unit, number)
                lasted[unit] = time.monotonic() - unit_started
        return (time.monotonic() - started) / 60


def choose_comparisons(options):
    known = {comparison.name: comparison for comparison in models.known()}
    files = [word for word in options.models if word.endswith(".gguf")]
    names = [word for word in options.models if word not in files]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise common.BenchError(f"no such model: {', '.join(unknown)}; there are {', '.join(known)}")
    absent = [name for name in files if not Path(name).is_file()]
    if absent:
        raise common.BenchError(f"no such file: {', '.join(absent)}")
    if not options.models:
        names = QUICK if options.quick else list(known)
    return [known[name] for name in names] + [models.of_file(Path(name), ("nf4", "i8")) for name in files]


def parse_options():
    folders = {"llama": "ORK_PEER_LIBRARY", "ik": "ORK_PEER_IK"}
    parser = argparse.ArgumentParser(
        prog="bench/versus.sh", description=__doc__.splitlines()[0],
        epilog="models: " + ", ".join(comparison.name for comparison in models.known()) + ". "
        "bench/versus.sh --make-peers ... first builds the peers.")
    parser.add_argument("--ork", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("models", nargs="*", help="names (below) or GGUF files; default: all")
    parser.add_argument("--tiers", nargs="+", help="of ork instead of each model's own: TIER or TIER:REGEX=TIER,...")
    parser.add_argument("--peers", nargs="*", choices=report.PEERS, default=list(report.PEERS))
    for name, variable in folders.items():
        parser.add_argument(f"--{name}", type=Path, default=os.environ.get(variable) or None, metavar="FOLDER",
                            help=f"with its llama-bench [{variable}]")
    parser.add_argument("-t", "--threads", nargs="+", type=int, default=[2, 1], help="thread counts (default: 2 1)")
    parser.add_argument("-p", "--n-prompt", type=int, help="prompt tokens (default: 512)")
    parser.add_argument("-n", "--n-gen", type=int, help="generated tokens (default: 64 of large models, 128 of small ones)")
    parser.add_argument("-r", "--repetitions", type=int, help="in each run (default: 1 of large models, 3 of small ones)")
    parser.add_argument("--rounds", type=int, default=3, help="at most (default 3)")
    parser.add_argument("--minutes", type=float, default=12, help="a round that would end later is not begun (default 12)")
    parser.add_argument("--timeout", type=int, default=300, metavar="SECONDS", help="of one run of an engine (default 300)")
    parser.add_argument("--quick", action="store_true", help=f"{', '.join(QUICK)} in one round")
    parser.add_argument("--choose", action="store_true", help="find the peers' best modes again")
    parser.add_argument("--repack", action="store_true", help="make ork's packs again")
    parser.add_argument("--prepare", action="store_true", help="make files and packs, choose the peers' modes, measure nothing")
    parser.add_argument("--json", type=Path, default=common.ROOT / "build/bench/versus.json", help="where all samples go")
    parser.add_argument("--svg", type=Path, help="where the plot goes (default: versus.svg beside --output, else beside --json)")
    parser.add_argument("--output", type=Path, help="Markdown file whose block `versus` is replaced; else the table is printed")
    options = parser.parse_args()
    options.rounds = 1 if options.quick else options.rounds
    options.svg = options.svg or (options.output or options.json).with_name("versus.svg")
    words, hidden = sys.argv[1:], ("--ork",)
    options.given = [word for i, word in enumerate(words) if word not in hidden and (i == 0 or words[i - 1] not in hidden)]
    return options


def panels(rows, samples, threads):
    result = []
    for count in sorted(threads):
        found = [sample["read_gb_per_s"] for sample in samples if sample["threads"] == count]
        points = [(row.comparison, f"{row.engine} {row.label}" if row.engine == report.ORK else row.engine, row.cost, row.rate)
                  for row in rows if row.test == "tg" and row.threads == count and not row.missing and not row.scaled]
        result.append((count, statistics.median(found) if found else None, points))
    return result


def write_results(versus, comparisons, facts, minutes):
    options = versus.options
    rows = report.rows_of(versus.samples, versus.costs, versus.missing, comparisons, options.threads)
    titles = {comparison.name: comparison.title for comparison in comparisons}
    peers = engines.describe(versus.programs)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({
        "machine": facts, "command": options.given, "minutes": minutes, "peers": peers,
        "costs": {name: [{"engine": engine, "label": label, **cost} for (engine, label), cost in found.items()]
                  for name, found in versus.costs.items()},
        "missing": [{"comparison": name, "engine": engine, "threads": threads, "why": why}
                    for (name, engine, threads), why in versus.missing.items()],
        "trials": versus.trials, "rows": rows, "samples": versus.samples}, indent=1, default=vars) + "\n", encoding="utf-8")
    picture = plot.draw(panels(rows, versus.samples, options.threads), common.machine_line(facts))
    if picture:
        options.svg.write_text(picture, encoding="utf-8")
    settings = {"command": " ".join(["bench/versus.sh", *options.given]), "prompt": options.n_prompt or LARGE[0],
                "threads": options.threads, "minutes": minutes, "others_max": engines.OTHERS_CORES_MAX}
    link = os.path.relpath(options.svg, options.output.parent) if picture and options.output else ""
    text = report.document(settings, common.machine_line(facts), peers, versus.samples, rows, titles,
                           versus.trials, link)
    if options.output:
        common.replace_block(options.output, "versus", text)
    else:
        print(text)
    return rows


def main():
    options = parse_options()
    try:
        comparisons = choose_comparisons(options)
        facts = common.machine()
        versus = Versus(options)
        versus.choose(comparisons, versus.prepare(comparisons))
        if options.prepare:
            return 0
        minutes = versus.measure()
        if not versus.samples:
            raise common.BenchError("nothing could be measured")
        write_results(versus, comparisons, facts, minutes)
    except (common.BenchError, OSError) as error:
        print(f"versus: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
