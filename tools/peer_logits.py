#!/usr/bin/env python3
"""Prints what llama.cpp makes of a prompt, as JSON: token ids, logits after the last one, greedy continuation.

Owns: the JSON. Must not know: ork. Each greedy step carries the gap between the best and the second-best logit, so
that a first difference in another engine can be told from an error: a tiny gap is a tie, a large one is a fault.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import peer_llama


def read_tokens(options, model):
    if options.tokens:
        return [int(part) for part in options.tokens.replace(",", " ").split()]
    data = options.file.read_bytes() if options.file else options.prompt.encode()
    return model.tokenize(data, not options.no_bos, not options.no_special)


def describe_logits(logits, top):
    best = np.argsort(-logits, kind="stable")[:top]
    return {"top": [[int(token), float(logits[token])] for token in best],
            "min": float(logits.min()), "max": float(logits.max()), "mean": float(logits.mean(dtype=np.float64))}


def main():
    parser = argparse.ArgumentParser(description="Token ids, logits and greedy continuation from llama.cpp, as JSON.")
    parser.add_argument("model", type=Path)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("-p", "--prompt", help="prompt text")
    source.add_argument("-f", "--file", type=Path, help="file with the prompt text")
    source.add_argument("--tokens", help="token ids, separated by spaces or commas")
    parser.add_argument("-n", "--predict", type=int, default=32, metavar="N", help="greedy tokens (default 32)")
    parser.add_argument("-t", "--threads", type=int, default=1)
    parser.add_argument("--kv", choices=sorted(peer_llama.TYPE_IDS), default="f16",
                        help="type of the KV cache; f32 also turns fused attention off (default f16)")
    parser.add_argument("--top", type=int, default=20, help="how many logits to print (default 20)")
    parser.add_argument("--all-logits", action="store_true", help="print the whole vector of logits")
    parser.add_argument("--no-bos", action="store_true", help="add no special tokens while tokenizing")
    parser.add_argument("--no-special", action="store_true", help="take special tokens in the text as plain text")
    options = parser.parse_args()

    model = peer_llama.Model(options.model)
    tokens = read_tokens(options, model)
    if not tokens:
        raise SystemExit("error: the prompt has no tokens")
    context = peer_llama.Context(model, len(tokens) + options.predict + 1, options.threads,
                                 batch_size=max(len(tokens), 1), kv=options.kv)
    steps, logits = context.greedy(tokens, max(options.predict, 1))
    steps = steps[:options.predict]
    result = {
        "peer": peer_llama.describe(), "model": options.model.name, "kv": options.kv,
        "tokens": tokens, "logits": describe_logits(logits, options.top),
        "greedy": [token for token, _, _, _ in steps],
        "gaps": [round(best - second, 6) for _, best, _, second in steps],
        "second": [token for _, _, token, _ in steps],
        "text": model.text([token for token, _, _, _ in steps], special=True).decode("utf-8", "replace"),
    }
    if options.all_logits:
        result["all_logits"] = [float(value) for value in logits]
    json.dump(result, sys.stdout, ensure_ascii=False)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
