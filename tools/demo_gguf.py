"""Writes the demo model as GGUF, architecture `lfm2moe`, and reads its weights back.

Owns: keys, tensor types and file size limit. Must not know: training.
The keys and tensor names are those that llama.cpp reads for LFM2-8B-A1B.
"""

import json
import os

import gguf
import numpy as np

import demo_text

SIZE_LIMIT_BYTES = 24_000_000


def tensor_is_f32(name, array):
    """Norms, router, selection bias and convolution taps stay F32; matrices become F16."""
    return array.ndim == 1 or "ffn_gate_inp" in name or "shortconv.conv" in name


def as_exported(parameters):
    """The values that the file holds, as f32."""
    return {
        name: array if tensor_is_f32(name, array) else np.asarray(array).astype(np.float16).astype(np.float32)
        for name, array in parameters.items()
    }


def write(path, parameters, tokenizer, config):
    """Write atomically; returns the size in bytes."""
    temporary = path + ".part"
    writer = gguf.GGUFWriter(temporary, "lfm2moe")
    writer.add_type("model")
    writer.add_name("ork demo LFM2-MoE")
    writer.add_description(
        "A small mixture of experts trained from scratch on Shakespeare and the King James Bible; "
        "a test and demonstration model of ork."
    )
    writer.add_license("mit")
    writer.add_languages(["en"])
    writer.add_size_label(f"{sum(a.size for a in parameters.values()) / 1e6:.0f}M")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)

    writer.add_block_count(len(config.layers))
    writer.add_context_length(config.context)
    writer.add_embedding_length(config.embedding)
    writer.add_feed_forward_length(config.dense_width)
    writer.add_head_count(config.heads)
    writer.add_head_count_kv([config.kv_heads if kind == "a" else 0 for kind in config.layers])
    writer.add_layer_norm_rms_eps(config.norm_epsilon)
    writer.add_rope_freq_base(config.rope_base)
    writer.add_vocab_size(config.vocabulary)
    writer.add_shortconv_l_cache(config.conv_taps)
    writer.add_leading_dense_block_count(config.leading_dense)
    writer.add_expert_count(config.experts)
    writer.add_expert_used_count(config.experts_used)
    writer.add_expert_feed_forward_length(config.expert_width)
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)

    bpe = json.loads(tokenizer.to_str())["model"]
    tokens = sorted(bpe["vocab"], key=bpe["vocab"].get)
    special = set(demo_text.SPECIAL_TOKENS)
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in bpe["merges"]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("lfm2")
    writer.add_token_list(tokens)
    writer.add_token_types([
        gguf.TokenType.CONTROL if token in special else gguf.TokenType.NORMAL for token in tokens
    ])
    writer.add_token_merges(merges)
    writer.add_bos_token_id(demo_text.BOS)
    writer.add_eos_token_id(demo_text.EOS)
    writer.add_pad_token_id(demo_text.PAD)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)

    for name, array in parameters.items():
        array = np.asarray(array)
        writer.add_tensor(name, array.astype(np.float32 if tensor_is_f32(name, array) else np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    size = os.path.getsize(temporary)
    if size > SIZE_LIMIT_BYTES:
        os.remove(temporary)
        raise SystemExit(f"train_demo: the GGUF would take {size} bytes, more than {SIZE_LIMIT_BYTES}")
    os.replace(temporary, path)
    return size


def read_parameters(path):
    """Return {name: f32 array} from a file that `write` made."""
    return {
        tensor.name: np.asarray(tensor.data).astype(np.float32) for tensor in gguf.GGUFReader(path).tensors
    }
