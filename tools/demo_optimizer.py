"""Muon for matrices, Adam for the rest, and the router's load balancer.

Owns: one update of all parameters. Must not know: the model's forward pass, the schedule.
Muon: K. Jordan 2024 (momentum, then the nearest semi-orthogonal matrix by a quintic
Newton-Schulz iteration). Balancer: L. Wang et al. 2024, arXiv:2408.15664 (selection bias
moved against the load error, no auxiliary loss; here in proportion, up to a bound).
"""

import jax
import jax.numpy as jnp

MUON_RATE, MUON_MOMENTUM, MUON_DECAY = 0.02, 0.95, 0.1
ADAM_RATE, ADAM_BETAS, ADAM_EPSILON = 0.003, (0.9, 0.95), 1e-10
# Routers learn slowly and the balancer moves fast, so that it stays ahead of them.
ROUTER_RATE_SHARE, BALANCE_RATE = 0.2, 0.02


def uses_muon(name):
    return name.startswith("blk.") and name.endswith((
        "attn_q.weight", "attn_k.weight", "attn_v.weight", "attn_output.weight", "_proj.weight",
        "ffn_gate.weight", "ffn_up.weight", "ffn_down.weight", "_exps.weight",
    ))


def as_matrices(name, array):
    """[out, in] or [X, out, in] -> [n, out, in]; in_proj is three maps stacked."""
    if name.endswith("in_proj.weight"):
        return array.reshape(3, -1, array.shape[-1])
    return array.reshape(-1, *array.shape[-2:])


def orthogonalise(x, iterations=5):
    """x: [n, long, short] -> singular values near 1."""
    x = x / (jnp.linalg.norm(x, axis=(1, 2), keepdims=True) + 1e-7)
    for _ in range(iterations):
        gram = jnp.einsum("nci,ncj->nij", x, x)
        x = 3.4445 * x + jnp.einsum("nci,nij->ncj", x, -4.7750 * gram + 2.0315 * gram @ gram)
    return x


def initial_state(parameters):
    zeros = {name: jnp.zeros_like(array) for name, array in parameters.items()}
    return {
        "first": zeros,
        "second": {n: jnp.zeros_like(a) for n, a in parameters.items() if not uses_muon(n)},
        "step": jnp.zeros((), jnp.int32),
    }


def _muon_directions(momenta):
    """Orthogonalise all matrices, equal shapes in one batch. {name: [n, out, in]} -> same."""
    groups = {}
    for name, m in momenta.items():
        groups.setdefault(tuple(sorted(m.shape[1:])), []).append(name)
    result = {}
    for names in groups.values():
        wide = {name: momenta[name].shape[1] < momenta[name].shape[2] for name in names}
        parts = [momenta[n].swapaxes(1, 2) if wide[n] else momenta[n] for n in names]
        stacked, offset = orthogonalise(jnp.concatenate(parts)), 0
        for name, part in zip(names, parts):
            m = stacked[offset:offset + len(part)]
            result[name] = m.swapaxes(1, 2) if wide[name] else m
            offset += len(part)
    return result


def update(parameters, gradients, state, loads, moe_layers, rate_scale):
    """One step. `loads` [L, X] counts tokens per expert of the layers `moe_layers`."""
    step = state["step"] + 1
    first, second, result = {}, {}, {}
    looked_ahead = {}
    for name, g in gradients.items():
        if uses_muon(name):
            first[name] = MUON_MOMENTUM * state["first"][name] + (1 - MUON_MOMENTUM) * g
            looked_ahead[name] = as_matrices(name, MUON_MOMENTUM * first[name] + (1 - MUON_MOMENTUM) * g)
    directions = _muon_directions(looked_ahead)
    for name, p in parameters.items():
        g = gradients[name]
        if name in directions:
            d = directions[name]
            rate = rate_scale * MUON_RATE
            gain = max(1.0, d.shape[1] / d.shape[2]) ** 0.5
            result[name] = p * (1 - rate * MUON_DECAY) - rate * gain * d.reshape(p.shape)
            continue
        b1, b2 = ADAM_BETAS
        m = first[name] = b1 * state["first"][name] + (1 - b1) * g
        v = second[name] = b2 * state["second"][name] + (1 - b2) * g * g
        m, v = m / (1 - b1 ** step), v / (1 - b2 ** step)
        rate = rate_scale * ADAM_RATE * (ROUTER_RATE_SHARE if "ffn_gate_inp" in name else 1)
        result[name] = p - rate * m / (jnp.sqrt(v) + ADAM_EPSILON)
    for row, layer in enumerate(moe_layers):
        name = f"blk.{layer}.exp_probs_b.bias"
        too_few = jnp.clip(1 - loads[row] / loads[row].mean(), -1, 1)
        result[name] = parameters[name] + rate_scale * BALANCE_RATE * too_few
    return result, {"first": first, "second": second, "step": step}
