#!/usr/bin/env python3
"""Perplexity of a GGUF file in llama.cpp, by the method of its llama-perplexity program.

Owns: the method. Must not know: ork. The text is tokenized once with the vocabulary's special tokens and without
parsing special tokens in it; cut into chunks of --ctx-size tokens; the first token of each chunk is replaced by BOS
where the vocabulary adds one; the second half of each chunk is scored: for 512 tokens the predictions made at
positions 256 to 510, 255 in all. Log-likelihoods are summed in double precision over all chunks.
"""

import argparse
import json
import math
import sys
from pathlib import Path

import numpy as np
import peer_llama


def negative_log_likelihoods(logits, targets):
    """-log softmax(logits)[target] per row: maximum subtracted, exponentials in float, their sum in double."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    sums = np.exp(shifted).sum(axis=1, dtype=np.float64)
    return np.log(sums) - shifted[np.arange(len(targets)), targets].astype(np.float64)


class Score:
    """Running sums over all scored predictions."""

    def __init__(self):
        self.count = 0
        self.sum = 0.0
        self.squares = 0.0

    def add(self, values):
        self.count += len(values)
        self.sum += float(values.sum())
        self.squares += float((values * values).sum())

    def perplexity(self):
        return math.exp(self.sum / self.count)

    def error(self):
        mean = self.sum / self.count
        variance = self.squares / self.count - mean * mean
        return self.perplexity() * math.sqrt(max(variance, 0.0) / (self.count - 1))


def measure(model_path, text, size=512, chunks=-1, threads=1, kv="f16", report=None):
    """Returns the score and the running list; `report(index, running value)` is called after each chunk."""
    model = peer_llama.Model(model_path)
    if model.add_eos:
        raise SystemExit("error: the vocabulary adds an end token, for which the method is not defined")
    tokens = model.tokenize(text, True, False)
    if len(tokens) < 2 * size:
        raise SystemExit(f"error: the text has {len(tokens)} tokens, {2 * size} are needed")
    count = len(tokens) // size if chunks < 0 else min(chunks, len(tokens) // size)
    context = peer_llama.Context(model, size, threads, batch_size=size, kv=kv)
    score = Score()
    running = []
    for index in range(count):
        chunk = tokens[index * size:(index + 1) * size]
        inputs = [model.bos] + chunk[1:] if model.add_bos else chunk
        context.clear()
        first = size // 2
        logits = context.decode([(token, i, 0, first <= i < size - 1) for i, token in enumerate(inputs)])
        score.add(negative_log_likelihoods(logits, np.array(chunk[first + 1:])))
        running.append(score.perplexity())
        if report:
            report(index, running[-1])
    context.close()
    model.close()
    return score, running


def main():
    parser = argparse.ArgumentParser(description="llama-perplexity's method through llama.cpp's library.")
    parser.add_argument("-m", "--model", type=Path, required=True)
    parser.add_argument("-f", "--file", type=Path, required=True, help="text file, taken as it is")
    parser.add_argument("-c", "--ctx-size", type=int, default=512, metavar="N")
    parser.add_argument("--chunks", type=int, default=-1, metavar="N", help="at most N chunks (default all)")
    parser.add_argument("-t", "--threads", type=int, default=1)
    parser.add_argument("--kv", choices=sorted(peer_llama.TYPE_IDS), default="f16",
                        help="type of the KV cache; f32 also turns fused attention off (default f16)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the running list")
    options = parser.parse_args()

    def report(index, value):
        print(f"[{index + 1}]{value:.4f},", end="", flush=True)

    score, running = measure(options.model, options.file.read_bytes(), options.ctx_size, options.chunks,
                             options.threads, options.kv, None if options.json else report)
    if options.json:
        json.dump({"peer": peer_llama.describe(), "model": options.model.name, "text": options.file.name,
                   "ctx_size": options.ctx_size, "chunks": len(running), "kv": options.kv,
                   "perplexity": score.perplexity(), "error": score.error(),
                   "running": [round(value, 6) for value in running]}, sys.stdout)
        print()
    else:
        print(f"\nFinal estimate: PPL = {score.perplexity():.4f} +/- {score.error():.5f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
