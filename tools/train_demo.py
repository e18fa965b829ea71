#!/usr/bin/env python3
"""Trains ork's demo model and writes models/: GGUF, card, loss curve, held-out text.

    python3 -m venv venv && venv/bin/pip install -r tools/requirements-demo.txt
    venv/bin/python tools/train_demo.py --shakespeare tinyshakespeare.txt --minutes 90

Needs the Debian packages bible-kjv and bible-kjv-text and a text of Shakespeare's plays.
The learning rate falls to zero over the given wall-clock time, whatever the machine's
speed. A checkpoint is written with every evaluation and on SIGTERM; the same command resumes.
Owns: the training loop, its schedule, checkpoints, the command line.
"""

import argparse
import csv
import json
import os
import signal
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import demo_card
import demo_gguf
import demo_model
import demo_optimizer
import demo_text

CONFIG = demo_model.Config()
TOKENS_PER_STEP = 4096
# (from this share of the time on, window length). Short windows are cheaper; the long ones
# at the end make positions up to the context length familiar.
LENGTHS = [(0.0, 256), (0.75, 512), (0.93, 1024)]
WARM_UP = 0.02
CAPACITY = 1.25
Z_LOSS = 1e-4
SEED = 2026
HISTORY = ["step", "tokens", "elapsed_s", "window", "rate_scale", "dropout", "train_loss", "heldout_loss", "dropped",
           "max_load"]


def rate_scale(progress):
    """Linear warm-up, then linear decay to zero."""
    return max(0.0, min(progress / WARM_UP, (1 - progress) / (1 - WARM_UP), 1.0))


def loss_function(p, inputs, targets, config, rate, key):
    logits, loads, drops = demo_model.forward(p, inputs, config, CAPACITY, rate, key)
    normaliser = jax.nn.logsumexp(logits, -1)
    chosen = jnp.take_along_axis(logits, targets[..., None], -1)[..., 0]
    nll = (normaliser - chosen).mean()
    return nll + Z_LOSS * (normaliser ** 2).mean(), (nll, loads, drops)


@partial(jax.jit, static_argnames=("config", "rate"), donate_argnums=(0, 1))
def train_step(p, state, inputs, targets, scale, key, config, rate):
    grads, (nll, loads, drops) = jax.grad(loss_function, has_aux=True)(p, inputs, targets, config, rate, key)
    moe_layers = range(config.leading_dense, len(config.layers))
    p, state = demo_optimizer.update(p, grads, state, loads, moe_layers, scale)
    shares = loads / loads.sum(-1, keepdims=True) * loads.shape[1]
    return p, state, {"nll": nll, "dropped": drops.sum() / loads.sum(), "max_load": shares.max()}


def save(path, p, state, progress):
    """One .npz, replaced atomically. Keys p/<name>, first/<name>, second/<name>, step, progress."""
    arrays = {"p/" + n: a for n, a in p.items()}
    if state is not None:
        arrays |= {f"{part}/{n}": a for part in ("first", "second") for n, a in state[part].items()}
        arrays["step"] = state["step"]
    arrays["progress"] = np.frombuffer(json.dumps(progress).encode(), np.uint8)
    with open(path + ".part", "wb") as file:
        np.savez(file, **{name: np.asarray(array) for name, array in arrays.items()})
    os.replace(path + ".part", path)


def load(path):
    with np.load(path) as file:
        trees = {"p": {}, "first": {}, "second": {}}
        for key in file.files:
            part, _, name = key.partition("/")
            if part in trees:
                trees[part][name] = file[key]
        state = {"first": trees["first"], "second": trees["second"], "step": file["step"]} if "step" in file.files else None
        return trees["p"], state, json.loads(file["progress"].tobytes())


def prepare(arguments):
    """Return training stream, held-out text, held-out ids (with BOS) and tokenizer."""
    documents, heldout = demo_text.load_corpus(arguments.shakespeare)
    path = os.path.join(arguments.work, "tokenizer.json")
    if os.path.exists(path):
        tokenizer = demo_text.Tokenizer.from_file(path)
    else:
        tokenizer = demo_text.train_tokenizer(documents, CONFIG.vocabulary)
        tokenizer.save(path)
    ids = [demo_text.BOS] + tokenizer.encode(heldout, add_special_tokens=False).ids
    return demo_text.encode_documents(tokenizer, documents), heldout, ids, tokenizer


def train(arguments, stream, heldout_ids):
    latest, best = (os.path.join(arguments.work, f"{n}.npz") for n in ("latest", "best"))
    if os.path.exists(latest):
        p, state, run = load(latest)
        print(f"resume at step {run['step']}, {run['elapsed_s']:.0f} s", flush=True)
    else:
        p = demo_model.initial_parameters(CONFIG, SEED)
        state = demo_optimizer.initial_state(p)
        run = {"step": 0, "tokens": 0, "elapsed_s": 0.0, "stream": {}, "best": 1e9, "history": []}
    windows = demo_text.WindowStream(stream, SEED, **run["stream"])
    p, state = jax.tree.map(jnp.asarray, (p, state))
    total_s, began = arguments.minutes * 60, time.monotonic() - run["elapsed_s"]
    last_evaluation, recent = run["elapsed_s"], []
    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    while True:
        run["elapsed_s"] = time.monotonic() - began
        progress = run["elapsed_s"] / total_s
        done = progress >= 1
        if recent and (done or run["elapsed_s"] - last_evaluation >= arguments.evaluate_every):
            loss, _ = demo_model.heldout_nll(p, heldout_ids, CONFIG, capacity=2.0, every=3)
            mean = {k: float(np.mean([r[k] for r in recent])) for k in recent[0]}
            run["history"].append(dict(zip(HISTORY, [
                run["step"], run["tokens"], round(run["elapsed_s"]), windows.length, round(scale, 4),
                arguments.dropout, round(mean["nll"], 4), round(loss, 4), round(mean["dropped"], 5), round(mean["max_load"], 3)])))
            print(json.dumps(run["history"][-1]), flush=True)
            run["stream"] = windows.state()
            if loss < run["best"]:
                run["best"] = loss
                save(best, p, None, run)
            save(latest, p, state, run)
            last_evaluation, recent = run["elapsed_s"], []
        if done:
            return
        if stopped:
            run["stream"] = windows.state()
            save(latest, p, state, run)
            raise SystemExit("train_demo: stopped; the same command resumes")
        scale = rate_scale(progress)
        length = [n for start, n in LENGTHS if progress >= start][-1]
        inputs, targets = windows.next(TOKENS_PER_STEP // length, length)
        key = jax.random.key(SEED + run["step"], impl="unsafe_rbg") if arguments.dropout else None
        p, state, metrics = train_step(p, state, inputs, targets, scale, key, CONFIG, arguments.dropout)
        recent.append({k: float(v) for k, v in metrics.items()})
        run["step"] += 1
        run["tokens"] += inputs.size
        if run["step"] % 20 == 0:
            print(f"step {run['step']} {time.monotonic() - began:.0f} s, loss {recent[-1]['nll']:.3f}, "
                  f"dropped {recent[-1]['dropped']:.4f}, max load {recent[-1]['max_load']:.2f}", flush=True)


def publish(arguments, stream, heldout, heldout_ids, tokenizer):
    """Export the best checkpoint and describe the file as it was read back."""
    p, _, run = load(os.path.join(arguments.work, "best.npz"))
    _, _, last = load(os.path.join(arguments.work, "latest.npz"))
    os.makedirs(arguments.out, exist_ok=True)
    model, text, table, plot = (
        os.path.join(arguments.out, n)
        for n in ("demo-lfm2moe.gguf", "demo-heldout.txt", "demo-loss.csv", "demo-loss.svg"))
    demo_gguf.write(model, p, tokenizer, CONFIG)
    with open(text, "w", encoding="utf-8", newline="") as file:
        file.write(heldout)
    with open(table, "w", newline="") as file:
        writer = csv.DictWriter(file, HISTORY, lineterminator="\n")
        writer.writeheader()
        writer.writerows(last["history"])
    demo_card.plot_loss(plot, last["history"], run["step"])
    p = demo_gguf.read_parameters(model)
    demo_card.write(os.path.join(arguments.out, "demo.md"), model, p, tokenizer, CONFIG, arguments,
                    run, last, stream, heldout, heldout_ids)


def main():
    parser = argparse.ArgumentParser(description="Train ork's demo model and write models/.")
    parser.add_argument("--shakespeare", required=True, metavar="FILE", help="Shakespeare's plays, plain text")
    parser.add_argument("--minutes", type=float, default=90, help="wall-clock time of the whole training")
    parser.add_argument("--dropout", type=float, default=0.2, help="dropout on the embedding and on what each block adds")
    parser.add_argument("--work", default="build/demo-work", help="folder for checkpoints and tokenizer")
    parser.add_argument("--out", default="models", help="folder for the results")
    parser.add_argument("--evaluate-every", type=float, default=480, metavar="SECONDS")
    parser.add_argument("--publish-only", action="store_true", help="write the results of the best checkpoint so far")
    arguments = parser.parse_args()
    os.makedirs(arguments.work, exist_ok=True)
    stream, heldout, heldout_ids, tokenizer = prepare(arguments)
    print(f"{len(stream)} training tokens, {len(heldout_ids)} held out ({len(heldout.encode())} bytes)", flush=True)
    if not arguments.publish_only:
        train(arguments, stream, heldout_ids)
    publish(arguments, stream, heldout, heldout_ids, tokenizer)


if __name__ == "__main__":
    main()
