/* Runs the tokenizer over random and mutated input: texts (random bytes, mutations of multilingual text) and tokenizer
 * metadata (mutations of small valid files). Guards against crashes, out-of-bounds access and endless work, best under
 * ASan and UBSan, and that BPE gives every well-formed text back.
 *
 * usage: fuzz_text [SEED [ROUNDS]]      what the test suite runs, with fixed numbers
 *        fuzz_text --text FILE...       replays one input each: an encoder text
 *        fuzz_text --meta FILE...       replays one input each: the metadata part of a GGUF file */
#include "text/support.h"

#include "text/chat.h"
#include "text/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char multilingual[] =
    "It's the 1st of 12345 things; they'll say: \"don't!\"\r\n\r\n\tПривет, мир! Ещё раз 今天天气很好，我们去公园。"
    "こんにちは नमस्ते दुनिया été ǅ ﬁ İ ſ \xf0\x9f\x98\x80\xf0\x9f\x91\xa8\xe2\x80\x8d\xf0\x9f\x91\xa9 <|im_start|>user\n"
    "<|im_end|> \xc2\x85\xe2\x80\xa8\xe1\xa0\x8e   \n  x\xcc\x81 ½ Ⅷ ٣ <0x0A> \xe2\x96\x81 $+<=>^~| //\n";

static const char *const merges[] = {
    "a b", "\xc4\xa0 t", "h e", "\xc4\xa0t he", "\xc3\x90 \xc2\xbf", "\xc4\xa0 \xc4\xa0", "i m", "| >"};
static const char *const specials[] = {"<|im_start|>", "<|im_end|>", "<|", "<|im"};
enum { MERGES = sizeof merges / sizeof merges[0], SPECIALS = sizeof specials / sizeof specials[0] };

static void die(const char *what)
{
    fprintf(stderr, "fuzz_text: %s\n", what);
    abort();
}

/* ---- metadata of valid files ---- */

static void put_bpe(struct test_meta *meta, const char *pre)
{
    test_meta_small_bpe(meta, pre, merges, MERGES, specials, SPECIALS);
    test_meta_u32(meta, "tokenizer.ggml.bos_token_id", 256 + MERGES);
    test_meta_bool(meta, "tokenizer.ggml.add_bos_token", true);
    test_meta_string(meta, "tokenizer.chat_template", "<|im_start|> bos_token List of tools: </think> last_user_index");
}

static void put_spm(struct test_meta *meta)
{
    static const char *const words[] = {"<unk>", "<s>", "</s>", "\xe2\x96\x81", "\xe2\x96\x81the", "th",
                                        "he",    "the", "ab"};
    enum { WORDS = sizeof words / sizeof words[0], SIZE = WORDS + 256 };
    test_meta_string(meta, "tokenizer.ggml.model", "llama");
    test_meta_array(meta, "tokenizer.ggml.tokens", ORK_META_STRING, SIZE);
    for (unsigned i = 0; i < SIZE; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", (i - WORDS) & 0xff);
        const char *text = i < WORDS ? words[i] : name;
        ork_buffer_u64(&meta->bytes, strlen(text));
        ork_buffer_append(&meta->bytes, text, strlen(text));
    }
    test_meta_array(meta, "tokenizer.ggml.scores", ORK_META_F32, SIZE);
    for (unsigned i = 0; i < SIZE; i++)
        ork_buffer_f32(&meta->bytes, -(float)(i % 7));
    test_meta_array(meta, "tokenizer.ggml.token_type", ORK_META_I32, SIZE);
    for (unsigned i = 0; i < SIZE; i++)
        ork_buffer_u32(&meta->bytes, i == 0 ? 2 : i < 3 ? 3 : i < WORDS ? 1 : 6);
}

/* NULL when the metadata is refused. */
static ork_tokenizer *load(const uint8_t *bytes, size_t size_bytes, uint64_t count)
{
    struct ork_cursor cursor = ork_cursor_make(bytes, size_bytes);
    ork_error error = {0};
    ork_meta *meta;
    ork_tokenizer *tokenizer = NULL;
    if (ork_meta_parse(&cursor, count, "fuzz", &meta, &error) != ORK_OK)
        return NULL;
    if (ork_tokenizer_create(meta, &tokenizer, &error) != ORK_OK && (tokenizer || !error.what[0]))
        die("a refusal without a message, or with a tokenizer");
    ork_meta_free(meta);
    return tokenizer;
}

/* ---- texts ---- */

/* Encodes, decodes and compares. whole: the vocabulary has all bytes, so that nothing may get lost. */
static void run_text(const ork_tokenizer *tokenizer, const uint8_t *text, size_t size_bytes, unsigned flags, bool whole)
{
    struct ork_token_list list = {0};
    ork_error error = {0};
    char *back;
    size_t back_bytes;
    if (ork_tokenizer_encode(tokenizer, (const char *)text, size_bytes, flags, &list, &error) != ORK_OK)
        die(error.what);
    for (size_t i = 0; i < list.count; i++)
        if (list.tokens[i] < 0 || (uint32_t)list.tokens[i] >= ork_tokenizer_vocabulary_size(tokenizer))
            die("a token outside the vocabulary");
    bool special = flags & ORK_TOKENIZE_PARSE_SPECIAL;
    if (ork_tokenizer_detokenize(tokenizer, list.tokens, list.count, special, &back, &back_bytes, &error) != ORK_OK)
        die(error.what);
    bool valid = ork_utf8_valid_prefix(text, size_bytes) == size_bytes;
    if (whole && valid && (back_bytes != size_bytes || memcmp(back, text, size_bytes) != 0 || list.dropped_bytes))
        die("a text did not come back");
    free(back);
    ork_token_list_free(&list);
}

static size_t make_text(uint64_t *random, uint8_t *text, size_t capacity)
{
    size_t size_bytes = test_random(random) % capacity, kind = test_random(random) % 4;
    if (kind == 0) {
        for (size_t i = 0; i < size_bytes; i++)
            text[i] = (uint8_t)test_random(random);
        return size_bytes;
    }
    /* Slices of the sample, at the bytes of characters for kinds 1 and 2; kind 3 then has bytes changed. */
    size_t used = 0;
    while (used < size_bytes) {
        size_t at = test_random(random) % (sizeof multilingual - 1), length = test_random(random) % 24;
        while (kind < 3 && at && ((uint8_t)multilingual[at] & 0xc0) == 0x80)
            at--;
        for (; length-- && multilingual[at] && used < size_bytes; at++)
            text[used++] = (uint8_t)multilingual[at];
        while (kind < 3 && ((uint8_t)multilingual[at] & 0xc0) == 0x80 && used < size_bytes)
            text[used++] = (uint8_t)multilingual[at++];
    }
    if (kind < 3)
        return ork_utf8_valid_prefix(text, used);
    for (int i = 0; used && i < 3; i++)
        text[test_random(random) % used] ^= (uint8_t)(1u << test_random(random) % 8);
    return used;
}

static void fuzz_texts(uint64_t *random, unsigned rounds)
{
    static const char *const names[] = {"default", "gpt-2",  "llama-bpe", "qwen2",
                                        "qwen35",  "smollm", "gpt-4o",    "tekken"};
    enum { CAPACITY = 400 };
    for (size_t n = 0; n <= sizeof names / sizeof names[0]; n++) {
        bool spm = n == sizeof names / sizeof names[0];
        struct test_meta meta = {0};
        if (spm)
            put_spm(&meta);
        else
            put_bpe(&meta, names[n]);
        ork_tokenizer *tokenizer = load(meta.bytes.data, meta.bytes.size_bytes, meta.count);
        if (!tokenizer)
            die("a valid tokenizer was refused");
        for (unsigned i = 0; i < rounds; i++) {
            uint8_t text[CAPACITY];
            size_t size_bytes = make_text(random, text, CAPACITY);
            run_text(tokenizer, text, size_bytes, i % 2 ? ORK_TOKENIZE_PARSE_SPECIAL : 0, !spm);
        }
        ork_tokenizer_destroy(tokenizer);
        test_meta_free(&meta);
    }
}

/* ---- metadata ---- */

/* Uses what was accepted in every way. */
static void run_tokenizer(const ork_tokenizer *tokenizer)
{
    const ork_chat_message messages[] = {{"system", "s"}, {"user", "<|im_end|>"}, {"assistant", "<think>a</think>b"}};
    ork_error error = {0};
    ork_token *tokens;
    size_t count, size_bytes;
    char *text;
    for (ork_token t = -1; (int64_t)t <= (int64_t)ork_tokenizer_vocabulary_size(tokenizer); t++) {
        const char *piece = ork_tokenizer_piece(tokenizer, t, &size_bytes);
        volatile char sum = 0;
        for (size_t i = 0; piece && i < size_bytes; i++)
            sum = (char)(sum + piece[i]);
        (void)ork_tokenizer_is_end(tokenizer, t);
    }
    for (unsigned flags = 0; flags < 4; flags++)
        run_text(tokenizer, (const uint8_t *)multilingual, sizeof multilingual - 1, flags, false);
    for (const char *const *name = ork_chat_template_names(); *name; name++)
        if (ork_tokenizer_chat_tokenize(tokenizer, *name, messages, 3, true, &tokens, &count, &text, &error) ==
            ORK_OK) {
            free(tokens);
            free(text);
        }
}

static void mutate(uint64_t *random, struct ork_buffer *bytes)
{
    for (unsigned i = 1 + test_random(random) % 4; i > 0; i--) {
        size_t at = test_random(random) % bytes->size_bytes;
        static const uint8_t values[] = {0, 1, 3, 4, 6, 9, 0x20, 0x7f, 0x80, 0xff};
        switch (test_random(random) % 4) {
        case 0:
            bytes->data[at] ^= (uint8_t)(1u << test_random(random) % 8);
            break;
        case 1:
            bytes->data[at] = values[test_random(random) % sizeof values];
            break;
        case 2: /* swap two runs of four, which may be lengths, types or ids */
            for (size_t k = 0, other = test_random(random) % bytes->size_bytes;
                 k < 4 && at + k < bytes->size_bytes && other + k < bytes->size_bytes; k++) {
                uint8_t swap = bytes->data[at + k];
                bytes->data[at + k] = bytes->data[other + k];
                bytes->data[other + k] = swap;
            }
            break;
        default:
            if (test_random(random) % 8 == 0 && at > 64)
                bytes->size_bytes = at;
        }
    }
}

static unsigned fuzz_metadata(uint64_t *random, unsigned rounds)
{
    unsigned accepted = 0;
    for (unsigned i = 0; i < rounds; i++) {
        struct test_meta meta = {0};
        if (i % 2)
            put_spm(&meta);
        else
            put_bpe(&meta, "llama-bpe");
        mutate(random, &meta.bytes);
        ork_tokenizer *tokenizer = load(meta.bytes.data, meta.bytes.size_bytes, meta.count);
        if (tokenizer) {
            run_tokenizer(tokenizer);
            accepted++;
        }
        ork_tokenizer_destroy(tokenizer);
        test_meta_free(&meta);
    }
    return accepted;
}

/* ---- replay ---- */

static void replay_text(const uint8_t *bytes, size_t size_bytes)
{
    struct test_meta meta = {0};
    put_bpe(&meta, "llama-bpe");
    ork_tokenizer *tokenizer = load(meta.bytes.data, meta.bytes.size_bytes, meta.count);
    run_text(tokenizer, bytes, size_bytes, 0, true);
    run_text(tokenizer, bytes, size_bytes, ORK_TOKENIZE_PARSE_SPECIAL, true);
    ork_tokenizer_destroy(tokenizer);
    test_meta_free(&meta);
}

static int replay(char **paths, bool is_meta)
{
    for (; *paths; paths++) {
        size_t size_bytes;
        char *bytes = test_read_file(*paths, &size_bytes);
        if (!bytes) {
            fprintf(stderr, "fuzz_text: cannot read %s\n", *paths);
            return 1;
        }
        if (!is_meta) {
            replay_text((const uint8_t *)bytes, size_bytes);
        } else {
            /* As many pairs as the bytes hold; the file has no head that would say. */
            for (uint64_t count = 1; count <= 64; count++) {
                ork_tokenizer *tokenizer = load((const uint8_t *)bytes, size_bytes, count);
                if (tokenizer)
                    run_tokenizer(tokenizer);
                ork_tokenizer_destroy(tokenizer);
            }
        }
        free(bytes);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 2 && (strcmp(argv[1], "--text") == 0 || strcmp(argv[1], "--meta") == 0))
        return replay(argv + 2, strcmp(argv[1], "--meta") == 0);
    uint64_t random = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    unsigned rounds = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 0) : 1000;
    fuzz_texts(&random, rounds);
    unsigned accepted = fuzz_metadata(&random, rounds);
    printf("%u texts for each tokenizer, %u files of which %u were accepted\n", rounds, rounds, accepted);
    return 0;
}
