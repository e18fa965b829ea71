/* Owns the lists of marker texts; must not know templates. The texts are facts from llama.cpp's vocabulary loader
 * (models.md 5.6), the frames of turns those of the chat families in chat.c. */
#include "text/markers.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const char *const end_texts[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
};

/* Of these the first one there is the end of a turn, where the file names none. */
static const char *const turn_end_texts[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>",         "<|endoftext|>",      "<|end_of_text|>",
    "<EOT>",      "_<EOT>",     "[EOT]",   "<｜end▁of▁sentence｜>", "<end_of_utterance>",
};

/* Parts of a fill-in-the-middle prompt. The first one there counts, unless the file names another. */
static const char *const fim_prefix_texts[] = {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>",    "<｜fim▁begin｜>",
                                               "<PRE>",          "▁<PRE>",       "<|code_prefix|>", "<|prefix|>"};
static const char *const fim_suffix_texts[] = {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>",    "<｜fim▁hole｜>",
                                               "<SUF>",          "▁<SUF>",       "<|code_suffix|>", "<|suffix|>"};
static const char *const fim_middle_texts[] = {"<|fim_middle|>", "<fim-middle>", "<fim_middle>",    "<｜fim▁end｜>",
                                               "<MID>",          "▁<MID>",       "<|code_middle|>", "<|middle|>"};
static const char *const fim_pad_texts[] = {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"};
static const char *const fim_repository_texts[] = {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>",
                                                   "<reponame>"};
static const char *const fim_file_texts[] = {"<|file_sep|>"};

static const struct {
    const char *key;
    const char *const *texts;
    size_t count;
    bool ends; /* a model that writes it has finished */
} named[] = {
    {"tokenizer.ggml.eom_token_id", (const char *const[]){"<|eom_id|>"}, 1, true},
    {"tokenizer.ggml.fim_pre_token_id", fim_prefix_texts, COUNT(fim_prefix_texts), false},
    {"tokenizer.ggml.fim_suf_token_id", fim_suffix_texts, COUNT(fim_suffix_texts), false},
    {"tokenizer.ggml.fim_mid_token_id", fim_middle_texts, COUNT(fim_middle_texts), false},
    {"tokenizer.ggml.fim_pad_token_id", fim_pad_texts, COUNT(fim_pad_texts), true},
    {"tokenizer.ggml.fim_rep_token_id", fim_repository_texts, COUNT(fim_repository_texts), true},
    {"tokenizer.ggml.fim_sep_token_id", fim_file_texts, COUNT(fim_file_texts), true},
};

/* What begins or frames a turn; llama.cpp trusts the file's type for these. */
static const char *const frame_texts[] = {"<|im_start|>", "<|start_header_id|>", "<|end_header_id|>",
                                          "<|begin_of_text|>", "<|startoftext|>"};

static ork_token find_first(const struct ork_vocabulary *vocabulary, const char *const *texts, size_t count)
{
    ork_token token = -1;
    for (size_t i = 0; i < count && token < 0; i++)
        token = ork_vocabulary_find_string(vocabulary, texts[i]);
    return token;
}

/* In gpt-oss and Solar, <|end|> ends a message and not the generation; they are known by their other end tokens. */
static void unmark_message_end(struct ork_vocabulary *vocabulary)
{
    bool has_return = ork_vocabulary_find_string(vocabulary, "<|return|>") >= 0;
    bool has_flush = ork_vocabulary_find_string(vocabulary, "<|flush|>") >= 0;
    bool has_call = ork_vocabulary_find_string(vocabulary, "<|call|>") >= 0 ||
                    ork_vocabulary_find_string(vocabulary, "<|calls|>") >= 0;
    ork_token end = ork_vocabulary_find_string(vocabulary, "<|end|>");
    if (end >= 0 && has_call && (has_return || has_flush))
        vocabulary->ends[end] = 0;
}

ork_status ork_vocabulary_mark(struct ork_vocabulary *vocabulary, const ork_meta *meta, ork_error *error)
{
    for (size_t i = 0; i < COUNT(named); i++) {
        uint32_t id = UINT32_MAX;
        ork_status status = ork_meta_u32(meta, named[i].key, false, &id, error);
        if (status != ORK_OK)
            return status;
        ork_token token = (ork_token)id;
        if (id >= vocabulary->size) {
            token = find_first(vocabulary, named[i].texts, named[i].count);
            if (token >= 0)
                vocabulary->types[token] = ORK_TOKEN_CONTROL;
        }
        if (token >= 0 && named[i].ends)
            vocabulary->ends[token] = 1;
    }
    for (size_t i = 0; i < COUNT(end_texts); i++) {
        ork_token token = ork_vocabulary_find_string(vocabulary, end_texts[i]);
        if (token >= 0) {
            vocabulary->ends[token] = 1;
            vocabulary->types[token] = ORK_TOKEN_CONTROL;
        }
    }
    for (size_t i = 0; i < COUNT(frame_texts); i++) {
        ork_token token = ork_vocabulary_find_string(vocabulary, frame_texts[i]);
        if (token >= 0)
            vocabulary->types[token] = ORK_TOKEN_CONTROL;
    }
    if (vocabulary->eot < 0)
        vocabulary->eot = find_first(vocabulary, turn_end_texts, COUNT(turn_end_texts));
    if (vocabulary->eos >= 0)
        vocabulary->ends[vocabulary->eos] = 1;
    if (vocabulary->eot >= 0)
        vocabulary->ends[vocabulary->eot] = 1;
    unmark_message_end(vocabulary);
    return ORK_OK;
}
