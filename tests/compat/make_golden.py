#!/usr/bin/env python3
"""Writes the golden files of tests/compat/golden/: what llama.cpp and Jinja make of our texts and models.

Owns: which cases there are and the files' form. Must not know: ork; nothing of ork's is used here.

  make_golden.py tokens      token ids of nasty.json                         -> tokens-<vocabulary>.json
  make_golden.py chat        rendered chat templates                         -> chat-<template>.json
  make_golden.py greedy      greedy continuations, as is and in F32          -> greedy-<model>.json
  make_golden.py perplexity  perplexity, as is and in F32                    -> perplexity-<model>.json

Real models and vocabularies are taken from the cache that tools/fetch_models.py fills; what is not there is named and
left out. Form of the files: README.md beside this script.
"""

import argparse
import base64
import datetime
import hashlib
import json
import os
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import chat_cases  # noqa: E402
import fetch_models  # noqa: E402
import peer_f32  # noqa: E402
import peer_llama  # noqa: E402
import peer_perplexity  # noqa: E402

CACHE = fetch_models.cache_directory(None)
GOLDEN = HERE / "golden"
MODELS = {
    "SmolLM2-135M-Instruct": CACHE / "SmolLM2-135M-Instruct.gguf",
    "LFM2-350M": CACHE / "LFM2-350M.gguf",
    "demo-lfm2moe": ROOT / "models" / "demo-lfm2moe.gguf",
}
VOCABULARIES = ["gpt-2", "llama-bpe", "llama-spm", "qwen2", "qwen35", "command-r"]
SIZE_LIMIT = 100_000

PLAIN_PROMPTS = [
    "The capital of France is",
    "Once upon a time, in a small village by the sea,",
    "The three states of matter are solid, liquid and",
    "To be, or not to be, that is the",
    "And it came to pass in those days, that",
]
CHAT_PROMPTS = [
    "What is the capital of Italy?",
    "Name three primary colours.",
    "Write one sentence about the sea.",
    "How many days does a week have?",
    "What do bees make?",
]
# For a model without a chat template, in place of the chats.
MORE_PLAIN_PROMPTS = [
    "ROMEO:\n",
    "In the beginning God",
    "First Citizen:\nBefore we proceed any further,",
    "The LORD is my",
    "What, ho! Who",
]
GREEDY_TOKENS = 48
# Texts on which the peer's byte-level BPE ends the process (an uncaught exception for code points above U+10FFFF).
PEER_ABORTS = {"above U+10FFFF"}


def write(name, value, one_line_per=None):
    """Writes one JSON file; the entries of the list or object `one_line_per` get a line each, for readable diffs."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    if one_line_per:
        entries = value[one_line_per]
        short = dict(value)
        short[one_line_per] = "@"
        body = ",\n".join(json.dumps(entry, ensure_ascii=True, separators=(",", ":")) for entry in entries)
        text = json.dumps(short, separators=(",", ":")).replace('"@"', f"[\n{body}\n]")
    path = GOLDEN / name
    if len(text) >= SIZE_LIMIT:
        raise SystemExit(f"error: {path}: would have {len(text)} bytes, the limit is {SIZE_LIMIT}")
    GOLDEN.mkdir(exist_ok=True)
    path.write_text(text + "\n", encoding="ascii")
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes", file=sys.stderr)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def present_models(names):
    for name, path in MODELS.items():
        if names and name not in names:
            continue
        if path.is_file():
            yield name, path
        else:
            print(f"{name}: left out, {path} is not there", file=sys.stderr)


def nasty_cases():
    for entry in json.loads((HERE / "nasty.json").read_text(encoding="ascii")):
        data = base64.b64decode(entry["base64"]) if "base64" in entry else entry["text"].encode()
        yield entry["name"], data


def surrounding(model):
    """The ids that add_special puts before and after a text; checked to be the same for every text and flag."""
    around = model.tokenize("x", True, False)
    inner = model.tokenize("x", False, False)
    at = around.index(inner[0])
    return around[:at], around[at + len(inner):]


def token_case(model, name, data, before, after):
    plain = model.tokenize(data, False, False)
    parsed = model.tokenize(data, False, True)
    for parse, inner in ((False, plain), (True, parsed)):
        assert model.tokenize(data, True, parse) == before + inner + after, name
    case = {"name": name, "plain": plain}
    if parsed != plain:
        case["parsed"] = parsed
    back = model.text(plain, special=True)
    if back != data:
        case["back"] = base64.b64encode(back).decode()
    return case


def text_case(model, path):
    """A whole file: too many ids to keep, so their count, the first ones, and a digest of them as little-endian u32."""
    ids = model.tokenize(path.read_bytes(), False, False)
    return {"file": path.name, "sha256": sha256(path.read_bytes()), "count": len(ids), "first": ids[:24],
            "ids_sha256": sha256(np.array(ids, dtype="<u4").tobytes())}


def make_tokens(options):
    sources = [(name, path) for name, path in present_models(options.models)]
    if not options.models:
        sources += [(name, CACHE / f"ggml-vocab-{name}.gguf") for name in VOCABULARIES]
    for name, path in sources:
        if not path.is_file():
            print(f"{name}: left out, {path} is not there", file=sys.stderr)
            continue
        model = peer_llama.Model(path, vocab_only=True)
        before, after = surrounding(model)
        unusable = PEER_ABORTS if model.metadata("tokenizer.ggml.model") == "gpt2" else set()
        value = {
            "peer": peer_llama.describe()["version"], "vocabulary": path.name, "size": model.vocab_size,
            "before": before, "after": after, "bos": model.bos, "eos": model.eos, "end": model.end_tokens(),
            "texts": [text_case(model, text) for text in options.texts],
            "cases": [token_case(model, case, data, before, after) for case, data in nasty_cases()
                      if case not in unusable],
        }
        write(f"tokens-{name}.json", value, "cases")
        model.close()


def make_chat(options):
    sources = [(Path(name).stem, (CACHE / name).read_text(encoding="utf-8"), None)
               for name in fetch_models.TEMPLATE_SHA256 if (CACHE / name).is_file() and not options.models]
    for name, path in present_models(options.models):
        model = peer_llama.Model(path, vocab_only=True)
        if model.chat_template():
            sources.append((name, model.chat_template(), model))
    for name, template, model in sources:
        bos = model.piece(model.bos, True).decode() if model else chat_cases.BOS_TEXTS.get(name, "")
        cases = chat_cases.render_all(template, bos)
        for case in cases:
            if model and "text" in case:
                case["ids"] = model.tokenize(case["text"], False, True)
        write(f"chat-{name}.json", {"template_sha256": sha256(template.encode()), "bos_token": bos,
                                    "date": chat_cases.DATE.isoformat(), "cases": cases}, "cases")


def prompts_of(model):
    """(kind, text, ids): plain texts with the vocabulary's own special tokens, chats as the template renders them."""
    for text in PLAIN_PROMPTS:
        yield "plain", text, model.tokenize(text, True, True)
    template = model.chat_template()
    if not template:
        for text in MORE_PLAIN_PROMPTS:
            yield "plain", text, model.tokenize(text, True, True)
        return
    bos = model.piece(model.bos, True).decode()
    for text in CHAT_PROMPTS:
        rendered = chat_cases.render(template, bos, [{"role": "user", "content": text}], True)
        # A template that writes BOS itself must not get a second one.
        yield "chat", text, model.tokenize(rendered, not (bos and rendered.startswith(bos)), True)


def greedy_run(path, threads, kv):
    model = peer_llama.Model(path)
    context = peer_llama.Context(model, 1024, threads, kv=kv)
    runs = []
    for kind, text, ids in prompts_of(model):
        context.clear()
        steps, logits = context.greedy(ids, GREEDY_TOKENS, stop_at_end=True)
        top = np.argsort(-logits, kind="stable")[:8]
        runs.append({
            "kind": kind, "prompt": text, "ids": ids,
            "top": [[int(token), round(float(logits[token]), 5)] for token in top],
            "greedy": [token for token, _, _, _ in steps],
            "second": [token for _, _, token, _ in steps],
            "gaps": [round(best - second, 5) for _, best, _, second in steps],
            "text": model.text([token for token, _, _, _ in steps], special=True).decode("utf-8", "replace"),
        })
    context.close()
    model.close()
    return runs


def f32_version(path, directory):
    target = directory / f"{path.stem}-F32.gguf"
    if not target.is_file() or target.stat().st_mtime < path.stat().st_mtime:
        directory.mkdir(parents=True, exist_ok=True)
        peer_f32.convert(path, target)
    return target


def make_greedy(options):
    for name, path in present_models(options.models):
        runs = [{"weights": "original", "kv": "f16", **run} for run in greedy_run(path, options.threads, "f16")]
        full = f32_version(path, options.work)
        runs += [{"weights": "f32", "kv": "f32", **run} for run in greedy_run(full, options.threads, "f32")]
        write(f"greedy-{name}.json", {"peer": peer_llama.describe(), "model": path.name,
                                       "model_sha256": sha256(path.read_bytes()), "runs": runs}, "runs")


def perplexity_run(path, text, options, kv):
    score, running = peer_perplexity.measure(path, text.read_bytes(), 512, options.chunks, options.threads, kv)
    return {"file": text.name, "sha256": sha256(text.read_bytes()), "ctx_size": 512, "chunks": len(running), "kv": kv,
            "perplexity": round(score.perplexity(), 6), "error": round(score.error(), 6),
            "running": [round(value, 5) for value in running]}


def make_perplexity(options):
    if not options.texts:
        raise SystemExit("error: perplexity needs --texts FILE...")
    for name, path in present_models(options.models):
        full = f32_version(path, options.work)
        runs = []
        for text in options.texts:
            runs.append({"weights": "original", **perplexity_run(path, text, options, "f16")})
            runs.append({"weights": "f32", **perplexity_run(full, text, options, "f32")})
        write(f"perplexity-{name}.json", {"peer": peer_llama.describe(), "model": path.name,
                                       "model_sha256": sha256(path.read_bytes()), "runs": runs}, "runs")


def main():
    makers = {"tokens": make_tokens, "chat": make_chat, "greedy": make_greedy, "perplexity": make_perplexity}
    parser = argparse.ArgumentParser(description="Write golden files with llama.cpp as the reference.")
    parser.add_argument("what", choices=makers)
    parser.add_argument("--models", nargs="+", metavar="NAME", choices=list(MODELS), help="only these models")
    parser.add_argument("--texts", nargs="+", type=Path, default=[], metavar="FILE",
                        help="text files: tokenized whole, or scored")
    parser.add_argument("--chunks", type=int, default=64, help="chunks of a text that are scored (default 64)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--work", type=Path, default=CACHE.parent / "f32", help="where F32 versions of models are kept")
    options = parser.parse_args()
    os.nice(10)
    started = datetime.datetime.now()
    makers[options.what](options)
    print(f"{options.what}: {(datetime.datetime.now() - started).total_seconds():.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
