#!/usr/bin/env python3
"""Writes a GGUF file with random weights in a real model's shapes, to measure speed and loading where the model itself
cannot be had. The text that comes out of it is noise; bytes and operations per token are those of the real model.

Owns: the shapes and the file. Must not know: ork. Tensor types follow llama-quantize: the chosen type for matrices,
Q6_K for the tied embedding (Q8_0 with Q8_0), F32 for norms, routers and convolutions. Only a few distinct slabs are
drawn per shape and used again for other layers and experts, which changes neither size nor speed.
"""

import argparse
import dataclasses
import os
import sys
from pathlib import Path

import gguf
import numpy as np

Q = gguf.GGMLQuantizationType
KINDS = {"q4_0": Q.Q4_0, "q8_0": Q.Q8_0}
SLABS = 4


@dataclasses.dataclass(frozen=True)
class Shape:
    architecture: str
    width: int
    heads: int
    kv_heads: list      # per layer; 0 marks a short convolution
    head_size: int
    feed_forward: int
    vocabulary: int
    base: float
    epsilon: float
    experts: int = 0
    experts_used: int = 0
    expert_width: int = 0
    leading_dense: int = 0
    sigmoid: bool = False
    tied: bool = True


def kv_list(layers, attention_layers, kv_heads):
    return [kv_heads if layer in attention_layers else 0 for layer in range(layers)]


SHAPES = {
    "lfm2-350m": Shape("lfm2", 1024, 16, kv_list(16, {2, 5, 8, 10, 12, 14}, 8), 64, 4608, 65536, 1e6, 1e-5),
    "lfm2-8b-a1b": Shape("lfm2moe", 2048, 32, kv_list(24, {2, 6, 10, 14, 18, 21}, 8), 64, 7168, 65536, 1e6, 1e-5,
                         32, 4, 1792, 2, True),
    "smollm2-135m": Shape("llama", 576, 9, [3] * 30, 64, 1536, 49152, 1e5, 1e-5),
    "qwen3-30b-a3b": Shape("qwen3moe", 2048, 32, [4] * 48, 128, 6144, 151936, 1e6, 1e-6, 128, 8, 768, tied=False),
}


def byte_alphabet():
    """The 256 characters that byte-level BPE writes bytes as, in byte order."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in shown else chr(next(others)) for byte in range(256)]


def write_keys(writer, shape, name):
    writer.add_name(f"random weights in the shapes of {name}")
    writer.add_block_count(len(shape.kv_heads))
    writer.add_context_length(32768)
    writer.add_embedding_length(shape.width)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads if 0 in shape.kv_heads else shape.kv_heads[0])
    writer.add_layer_norm_rms_eps(shape.epsilon)
    writer.add_rope_freq_base(shape.base)
    writer.add_vocab_size(shape.vocabulary)
    if shape.architecture == "llama":
        writer.add_rope_dimension_count(shape.head_size)
    if shape.architecture == "qwen3moe":
        writer.add_key_length(shape.head_size)
        writer.add_value_length(shape.head_size)
    if 0 in shape.kv_heads:
        writer.add_shortconv_l_cache(3)
    if shape.experts:
        writer.add_expert_count(shape.experts)
        writer.add_expert_used_count(shape.experts_used)
        writer.add_expert_feed_forward_length(shape.expert_width)
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID if shape.sigmoid
                                      else gguf.ExpertGatingFuncType.SOFTMAX)
        if shape.leading_dense:
            writer.add_leading_dense_block_count(shape.leading_dense)
    tokens = ["<|pad|>", "<|startoftext|>", "<|endoftext|>"] + byte_alphabet()
    types = [gguf.TokenType.CONTROL] * 3 + [gguf.TokenType.NORMAL] * 256
    tokens += [f"word{i}" for i in range(shape.vocabulary - len(tokens))]
    types += [gguf.TokenType.NORMAL] * (shape.vocabulary - len(types))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre({"lfm2": "lfm2", "lfm2moe": "lfm2", "llama": "smollm", "qwen3moe": "qwen2"}[shape.architecture])
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(["t h"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(shape.architecture.startswith("lfm2"))
    writer.add_quantization_version(2)


def list_tensors(shape, kind):
    """(name, dimensions with the input dimension last, type or None for a norm) in file order."""
    head_kind = Q.Q6_K if kind == Q.Q4_0 and shape.width % 256 == 0 else Q.Q8_0
    yield "token_embd.weight", (shape.vocabulary, shape.width), head_kind if shape.tied else kind
    yield ("token_embd_norm.weight" if 0 in shape.kv_heads else "output_norm.weight"), (shape.width,), None
    if not shape.tied:
        yield "output.weight", (shape.vocabulary, shape.width), head_kind
    for layer, kv_heads in enumerate(shape.kv_heads):
        block = f"blk.{layer}."
        yield block + "attn_norm.weight", (shape.width,), None
        yield block + "ffn_norm.weight", (shape.width,), None
        if kv_heads:
            yield block + "attn_q.weight", (shape.heads * shape.head_size, shape.width), kind
            yield block + "attn_k.weight", (kv_heads * shape.head_size, shape.width), kind
            yield block + "attn_v.weight", (kv_heads * shape.head_size, shape.width), kind
            yield block + "attn_output.weight", (shape.width, shape.heads * shape.head_size), kind
            if shape.architecture != "llama":
                yield block + "attn_q_norm.weight", (shape.head_size,), None
                yield block + "attn_k_norm.weight", (shape.head_size,), None
        else:
            yield block + "shortconv.in_proj.weight", (3 * shape.width, shape.width), kind
            yield block + "shortconv.conv.weight", (shape.width, 3), Q.F32
            yield block + "shortconv.out_proj.weight", (shape.width, shape.width), kind
        if shape.experts and layer >= shape.leading_dense:
            yield block + "ffn_gate_inp.weight", (shape.experts, shape.width), Q.F32
            if shape.sigmoid:
                yield block + "exp_probs_b.bias", (shape.experts,), Q.F32
            yield block + "ffn_gate_exps.weight", (shape.experts, shape.expert_width, shape.width), kind
            yield block + "ffn_up_exps.weight", (shape.experts, shape.expert_width, shape.width), kind
            yield block + "ffn_down_exps.weight", (shape.experts, shape.width, shape.expert_width), kind
        else:
            yield block + "ffn_gate.weight", (shape.feed_forward, shape.width), kind
            yield block + "ffn_up.weight", (shape.feed_forward, shape.width), kind
            yield block + "ffn_down.weight", (shape.width, shape.feed_forward), kind


class Slabs:
    """Draws and keeps a few random matrices per shape and type, as the bytes that the file holds."""

    def __init__(self):
        self.random = np.random.default_rng(1)
        self.kept = {}

    def q6_k(self, rows, columns):
        """Random codes with a fitting scale: the gguf package does not quantize to this type."""
        blocks = self.random.integers(0, 256, (rows, columns // 256, 210), dtype=np.uint8)
        blocks[..., 192:208] = self.random.integers(32, 64, blocks[..., 192:208].shape, dtype=np.uint8)
        blocks[..., 208:] = np.frombuffer(np.float16(0.02 / (48 * 18)).tobytes(), dtype=np.uint8)
        return blocks.reshape(rows, -1)

    def draw(self, rows, columns, kind):
        if kind == Q.Q6_K:
            return self.q6_k(rows, columns)
        values = (self.random.standard_normal((rows, columns), dtype=np.float32) * np.float32(0.02))
        return gguf.quantize(values, kind)

    def matrix(self, rows, columns, kind):
        slabs = self.kept.setdefault((rows, columns, kind), [])
        if len(slabs) < SLABS:
            slabs.append(self.draw(rows, columns, kind))
            return slabs[-1]
        return slabs[self.random.integers(SLABS)]

    def tensor(self, dimensions, kind):
        if kind is None:
            return np.ones(dimensions, dtype=np.float32)
        if kind == Q.F32:
            return (self.random.standard_normal(dimensions) * 0.1).astype(np.float32)
        if len(dimensions) == 2:
            return self.matrix(*dimensions, kind)
        return np.stack([self.matrix(dimensions[1], dimensions[2], kind) for _ in range(dimensions[0])])


def write(name, kind, layers, target):
    shape = SHAPES[name]
    shape = dataclasses.replace(shape, kv_heads=shape.kv_heads[:layers])
    partial = Path(f"{target}.partial")
    try:
        writer = gguf.GGUFWriter(partial, shape.architecture)
        write_keys(writer, shape, name)
        tensors = list(list_tensors(shape, kind))
        for tensor, dimensions, tensor_kind in tensors:
            tensor_kind = tensor_kind or Q.F32
            block, size = gguf.GGML_QUANT_SIZES[tensor_kind]
            bytes_shape = (*dimensions[:-1], dimensions[-1] // block * size)
            count = int(np.prod(bytes_shape, dtype=np.int64))
            if tensor_kind == Q.F32:
                writer.add_tensor_info(tensor, dimensions, np.dtype(np.float32), count)
            else:
                writer.add_tensor_info(tensor, bytes_shape, np.dtype(np.uint8), count, raw_dtype=tensor_kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        slabs = Slabs()
        for _, dimensions, tensor_kind in tensors:
            writer.write_tensor_data(slabs.tensor(dimensions, tensor_kind))
        writer.close()
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def main():
    parser = argparse.ArgumentParser(description="Random weights in a real model's shapes, as GGUF.")
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("target", type=Path)
    parser.add_argument("--type", choices=KINDS, default="q4_0", help="type of the matrices (default q4_0)")
    parser.add_argument("--layers", type=int, metavar="N", help="only the first N layers (default all)")
    options = parser.parse_args()
    write(options.shape, KINDS[options.type], options.layers, options.target)
    print(f"{options.target}: {options.target.stat().st_size} bytes", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
