"""Card and loss curve of the demo model.

Owns: what models/demo.md and models/demo-loss.svg say. Must not know: how training works.
"""

import hashlib
import math
import os

import jax

import demo_model
import demo_text

PROMPTS = [
    "ROMEO:\n",
    "And it came to pass in those days,",
    "Psalms 151\n\n151:1",
]


def plot_loss(path, history, best_step):
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "ork-demo"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4))
    tokens = [row["tokens"] / 1e6 for row in history]
    axes.plot(tokens, [row["train_loss"] for row in history], label="training, mean since the last point")
    axes.plot(tokens, [row["heldout_loss"] for row in history], label="held out (every third window)")
    for row in history:
        if row["step"] == best_step:
            axes.plot([row["tokens"] / 1e6], [row["heldout_loss"]], "o", color="C1", label="the published checkpoint")
    axes.set_xlabel("tokens seen, millions")
    axes.set_ylabel("loss, nats per token")
    axes.set_ylim(top=min(axes.get_ylim()[1], 6.5))
    axes.grid(alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def _samples(p, tokenizer, config):
    blocks = []
    for prompt in PROMPTS:
        ids = [demo_text.BOS] + tokenizer.encode(prompt, add_special_tokens=False).ids
        for title, options in [
            ("greedy", {"count": 40}),
            ("temperature 0.8, top-p 0.95, seed 1", {"count": 120, "temperature": 0.8, "top_p": 0.95, "seed": 1}),
        ]:
            new = demo_model.generate(p, ids, config=config, **options)
            blocks.append(f"Prompt `{prompt!r}`, {title}:\n\n```\n{tokenizer.decode(ids[1:] + new)}\n```\n")
    return "\n".join(blocks)


def _active_parameters(p, config):
    """Parameters that one token's matrix products read; the tied embedding counts once, as the head."""
    share = config.experts_used / config.experts
    return sum(a.size * (share if "_exps" in name else 1) for name, a in p.items())


def _dropout_text(history, best_step):
    """"0.2", or every rate in turn when a resumed run changed it."""
    rates = [row["dropout"] for row in history if row["step"] <= best_step]
    turns = [rate for i, rate in enumerate(rates) if i == 0 or rate != rates[i - 1]]
    return ", then ".join(f"{rate:g}" for rate in turns)


def _rebuild_note(history, best_step):
    if "then" not in _dropout_text(history, best_step):
        return ""
    return """
The published run was resumed with other dropout rates on the way (`demo-loss.csv` has the rate at each
point); the command uses one rate throughout. Its result has not been measured.
"""


def write(path, model_path, p, tokenizer, config, arguments, best, last, stream, heldout, heldout_ids):
    """`p`: the weights as the file holds them. `best`, `last`: run states of those checkpoints."""
    size = os.path.getsize(model_path)
    with open(model_path, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    nll, counted = demo_model.heldout_nll(p, heldout_ids, config)
    heldout_bytes = len(heldout.encode())
    bits_per_byte = nll / math.log(2) * (len(heldout_ids) - 1) / heldout_bytes
    total = sum(a.size for a in p.values())
    row = next(r for r in last["history"] if r["step"] == best["step"])
    kinds = ", ".join(
        f"{i} {'attention' if kind == 'a' else 'convolution'}" for i, kind in enumerate(config.layers))
    with open(path, "w") as file:
        file.write(f"""# ork demo model

A small mixture of experts, trained from scratch, so that every part of ork can be shown and
tested without a download. It writes scenes and verses in the manner of its two texts. It knows
nothing else, follows no instructions and is of no use for any other purpose.

| file | what |
|---|---|
| `demo-lfm2moe.gguf` | the model, {size:,} bytes, SHA-256 `{digest}` |
| `demo-heldout.txt` | held-out text, {heldout_bytes:,} bytes, never trained on |
| `demo-loss.csv`, `demo-loss.svg` | the course of the training |

## Architecture

GGUF architecture `lfm2moe` (the one of LFM2-8B-A1B): {total:,} parameters, of which
{_active_parameters(p, config):,.0f} take part in a token.

| | |
|---|---|
| layers | {len(config.layers)}: {kinds} |
| embedding | {config.embedding}, tied with the output head |
| short convolution | {config.conv_taps} taps, gated before and after |
| attention | {config.heads} heads of {config.head_width}, {config.kv_heads} KV heads, RMS norm per head on q and k, then RoPE (NEOX, base {config.rope_base:g}) |
| feed-forward | layer 0 dense, width {config.dense_width}; the others {config.experts} experts of width {config.expert_width}, {config.experts_used} chosen |
| router | sigmoid; a selection bias that training moved by load alone; weights are the plain sigmoids over their sum |
| context | {config.context} |
| tokenizer | byte-level BPE of {config.vocabulary} tokens, split as in Llama 3 (`tokenizer.ggml.pre` = `lfm2`), BOS added |
| types | F16; norms, routers, selection biases and convolution taps F32 |

## Data and training

Shakespeare's plays (the collection known as tinyshakespeare) and the King James Bible (Debian package
bible-kjv-text, one line a verse, a heading a chapter): {len(stream):,} tokens after the held-out parts
were cut out. Held out are Ruth 1 to 1 Samuel 12 and the last 46 KB of the plays.

{best['tokens']:,} tokens seen ({best['tokens'] / len(stream):.1f} epochs) in {best['step']:,} steps and {row['elapsed_s'] / 60:.0f} minutes on two shared CPU
cores (JAX {jax.__version__}). Muon for the matrices, Adam for embedding, norms, routers and taps; dropout {_dropout_text(last['history'], best['step'])};
learning rate linear to zero; windows of 256, 512 and at the end 1024 tokens. The checkpoint with
the lowest held-out loss of {len(last['history'])} evaluations is the one published: the figures below are very
slightly flattered by that choice.

![loss](demo-loss.svg)

## Quality

On `demo-heldout.txt`, the weights as the file holds them, computed in f32 by the training tool in
llama-perplexity's manner (windows of 512, the second half counts, {counted:,} predictions):

| loss, nats per token | perplexity per token | bits per byte |
|---|---|---|
| {nll:.4f} | {math.exp(nll):.3f} | {bits_per_byte:.4f} |

(Bits per byte = bits per token × {len(heldout_ids) - 1:,} tokens / {heldout_bytes:,} bytes. Training loss just before, with
dropout {row['dropout']:g}: {row['train_loss']:.4f}.)

## Samples

Written by the training tool from the weights in the file, unedited.

{_samples(p, tokenizer, config)}
## Rebuild

Debian packages `bible-kjv` and `bible-kjv-text`, the file tinyshakespeare.txt (1,115,394 bytes), then

```
python3 -m venv venv && venv/bin/pip install -r tools/requirements-demo.txt
venv/bin/python tools/train_demo.py --shakespeare tinyshakespeare.txt --minutes {arguments.minutes:g} --dropout {arguments.dropout:g}
```

The learning rate follows the clock, so a faster machine sees more text in the same time, and the
weights differ from run to run. With `GLIBC_TUNABLES=glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=100000000000:glibc.malloc.hugetlb=1`
and `XLA_FLAGS=--xla_cpu_experimental_ynn_fusion_type=` in the environment JAX 0.10 was a quarter faster here.
{_rebuild_note(last['history'], best['step'])}
## Licence

Both texts are in the public domain (the King James Version under Crown letters patent in the United
Kingdom only). The weights, the tokenizer and this card are under the project's MIT licence.
""")
