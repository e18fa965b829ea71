#!/usr/bin/env python3
"""Measures ork and llama.cpp side by side: interleaved, in rounds, each run between two bandwidth probes.

Owns: the plan of a comparison and its tables. Must not know: how either engine works.

A shared machine's memory changes its speed within minutes, so one engine's figure from now and the other's from
then mean nothing. In every round each engine runs once for each model and thread count, one after the other; the table has medians
over rounds and the median of the rounds' ratios. The peer is taken at its best: with its weights mapped and copied,
whichever is faster for that model, thread count and test.
"""

import argparse
import dataclasses
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import bench_common as common

TIERS = ("i8", "nf4")
PEER_LOADS = ("map", "copy")
SECONDS_MAX = 1800


@dataclasses.dataclass
class Engine:
    """One way to run one model: an ork pack of a tier, or the peer in a load mode."""
    name: str      # "ork i8", "llama.cpp"
    variant: str   # tier or load mode
    path: Path


@dataclasses.dataclass
class Sample:
    model: str
    engine: str
    variant: str
    threads: int
    round: int
    test: str
    tokens_per_second: float
    probe_before: float
    probe_after: float


def default_models():
    cache = common.ork_cache() / "models"
    candidates = [cache / "SmolLM2-135M-Instruct.gguf", cache / "LFM2-350M.gguf", common.ROOT / "models/demo-lfm2moe.gguf"]
    for path in candidates:
        if not path.is_file():
            print(f"versus: {path.name} is not there and is left out", file=sys.stderr)
    return [path for path in candidates if path.is_file()]


def pack_of(options, gguf, tier):
    """The model's pack in a tier, made again when the program is newer."""
    folder = common.ork_cache() / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    pack = folder / f"{gguf.stem}.{tier}.orkpack"
    newest = max(gguf.stat().st_mtime, options.ork.resolve().stat().st_mtime)
    if not pack.is_file() or pack.stat().st_mtime < newest:
        command = [options.ork, "pack", "--force", "--default-tier", tier, gguf, pack]
        subprocess.run([str(word) for word in command], check=True, stdin=subprocess.DEVNULL, timeout=SECONDS_MAX)
    return pack


def engines_for(options, gguf):
    engines = [Engine(f"ork {tier}", tier, pack_of(options, gguf, tier)) for tier in options.tiers]
    return engines + [Engine("llama.cpp", load, gguf) for load in PEER_LOADS]


def run_engine(options, engine, threads):
    """{test: median tokens per second of the repetitions}."""
    size = ["-p", options.n_prompt, "-n", options.n_gen, "-r", options.repetitions, "-t", threads]
    if engine.name == "llama.cpp":
        script = common.ROOT / "tools/peer_bench.py"
        data = common.run_json([options.peer_python, "-B", script, "-m", engine.path, "--load", engine.variant, *size],
                               SECONDS_MAX)
        return {result["test"]: result["median_ts"] for result in data["results"]}
    rows = common.run_json([options.ork, "bench", "-m", engine.path, "--load", "copy", "-o", "json", *size], SECONDS_MAX)
    return {(f"pp{row['n_prompt']}" if row["n_prompt"] else f"tg{row['n_gen']}"): statistics.median(row["samples_ts"])
            for row in rows}


def measure(options, models):
    samples = []
    plan = [(gguf, engine) for gguf in models for engine in engines_for(options, gguf)]
    for round_number in range(1, options.rounds + 1):
        for threads in options.threads:
            before = common.probe_gb_per_s(options.probe, threads)
            for gguf, engine in plan:
                rates = run_engine(options, engine, threads)
                after = common.probe_gb_per_s(options.probe, threads)
                for test, rate in rates.items():
                    samples.append(Sample(gguf.stem, engine.name, engine.variant, threads, round_number, test, rate, before, after))
                shown = ", ".join(f"{test} {rate:.1f}" for test, rate in rates.items())
                print(f"versus: round {round_number}/{options.rounds}, {threads} threads, {gguf.stem}, {engine.name} "
                      f"({engine.variant}): {shown} tokens/s; probe {before:.1f}, {after:.1f} GB/s", file=sys.stderr)
                before = after
    return samples


def medians(samples):
    """{(model, threads, test, engine, variant): [rate of each round]}"""
    groups = {}
    for sample in samples:
        key = sample.model, sample.threads, sample.test, sample.engine, sample.variant
        groups.setdefault(key, {})[sample.round] = sample.tokens_per_second
    return groups


def rows_of(samples):
    """One row an ork engine, model, thread count and test, with the peer's better load mode beside it."""
    groups, rows = medians(samples), []
    for (model, threads, test, engine, variant), ours in groups.items():
        if engine == "llama.cpp":
            continue
        peers = {load: groups[model, threads, test, "llama.cpp", load] for load in PEER_LOADS}
        load = max(peers, key=lambda name: statistics.median(peers[name].values()))
        peer = peers[load]
        ratios = [ours[number] / peer[number] for number in ours if number in peer]
        probes = [probe for sample in samples
                  if (sample.model, sample.threads, sample.test) == (model, threads, test)
                  for probe in (sample.probe_before, sample.probe_after)]
        rows.append({
            "model": model, "threads": threads, "test": test, "engine": engine, "tier": variant,
            "ork_tokens_per_second": statistics.median(ours.values()),
            "peer_tokens_per_second": statistics.median(peer.values()), "peer_load": load,
            "ratio": statistics.median(ratios), "ratio_lowest": min(ratios), "ratio_highest": max(ratios),
            "probe_median_gb_per_s": statistics.median(probes), "probe_lowest_gb_per_s": min(probes),
            "probe_highest_gb_per_s": max(probes)})
    return rows


def table(options, facts, sizes, rows):
    command = "bench/versus.sh" + ("" if not options.given else " " + " ".join(options.given))
    lines = [
        f"Measured by `{command}`: {options.rounds} rounds, medians of {options.repetitions} repetitions in each; "
        f"the ratio is the median of the rounds' ratios (lowest to highest round). llama.cpp {facts['peer']}, runs the GGUF "
        "itself, mapped or copied, whichever was faster. The probe is what memory gave to plain reads with as many "
        "threads, right before and after.", "",
        common.machine_line(facts) + ".", "",
        "| model | threads | test | ork tier | ork tokens/s | llama.cpp tokens/s | ork / llama.cpp | probe GB/s |",
        "|---|---:|---|---|---:|---:|---:|---:|"]
    for row in rows:
        lines.append(
            f"| {row['model']} | {row['threads']} | {row['test']} | {row['tier']} | {row['ork_tokens_per_second']:.1f} | "
            f"{row['peer_tokens_per_second']:.1f} ({row['peer_load']}) | **{row['ratio']:.2f}** "
            f"({row['ratio_lowest']:.2f} to {row['ratio_highest']:.2f}) | {row['probe_median_gb_per_s']:.0f} "
            f"({row['probe_lowest_gb_per_s']:.0f} to {row['probe_highest_gb_per_s']:.0f}) |")
    lines += ["", "Sizes: " + "; ".join(sizes) + "."]
    return "\n".join(lines)


def size_lines(options, models):
    lines = []
    for gguf in models:
        packs = ", ".join(f"{tier} pack {pack_of(options, gguf, tier).stat().st_size / 1e6:.1f} MB" for tier in options.tiers)
        lines.append(f"{gguf.stem}: GGUF {gguf.stat().st_size / 1e6:.1f} MB, {packs}")
    return lines


def parse_options():
    parser = argparse.ArgumentParser(prog="bench/versus.sh", description=__doc__.splitlines()[0],
                                     epilog="bench/versus.sh --make-peer ... first makes the llama.cpp to compare with.")
    parser.add_argument("--ork", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--peer-python", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--probe", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("models", nargs="*", type=Path, help="GGUF files (default: the real models in ork's cache, the demo model)")
    parser.add_argument("--tiers", nargs="+", default=list(TIERS), help="ork tiers (default: %(default)s)")
    parser.add_argument("-t", "--threads", nargs="+", type=int, default=[1, 2], help="thread counts (default: 1 2)")
    parser.add_argument("-p", "--n-prompt", type=int, default=512)
    parser.add_argument("-n", "--n-gen", type=int, default=128)
    parser.add_argument("-r", "--repetitions", type=int, default=3, help="in each round (default 3)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, default=common.ROOT / "build/bench/versus.json", help="where all samples go")
    parser.add_argument("--output", type=Path, help="Markdown file whose block `versus` is replaced; else the table is printed")
    options = parser.parse_args()
    hidden = ("--ork", "--peer-python", "--probe")
    words = sys.argv[1:]
    options.given = [word for i, word in enumerate(words) if word not in hidden and (i == 0 or words[i - 1] not in hidden)]
    return options


def main():
    options = parse_options()
    try:
        models = options.models or default_models()
        missing = [str(path) for path in models if not path.is_file()]
        if missing or not models:
            raise common.BenchError("no such model: " + ", ".join(missing) if missing else "no model is there")
        facts = common.machine()
        started = time.monotonic()
        sizes = size_lines(options, models)
        samples = measure(options, models)
        facts["peer"] = peer_name(options)
        rows = rows_of(samples)
    except (common.BenchError, OSError, subprocess.SubprocessError) as error:
        print(f"versus: error: {error}", file=sys.stderr)
        return 1
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({
        "machine": facts, "command": options.given, "seconds": time.monotonic() - started, "sizes": sizes, "rows": rows,
        "samples": [dataclasses.asdict(sample) for sample in samples]}, indent=1) + "\n", encoding="utf-8")
    text = table(options, facts, sizes, rows)
    if options.output:
        common.replace_block(options.output, "versus", text)
    else:
        print(text)
    return 0


def peer_name(options):
    script = "import sys, json; sys.path.insert(0, 'tools'); import peer_llama; json.dump(peer_llama.describe(), sys.stdout)"
    facts = common.run_json([options.peer_python, "-B", "-c", script], 120)
    return f"{facts['version']}, {'native build' if facts['native_library'] else 'prebuilt library'}"


if __name__ == "__main__":
    sys.exit(main())
