#!/usr/bin/env python3
"""Measures whether the overlay ever slows decoding down: tokens a second with it and without, taking turns.

Owns: the runs and their table. Must not know: how ork plans or computes.
The pack needs matrices in n8. The NPU is the software device by the clock on the wall, on a core that the CPU's threads leave to it,
so `--threads` must be less than the cores. Its board file is RK3588's with the times that this machine needs to play it (about); the
fault script makes it answer late or never. Chains are planned by a calibration of this machine playing it. Plain decoding reads the same base
planes.
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

import bench_common as common

SECONDS_MAX = 600
CASES = {
    # name: (device, fault script)
    "on time": "",
    "late": "late:from=40,us=5000",
    "never": "never:from=40",
}


# The software device sleeps no longer than it takes to play the NPU; what it reaches is measured.
QUICK = {"submit_us": 5.0, "complete_us": 5.0, "task_us": 1.0, "core_bytes_per_s": 15e9, "shared_bytes_per_s": 28e9}


def make_figures(options, directory):
    """A board file whose NPU is about as quick as this machine plays it, and a calibration of this machine playing it: by that one
    the chains are planned."""
    board = json.loads((common.ROOT / "boards" / "rk3588.json").read_text(encoding="utf-8"))
    for key, value in QUICK.items():
        board["npu"][key]["value"] = value
    figures, calibration = Path(directory) / "quick.json", Path(directory) / "calibration.json"
    figures.write_text(json.dumps(board), encoding="utf-8")
    common.run_json([options.ork, "calibrate", "-t", options.threads, "--npu", "soft", "--npu-real-time", "--npu-board", figures,
                     "--json", "-q", "-o", calibration], 120)
    return figures, calibration


def run(options, pack, figures, case):
    words = [options.ork, "bench", "-m", pack, "-p", 0, "-n", options.tokens, "-t", options.threads, "-r", options.repetitions,
             "-o", "json"]
    if case is None:
        words += ["--nested", "base"]
    else:
        words += ["--npu", "soft", "--npu-real-time", "--overlay", options.mode, "--npu-board", figures[0], "--calibration",
                  figures[1]]
        words += ["--overlay-all"] if options.all else []
        words += ["--npu-memory", options.npu_memory] if options.npu_memory else []
        words += ["--npu-faults", CASES[case]] if CASES[case] else []
    return common.run_json(words, SECONDS_MAX)[0]


def measure(options, pack, figures):
    names = [None, *CASES]
    speeds, last = {name: [] for name in names}, {}
    for turn in range(options.rounds):
        for shift in range(len(names)):
            name = names[(turn + shift) % len(names)]
            last[name] = run(options, pack, figures, name)
            speeds[name].append(last[name]["avg_ts"])
    rows = []
    for name in CASES:
        ratios = [with_it / plain for with_it, plain in zip(speeds[name], speeds[None])]
        row = last[name]
        rows.append({"pack": pack.name, "case": name, "plain_tokens_per_second": statistics.median(speeds[None]),
                     "tokens_per_second": statistics.median(speeds[name]), "ratio": statistics.median(ratios),
                     "ratio_least": min(ratios), "ratio_most": max(ratios), "planned": row["overlay_planned"],
                     **{name: row["overlay_" + name] for name in ("submitted", "busy", "rested", "in_time", "late", "faulted")}})
    return rows


def table(rows):
    lines = ["| pack | NPU answers | plain, tokens/s | with overlay | ratio of the pairs, median (least to most) | chains planned | "
             "submitted | busy | rested | in time | late | faulted |", "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"]
    lines += [f"| {row['pack']} | {row['case']} | {row['plain_tokens_per_second']:.2f} | {row['tokens_per_second']:.2f} | "
              f"{row['ratio']:.3f} ({row['ratio_least']:.3f} to {row['ratio_most']:.3f}) | {row['planned']} | {row['submitted']} | "
              f"{row['busy']} | {row['rested']} | {row['in_time']} | {row['late']} | {row['faulted']} |" for row in rows]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packs", nargs="+", type=Path)
    parser.add_argument("--ork", type=Path, default=common.ROOT / "build/release/cli/ork")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--mode", choices=("on", "late"), default="on")
    parser.add_argument("--all", action="store_true", help="every matrix in n8, whether it is predicted to be in time or not")
    parser.add_argument("--npu-memory", type=int, help="MiB; what chains leave of it is filled with weights for prompts")
    parser.add_argument("--least", type=float, default=0.98, help="exit with 1 when a median ratio is below")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory() as directory:
            figures = make_figures(options, directory)
            before = common.Probes(options.ork).read(options.threads, 256)
            rows = [row for pack in options.packs for row in measure(options, pack, figures)]
            after = common.Probes(options.ork).read(options.threads, 256)
    except (common.BenchError, OSError, KeyError) as error:
        sys.exit(f"overlay_cost: {error}")
    facts = {**common.machine(), "read_gb_per_s": [before, after]}
    if options.json:
        print(json.dumps({"machine": facts, "rows": rows}, indent=1))
    else:
        print(table(rows))
        print(f"\n{common.machine_line(facts)}; one reader {before:.1f} GB/s before, {after:.1f} after")
    return int(any(row["ratio"] < options.least for row in rows))


if __name__ == "__main__":
    sys.exit(main())
