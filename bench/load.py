#!/usr/bin/env python3
"""Measures how a large pack is loaded: time, page cache, memory, huge pages, and decoding speed in each load mode.

Owns: the measurements and their table. Must not know: how ork loads.
Each figure is a median over rounds in which the modes take turns. "Warm" means that the whole file is in the page cache before the
run (checked), "cold" that none of it is.
"""

import argparse
import ctypes
import json
import mmap
import os
import statistics
import sys
import time
from pathlib import Path

import bench_common as common
import versus_models as models

STEP = 16 << 20
SECONDS_MAX = 3600
GENERATE = 24


def read_whole(path):
    """Reads the file with one buffer; returns seconds. Brings it into the page cache."""
    buffer = bytearray(STEP)
    started = time.monotonic()
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return time.monotonic() - started


def drop(path):
    """Takes the file out of the page cache."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def cached_bytes(path):
    """How much of the file is in the page cache, by mincore(2)."""
    size = path.stat().st_size
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    with open(path, "rb") as file:
        address = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
    if address in (None, ctypes.c_void_p(-1).value):
        raise common.BenchError(f"{path}: cannot be mapped")
    try:
        present = ctypes.create_string_buffer((size + mmap.PAGESIZE - 1) // mmap.PAGESIZE)
        if libc.mincore(address, size, present) != 0:
            raise common.BenchError(f"{path}: mincore failed: {os.strerror(ctypes.get_errno())}")
        return (len(present) - present.raw.count(b"\0")) * mmap.PAGESIZE
    finally:
        libc.munmap(address, size)


def run_ork(options, mode):
    """One `ork run`: its own JSON, with the largest memory figures seen while it ran."""
    result, seen = common.watch(
        [options.ork, "run", options.pack, "-p", "a", "-n", GENERATE, "-c", options.context, "-no-cnv", "--ignore-eos",
         "--temp", "0", "--load", mode, "--json", "-q"], SECONDS_MAX)
    peak = {name: max(memory.get(name, 0) for _, memory in seen) for name in ("Rss", "AnonHugePages")} if seen else {}
    return {**result, "rss_bytes": peak.get("Rss", 0), "huge_bytes": peak.get("AnonHugePages", 0)}


def measure_round(options, mode, warm):
    size = options.pack.stat().st_size
    if warm:
        read_whole(options.pack)
        before = cached_bytes(options.pack)
        if before < size * 0.99:
            raise common.BenchError(f"the page cache holds only {before / 1e9:.2f} GB of the pack: too little free memory")
    else:
        drop(options.pack)
        before = cached_bytes(options.pack)
    plain = read_whole(options.pack) if warm else None
    result = run_ork(options, mode)
    return {"mode": mode, "warm": warm, "plain_read_seconds": plain, "cached_before_bytes": before,
            "cached_after_bytes": cached_bytes(options.pack), **result}


def prepare(options):
    """The synthetic model and its pack, made once."""
    if not options.pack:
        large = next(entry for entry in models.known() if entry.name == "lfm2-8b-a1b")
        options.pack = models.make_pack(options.ork, large, "auto", None, options.repack)


def median(samples, key):
    return statistics.median(sample[key] for sample in samples)


def table(options, facts, samples, probe):
    size = options.pack.stat().st_size
    command = "bench/load.sh" + "".join(f" {word}" for word in options.given)
    lines = [
        f"Measured by `{command}` ({options.rounds} rounds, medians, modes taking turns) on a pack of {size / 1e9:.2f} GB: "
        f"{options.pack.name}, context {options.context} tokens.", "", common.machine_line(facts) +
        f"; plain reads of memory with {facts['cores']} threads: {probe:.0f} GB/s.", "",
        "| load | file before | ready after s | GB/s | page cache after GB | resident GB | huge pages GB "
        "| resident / (pack + KV) | decoding tokens/s |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|"]
    for mode, warm in options.cases:
        group = [sample for sample in samples if (sample["mode"], sample["warm"]) == (mode, warm)]
        seconds = median(group, "load_seconds")
        planned = size + median(group, "kv_bytes") + median(group, "state_bytes")
        lines.append(
            f"| {mode} | {'warm' if warm else 'cold'} | {seconds:.3f} | {'' if mode == 'map' else f'{size / seconds / 1e9:.2f}'} | "
            f"{median(group, 'cached_after_bytes') / 1e9:.2f} | {median(group, 'rss_bytes') / 1e9:.2f} | "
            f"{median(group, 'huge_bytes') / 1e9:.2f} | {median(group, 'rss_bytes') / planned:.3f} | "
            f"{median(group, 'generated_tokens_per_second'):.1f} |")
    plain = statistics.median(sample["plain_read_seconds"] for sample in samples if sample["warm"])
    lines += ["", f"For comparison, reading the warm file into one {STEP >> 20} MiB buffer: {plain:.2f} s, {size / plain / 1e9:.2f} GB/s."]
    return "\n".join(lines)


def parse_options():
    parser = argparse.ArgumentParser(prog="bench/load.sh", description=__doc__.splitlines()[0])
    parser.add_argument("--ork", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--pack", type=Path, help="an orkpack of yours (default: the synthetic one, made when missing)")
    parser.add_argument("--repack", action="store_true", help="pack the synthetic model again")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("-c", "--context", type=int, default=4096)
    parser.add_argument("--cold", action="store_true", help="also with the file not in the page cache: the disk's speed")
    parser.add_argument("--json", type=Path, default=common.ROOT / "build/bench/load.json", help="where all samples go")
    parser.add_argument("--output", type=Path, help="Markdown file whose block `load` is replaced; else the table is printed")
    options = parser.parse_args()
    words, hidden = sys.argv[1:], ("--ork",)
    options.given = [word for i, word in enumerate(words) if word not in hidden and (i == 0 or words[i - 1] not in hidden)]
    options.cases = [("map", True), ("copy", True)] + ([("map", False), ("copy", False)] if options.cold else [])
    return options


def main():
    options = parse_options()
    try:
        prepare(options)
        facts = common.machine()
        probe = common.Probes(options.ork).read(facts["cores"])
        samples = []
        for number in range(1, options.rounds + 1):
            for mode, warm in options.cases:
                sample = measure_round(options, mode, warm)
                samples.append({"round": number, **sample})
                print(f"load: round {number}/{options.rounds}, {mode}, {'warm' if warm else 'cold'}: "
                      f"{sample['load_seconds']:.3f} s, resident {sample['rss_bytes'] / 1e9:.2f} GB, cached after "
                      f"{sample['cached_after_bytes'] / 1e9:.2f} GB, {sample['generated_tokens_per_second']:.1f} tokens/s",
                      file=sys.stderr)
    except (common.BenchError, OSError) as error:
        print(f"load: error: {error}", file=sys.stderr)
        return 1
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"machine": facts, "pack_bytes": options.pack.stat().st_size,
                                        "probe_gb_per_s": probe, "samples": samples}, indent=1) + "\n", encoding="utf-8")
    text = table(options, facts, samples, probe)
    if options.output:
        common.replace_block(options.output, "load", text)
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
