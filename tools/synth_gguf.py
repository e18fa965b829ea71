#!/usr/bin/env python3
"""Writes a GGUF of LFM2-8B-A1B's true shape with random weights: for measuring load times and speed without the model.

Owns: the shape, the random blocks and the file. Must not know: ork.
The speed of an engine does not depend on the values, so a few random slabs a shape are drawn and repeated over experts and
layers; the text that such a model makes is noise. Matrices are Q4_0 and the tied embedding Q6_K, as in the usual
quantized file of the real model; norms are 1, routers and convolutions small random F32. The vocabulary has the real
size: special tokens, all bytes, and pairs of bytes. Python's standard library only; the disk sets the speed.
"""

import argparse
import os
import random
import struct
import sys
import time
from pathlib import Path

EMBEDDING, DENSE, EXPERT, EXPERTS, EXPERTS_USED, LEADING_DENSE = 2048, 7168, 1792, 32, 4, 2
HEADS, KV_HEADS, HEAD, VOCABULARY, TAPS = 32, 8, 64, 65536, 3
LAYERS, ATTENTION_LAYERS = 24, (2, 6, 10, 14, 18, 21)
F32, Q4_0, Q6_K = 0, 2, 14
BLOCK = {F32: (1, 4), Q4_0: (32, 18), Q6_K: (256, 210)}  # type: (weights, bytes)
SLABS, ALIGNMENT = 6, 32
U32, I32, FLOAT, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
NORMAL, CONTROL = 1, 3
SPECIAL = ["<|pad|>", "<|startoftext|>", "<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def value(kind, item):
    if kind == STRING:
        return string(item)
    return struct.pack({U32: "<I", I32: "<i", FLOAT: "<f", BOOL: "<?"}[kind], item)


def entry(key, kind, item, element=None):
    if kind == ARRAY:
        return string(key) + struct.pack("<IIQ", ARRAY, element, len(item)) + b"".join(value(element, x) for x in item)
    return string(key) + struct.pack("<I", kind) + value(kind, item)


def byte_alphabet():
    """The 256 characters that stand for bytes in byte-level BPE: printable ones for themselves, others from U+0100 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


def vocabulary():
    """(tokens, merges): special tokens, bytes, then pairs of bytes until the vocabulary is full."""
    letters = byte_alphabet()
    pairs = [(a, b) for a in letters for b in letters][:VOCABULARY - len(SPECIAL) - len(letters)]
    return SPECIAL + letters + [a + b for a, b in pairs], [f"{a} {b}" for a, b in pairs]


def metadata(layers, name):
    tokens, merges = vocabulary()
    prefix = "lfm2moe."
    heads = [KV_HEADS if layer in ATTENTION_LAYERS else 0 for layer in range(layers)]
    return [
        entry("general.architecture", STRING, "lfm2moe"), entry("general.type", STRING, "model"),
        entry("general.name", STRING, name), entry("general.file_type", U32, 2),
        entry("general.quantization_version", U32, 2),
        entry(prefix + "block_count", U32, layers), entry(prefix + "context_length", U32, 128000),
        entry(prefix + "embedding_length", U32, EMBEDDING), entry(prefix + "feed_forward_length", U32, DENSE),
        entry(prefix + "attention.head_count", U32, HEADS), entry(prefix + "attention.head_count_kv", ARRAY, heads, I32),
        entry(prefix + "attention.layer_norm_rms_epsilon", FLOAT, 1e-5), entry(prefix + "rope.freq_base", FLOAT, 1e6),
        entry(prefix + "vocab_size", U32, VOCABULARY), entry(prefix + "shortconv.l_cache", U32, TAPS),
        entry(prefix + "leading_dense_block_count", U32, LEADING_DENSE), entry(prefix + "expert_count", U32, EXPERTS),
        entry(prefix + "expert_used_count", U32, EXPERTS_USED),
        entry(prefix + "expert_feed_forward_length", U32, EXPERT), entry(prefix + "expert_gating_func", U32, 2),
        entry("tokenizer.ggml.model", STRING, "gpt2"), entry("tokenizer.ggml.pre", STRING, "lfm2"),
        entry("tokenizer.ggml.tokens", ARRAY, tokens, STRING),
        entry("tokenizer.ggml.token_type", ARRAY,
              [CONTROL if token in SPECIAL else NORMAL for token in tokens], I32),
        entry("tokenizer.ggml.merges", ARRAY, merges, STRING),
        entry("tokenizer.ggml.bos_token_id", U32, 1), entry("tokenizer.ggml.eos_token_id", U32, 4),
        entry("tokenizer.ggml.padding_token_id", U32, 0), entry("tokenizer.ggml.add_bos_token", BOOL, True),
    ]


def tensors(layers):
    """(name, dimensions with the contiguous one first, type), in file order."""
    result = [("token_embd.weight", (EMBEDDING, VOCABULARY), Q6_K), ("token_embd_norm.weight", (EMBEDDING,), F32)]

    def add(layer, name, *dimensions, kind=Q4_0):
        result.append((f"blk.{layer}.{name}", dimensions, kind))
    for layer in range(layers):
        add(layer, "attn_norm.weight", EMBEDDING, kind=F32)
        if layer in ATTENTION_LAYERS:
            add(layer, "attn_q.weight", EMBEDDING, HEADS * HEAD)
            add(layer, "attn_k.weight", EMBEDDING, KV_HEADS * HEAD)
            add(layer, "attn_v.weight", EMBEDDING, KV_HEADS * HEAD)
            add(layer, "attn_output.weight", HEADS * HEAD, EMBEDDING)
            add(layer, "attn_q_norm.weight", HEAD, kind=F32)
            add(layer, "attn_k_norm.weight", HEAD, kind=F32)
        else:
            add(layer, "shortconv.conv.weight", TAPS, EMBEDDING, kind=F32)
            add(layer, "shortconv.in_proj.weight", EMBEDDING, 3 * EMBEDDING)
            add(layer, "shortconv.out_proj.weight", EMBEDDING, EMBEDDING)
        add(layer, "ffn_norm.weight", EMBEDDING, kind=F32)
        if layer < LEADING_DENSE:
            add(layer, "ffn_gate.weight", EMBEDDING, DENSE)
            add(layer, "ffn_up.weight", EMBEDDING, DENSE)
            add(layer, "ffn_down.weight", DENSE, EMBEDDING)
        else:
            add(layer, "ffn_gate_inp.weight", EMBEDDING, EXPERTS, kind=F32)
            add(layer, "exp_probs_b.bias", EXPERTS, kind=F32)
            add(layer, "ffn_gate_exps.weight", EMBEDDING, EXPERT, EXPERTS)
            add(layer, "ffn_up_exps.weight", EMBEDDING, EXPERT, EXPERTS)
            add(layer, "ffn_down_exps.weight", EXPERT, EMBEDDING, EXPERTS)
    return result


def product(numbers):
    result = 1
    for number in numbers:
        result *= number
    return result


def tensor_bytes(dimensions, kind):
    weights, size = BLOCK[kind]
    return product(dimensions) // weights * size


def random_blocks(source, kind, count):
    """`count` blocks of random codes whose weights have a standard deviation of about 0.02."""
    size = BLOCK[kind][1]
    data = bytearray(source.randbytes(count * size))
    scale_at, scale = {Q4_0: (0, 0.0043), Q6_K: (208, 1.5e-5)}[kind]
    low, high = struct.pack("<e", scale)
    data[scale_at::size] = bytes([low]) * count
    data[scale_at + 1::size] = bytes([high]) * count
    return bytes(data)


class Filler:
    """Makes tensor contents; slabs of one size are drawn once and used again."""

    def __init__(self, seed):
        self.source = random.Random(seed)
        self.slabs = {}

    def pieces(self, name, dimensions, kind):
        if kind == F32:
            count = product(dimensions)
            if name.endswith("norm.weight"):
                yield struct.pack(f"<{count}f", *[1.0] * count)
            else:
                yield struct.pack(f"<{count}f", *(self.source.gauss(0, 0.02) for _ in range(count)))
            return
        blocks = product(dimensions[:2]) // BLOCK[kind][0]
        key = kind, blocks
        if key not in self.slabs:
            self.slabs[key] = [random_blocks(self.source, kind, blocks) for _ in range(SLABS if len(dimensions) == 3 else 1)]
        for _ in range(product(dimensions[2:])):
            yield self.source.choice(self.slabs[key])


def pad(file, position):
    gap = -position % ALIGNMENT
    file.write(b"\0" * gap)
    return gap


def write(path, layers, seed):
    listed = tensors(layers)
    keys = metadata(layers, f"random weights, LFM2-8B-A1B shape, {layers} layers")
    filler, partial = Filler(seed), path.with_name(path.name + ".part")
    with open(partial, "wb", buffering=1 << 20) as file:
        file.write(struct.pack("<4sIQQ", b"GGUF", 3, len(listed), len(keys)))
        file.write(b"".join(keys))
        offset = 0
        for name, dimensions, kind in listed:
            file.write(string(name) + struct.pack(f"<I{len(dimensions)}QIQ", len(dimensions), *dimensions, kind, offset))
            offset += tensor_bytes(dimensions, kind)
            offset += -offset % ALIGNMENT
        pad(file, file.tell())
        done, started = 0, time.monotonic()
        for name, dimensions, kind in listed:
            for piece in filler.pieces(name, dimensions, kind):
                file.write(piece)
                done += len(piece)
            done += pad(file, done)
            if sys.stderr.isatty():
                print(f"\r{100 * done / offset:3.0f} %  {done / 1e6 / (time.monotonic() - started):.0f} MB/s ", end="",
                      file=sys.stderr, flush=True)
        file.flush()
        os.fsync(file.fileno())
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    os.replace(partial, path)
    return path.stat().st_size


def main():
    parser = argparse.ArgumentParser(description="Write a GGUF of LFM2-8B-A1B's shape with random weights.")
    parser.add_argument("output", type=Path)
    parser.add_argument("--layers", type=int, default=LAYERS, help=f"layers, 3 to {LAYERS} (default: all, 4.7 GB)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if not 3 <= options.layers <= LAYERS:
        parser.error(f"--layers must be from 3 to {LAYERS}")
    started = time.monotonic()
    try:
        size = write(options.output, options.layers, options.seed)
    except OSError as error:
        options.output.with_name(options.output.name + ".part").unlink(missing_ok=True)
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{options.output}: {size / 1e9:.2f} GB in {time.monotonic() - started:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
