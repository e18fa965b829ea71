/* Owns building metadata and reading vectors for the tests; must not know what is tested. */
#include "text/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- metadata made in memory ---- */

static void put_string(struct ork_buffer *bytes, const void *text, size_t size_bytes)
{
    ork_buffer_u64(bytes, size_bytes);
    ork_buffer_append(bytes, text, size_bytes);
}

static void put_key(struct test_meta *meta, const char *key, enum ork_meta_type type)
{
    put_string(&meta->bytes, key, strlen(key));
    ork_buffer_u32(&meta->bytes, type);
    meta->count++;
}

void test_meta_bytes(struct test_meta *meta, const char *key, const void *value, size_t size_bytes)
{
    put_key(meta, key, ORK_META_STRING);
    put_string(&meta->bytes, value, size_bytes);
}

void test_meta_string(struct test_meta *meta, const char *key, const char *value)
{
    test_meta_bytes(meta, key, value, strlen(value));
}

void test_meta_u32(struct test_meta *meta, const char *key, uint32_t value)
{
    put_key(meta, key, ORK_META_U32);
    ork_buffer_u32(&meta->bytes, value);
}

void test_meta_bool(struct test_meta *meta, const char *key, bool value)
{
    put_key(meta, key, ORK_META_BOOL);
    ork_buffer_u8(&meta->bytes, value);
}

void test_meta_array(struct test_meta *meta, const char *key, enum ork_meta_type type, uint64_t count)
{
    put_key(meta, key, ORK_META_ARRAY);
    ork_buffer_u32(&meta->bytes, type);
    ork_buffer_u64(&meta->bytes, count);
}

void test_meta_strings(struct test_meta *meta, const char *key, const char *const *values, size_t count)
{
    test_meta_array(meta, key, ORK_META_STRING, count);
    for (size_t i = 0; i < count; i++)
        put_string(&meta->bytes, values[i], strlen(values[i]));
}

const ork_meta *test_meta_finish(struct test_meta *meta)
{
    ork_error error = {0};
    struct ork_cursor cursor = ork_cursor_make(meta->bytes.data, meta->bytes.size_bytes);
    if (ork_meta_parse(&cursor, meta->count, "test", &meta->meta, &error) != ORK_OK)
        fail_msg("metadata of the test itself: %s", error.what);
    return meta->meta;
}

void test_meta_free(struct test_meta *meta)
{
    ork_meta_free(meta->meta);
    ork_buffer_free(&meta->bytes);
    *meta = (struct test_meta){0};
}

ork_tokenizer *test_meta_tokenizer(struct test_meta *meta)
{
    ork_error error = {0};
    ork_tokenizer *tokenizer;
    if (ork_tokenizer_create(test_meta_finish(meta), &tokenizer, &error) != ORK_OK)
        fail_msg("%s: %s", error.where, error.what);
    test_meta_free(meta);
    return tokenizer;
}

void test_meta_refused(struct test_meta *meta, ork_status status, const char *word)
{
    ork_error error = {0};
    ork_tokenizer *tokenizer;
    ork_status found = ork_tokenizer_create(test_meta_finish(meta), &tokenizer, &error);
    if (found != status || tokenizer || (!strstr(error.what, word) && !strstr(error.where, word)))
        fail_msg("%s instead of %s, where '%s', what '%s' (wanted: %s)", ork_status_name(found),
                 ork_status_name(status), error.where, error.what, word);
    test_meta_free(meta);
}

/* UTF-8 of the byte alphabet, written down a second time: bytes that print in Latin-1 stand for themselves, the others
 * follow from U+0100. */
static size_t alphabet_character(unsigned byte, char out[3])
{
    unsigned c = byte, others = 0;
    for (unsigned b = 0; b <= byte; b++) {
        bool own = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
        if (b == byte && !own)
            c = 256 + others;
        others += !own;
    }
    if (c < 128) {
        out[0] = (char)c;
        out[1] = 0;
        return 1;
    }
    out[0] = (char)(0xc0 + c / 64);
    out[1] = (char)(0x80 + c % 64);
    out[2] = 0;
    return 2;
}

void test_meta_small_bpe(struct test_meta *meta, const char *pre, const char *const *merges, size_t merge_count,
                         const char *const *specials, size_t special_count)
{
    test_meta_string(meta, "tokenizer.ggml.model", "gpt2");
    if (pre)
        test_meta_string(meta, "tokenizer.ggml.pre", pre);
    test_meta_array(meta, "tokenizer.ggml.tokens", ORK_META_STRING, 256 + merge_count + special_count);
    for (unsigned b = 0; b < 256; b++) {
        char character[3];
        size_t length = alphabet_character(b, character);
        put_string(&meta->bytes, character, length);
    }
    for (size_t i = 0; i < merge_count; i++) {
        const char *space = strchr(merges[i] + 1, ' ');
        char joined[256];
        int length = snprintf(joined, sizeof joined, "%.*s%s", (int)(space - merges[i]), merges[i], space + 1);
        put_string(&meta->bytes, joined, (size_t)length);
    }
    for (size_t i = 0; i < special_count; i++)
        put_string(&meta->bytes, specials[i], strlen(specials[i]));
    test_meta_array(meta, "tokenizer.ggml.token_type", ORK_META_I32, 256 + merge_count + special_count);
    for (size_t i = 0; i < 256 + merge_count + special_count; i++)
        ork_buffer_u32(&meta->bytes, i < 256 + merge_count ? 1 : 3);
    test_meta_strings(meta, "tokenizer.ggml.merges", merges, merge_count);
}

/* ---- files ---- */

char *test_read_file(const char *path, size_t *size_bytes)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long size = ftell(file);
    assert_true(size >= 0);
    rewind(file);
    char *data = malloc((size_t)size + 1);
    assert_non_null(data);
    *size_bytes = fread(data, 1, (size_t)size, file);
    assert_int_equal(*size_bytes, size);
    data[size] = 0;
    fclose(file);
    return data;
}

void test_model_path(char *path, size_t capacity, const char *name)
{
    const char *root = getenv("ORK_CACHE_DIR"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (root && *root)
        snprintf(path, capacity, "%s/models/%s", root, name);
    else if (cache && *cache)
        snprintf(path, capacity, "%s/ork/models/%s", cache, name);
    else
        snprintf(path, capacity, "%s/.cache/ork/models/%s", home ? home : ".", name);
}

ork_tokenizer *test_gguf_tokenizer(const char *path)
{
    enum { HEAD_BYTES_MAX = 32 * 1024 * 1024 };
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    uint8_t *data = malloc(HEAD_BYTES_MAX);
    assert_non_null(data);
    size_t size_bytes = fread(data, 1, HEAD_BYTES_MAX, file);
    fclose(file);
    struct ork_cursor cursor = ork_cursor_make(data, size_bytes);
    uint32_t magic = 0, version = 0;
    uint64_t tensor_count = 0, pair_count = 0;
    ork_cursor_u32(&cursor, &magic);
    ork_cursor_u32(&cursor, &version);
    ork_cursor_u64(&cursor, &tensor_count);
    ork_cursor_u64(&cursor, &pair_count);
    assert_int_equal(magic, 0x46554747);
    ork_error error = {0};
    ork_meta *meta;
    ork_tokenizer *tokenizer = NULL;
    if (ork_meta_parse(&cursor, pair_count, path, &meta, &error) != ORK_OK ||
        ork_tokenizer_create(meta, &tokenizer, &error) != ORK_OK)
        fail_msg("%s: %s: %s", path, error.where, error.what);
    ork_meta_free(meta);
    free(data);
    return tokenizer;
}

json_t *test_json(const char *relative_path)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", ORK_SOURCE_DIR, relative_path);
    json_error_t error;
    json_t *json = json_load_file(path, JSON_ALLOW_NUL, &error);
    if (!json)
        fail_msg("%s: %s (line %d)", path, error.text, error.line);
    return json;
}

/* ---- values ---- */

static char *decode_base64(const char *text, size_t *size_bytes)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *out = malloc(strlen(text) + 1);
    assert_non_null(out);
    unsigned bits = 0, held = 0;
    *size_bytes = 0;
    for (; *text && *text != '='; text++) {
        const char *digit = strchr(alphabet, *text);
        assert_non_null(digit);
        bits = bits << 6 | (unsigned)(digit - alphabet);
        held += 6;
        if (held >= 8) {
            held -= 8;
            out[(*size_bytes)++] = (char)(bits >> held & 0xff);
        }
    }
    out[*size_bytes] = 0;
    return out;
}

char *test_json_bytes(const json_t *entry, const char *text_key, const char *base64_key, size_t *size_bytes)
{
    const json_t *text = json_object_get(entry, text_key);
    if (!json_is_string(text)) {
        const char *coded = json_string_value(json_object_get(entry, base64_key));
        assert_non_null(coded);
        return decode_base64(coded, size_bytes);
    }
    *size_bytes = json_string_length(text);
    char *out = malloc(*size_bytes + 1);
    assert_non_null(out);
    memcpy(out, json_string_value(text), *size_bytes);
    out[*size_bytes] = 0;
    return out;
}

bool test_tokens_equal(const struct ork_token_list *list, const json_t *expected, const char *name)
{
    size_t count = json_array_size(expected);
    bool equal = count == list->count;
    for (size_t i = 0; equal && i < count; i++)
        equal = json_integer_value(json_array_get(expected, i)) == list->tokens[i];
    if (equal)
        return true;
    print_error("%s: expected", name);
    for (size_t i = 0; i < count && i < 40; i++)
        print_error(" %d", (int)json_integer_value(json_array_get(expected, i)));
    print_error("\n%s: found   ", name);
    for (size_t i = 0; i < list->count && i < 40; i++)
        print_error(" %d", list->tokens[i]);
    print_error("\n");
    return false;
}

/* FIPS 180-4. */
static void sha256_block(uint32_t state[8], const uint8_t *block)
{
    static const uint32_t k[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
        0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
        0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
        0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
        0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
        0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
        0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
    uint32_t w[64], v[8];
#define ROTATE(x, n) ((x) >> (n) | (x) << (32 - (n)))
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    for (int i = 16; i < 64; i++)
        w[i] = w[i - 16] + w[i - 7] + (ROTATE(w[i - 15], 7) ^ ROTATE(w[i - 15], 18) ^ w[i - 15] >> 3) +
               (ROTATE(w[i - 2], 17) ^ ROTATE(w[i - 2], 19) ^ w[i - 2] >> 10);
    memcpy(v, state, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t s1 = ROTATE(v[4], 6) ^ ROTATE(v[4], 11) ^ ROTATE(v[4], 25);
        uint32_t t1 = v[7] + s1 + ((v[4] & v[5]) ^ (~v[4] & v[6])) + k[i] + w[i];
        uint32_t s0 = ROTATE(v[0], 2) ^ ROTATE(v[0], 13) ^ ROTATE(v[0], 22);
        uint32_t t2 = s0 + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof v[0]);
        v[4] += t1;
        v[0] = t1 + t2;
    }
#undef ROTATE
    for (int i = 0; i < 8; i++)
        state[i] += v[i];
}

void test_sha256(const void *data, size_t size_bytes, char out[65])
{
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    uint8_t tail[128] = {0};
    size_t whole = size_bytes / 64 * 64, rest = size_bytes - whole, tail_bytes = rest < 56 ? 64 : 128;
    for (size_t i = 0; i < whole; i += 64)
        sha256_block(state, (const uint8_t *)data + i);
    memcpy(tail, (const uint8_t *)data + whole, rest);
    tail[rest] = 0x80;
    for (int i = 0; i < 8; i++)
        tail[tail_bytes - 1 - i] = (uint8_t)((uint64_t)size_bytes * 8 >> 8 * i);
    for (size_t i = 0; i < tail_bytes; i += 64)
        sha256_block(state, tail + i);
    for (int i = 0; i < 8; i++)
        snprintf(out + 8 * i, 9, "%08x", state[i]);
}

uint64_t test_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}
