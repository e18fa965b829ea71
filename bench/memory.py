#!/usr/bin/env python3
"""Measures what ork keeps in memory: resident bytes against pack and caches, and whether they grow while it decodes.

Owns: the two measurements and their table. Must not know: how ork allocates.
Growth is looked at while 10,000 tokens are decoded with a small synthetic mixture-of-experts model, from the 100th token on. The
pages of the key and value cache become resident when they are first written, so memory may grow by the cache and by no more.
"""

import argparse
import json
import sys
from pathlib import Path

import bench_common as common
import versus_models as models

SECONDS_MAX = 1800
SETTLED_TOKENS, DEFAULT_TOKENS = 100, 10000
RESIDENT_MAX = 1.05
GENERATE = 24
SMALL = ("--shape", "qwen3-30b-a3b", "--layers", "2", "--experts", "16", "--vocabulary", "4096")
INTERVAL_SECONDS = {"resident": 0.02, "growth": 0.25}


def run(options, pack, tokens, context, what):
    """(ork's JSON, resident bytes over time) of one generation."""
    result, seen = common.watch(
        [options.ork, "run", pack, "-p", "a", "-n", tokens, "-c", context, "-no-cnv", "--ignore-eos", "--temp", "0", "--load",
         "copy", "-t", options.threads, "--json", "-q"], SECONDS_MAX, INTERVAL_SECONDS[what])
    if result["generated_tokens"] != tokens:
        raise common.BenchError(f"{pack}: {result['generated_tokens']} tokens instead of {tokens}: is the context too small?")
    return result, [(seconds, memory["Rss"]) for seconds, memory in seen if "Rss" in memory]


def resident(options, pack):
    """The most that was resident, beside what there is to keep."""
    result, seen = run(options, pack, GENERATE, options.context, "resident")
    planned = pack.stat().st_size + result["kv_bytes"] + result["state_bytes"]
    most = max(size for _, size in seen)
    return {"pack": pack.name, "pack_bytes": pack.stat().st_size, "kv_bytes": result["kv_bytes"],
            "state_bytes": result["state_bytes"], "rss_bytes": most, "ratio": most / planned}


def small_pack(options):
    """A pack of about 100 MB."""
    gguf = models.folder() / "memory-2.gguf"
    pack = gguf.with_suffix(".orkpack")
    if not gguf.is_file():
        models.run([sys.executable, "-B", common.ROOT / "tools/synth_gguf.py", gguf, *SMALL])
    models.run([options.ork, "pack", "--force", "-q", "--default-tier", "nf4", gguf, pack])
    return pack


def growth(options):
    """Resident bytes at the 100th token and at the end. Tokens are taken as evenly spread over the time of generation; early
    ones are faster, so the first sample that counts is never too early."""
    result, seen = run(options, small_pack(options), options.tokens, options.tokens + 256, "growth")
    begun = seen[-1][0] - result["generate_seconds"]
    settled = begun + result["generate_seconds"] * SETTLED_TOKENS / options.tokens
    counted = [size for seconds, size in seen if seconds >= settled]
    if len(counted) < 4:
        raise common.BenchError("too few samples while tokens were generated")
    return {"tokens": options.tokens, "kv_bytes": result["kv_bytes"], "first_bytes": counted[0], "most_bytes": max(counted),
            "last_bytes": counted[-1], "grown_bytes": max(counted) - counted[0], "samples": len(counted),
            "tokens_per_second": result["generated_tokens_per_second"]}


def table(options, facts, sizes, grown):
    lines = [f"Measured by `{' '.join(['bench/memory.sh', *options.given])}`: {common.machine_line(facts)}.", ""]
    if sizes:
        lines += [f"| pack, context {options.context} | pack GB | KV and state GB | most resident GB | resident / (pack + KV) |",
                  "|---|---:|---:|---:|---:|"]
        lines += [f"| {row['pack']} | {row['pack_bytes'] / 1e9:.3f} | {(row['kv_bytes'] + row['state_bytes']) / 1e9:.3f} | "
                  f"{row['rss_bytes'] / 1e9:.3f} | {row['ratio']:.3f} |" for row in sizes]
        lines.append("")
    if grown:
        lines.append(
            f"While {grown['tokens']} tokens are decoded (small synthetic model, KV cache of {grown['kv_bytes'] / 1e6:.1f} MB), "
            f"resident memory is {grown['first_bytes'] / 1e6:.2f} MB at token {SETTLED_TOKENS} and at most "
            f"{grown['most_bytes'] / 1e6:.2f} MB after it ({grown['samples']} samples): grown by {grown['grown_bytes'] / 1e6:.2f} MB, "
            "where pages of the cache that are written for the first time count.")
    return "\n".join(lines).rstrip()


def parse_options():
    parser = argparse.ArgumentParser(prog="bench/memory.sh", description=__doc__.splitlines()[0])
    parser.add_argument("--ork", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("packs", nargs="*", type=Path, help="orkpacks (default: those of the comparison's models that are there)")
    parser.add_argument("-c", "--context", type=int, default=4096)
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("-n", "--tokens", type=int, default=DEFAULT_TOKENS, help="of the growth test, 0: none (default 10000)")
    parser.add_argument("--json", type=Path, default=common.ROOT / "build/bench/memory.json")
    parser.add_argument("--output", type=Path, help="Markdown file whose block `memory` is replaced; else the table is printed")
    parser.add_argument("--check", action="store_true", help=f"fail above {RESIDENT_MAX} x (pack + KV), or when memory grows "
                        "by more than its key and value cache")
    options = parser.parse_args()
    words, hidden = sys.argv[1:], ("--ork",)
    options.given = [word for i, word in enumerate(words) if word not in hidden and (i == 0 or words[i - 1] not in hidden)]
    return options


def default_packs():
    found = (models.pack_name(comparison, tier) for comparison in models.known() for tier in comparison.tiers)
    return sorted({pack for pack in found if pack.is_file()})


def main():
    options = parse_options()
    try:
        facts = common.machine()
        sizes = [resident(options, pack) for pack in options.packs or default_packs()]
        grown = growth(options) if options.tokens else None
    except (common.BenchError, OSError) as error:
        print(f"memory: error: {error}", file=sys.stderr)
        return 1
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"machine": facts, "resident": sizes, "growth": grown}, indent=1) + "\n", encoding="utf-8")
    text = table(options, facts, sizes, grown)
    if options.output:
        common.replace_block(options.output, "memory", text)
    else:
        print(text)
    wrong = [f"{row['pack']}: {row['ratio']:.3f}" for row in sizes if row["ratio"] > RESIDENT_MAX]
    if grown and grown["grown_bytes"] > grown["kv_bytes"]:
        wrong.append(f"grown by {grown['grown_bytes']} bytes")
    if options.check and wrong:
        print(f"memory: too much: {'; '.join(wrong)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
