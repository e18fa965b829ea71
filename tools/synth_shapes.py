"""Shapes of real models for tools/synth_gguf.py: which tensors they have, of which type each is, and their metadata.

Owns: the shapes, llama-quantize's choice of types, and the dummy vocabulary. Must not know: block contents and files.
Sources: the models' published configurations, the tensor and key names of llama.cpp's architectures, and what its
llama-quantize writes (b11434): outputs in Q6_K, Q6_K for some layers' ffn_down and attn_v in Q4_K_M, Q5_K in IQ4_NL, and
smaller blocks where a row is no multiple of 256.
"""

import dataclasses
import struct

from synth_blocks import TYPES

U32, I32, FLOAT, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
NORMAL, CONTROL = 1, 3
SPECIAL = ["<|pad|>", "<|startoftext|>", "<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TAPS = 3
# What takes the place of a type whose blocks of 256 do not divide a row.
SMALLER = {"Q2_K": "Q4_0", "Q3_K": "Q4_0", "Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"}


@dataclasses.dataclass(frozen=True)
class Shape:
    about: str
    architecture: str
    width: int
    layers: int
    heads: int
    kv_heads: int
    head: int
    feed_forward: int
    vocabulary: int
    base: float
    epsilon: float
    tokenizer: str
    attention_layers: tuple = ()  # of models with short convolutions; the others have attention in every layer
    experts: int = 0
    experts_used: int = 0
    expert_width: int = 0
    leading_dense: int = 0
    sigmoid: bool = False
    tied: bool = True

    def has_attention(self, layer):
        return not self.attention_layers or layer in self.attention_layers

    def layers_min(self):
        """So many layers that one of every kind is there."""
        return max(self.leading_dense, min(self.attention_layers, default=0)) + 1

    def group(self):
        """Query heads for one head of keys, as llama-quantize sees it: it asks the first layer."""
        return self.heads // self.kv_heads if self.has_attention(0) else 0


SHAPES = {
    "lfm2-8b-a1b": Shape("LFM2-8B-A1B", "lfm2moe", 2048, 24, 32, 8, 64, 7168, 65536, 1e6, 1e-5, "lfm2",
                         (2, 6, 10, 14, 18, 21), 32, 4, 1792, 2, True),
    "qwen3-30b-a3b": Shape("Qwen3-30B-A3B", "qwen3moe", 2048, 48, 32, 4, 128, 6144, 151936, 1e6, 1e-6, "qwen2",
                           (), 128, 8, 768, tied=False),
    # LFM2-8B-A1B's experts with attention in every layer, in an architecture that ik_llama.cpp has.
    "lfm2q": Shape("LFM2-8B-A1B's experts in a Qwen3 graph", "qwen3moe", 2048, 24, 32, 8, 64, 7168, 65536, 1e6, 1e-6,
                   "qwen2", (), 32, 4, 1792),
    "lfm2-350m": Shape("LFM2-350M", "lfm2", 1024, 16, 16, 8, 64, 4608, 65536, 1e6, 1e-5, "lfm2", (2, 5, 8, 10, 12, 14)),
    "smollm2-135m": Shape("SmolLM2-135M", "llama", 576, 30, 9, 3, 64, 1536, 49152, 1e5, 1e-5, "smollm"),
}
# The mixes of llama-quantize by their usual names, and one type for all matrices.
PLANS = {"q4_k_m": "Q4_K", **{name.lower(): name for name in TYPES}}


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


def vocabulary(size):
    """(tokens, merges): special tokens, bytes, then pairs of bytes and a byte behind a pair until the vocabulary is full."""
    letters = byte_alphabet()
    room = size - len(SPECIAL) - len(letters)
    pairs = [(a, b) for a in letters for b in letters][:room]
    pairs += [(a + b, c) for a, b in pairs[:(room - len(pairs)) // 256 + 1] for c in letters][:room - len(pairs)]
    return SPECIAL + letters + [a + b for a, b in pairs], [f"{a} {b}" for a, b in pairs]


def expert_keys(shape, prefix):
    keys = [entry(prefix + "expert_count", U32, shape.experts), entry(prefix + "expert_used_count", U32, shape.experts_used),
            entry(prefix + "expert_feed_forward_length", U32, shape.expert_width)]
    if shape.sigmoid:
        keys.append(entry(prefix + "expert_gating_func", U32, 2))
    if shape.leading_dense:
        keys.append(entry(prefix + "leading_dense_block_count", U32, shape.leading_dense))
    return keys


def metadata(shape, layers, plan):
    tokens, merges = vocabulary(shape.vocabulary)
    prefix = shape.architecture + "."
    heads = [shape.kv_heads if shape.has_attention(layer) else 0 for layer in range(layers)]
    return [
        entry("general.architecture", STRING, shape.architecture), entry("general.type", STRING, "model"),
        entry("general.name", STRING, f"random weights in the shape of {shape.about}, {layers} layers"),
        entry("general.file_type", U32, TYPES[PLANS[plan]].file_type), entry("general.quantization_version", U32, 2),
        entry(prefix + "block_count", U32, layers), entry(prefix + "context_length", U32, 32768),
        entry(prefix + "embedding_length", U32, shape.width), entry(prefix + "feed_forward_length", U32, shape.feed_forward),
        entry(prefix + "attention.head_count", U32, shape.heads),
        entry(prefix + "attention.head_count_kv", ARRAY, heads, I32) if 0 in heads
        else entry(prefix + "attention.head_count_kv", U32, shape.kv_heads),
        entry(prefix + "attention.layer_norm_rms_epsilon", FLOAT, shape.epsilon),
        entry(prefix + "rope.freq_base", FLOAT, shape.base), entry(prefix + "vocab_size", U32, shape.vocabulary),
        *([entry(prefix + "rope.dimension_count", U32, shape.head)] if shape.architecture == "llama" else []),
        *([entry(prefix + "attention.key_length", U32, shape.head), entry(prefix + "attention.value_length", U32, shape.head)]
          if shape.architecture == "qwen3moe" else []),
        *([entry(prefix + "shortconv.l_cache", U32, TAPS)] if shape.attention_layers else []),
        *(expert_keys(shape, prefix) if shape.experts else []),
        entry("tokenizer.ggml.model", STRING, "gpt2"), entry("tokenizer.ggml.pre", STRING, shape.tokenizer),
        entry("tokenizer.ggml.tokens", ARRAY, tokens, STRING),
        entry("tokenizer.ggml.token_type", ARRAY, [CONTROL if i < len(SPECIAL) else NORMAL for i in range(len(tokens))], I32),
        entry("tokenizer.ggml.merges", ARRAY, merges, STRING),
        entry("tokenizer.ggml.bos_token_id", U32, 1), entry("tokenizer.ggml.eos_token_id", U32, 4),
        entry("tokenizer.ggml.padding_token_id", U32, 0), entry("tokenizer.ggml.add_bos_token", BOOL, True),
    ]


def more_bits(index, count):
    """The layers whose ffn_down and attn_v llama-quantize gives more bits: the first and last eighth, a third of the others."""
    return index < count // 8 or index >= 7 * count // 8 or (index - count // 8) % 3 == 2


def matrix_type(shape, layers, plan, name, layer, row):
    """The type of a matrix; `layer` is None for embedding and output."""
    kind = PLANS[plan]
    if layer is None and (name == "output.weight" or shape.tied) and kind not in ("F32", "F16", "BF16", "Q8_0"):
        kind = "Q6_K"
    elif plan == "q4_k_m" and name.startswith("ffn_down") and more_bits(layer, layers):
        kind = "Q6_K"
    elif plan == "q4_k_m" and name == "attn_v.weight":
        with_attention = [index for index in range(layers) if shape.has_attention(index)]
        if more_bits(with_attention.index(layer), len(with_attention)):
            kind = "Q6_K"
    elif plan == "iq4_nl" and ((name.startswith("ffn_down") and layer < layers // 8) or
                               (name == "attn_v.weight" and shape.group() >= 4)):
        kind = "Q5_K"
    return kind if row % TYPES[kind].weights == 0 else SMALLER[kind]


def block_tensors(shape, layer):
    """(name, dimensions with the contiguous one first, whether it stays F32) of one layer."""
    width, wide = shape.width, shape.heads * shape.head
    yield "attn_norm.weight", (width,), True
    if shape.has_attention(layer):
        yield "attn_q.weight", (width, wide), False
        yield "attn_k.weight", (width, shape.kv_heads * shape.head), False
        yield "attn_v.weight", (width, shape.kv_heads * shape.head), False
        yield "attn_output.weight", (wide, width), False
        if shape.architecture != "llama":
            yield "attn_q_norm.weight", (shape.head,), True
            yield "attn_k_norm.weight", (shape.head,), True
    else:
        yield "shortconv.conv.weight", (TAPS, width), True
        yield "shortconv.in_proj.weight", (width, 3 * width), False
        yield "shortconv.out_proj.weight", (width, width), False
    yield "ffn_norm.weight", (width,), True
    if shape.experts and layer >= shape.leading_dense:
        yield "ffn_gate_inp.weight", (width, shape.experts), True
        if shape.sigmoid:
            yield "exp_probs_b.bias", (shape.experts,), True
        yield "ffn_gate_exps.weight", (width, shape.expert_width, shape.experts), False
        yield "ffn_up_exps.weight", (width, shape.expert_width, shape.experts), False
        yield "ffn_down_exps.weight", (shape.expert_width, width, shape.experts), False
    else:
        yield "ffn_gate.weight", (width, shape.feed_forward), False
        yield "ffn_up.weight", (width, shape.feed_forward), False
        yield "ffn_down.weight", (shape.feed_forward, width), False


def tensors(shape, layers, plan):
    """(name, dimensions with the contiguous one first, type), in file order."""
    def typed(name, layer, dimensions):
        return matrix_type(shape, layers, plan, name, layer, dimensions[0])
    matrix = (shape.width, shape.vocabulary)
    result = [("token_embd.weight", matrix, typed("token_embd.weight", None, matrix))]
    result.append(("token_embd_norm.weight" if shape.attention_layers else "output_norm.weight", (shape.width,), "F32"))
    if not shape.tied:
        result.append(("output.weight", matrix, typed("output.weight", None, matrix)))
    for layer in range(layers):
        for name, dimensions, plain in block_tensors(shape, layer):
            result.append((f"blk.{layer}.{name}", dimensions, "F32" if plain else typed(name, layer, dimensions)))
    return result
