#!/usr/bin/env python3
"""Measures perplexity of every tier and writes the table of docs/quality.md.

Owns: which models, texts and tiers are compared. Must not know how perplexity is computed: that is `ork perplexity`, and
for the peer the committed results of tests/compat (made by llama.cpp, see its README).

    tools/quality_table.py --ork build/release/cli/ork --text wikitext=../shared/data/wikitext-2-test.raw:64 \
        --text heldout=models/demo-heldout.txt:0 --model models/demo-lfm2moe.gguf --model SmolLM2-135M-Instruct.gguf
"""
import argparse
import hashlib
import json
import os
import pathlib
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- quality table: begin -->", "<!-- quality table: end -->"
TIERS = ["f32", "f16", "g8", "i8", "auto", "i6", "i5", "nf4", "i4"]


def sha256(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def find_model(name):
    """A path, or the name of a file in the cache that tools/fetch_models.py fills."""
    cache = os.environ.get("ORK_CACHE_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "ork")
    for path in (pathlib.Path(name), SOURCE / name, pathlib.Path(cache) / "models" / name):
        if path.is_file():
            return path
    sys.exit(f"quality_table: {name}: no such model; tools/fetch_models.py fetches the real ones")


def run_json(command):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if result.returncode:
        sys.exit(f"quality_table: {' '.join(map(str, command))}: {result.stderr.strip().splitlines()[-1:]}")
    return json.loads(result.stdout)


def measure(ork, model, tier, texts, threads, directory):
    """Packs a model in one tier and returns {text: (perplexity, error)} and bits per weight."""
    pack = directory / f"{model.stem}-{tier}.orkpack"
    report = run_json([ork, "pack", model, pack, "--default-tier", tier, "--force", "--json"])
    rows = {}
    for name, (path, chunks) in texts.items():
        command = [ork, "perplexity", pack, "-f", path, "-c", "512", "-t", str(threads), "--json"]
        if chunks:
            command += ["--chunks", str(chunks)]
        result = run_json(command)
        rows[name] = (result["perplexity"], result["perplexity_error"])
        print(f"{model.name} {tier} {name}: {result['perplexity']:.4f}", file=sys.stderr)
    pack.unlink()
    return rows, report["bits_per_weight"]


def peer_rows(model, texts):
    """[(label, {text: (perplexity, error)})] of llama.cpp for this very model file and these texts."""
    golden = SOURCE / "tests/compat/golden" / f"perplexity-{model.stem}.json"
    if not golden.is_file():
        return []
    data = json.loads(golden.read_text())
    if data["model_sha256"] != sha256(model):
        print(f"{golden.name} belongs to another {model.name}: left out", file=sys.stderr)
        return []
    hashes = {name: sha256(path) for name, (path, _) in texts.items()}
    labels = {"original": "llama.cpp, the file as it is (f16 cache)",
              "f32": "llama.cpp, dequantized to f32 (f32 cache)"}
    rows = []
    for weights, label in labels.items():
        found = {name: (run["perplexity"], run["error"]) for run in data["runs"] for name in texts
                 if run["weights"] == weights and run["sha256"] == hashes[name]}
        if found:
            rows.append((label, found))
    return rows


def markdown(results, texts):
    lines = []
    for model, peers, tiers in results:
        lines += [f"### {model.name}", "",
                  "| weights | bits a weight | " + " | ".join(f"{name} | to f32" for name in texts) + " |",
                  "|---|--:|" + "--:|--:|" * len(texts)]
        base = tiers[0][1]
        for label, rows, bits in [(label, rows, None) for label, rows in peers] + tiers:
            cells = [label, f"{bits:.2f}" if bits else ""]
            for name in texts:
                if name in rows:
                    value, error = rows[name]
                    cells += [f"{value:.4f} ± {error:.4f}", f"{(value / base[name][0] - 1) * 100:+.2f} %"]
                else:
                    cells += ["", ""]
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ork", type=pathlib.Path, required=True)
    parser.add_argument("--model", action="append", required=True)
    parser.add_argument("--text", action="append", required=True, help="NAME=PATH:CHUNKS, 0 chunks: all")
    parser.add_argument("--tier", action="append", help="default: all of " + " ".join(TIERS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--directory", type=pathlib.Path, default=pathlib.Path("/tmp"), help="for the packs")
    parser.add_argument("--output", type=pathlib.Path, help="replace the table between the marks of this file")
    arguments = parser.parse_args()
    texts = {}
    for text in arguments.text:
        name, rest = text.split("=", 1)
        path, chunks = rest.rsplit(":", 1)
        texts[name] = (path, int(chunks))
    results = []
    for name in arguments.model:
        model = find_model(name)
        tiers = [(tier, *measure(arguments.ork, model, tier, texts, arguments.threads, arguments.directory))
                 for tier in arguments.tier or TIERS]
        results.append((model, peer_rows(model, texts), tiers))
    table = markdown(results, texts)
    if not arguments.output:
        print(table)
        return
    document = arguments.output.read_text()
    before, rest = document.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    arguments.output.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}")


if __name__ == "__main__":
    main()
