#!/usr/bin/env python3
"""What drafts (ork run --lookup) give on text that repeats itself, and cost on text that does not.

Runs the same generation without and with drafts in turns, and compares speeds pair by pair: on a shared machine a median of
ratios of neighbours says more than two means. The last column compares the processor time of whole runs, prompt and
loading included, which other programs disturb less. Texts must be equal. The demo model, and SmolLM2-135M-Instruct where
tools/fetch_models.py has put it into the cache.
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
VERSE = ("Now the king said unto his servants, Bring me the book of the law. And the servants went, and brought the book of "
         "the law unto the king. And the king opened the book of the law, and read therein. ")
CODE = """static int read_text(const char *path, char **text, size_t *size_bytes)
{
    int code = read_file(path, PROMPT_MAX_BYTES, text, size_bytes);
    if (code == OK && *size_bytes && (*text)[*size_bytes - 1] == '\\n')
        (*text)[--*size_bytes] = 0;
    return code;
}
"""
REPEAT = "Repeat this text word for word, twice:\n\n"
# Name, arguments of ork run.
DEMO = [
    ("greedy, loops", ["-no-cnv", "-p", "The king said", "--temp", "0", "-n", "300", "--ignore-eos"]),
    ("after a repeated verse", ["-no-cnv", "-p", VERSE * 3, "--temp", "0.4", "-s", "3", "-n", "300", "--ignore-eos"]),
    ("sampled", ["-no-cnv", "-p", "The king said", "--temp", "0.8", "-s", "3", "-n", "300", "--ignore-eos"]),
]
SMOL = [
    ("a text once more", ["-no-cnv", "-p", VERSE * 2, "--temp", "0", "-n", "120", "--ignore-eos", "-c", "1024"]),
    ("code once more", ["-no-cnv", "-p", CODE * 2, "--temp", "0", "-n", "120", "--ignore-eos", "-c", "1024"]),
    ("asked to repeat code, sampled", ["-p", REPEAT + CODE, "--temp", "0.7", "-s", "5", "-n", "120", "-c", "1024"]),
    ("a story, sampled", ["-p", "Write a story about a fox.", "--temp", "0.8", "-s", "5", "-n", "120", "-c", "1024"]),
]


def run(ork, *arguments):
    process = subprocess.run([ork, *arguments], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, check=True)
    return json.loads(process.stdout)


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def generate(ork, pack, threads, arguments, lookup):
    result = run(ork, "run", pack, "-t", threads, "-q", "--json", *arguments, *(["--lookup"] if lookup else []))
    return result["generated_tokens_per_second"], result["text"], result["lookup"], result["generated_tokens"]


def force(ork, pack, threads, tokens, repeats, lookup):
    row = run(ork, "bench", pack, "-t", threads, "-p", "0", "-n", str(tokens), "-r", "4", "-o", "jsonl", "--repeats", repeats,
              "--lookup", "24" if lookup else "0")
    names = ("passes", "drafted", "accepted")
    return row["avg_ts"], "", {name: row[f"lookup_{name}"] for name in names}, tokens


def compare(name, measure, rounds):
    speeds, used = {False: [], True: []}, {False: 0.0, True: 0.0}
    for i in range(rounds):
        for lookup in ((False, True) if i % 2 == 0 else (True, False)):
            before = processor_seconds()
            speed, text, stats, tokens = measure(lookup)
            used[lookup] += processor_seconds() - before
            speeds[lookup].append(speed)
            if lookup:
                last, drafted_text = stats, text
            else:
                plain_text = text
        if plain_text != drafted_text:
            sys.exit(f"{name}: drafts have changed the text")
    ratios = sorted(b / a for a, b in zip(speeds[False], speeds[True]))
    middle = [statistics.median(speeds[lookup]) for lookup in (False, True)]
    spread = f"{ratios[len(ratios) // 4]:.2f} to {ratios[-1 - len(ratios) // 4]:.2f}"
    print(f"| {name} | {tokens} | {last['passes']} | {last['drafted']} | {last['accepted']} | {middle[0]:.0f} | {middle[1]:.0f} "
          f"| {statistics.median(ratios):.3f} | {spread} | {used[False] / used[True]:.3f} |", flush=True)


def measure_model(arguments, title, pack, cases, forced):
    print(f"\n{title}, {arguments.threads} thread(s), {arguments.rounds} pairs\n\n"
          "| text | tokens | passes | drafted | right | t/s without | t/s with | ratio | half of the pairs | processor time |\n"
          "|---|---:|---:|---:|---:|---:|---:|---:|---|---:|")
    for name, options in cases:
        compare(name, lambda lookup: generate(arguments.ork, pack, arguments.threads, options, lookup), arguments.rounds)
    for name, repeats in (("given, nothing repeats", "0"), ("given, 97 % copied", "97")):
        compare(name, lambda lookup: force(arguments.ork, pack, arguments.threads, forced, repeats, lookup), arguments.rounds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ork", default=str(ROOT / "build/release/cli/ork"))
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("-t", "--threads", default="1")
    parser.add_argument("--models", nargs="+", choices=("demo", "smollm2"), default=("demo", "smollm2"))
    arguments = parser.parse_args()
    cache = pathlib.Path(os.environ.get("ORK_CACHE_DIR") or
                         pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "ork")
    smollm = cache / "models" / "SmolLM2-135M-Instruct.gguf"
    with tempfile.TemporaryDirectory(prefix="ork-lookup-") as folder:
        for key, title, source, tier, cases, forced in (
                ("demo", "demo model `auto`", ROOT / "models" / "demo-lfm2moe.gguf", "auto", DEMO, 600),
                ("smollm2", "SmolLM2-135M-Instruct `auto`", smollm, "auto", SMOL, 120)):
            if key not in arguments.models:
                continue
            if not source.is_file():
                print(f"\n{title}: {source} is not there (tools/fetch_models.py)")
                continue
            pack = f"{folder}/{key}.orkpack"
            subprocess.run([arguments.ork, "pack", str(source), pack, "--default-tier", tier, "-q"], check=True)
            measure_model(arguments, title, pack, cases, forced)


if __name__ == "__main__":
    main()
