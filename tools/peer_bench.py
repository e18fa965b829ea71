#!/usr/bin/env python3
"""Measures llama.cpp's tokens per second through its library, in the manner of its llama-bench program.

Owns: the measurement and its JSON. Must not know: ork. As in llama-bench: random tokens, no sampling, logits of the last
token only, the cache cleared before each repetition, one warm-up of each kind that is not counted; a prompt test
runs its tokens in batches, a generation test one token at a time, with nothing in the cache before it.
"""

import argparse
import json
import random
import statistics
import sys
import time
from pathlib import Path

import peer_llama

BATCH_SIZE = 2048


def fill(batch, tokens, position):
    """Puts tokens of sequence 0 into the batch; only the last one's logits are asked for."""
    batch.n_tokens = len(tokens)
    for i, token in enumerate(tokens):
        batch.token[i] = token
        batch.pos[i] = position + i
        batch.n_seq_id[i] = 1
        batch.seq_id[i][0] = 0
        batch.logits[i] = i == len(tokens) - 1


def decode(context):
    status = peer_llama.lib.llama_decode(context.handle, context.batch)
    if status != 0:
        raise SystemExit(f"error: llama_decode returned {status}")


def random_tokens(model, count):
    tokens = [random.randrange(model.vocab_size) for _ in range(count)]
    if model.add_bos:
        tokens[0] = model.bos
    return tokens


def run_prompt(context, tokens):
    for start in range(0, len(tokens), BATCH_SIZE):
        fill(context.batch, tokens[start:start + BATCH_SIZE], start)
        decode(context)
    peer_llama.lib.llama_synchronize(context.handle)


def run_generation(context, tokens):
    for position, token in enumerate(tokens):
        fill(context.batch, [token], position)
        decode(context)
        peer_llama.lib.llama_synchronize(context.handle)


def repeat(run, context, count, repetitions):
    """Tokens per second of each repetition."""
    rates = []
    for _ in range(repetitions):
        tokens = random_tokens(context.model, count)
        context.clear()
        started = time.perf_counter_ns()
        run(context, tokens)
        rates.append(count * 1e9 / (time.perf_counter_ns() - started))
    return rates


def result(name, rates):
    return {"test": name, "avg_ts": statistics.fmean(rates), "median_ts": statistics.median(rates),
            "max_ts": max(rates), "stddev_ts": statistics.stdev(rates) if len(rates) > 1 else 0.0, "samples_ts": rates}


def main():
    parser = argparse.ArgumentParser(description="llama-bench's tests through llama.cpp's library, as JSON.")
    parser.add_argument("-m", "--model", type=Path, required=True)
    parser.add_argument("-p", "--n-prompt", type=int, default=512, help="prompt tokens, 0 for no such test (default 512)")
    parser.add_argument("-n", "--n-gen", type=int, default=128, help="generated tokens, 0 for no such test (default 128)")
    parser.add_argument("-r", "--repetitions", type=int, default=5)
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("--load", choices=sorted(peer_llama.LOAD_MODES), default="auto",
                        help="how weights are held: map leaves them in the page cache, copy reads them (default auto)")
    parser.add_argument("--no-warmup", action="store_true")
    options = parser.parse_args()
    if options.n_prompt < 0 or options.n_gen < 0 or options.repetitions < 1:
        parser.error("counts must not be negative, and there must be at least one repetition")

    model = peer_llama.Model(options.model, load=options.load)
    context = peer_llama.Context(model, max(options.n_prompt, options.n_gen, 1), options.threads,
                                 batch_size=min(BATCH_SIZE, max(options.n_prompt, 1)))
    tests = [(f"pp{options.n_prompt}", run_prompt, options.n_prompt), (f"tg{options.n_gen}", run_generation, options.n_gen)]
    tests = [test for test in tests if test[2] > 0]
    results = []
    for name, run, count in tests:
        if not options.no_warmup:
            repeat(run, context, count if run is run_prompt else 1, 1)
        results.append(result(name, repeat(run, context, count, options.repetitions)))
    json.dump({
        "peer": peer_llama.describe(), "model": options.model.name,
        "model_size": int(peer_llama.lib.llama_model_size(model.handle)),
        "model_n_params": int(peer_llama.lib.llama_model_n_params(model.handle)),
        "threads": options.threads, "load": options.load, "results": results}, sys.stdout)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
