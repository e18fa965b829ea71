"""The demo model in JAX: GGUF architecture `lfm2moe`, forward pass only.

Owns: shapes, initial values, the forward pass (dense experts for evaluation, experts
gathered by capacity for training) and text generation.
Must not know: files, the optimizer, the tokenizer.

Parameters are a dict keyed by GGUF tensor name. A matrix is stored [out, in], which is
GGUF's {in, out} read in C order, so that the export copies arrays as they stand.
Letters in shapes: B batch, S sequence, T = B*S tokens, E embedding, H heads, G KV heads,
D head width, X experts, K experts per token, F expert width, C slots per expert, V vocabulary.
"""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True)
class Config:
    vocabulary: int = 4096
    embedding: int = 256
    # One letter a layer: c = short convolution, a = attention.
    layers: str = "ccacac"
    leading_dense: int = 1
    heads: int = 4
    kv_heads: int = 2
    head_width: int = 64
    dense_width: int = 768
    expert_width: int = 128
    experts: int = 16
    experts_used: int = 4
    conv_taps: int = 3
    context: int = 1024
    rope_base: float = 10000.0
    norm_epsilon: float = 1e-5


def is_router_bias(name):
    """The selection bias is set by the load balancer, not by gradients."""
    return name.endswith("exp_probs_b.bias")


def initial_parameters(config, seed):
    """Matrices that write to the residual stream start at zero, the others at 1/sqrt(in)."""
    rng = np.random.default_rng(seed)
    e, d = config.embedding, config.head_width
    parameters = {}

    def normal(name, *shape, scale=None):
        scale = shape[-1] ** -0.5 if scale is None else scale
        parameters[name] = (rng.standard_normal(shape) * scale).astype(np.float32)

    def constant(name, *shape, value):
        parameters[name] = np.full(shape, value, np.float32)

    normal("token_embd.weight", config.vocabulary, e, scale=0.02)
    constant("token_embd_norm.weight", e, value=1)
    for index, kind in enumerate(config.layers):
        blk = f"blk.{index}."
        constant(blk + "attn_norm.weight", e, value=1)
        constant(blk + "ffn_norm.weight", e, value=1)
        if kind == "a":
            normal(blk + "attn_q.weight", config.heads * d, e)
            normal(blk + "attn_k.weight", config.kv_heads * d, e)
            normal(blk + "attn_v.weight", config.kv_heads * d, e)
            constant(blk + "attn_q_norm.weight", d, value=1)
            constant(blk + "attn_k_norm.weight", d, value=1)
            constant(blk + "attn_output.weight", e, config.heads * d, value=0)
        else:
            normal(blk + "shortconv.in_proj.weight", 3 * e, e)
            normal(blk + "shortconv.conv.weight", e, config.conv_taps)
            constant(blk + "shortconv.out_proj.weight", e, e, value=0)
        if index < config.leading_dense:
            normal(blk + "ffn_gate.weight", config.dense_width, e)
            normal(blk + "ffn_up.weight", config.dense_width, e)
            constant(blk + "ffn_down.weight", e, config.dense_width, value=0)
        else:
            normal(blk + "ffn_gate_inp.weight", config.experts, e, scale=0.02)
            constant(blk + "exp_probs_b.bias", config.experts, value=0)
            normal(blk + "ffn_gate_exps.weight", config.experts, config.expert_width, e)
            normal(blk + "ffn_up_exps.weight", config.experts, config.expert_width, e)
            constant(blk + "ffn_down_exps.weight", config.experts, e, config.expert_width, value=0)
    return parameters


def rms_norm(x, weight, epsilon):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + epsilon) * weight


def rotate(x, base):
    """NEOX rotary embedding: pairs (k, k + D/2), angle position * base^(-2k/D). x: [B, S, H, D]."""
    length, width = x.shape[1], x.shape[3]
    angle = np.arange(length)[:, None] * base ** (-2.0 * np.arange(width // 2) / width)
    cos, sin = (jnp.asarray(f(angle), x.dtype)[:, None, :] for f in (np.cos, np.sin))
    low, high = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([low * cos - high * sin, low * sin + high * cos], -1)


def attention(p, blk, h, config):
    """Grouped-query attention with RMS norm per head before RoPE. h: [B, S, E] -> [B, S, E]."""
    batch, length, _ = h.shape
    groups, width = config.kv_heads, config.head_width
    q = (h @ p[blk + "attn_q.weight"].T).reshape(batch, length, config.heads, width)
    k = (h @ p[blk + "attn_k.weight"].T).reshape(batch, length, groups, width)
    v = (h @ p[blk + "attn_v.weight"].T).reshape(batch, length, groups, width)
    q = rotate(rms_norm(q, p[blk + "attn_q_norm.weight"], config.norm_epsilon), config.rope_base)
    k = rotate(rms_norm(k, p[blk + "attn_k_norm.weight"], config.norm_epsilon), config.rope_base)
    # Query head n reads KV head n // (H / G).
    q = q.reshape(batch, length, groups, config.heads // groups, width) * width ** -0.5
    scores = jnp.einsum("bqghd,bkgd->bghqk", q, k)
    causal = np.tril(np.ones((length, length), bool))
    weights = jax.nn.softmax(jnp.where(causal, scores, -1e30), -1)
    out = jnp.einsum("bghqk,bkgd->bqghd", weights, v).reshape(batch, length, -1)
    return out @ p[blk + "attn_output.weight"].T


def short_convolution(p, blk, h, config):
    """Gated depthwise causal convolution. h: [B, S, E] -> [B, S, E].

    in_proj yields the thirds B, C, X; the last tap meets the current token.
    """
    gate_in, gate_out, x = jnp.split(h @ p[blk + "shortconv.in_proj.weight"].T, 3, axis=-1)
    u = gate_in * x
    taps = p[blk + "shortconv.conv.weight"]  # [E, taps]
    length, last = u.shape[1], config.conv_taps - 1
    padded = jnp.pad(u, ((0, 0), (last, 0), (0, 0)))
    mixed = sum(padded[:, i:i + length] * taps[:, i] for i in range(config.conv_taps))
    return (gate_out * mixed) @ p[blk + "shortconv.out_proj.weight"].T


def route(p, blk, h, config):
    """Return chosen experts [T, K] and their weights [T, K]. h: [T, E].

    The bias takes part in the choice only; the weights are the plain sigmoids over their sum.
    """
    probability = jax.nn.sigmoid(h @ p[blk + "ffn_gate_inp.weight"].T)
    biased = jax.lax.stop_gradient(probability + p[blk + "exp_probs_b.bias"])
    _, chosen = jax.lax.top_k(biased, config.experts_used)
    weights = jnp.take_along_axis(probability, chosen, 1)
    return chosen, weights / weights.sum(-1, keepdims=True)


def experts_dense(p, blk, h, config):
    """Every expert on every token, exact, for evaluation. h: [T, E] -> ([T, E], load [X], dropped)."""
    chosen, weights = route(p, blk, h, config)
    one_hot = jax.nn.one_hot(chosen, config.experts)  # [T, K, X]
    gate = jnp.einsum("te,xfe->xtf", h, p[blk + "ffn_gate_exps.weight"])
    up = jnp.einsum("te,xfe->xtf", h, p[blk + "ffn_up_exps.weight"])
    weight = jnp.einsum("tkx,tk->xt", one_hot, weights)
    hidden = jax.nn.silu(gate) * up * weight[:, :, None]
    out = jnp.einsum("xtf,xef->te", hidden, p[blk + "ffn_down_exps.weight"])
    return out, one_hot.sum((0, 1)), jnp.zeros((), jnp.int32)


# Rows move to expert slots and back. The two moves are each other's transpose, so both can
# be gathers in both directions of differentiation; XLA's scatter is far slower on the CPU.
# token_of: [X*C], T where a slot is empty. slot_of: [T, K], X*C where a token was dropped.

def _gather(rows, index):
    """rows[index], with zeros where the index is one past the end."""
    return jnp.concatenate([rows, jnp.zeros_like(rows[:1])])[index]


@jax.custom_vjp
def dispatch(h, token_of, slot_of):
    """[T, E] -> [X*C, E]"""
    return _gather(h, token_of)


@jax.custom_vjp
def combine(slots, token_of, slot_of):
    """[X*C, E] -> [T, E]"""
    return sum(_gather(slots, slot_of[:, k]) for k in range(slot_of.shape[1]))


dispatch.defvjp(lambda h, t, s: (_gather(h, t), (t, s)), lambda r, g: (combine(g, *r), None, None))
combine.defvjp(lambda x, t, s: (combine(x, t, s), (t, s)), lambda r, g: (dispatch(g, *r), None, None))


def experts_sparse(p, blk, h, config, capacity):
    """Each expert on at most C = capacity * T * K / X tokens, for training. As experts_dense."""
    tokens = h.shape[0]
    slots = int(capacity * tokens * config.experts_used / config.experts)
    chosen, weights = route(p, blk, h, config)
    taken = jax.nn.one_hot(chosen, config.experts, dtype=jnp.int32).sum(1)  # [T, X]
    rank = jnp.take_along_axis(jnp.cumsum(taken, 0) - taken, chosen, 1)  # [T, K]
    kept = rank < slots
    slot_of = jnp.where(kept, chosen * slots + rank, config.experts * slots)
    choice_of = jnp.full(config.experts * slots + 1, tokens * config.experts_used, jnp.int32)
    choice_of = choice_of.at[slot_of.reshape(-1)].set(jnp.arange(slot_of.size, dtype=jnp.int32))[:-1]
    token_of = choice_of // config.experts_used  # T where empty

    x = dispatch(h, token_of, slot_of).reshape(config.experts, slots, -1)
    both = jnp.concatenate([p[blk + "ffn_gate_exps.weight"], p[blk + "ffn_up_exps.weight"]], 1)
    gate, up = jnp.split(jnp.einsum("xce,xfe->xcf", x, both), 2, axis=-1)
    weight = _gather(weights.reshape(-1), choice_of).reshape(config.experts, slots, 1)
    hidden = jax.nn.silu(gate) * up * weight
    out = jnp.einsum("xcf,xef->xce", hidden, p[blk + "ffn_down_exps.weight"])
    y = combine(out.reshape(config.experts * slots, -1), token_of, slot_of)
    return y, taken.sum(0).astype(jnp.float32), jnp.sum(~kept, dtype=jnp.int32)


def dropout(x, rate, key):
    if rate == 0:
        return x
    keep = jax.random.bits(key, x.shape, jnp.uint8) >= round(rate * 256)
    return x * keep * (1 / (1 - rate))


def forward(p, tokens, config, capacity=None, dropout_rate=0.0, key=None):
    """tokens [B, S] -> logits [B, S, V], load per MoE layer [L, X], dropped choices [L].

    `capacity` None computes all experts exactly. Dropout acts on the embedding and on what a block adds.
    """
    batch, length = tokens.shape
    x = p["token_embd.weight"][tokens]
    keys = [None] * (2 * len(config.layers) + 1)
    if key is not None:
        keys = jax.random.split(key, len(keys))
    x = dropout(x, dropout_rate, keys[-1])
    loads, drops = [], []
    for index, kind in enumerate(config.layers):
        blk = f"blk.{index}."
        h = rms_norm(x, p[blk + "attn_norm.weight"], config.norm_epsilon)
        mix = attention if kind == "a" else short_convolution
        x = x + dropout(mix(p, blk, h, config), dropout_rate, keys[2 * index])
        h = rms_norm(x, p[blk + "ffn_norm.weight"], config.norm_epsilon)
        if index < config.leading_dense:
            gate = jax.nn.silu(h @ p[blk + "ffn_gate.weight"].T)
            y = (gate * (h @ p[blk + "ffn_up.weight"].T)) @ p[blk + "ffn_down.weight"].T
        else:
            flat = h.reshape(batch * length, -1)
            if capacity is None:
                y, load, dropped = experts_dense(p, blk, flat, config)
            else:
                y, load, dropped = experts_sparse(p, blk, flat, config, capacity)
            y = y.reshape(x.shape)
            loads.append(load)
            drops.append(dropped)
        x = x + dropout(y, dropout_rate, keys[2 * index + 1])
    x = rms_norm(x, p["token_embd_norm.weight"], config.norm_epsilon)
    return x @ p["token_embd.weight"].T, jnp.stack(loads), jnp.stack(drops)


@partial(jax.jit, static_argnames=("config", "capacity"))
def evaluation_logits(p, tokens, config, capacity=None):
    return forward(p, tokens, config, capacity)[0]


def heldout_nll(p, token_ids, config, length=512, batch=4, bos=1, capacity=None, every=1):
    """Mean negative log-likelihood (nats) per token, in llama-perplexity's manner, and the count.

    Windows of `length` tokens, the first replaced by <|startoftext|>; the second half of each
    counts, so that every prediction has at least length/2 tokens of context. A `capacity`
    and every n-th window only make a cheap estimate for use during training.
    """
    count = len(token_ids) // length
    windows = np.asarray(token_ids[:count * length], np.int32).reshape(count, length)[::every]
    count = len(windows)
    total = 0.0
    for start in range(0, count, batch):
        rows = windows[start:start + batch]
        padded = np.full((batch, length), bos, np.int32)
        padded[:len(rows)] = rows
        padded[:, 0] = bos
        logits = evaluation_logits(p, padded, config, capacity)[:len(rows), length // 2:-1]
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), rows[:, length // 2 + 1:, None], -1)
        total -= float(chosen.sum())
    counted = count * (length - 1 - length // 2)
    return total / counted, counted


@partial(jax.jit, static_argnames="config")
def _logits_at(p, tokens, position, config):
    return forward(p, tokens, config)[0][0, position]


def generate(p, prompt_ids, count, config, temperature=0.0, top_p=1.0, seed=0, eos=2):
    """Return `count` new ids (fewer if <|endoftext|> comes). Temperature 0 is greedy.

    The whole text is computed anew for each token, padded to a multiple of 128 tokens so
    that few lengths have to be compiled.
    """
    ids, rng = list(prompt_ids), np.random.default_rng(seed)
    for _ in range(count):
        padded = np.zeros((1, -(-len(ids) // 128) * 128), np.int32)
        padded[0, :len(ids)] = ids
        logits = np.asarray(_logits_at(p, padded, len(ids) - 1, config), np.float64)
        if temperature == 0:
            token = int(logits.argmax())
        else:
            probability = np.exp((logits - logits.max()) / temperature)
            order = np.argsort(-probability)
            cumulative = np.cumsum(probability[order]) / probability.sum()
            order = order[:int(np.searchsorted(cumulative, top_p)) + 1]
            token = int(rng.choice(order, p=probability[order] / probability[order].sum()))
        if token == eos:
            break
        ids.append(token)
    return ids[len(prompt_ids):]
