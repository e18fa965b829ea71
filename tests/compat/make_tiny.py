#!/usr/bin/env python3
"""Writes tiny GGUF models with random weights, one per architecture, and llama.cpp's logits for them.

Owns: tiny/<name>.gguf and golden/tiny-<name>.json. Must not know: ork.

The files are complete (byte-level BPE with some merges, control tokens, a chat template) and small enough to be
committed, so that every architecture is checked against an independent engine where no real model can be fetched.
Their tensors mix block types. The logits are those of the same weights dequantized to F32, computed in float with an
F32 cache. Head counts, head sizes and expert counts are chosen to differ from each other, so that a swapped pair of
dimensions cannot go unseen. The random generator is seeded; the output is deterministic.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tools"))
import peer_f32  # noqa: E402
import peer_llama  # noqa: E402

WIDTH = 64
Q = gguf.GGMLQuantizationType
CONTROL = ["<|pad|>", "<|startoftext|>", "<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGE_WORDS = ["the", "and", "of", "to", "in", "that", "he", "is", "was", "for", "with", "his", "user", "assistant"]
VOCABULARY_SIZE = 301
CHAT_TEMPLATE = ("{%- for message in messages -%}{{- '<|im_start|>' + message['role'] + '\\n' + message['content']"
                 " + '<|im_end|>\\n' -}}{%- endfor -%}{%- if add_generation_prompt -%}"
                 "{{- '<|im_start|>assistant\\n' -}}{%- endif -%}")
PROMPT_LENGTH = 40
LOGIT_POSITIONS = [0, 1, 2, 3, 11, 39]
GREEDY_TOKENS = 32


def byte_alphabet():
    """The 256 characters that byte-level BPE writes bytes as, in byte order."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in shown else chr(next(others)) for byte in range(256)]


def make_vocabulary():
    """Control tokens, bytes, then merges that build some words (with and without a space), filled up with unused ids."""
    alphabet = byte_alphabet()
    tokens = CONTROL + alphabet
    merges = []
    for word in [alphabet[32] + word for word in MERGE_WORDS] + MERGE_WORDS:
        for end in range(2, len(word) + 1):
            if len(tokens) < VOCABULARY_SIZE and word[:end] not in tokens:
                tokens.append(word[:end])
                merges.append(f"{word[:end - 1]} {word[end - 1]}")
    types = [gguf.TokenType.CONTROL] * len(CONTROL) + [gguf.TokenType.NORMAL] * (len(tokens) - len(CONTROL))
    while len(tokens) < VOCABULARY_SIZE:
        tokens.append(f"[unused{len(tokens)}]")
        types.append(gguf.TokenType.UNUSED)
    return tokens, types, merges


class TinyModel:
    """Collects keys and random tensors of one model and writes the file."""

    def __init__(self, path, architecture, seed, pre, add_bos):
        self.random = np.random.default_rng(seed)
        self.writer = gguf.GGUFWriter(path, architecture)
        self.architecture = architecture
        self.writer.add_name(f"tiny random {architecture}")
        self.writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_0)
        self.writer.add_quantization_version(2)
        self.writer.add_context_length(512)
        self.writer.add_embedding_length(WIDTH)
        self.writer.add_vocab_size(VOCABULARY_SIZE)
        tokens, types, merges = make_vocabulary()
        self.writer.add_tokenizer_model("gpt2")
        self.writer.add_tokenizer_pre(pre)
        self.writer.add_token_list(tokens)
        self.writer.add_token_types(types)
        self.writer.add_token_merges(merges)
        self.writer.add_bos_token_id(1)
        self.writer.add_eos_token_id(4)
        self.writer.add_pad_token_id(0)
        self.writer.add_add_bos_token(add_bos)
        self.writer.add_chat_template(CHAT_TEMPLATE)

    def matrix(self, name, rows, columns, kind, experts=None, gain=1.0):
        """A weight {columns, rows} or {columns, rows, experts} whose output keeps about the size of its input."""
        shape = (rows, columns) if experts is None else (experts, rows, columns)
        values = (self.random.standard_normal(shape) * (gain / np.sqrt(columns))).astype(np.float32)
        self.raw(name, values, kind)

    def raw(self, name, values, kind):
        if kind == Q.F32:
            self.writer.add_tensor(name, values)
        else:
            self.writer.add_tensor(name, gguf.quantize(values, kind), raw_dtype=kind)

    def vector(self, name, size, mean=1.0, deviation=0.2):
        values = (mean + deviation * self.random.standard_normal(size)).astype(np.float32)
        self.writer.add_tensor(name, values)

    def embedding(self, kind):
        values = self.random.standard_normal((VOCABULARY_SIZE, WIDTH)).astype(np.float32)
        self.raw("token_embd.weight", values * np.float32(0.5), kind)

    def dense(self, layer, width, kinds):
        self.matrix(f"blk.{layer}.ffn_gate.weight", width, WIDTH, kinds[0], gain=1.5)
        self.matrix(f"blk.{layer}.ffn_up.weight", width, WIDTH, kinds[1])
        self.matrix(f"blk.{layer}.ffn_down.weight", WIDTH, width, kinds[2], gain=1.5)

    def experts(self, layer, count, width, kinds, bias):
        self.matrix(f"blk.{layer}.ffn_gate_inp.weight", count, WIDTH, Q.F32, gain=1.5)
        if bias:
            self.vector(f"blk.{layer}.exp_probs_b.bias", count, 0.0, 0.2)
        self.matrix(f"blk.{layer}.ffn_gate_exps.weight", width, WIDTH, kinds[0], count, 1.5)
        self.matrix(f"blk.{layer}.ffn_up_exps.weight", width, WIDTH, kinds[1], count)
        self.matrix(f"blk.{layer}.ffn_down_exps.weight", WIDTH, width, kinds[2], count, 1.5)

    def attention(self, layer, heads, kv_heads, head_size, kinds, head_norms):
        self.matrix(f"blk.{layer}.attn_q.weight", heads * head_size, WIDTH, kinds[0], gain=1.5)
        self.matrix(f"blk.{layer}.attn_k.weight", kv_heads * head_size, WIDTH, kinds[1], gain=1.5)
        self.matrix(f"blk.{layer}.attn_v.weight", kv_heads * head_size, WIDTH, kinds[2])
        self.matrix(f"blk.{layer}.attn_output.weight", WIDTH, heads * head_size, kinds[3])
        if head_norms:
            self.vector(f"blk.{layer}.attn_q_norm.weight", head_size, 1.5)
            self.vector(f"blk.{layer}.attn_k_norm.weight", head_size, 1.5)

    def short_convolution(self, layer, kinds):
        self.matrix(f"blk.{layer}.shortconv.in_proj.weight", 3 * WIDTH, WIDTH, kinds[0], gain=1.5)
        self.writer.add_tensor(f"blk.{layer}.shortconv.conv.weight",
                               self.random.standard_normal((WIDTH, 3)).astype(np.float32))
        self.matrix(f"blk.{layer}.shortconv.out_proj.weight", WIDTH, WIDTH, kinds[1])

    def norms(self, layer):
        self.vector(f"blk.{layer}.attn_norm.weight", WIDTH)
        self.vector(f"blk.{layer}.ffn_norm.weight", WIDTH)

    def keys(self, layers, heads, kv_heads, feed_forward, base, epsilon):
        self.writer.add_block_count(layers)
        self.writer.add_head_count(heads)
        self.writer.add_head_count_kv(kv_heads)
        self.writer.add_feed_forward_length(feed_forward)
        self.writer.add_rope_freq_base(base)
        self.writer.add_layer_norm_rms_eps(epsilon)

    def close(self):
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()


def make_llama(path):
    """Tied embeddings, NORM rotation, grouped heads."""
    model = TinyModel(path, "llama", 1, "smollm", False)
    model.keys(3, 4, 2, 96, 10000.0, 1e-5)
    model.writer.add_rope_dimension_count(16)
    model.embedding(Q.Q8_0)
    for layer in range(3):
        model.norms(layer)
        model.attention(layer, 4, 2, 16, [Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1], False)
        model.dense(layer, 96, [Q.Q4_1, Q.Q4_0, Q.Q8_0])
    model.vector("output_norm.weight", WIDTH)
    model.close()


def make_llama3(path):
    """As llama, with an output matrix of its own and per-frequency factors on the rotation."""
    model = TinyModel(path, "llama", 2, "llama-bpe", True)
    model.keys(2, 4, 1, 96, 500000.0, 1e-5)
    model.writer.add_rope_dimension_count(16)
    model.embedding(Q.Q5_0)
    model.writer.add_tensor("rope_freqs.weight", np.array([1, 1, 1, 1.5, 2.5, 4, 8, 8], dtype=np.float32))
    for layer in range(2):
        model.norms(layer)
        model.attention(layer, 4, 1, 16, [Q.BF16, Q.F16, Q.Q8_0, Q.Q4_0], False)
        model.dense(layer, 96, [Q.Q5_0, Q.Q5_1, Q.Q4_1])
    model.vector("output_norm.weight", WIDTH)
    model.matrix("output.weight", VOCABULARY_SIZE, WIDTH, Q.Q4_0, gain=2.0)
    model.close()


def make_qwen3(path):
    """Head size that is not width over heads, norms on query and key heads, NEOX rotation."""
    model = TinyModel(path, "qwen3", 3, "qwen2", False)
    model.keys(2, 4, 2, 96, 1000000.0, 1e-6)
    model.writer.add_key_length(32)
    model.writer.add_value_length(32)
    model.embedding(Q.Q5_1)
    for layer in range(2):
        model.norms(layer)
        model.attention(layer, 4, 2, 32, [Q.Q4_0, Q.Q8_0, Q.Q5_0, Q.Q4_1], True)
        model.dense(layer, 96, [Q.Q4_0, Q.Q4_0, Q.Q5_0])
    model.vector("output_norm.weight", WIDTH)
    model.matrix("output.weight", VOCABULARY_SIZE, WIDTH, Q.Q5_1, gain=2.0)
    model.close()


def make_qwen3moe(path):
    """Softmax router over 5 experts, three used, weights renormalised."""
    model = TinyModel(path, "qwen3moe", 4, "qwen2", False)
    model.keys(2, 4, 1, 160, 1000000.0, 1e-6)
    model.writer.add_key_length(32)
    model.writer.add_value_length(32)
    model.writer.add_expert_count(5)
    model.writer.add_expert_used_count(3)
    model.writer.add_expert_feed_forward_length(32)
    model.embedding(Q.Q4_1)
    for layer in range(2):
        model.norms(layer)
        model.attention(layer, 4, 1, 32, [Q.Q4_0, Q.Q5_0, Q.Q8_0, Q.Q4_0], True)
        model.experts(layer, 5, 32, [Q.Q4_0, Q.Q4_1, Q.Q5_0], False)
    model.vector("output_norm.weight", WIDTH)
    model.matrix("output.weight", VOCABULARY_SIZE, WIDTH, Q.Q4_0, gain=2.0)
    model.close()


def make_lfm2(path):
    """Short convolutions with one attention layer between them; tied; the final norm's name is its own."""
    model = TinyModel(path, "lfm2", 5, "lfm2", True)
    model.keys(3, 4, [0, 2, 0], 96, 1000000.0, 1e-5)
    model.writer.add_shortconv_l_cache(3)
    model.embedding(Q.Q8_0)
    for layer in range(3):
        model.norms(layer)
        if layer == 1:
            model.attention(layer, 4, 2, 16, [Q.Q4_0, Q.Q8_0, Q.Q5_0, Q.Q5_1], True)
        else:
            model.short_convolution(layer, [Q.Q4_0, Q.Q4_1])
        model.dense(layer, 96, [Q.Q4_0, Q.Q5_0, Q.Q4_1])
    model.vector("token_embd_norm.weight", WIDTH)
    model.close()


def make_lfm2moe(path):
    """As lfm2 with a leading dense layer and 5 experts: sigmoid router, three used, bias for the selection alone."""
    model = TinyModel(path, "lfm2moe", 6, "lfm2", True)
    model.keys(3, 4, [0, 2, 0], 96, 1000000.0, 1e-5)
    model.writer.add_shortconv_l_cache(3)
    model.writer.add_expert_count(5)
    model.writer.add_expert_used_count(3)
    model.writer.add_expert_feed_forward_length(32)
    model.writer.add_leading_dense_block_count(1)
    model.writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    model.embedding(Q.Q4_1)
    for layer in range(3):
        model.norms(layer)
        if layer == 1:
            model.attention(layer, 4, 2, 16, [Q.Q4_0, Q.Q4_1, Q.Q8_0, Q.Q4_0], True)
        else:
            model.short_convolution(layer, [Q.Q4_0, Q.Q4_0])
        if layer == 0:
            model.dense(layer, 96, [Q.Q4_0, Q.Q4_0, Q.Q4_0])
        else:
            model.experts(layer, 5, 32, [Q.Q4_0, Q.Q5_0, Q.Q4_0], True)
    model.vector("token_embd_norm.weight", WIDTH)
    model.close()


MAKERS = {"llama": make_llama, "llama3": make_llama3, "qwen3": make_qwen3, "qwen3moe": make_qwen3moe,
          "lfm2": make_lfm2, "lfm2moe": make_lfm2moe}


def measure(path, scratch):
    full = Path(scratch) / f"{path.stem}-F32.gguf"
    peer_f32.convert(path, full)
    model = peer_llama.Model(full)
    generator = np.random.default_rng(7)
    ids = [1] + [int(value) for value in generator.integers(0, VOCABULARY_SIZE, PROMPT_LENGTH - 1)]
    context = peer_llama.Context(model, 256, 1, kv="f32")
    rows = context.decode([(token, i, 0, i in LOGIT_POSITIONS) for i, token in enumerate(ids)])
    context.clear()
    steps, _ = context.greedy(ids, GREEDY_TOKENS)
    context.close()
    model.close()
    return {"peer": peer_llama.describe()["version"], "model": path.name, "ids": ids, "positions": LOGIT_POSITIONS,
            "logits": [[round(float(value), 5) for value in row] for row in rows],
            "greedy": [token for token, _, _, _ in steps],
            "gaps": [round(best - second, 5) for _, best, _, second in steps]}


def main():
    parser = argparse.ArgumentParser(description="Write tiny random models and llama.cpp's logits for them.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(MAKERS)} (default all)")
    options = parser.parse_args()
    for name in options.names or MAKERS:
        path = HERE / "tiny" / f"{name}.gguf"
        path.parent.mkdir(exist_ok=True)
        MAKERS[name](path)
        with tempfile.TemporaryDirectory() as scratch:
            value = measure(path, scratch)
        golden = HERE / "golden" / f"tiny-{name}.json"
        golden.write_text(json.dumps(value, separators=(",", ":")).replace('],"', '],\n"').replace("],[", "],\n[") + "\n",
                          encoding="ascii")
        spread = np.std(value["logits"])
        print(f"{name}: {path.stat().st_size} bytes, golden {golden.stat().st_size} bytes, logits deviate by "
              f"{spread:.2f}, smallest gap {min(value['gaps']):.4f}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
