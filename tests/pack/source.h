/* A small GGUF with one tensor of every role, for tests of packing. Shapes are awkward on purpose: no multiples of 32 where
 * the source type allows it. */
#ifndef ORK_TESTS_PACK_SOURCE_H
#define ORK_TESTS_PACK_SOURCE_H

#include "format/gguf_builder.h"

#include "base/mathematics.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

struct source_place {
    char directory[64], gguf[96], pack[96], partial[112], journal[112], imatrix[96];
};

static inline void source_open_place(struct source_place *place)
{
    strcpy(place->directory, "/tmp/ork-test-XXXXXX");
    if (mkdtemp(place->directory) == NULL)
        abort();
    snprintf(place->gguf, sizeof place->gguf, "%s/source.gguf", place->directory);
    snprintf(place->pack, sizeof place->pack, "%s/model.orkpack", place->directory);
    snprintf(place->partial, sizeof place->partial, "%s.partial", place->pack);
    snprintf(place->journal, sizeof place->journal, "%s.journal", place->pack);
    snprintf(place->imatrix, sizeof place->imatrix, "%s/imatrix", place->directory);
}

/* False when something is left that no test put there. */
static inline bool source_close_place(struct source_place *place)
{
    unlink(place->gguf);
    unlink(place->pack);
    unlink(place->partial);
    unlink(place->journal);
    unlink(place->imatrix);
    return rmdir(place->directory) == 0;
}

static inline bool source_is_there(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0;
}

/* Deterministic, in -1..1, different for every tensor. */
static inline float source_value(uint64_t seed, uint64_t i)
{
    uint64_t x = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15) + i * UINT64_C(0xd1342543de82ef95);
    x ^= x >> 29;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 32;
    return (float)((double)(x >> 11) / 4503599627370496.0 - 1.0);
}

static inline void source_add(struct gguf_builder *b, const char *name, uint32_t type, uint32_t dimension_count,
                              uint64_t k, uint64_t n, uint64_t experts)
{
    const uint64_t dimensions[3] = {k, n, experts};
    uint64_t count = k * n * experts;
    struct ork_buffer data = {0};
    for (uint64_t i = 0; i < count; i++) {
        float value = source_value(b->tensor_count, i);
        if (type == ORK_GGML_F32)
            ork_buffer_f32(&data, value);
        else
            ork_buffer_u16(&data, type == ORK_GGML_BF16 ? ork_f32_to_bf16(value) : ork_f32_to_f16(value));
    }
    gguf_builder_tensor(b, name, type, dimension_count, dimensions, data.data, data.size_bytes);
    ork_buffer_free(&data);
}

enum { SOURCE_TENSORS = 14, SOURCE_SKIPPED = 2, SOURCE_K = 72, SOURCE_EXPERTS = 3 };

/* Architecture "llama", two blocks, and two tensors of a next-token predictor. */
static inline void source_fill(struct gguf_builder *b)
{
    gguf_builder_init(b);
    gguf_builder_string(b, "general.architecture", "llama");
    gguf_builder_string(b, "general.name", "Source");
    gguf_builder_alignment(b, 64);
    gguf_builder_u32(b, "llama.block_count", 2);
    gguf_builder_u32(b, "llama.context_length", 512);
    gguf_builder_u32(b, "llama.embedding_length", SOURCE_K);
    gguf_builder_u32_array(b, "llama.attention.head_count_kv", (uint32_t[]){2, 6}, 2);
    gguf_builder_u32(b, "llama.attention.head_count", 9);
    gguf_builder_u32(b, "llama.expert_count", SOURCE_EXPERTS);
    gguf_builder_u32(b, "llama.expert_used_count", 2);
    gguf_builder_strings(b, "tokenizer.ggml.tokens", (const char *const[]){"a", "b", "c"}, 3);
    gguf_builder_u16(b, "split.no", 0);
    gguf_builder_u16(b, "split.count", 1);
    gguf_builder_i32(b, "split.tensors.count", SOURCE_TENSORS);
    source_add(b, "token_embd.weight", ORK_GGML_F16, 2, SOURCE_K, 50, 1);
    source_add(b, "rope_freqs.weight", ORK_GGML_F32, 1, 4, 1, 1);
    source_add(b, "blk.0.attn_norm.weight", ORK_GGML_F32, 1, SOURCE_K, 1, 1);
    source_add(b, "blk.0.attn_q.weight", ORK_GGML_F16, 2, SOURCE_K, 70, 1);
    source_add(b, "blk.0.attn_q.bias", ORK_GGML_F32, 1, 70, 1, 1);
    source_add(b, "blk.0.shortconv.conv.weight", ORK_GGML_F32, 2, 3, SOURCE_K, 1);
    source_add(b, "blk.0.ffn_gate_inp.weight", ORK_GGML_F32, 2, SOURCE_K, SOURCE_EXPERTS, 1);
    source_add(b, "blk.0.exp_probs_b.bias", ORK_GGML_F32, 1, SOURCE_EXPERTS, 1, 1);
    source_add(b, "blk.0.ffn_up_exps.weight", ORK_GGML_F16, 3, SOURCE_K, 100, SOURCE_EXPERTS);
    source_add(b, "blk.1.ffn_down.weight", ORK_GGML_BF16, 2, 100, SOURCE_K, 1);
    source_add(b, "output_norm.weight", ORK_GGML_F32, 1, SOURCE_K, 1, 1);
    source_add(b, "output.weight", ORK_GGML_F16, 2, SOURCE_K, 50, 1);
    source_add(b, "blk.1.nextn.eh_proj.weight", ORK_GGML_F16, 2, 2 * SOURCE_K, SOURCE_K, 1);
    source_add(b, "blk.2.attn_q.weight", ORK_GGML_F16, 2, SOURCE_K, 70, 1);
}

static inline void source_write(const struct source_place *place)
{
    struct gguf_builder b;
    source_fill(&b);
    if (!gguf_builder_write(&b, place->gguf))
        abort();
    gguf_builder_free(&b);
}

#endif
