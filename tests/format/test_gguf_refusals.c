/* Guards every refusal of the GGUF reader: each bad file is built, and the error's kind, words and byte offset are
 * compared. Names of bugs (B01 ...) are those of the project's list of bugs met in other engines. */
#include "format/gguf_exercise.h"
#include "format/gguf_samples.h"

#include "format/orkpack_layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <sys/stat.h>
#include <unistd.h>

/* The offset is not compared. */
#define ANYWHERE INT64_MIN

static void assert_refused(const void *data, size_t size_bytes, ork_status status, const char *words, int64_t offset)
{
    ork_gguf *gguf = (ork_gguf *)&gguf;
    ork_error error = {0};
    /* An exact copy on the heap, so that one byte read too far is seen. */
    void *copy = malloc(size_bytes ? size_bytes : 1);
    if (size_bytes)
        memcpy(copy, data, size_bytes);
    ork_status got = ork_gguf_parse(copy, size_bytes, "dir/bad.gguf", &gguf, &error);
    if (got != status || !strstr(error.what, words))
        fail_msg("wanted %s '%s', got %s '%s'", ork_status_name(status), words, ork_status_name(got), error.what);
    if (offset != ANYWHERE && error.offset != offset)
        fail_msg("'%s': wanted offset %lld, got %lld", error.what, (long long)offset, (long long)error.offset);
    assert_null(gguf);
    assert_int_equal(error.code, status);
    assert_string_equal(error.where, "dir/bad.gguf");
    assert_null(strchr(error.what, '\n'));
    /* The same without anybody to tell. */
    assert_int_equal(ork_gguf_parse(copy, size_bytes, NULL, &gguf, NULL), status);
    free(copy);
}

static void assert_builder_refused(struct gguf_builder *b, ork_status status, const char *words, int64_t offset)
{
    struct ork_buffer file = gguf_builder_finish(b);
    assert_refused(file.data, file.size_bytes, status, words, offset);
    ork_buffer_free(&file);
    gguf_builder_free(b);
    gguf_builder_init(b);
}

/* ---- the first bytes ---- */

static void test_too_short(void **state)
{
    (void)state;
    static const uint8_t header[24] = {'G', 'G', 'U', 'F', 3};
    assert_refused(header, 0, ORK_BAD_FILE, "the file is empty", 0);
    for (size_t size_bytes = 1; size_bytes < 4; size_bytes++)
        assert_refused(header, size_bytes, ORK_BAD_FILE, "too short for a GGUF file", 0);
    for (size_t size_bytes = 4; size_bytes < 8; size_bytes++)
        assert_refused(header, size_bytes, ORK_BAD_FILE, "ends inside the GGUF version", 4);
    for (size_t size_bytes = 8; size_bytes < 24; size_bytes++)
        assert_refused(header, size_bytes, ORK_BAD_FILE, "ends inside the GGUF header", ANYWHERE);
}

#define BYTES(text) text, sizeof text - 1

static void test_other_formats_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size_bytes;
        const char *words;
    } cases[] = {
        {BYTES("\x08\0\0\0\0\0\0\0{\"a\":1} "), "safetensors"},
        {BYTES("PK\x03\x04........"), "zip archive or PyTorch"},
        {BYTES("\x80\x02}q\0........"), "pickle"},
        {BYTES("version https://git-lfs.github.com/spec/v1\noid sha256:0"), "git lfs pull"},
        {BYTES("<!DOCTYPE html><html>"), "web page"},
        {BYTES("<!doctype html><html>"), "web page"},
        {BYTES("<html><head>"), "web page"},
        {BYTES("{\"error\":\"not found\"}"), "JSON"},
        {BYTES("\x7f"
               "ELF\x02\x01\x01"),
         "ELF"},
        {BYTES("\x1f\x8b\x08\0\0\0"), "gzip"},
        {BYTES("\x28\xb5\x2f\xfd....."), "zstd"},
        {BYTES("\xfd"
               "7zXZ\0...."),
         "xz"},
        {BYTES("\x89HDF\r\n\x1a\n"), "HDF5"},
        {BYTES("\x1c\0\0\0TFL3...."), "TensorFlow Lite"},
        {BYTES("RKNN\0\0\0\0"), "RKNN"},
        {BYTES("lmgg\x01\0\0\0"), "before GGUF"},
        {BYTES("fmgg\x01\0\0\0"), "before GGUF"},
        {BYTES("tjgg\x03\0\0\0"), "before GGUF"},
        {BYTES("algg\x01\0\0\0"), "before GGUF"},
        {BYTES("FUGG\0\0\0\x03"), "bytes swapped"},
        {BYTES("\0\0\0\0\0\0\0\0"), "unfinished download"},
        {BYTES("GGUE\x03\0\0\0"), "starts with bytes 47 47 55 45 instead of 'GGUF'"},
        {BYTES("gguf\x03\0\0\0"), "starts with bytes 67 67 75 66"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_refused(cases[i].bytes, cases[i].size_bytes, ORK_BAD_FILE, cases[i].words, 0);
        assert_refused(cases[i].bytes, cases[i].size_bytes, ORK_BAD_FILE, "not a GGUF file", 0);
    }
}

static void test_orkpacks_are_named(void **state)
{
    (void)state;
    uint8_t file[64] = "foreign";
    memcpy(file + sizeof file - sizeof(ORKPACK_FOREIGN_FOOTER), ORKPACK_FOREIGN_FOOTER, sizeof(ORKPACK_FOREIGN_FOOTER));
    assert_refused(file, sizeof file, ORK_BAD_FILE, "an .orkpack of another project", 0);
    memcpy(file, ORKPACK_MAGIC, ORKPACK_MAGIC_BYTES);
    assert_refused(file, sizeof file, ORK_BAD_FILE, "an orkpack, which is packed already", 0);
}

static void test_versions(void **state)
{
    (void)state;
    static const struct {
        uint32_t version;
        ork_status status;
        const char *words;
    } cases[] = {
        {0, ORK_BAD_FILE, "unknown GGUF version 0, supported are versions 2 and 3"},
        {1, ORK_UNSUPPORTED, "GGUF version 1 (32-bit counts) is not supported"},
        {4, ORK_UNSUPPORTED, "unknown GGUF version 4"},
        {UINT32_MAX, ORK_UNSUPPORTED, "unknown GGUF version 4294967295"},
        {0x02000000, ORK_UNSUPPORTED, "big-endian GGUF file (version 2)"},
        {0x03000000, ORK_UNSUPPORTED, "big-endian GGUF file (version 3)"},
    };
    struct gguf_builder b;
    gguf_builder_init(&b);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        b.version = cases[i].version;
        assert_builder_refused(&b, cases[i].status, cases[i].words, 4);
    }
}

/* B06, CVE-2024-23605, CVE-2024-21836: counts are held against the bytes left before memory is asked for. */
static void test_counts(void **state)
{
    (void)state;
    static const uint64_t counts[] = {2, 1000, UINT64_C(1) << 32, UINT64_C(1) << 60, UINT64_C(1) << 63, UINT64_MAX};
    struct gguf_builder b;
    gguf_builder_init(&b);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        b.tensor_count = counts[i];
        assert_builder_refused(&b, ORK_BAD_FILE, "does not fit in the", 8);
        gguf_builder_bool(&b, "k", true);
        b.pair_count = counts[i];
        assert_builder_refused(&b, ORK_BAD_FILE, "metadata pair count", 24);
    }
    /* Fits behind the header, but not any more behind the metadata. */
    gguf_builder_bool(&b, "a.key.of.some.length", true);
    b.tensor_count = 1;
    assert_builder_refused(&b, ORK_BAD_FILE, "tensor count 1 does not fit in the 7 bytes left", 24 + 33);
    /* Enough bytes, but more than anybody needs. */
    gguf_builder_array(&b, "k", ORK_META_U8, 1000000);
    for (int i = 0; i < 1000000; i++)
        ork_buffer_u8(&b.pairs, 0);
    b.pair_count = 65537;
    assert_builder_refused(&b, ORK_BAD_FILE, "metadata pair count 65537 is more than the limit of 65536", 24);
}

/* ---- metadata ---- */

static void test_keys(void **state)
{
    (void)state;
    struct gguf_builder b;
    gguf_builder_init(&b);
    /* B04: the empty key. */
    gguf_builder_raw_pair(&b, "", 0, ORK_META_U8);
    ork_buffer_u16(&b.pairs, 0);
    assert_builder_refused(&b, ORK_BAD_FILE, "metadata pair 1 of 1: the key is empty", 24);
    static const uint8_t bad[] = {0, '\n', 0x1f, 0x7f, 0x80, 0xff};
    for (size_t i = 0; i < sizeof bad; i++) {
        char key[] = "ab?d";
        key[2] = (char)bad[i];
        gguf_builder_raw_pair(&b, key, 4, ORK_META_U8);
        ork_buffer_u8(&b.pairs, 0);
        assert_builder_refused(&b, ORK_BAD_FILE, "in the key is not printable ASCII", 24 + 8 + 2);
    }
    char *key = malloc(65536);
    memset(key, 'k', 65536);
    gguf_builder_raw_pair(&b, key, 65536, ORK_META_U8);
    ork_buffer_u8(&b.pairs, 0);
    assert_builder_refused(&b, ORK_BAD_FILE, "key of 65536 bytes is longer than the limit of 65535", 24);
    free(key);
    gguf_builder_u8(&b, "a", 1);
    gguf_builder_u8(&b, "key", 1);
    gguf_builder_u8(&b, "b", 1);
    gguf_builder_u16(&b, "key", 2);
    assert_builder_refused(&b, ORK_BAD_FILE, "metadata key 'key' stands twice: values at byte 53 and byte 83", 83);
}

/* CVE-2024-23496: lengths that wrap when one is added, or go beyond the file. */
static void test_string_lengths(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {4,         1000, UINT64_C(1) << 30, (UINT64_C(1) << 30) + 1, UINT64_C(1) << 63,
                                       UINT64_MAX};
    struct gguf_builder b;
    gguf_builder_init(&b);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        bool beyond = lengths[i] > UINT64_C(1) << 30;
        gguf_builder_pair(&b, "key", ORK_META_STRING);
        ork_buffer_u64(&b.pairs, lengths[i]);
        ork_buffer_append(&b.pairs, "abc", 3);
        assert_builder_refused(&b, ORK_BAD_FILE,
                               beyond ? "longer than the limit of 1073741824" : "only 3 bytes are left", 24 + 15);
        /* As a key. */
        ork_buffer_u64(&b.pairs, lengths[i] + 65536);
        ork_buffer_u64(&b.pairs, 0);
        b.pair_count = 1;
        assert_builder_refused(&b, ORK_BAD_FILE, "metadata pair 1 of 1: key of", ANYWHERE);
        /* In an array. */
        gguf_builder_array(&b, "key", ORK_META_STRING, 2);
        gguf_builder_raw_string(&b.pairs, "ok", 2);
        ork_buffer_u64(&b.pairs, lengths[i]);
        ork_buffer_append(&b.pairs, "abc", 3);
        assert_builder_refused(&b, ORK_BAD_FILE, "metadata key 'key': string 1 of 2 goes beyond the end of the file",
                               24 + 15 + 12 + 10);
    }
}

/* B06: an unknown type consumed no bytes once, and the loop never ended. */
static void test_types(void **state)
{
    (void)state;
    static const uint32_t types[] = {13, 99, 0x7fffffff, UINT32_MAX};
    struct gguf_builder b;
    gguf_builder_init(&b);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        gguf_builder_pair(&b, "key", types[i]);
        ork_buffer_u64(&b.pairs, 0);
        assert_builder_refused(&b, ORK_BAD_FILE, "metadata key 'key': unknown value type", 24 + 11);
        gguf_builder_array(&b, "key", types[i], 1);
        ork_buffer_u64(&b.pairs, 0);
        assert_builder_refused(&b, ORK_BAD_FILE, "metadata key 'key': unknown array element type", 24 + 15);
    }
    gguf_builder_array(&b, "key", ORK_META_ARRAY, 1);
    ork_buffer_u32(&b.pairs, ORK_META_U8);
    ork_buffer_u64(&b.pairs, 0);
    assert_builder_refused(&b, ORK_UNSUPPORTED, "metadata key 'key': arrays of arrays are not supported", 24 + 15);
}

/* CVE-2024-21825: count times size, in 64 bits, is small. */
static void test_array_counts(void **state)
{
    (void)state;
    static const struct {
        uint32_t type;
        uint64_t count;
        const char *words;
    } cases[] = {
        {ORK_META_U8, 9, "array of 9 u8 values cannot fit in the 8 bytes left"},
        {ORK_META_F64, 2, "array of 2 f64 values cannot fit in the 8 bytes left"},
        {ORK_META_U16, UINT64_C(1) << 30, "cannot fit in the 8 bytes left"},
        {ORK_META_U64, (UINT64_C(1) << 30) + 1, "longer than the limit of 1073741824"},
        {ORK_META_U64, UINT64_C(1) << 61, "longer than the limit"},
        {ORK_META_U32, (UINT64_C(1) << 62) + 1, "longer than the limit"},
        {ORK_META_BOOL, UINT64_MAX, "longer than the limit"},
        {ORK_META_STRING, 2, "array of 2 strings cannot fit in the 8 bytes left"},
        {ORK_META_STRING, UINT64_C(1) << 30, "strings cannot fit in the 8 bytes left"},
        {ORK_META_STRING, UINT64_C(1) << 61, "longer than the limit"},
    };
    struct gguf_builder b;
    gguf_builder_init(&b);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gguf_builder_array(&b, "key", cases[i].type, cases[i].count);
        ork_buffer_u64(&b.pairs, 0);
        assert_builder_refused(&b, ORK_BAD_FILE, cases[i].words, ANYWHERE);
    }
}

static void test_metadata_cut_off(void **state)
{
    (void)state;
    struct gguf_builder b;
    gguf_builder_init(&b);
    /* Long enough in front for the count to be possible. */
    gguf_builder_string(&b, "first", "a string of some length");
    gguf_builder_raw_string(&b.pairs, "second", 6);
    b.pair_count++;
    assert_builder_refused(&b, ORK_BAD_FILE, "metadata key 'second': the file ends inside the value type", ANYWHERE);
    gguf_builder_string(&b, "first", "a string of some length");
    gguf_builder_pair(&b, "second", ORK_META_U64);
    ork_buffer_u32(&b.pairs, 0);
    assert_builder_refused(&b, ORK_BAD_FILE, "metadata key 'second': the file ends inside the value", ANYWHERE);
    gguf_builder_string(&b, "first", "a string of some length");
    gguf_builder_pair(&b, "second", ORK_META_ARRAY);
    ork_buffer_u32(&b.pairs, ORK_META_U8);
    assert_builder_refused(&b, ORK_BAD_FILE, "metadata key 'second': the file ends inside an array header", ANYWHERE);
    gguf_builder_string(&b, "first", "a string of some length");
    ork_buffer_u32(&b.pairs, 5);
    b.pair_count++;
    assert_builder_refused(&b, ORK_BAD_FILE, "metadata pair 2 of 2: the file ends inside key", ANYWHERE);
}

/* B01. */
static void test_alignments(void **state)
{
    (void)state;
    static const struct {
        uint32_t alignment;
        const char *words;
    } cases[] = {{0, "nearest: 8"},
                 {1, "nearest: 8"},
                 {3, "nearest: 8"},
                 {4, "nearest: 8"},
                 {24, "nearest: 16"},
                 {33, "nearest: 32"},
                 {65, "nearest: 64"},
                 {1u << 22, "nearest: 2097152"},
                 {1u << 31, "nearest: 2097152"},
                 {UINT32_MAX, "nearest: 2097152"}};
    struct gguf_builder b;
    gguf_builder_init(&b);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gguf_builder_u32(&b, "general.alignment", cases[i].alignment);
        assert_builder_refused(&b, ORK_BAD_FILE, cases[i].words, 24 + 29);
        gguf_builder_u32(&b, "general.alignment", cases[i].alignment);
        assert_builder_refused(&b, ORK_BAD_FILE, "bad alignment", 24 + 29);
    }
    gguf_builder_string(&b, "general.alignment", "32");
    assert_builder_refused(&b, ORK_BAD_FILE, "'general.alignment' has type string, it must be u32", ANYWHERE);
    gguf_builder_u64(&b, "general.alignment", 32);
    assert_builder_refused(&b, ORK_BAD_FILE, "'general.alignment' has type u64, it must be u32", 24 + 29);
    gguf_builder_i32(&b, "general.alignment", 32);
    assert_builder_refused(&b, ORK_BAD_FILE, "'general.alignment' has type i32, it must be u32", 24 + 29);
    gguf_builder_u32_array(&b, "general.alignment", (uint32_t[]){32}, 1);
    assert_builder_refused(&b, ORK_BAD_FILE, "'general.alignment' has type array, it must be u32", ANYWHERE);
}

/* ---- tensor descriptions ---- */

static const uint64_t one_block[4] = {32, 1, 1, 1};

static void test_tensor_names(void **state)
{
    (void)state;
    struct gguf_builder b;
    char name[65];
    memset(name, 'n', sizeof name);
    gguf_builder_init(&b);
    gguf_builder_raw_tensor(&b, "", 0, ORK_GGML_F32, 1, one_block, 0);
    ork_buffer_u64(&b.data, 0);
    assert_builder_refused(&b, ORK_BAD_FILE, "tensor 1 of 1 has an empty name", 24);
    gguf_builder_raw_tensor(&b, name, 64, ORK_GGML_F32, 1, one_block, 0);
    assert_builder_refused(&b, ORK_BAD_FILE, "name of tensor 1 of 1 has 64 bytes, the limit is 63", 24);
    gguf_builder_raw_tensor(&b, "bad\0name", 8, ORK_GGML_F32, 1, one_block, 0);
    assert_builder_refused(&b, ORK_BAD_FILE, "byte 0x00 in the name of tensor 1 of 1", 24 + 8 + 3);
    gguf_builder_raw_tensor(&b, "bad\x1b[1m", 7, ORK_GGML_F32, 1, one_block, 0);
    assert_builder_refused(&b, ORK_BAD_FILE, "byte 0x1b in the name of tensor 1 of 1", 24 + 8 + 3);
    static const uint64_t lengths[] = {64, UINT64_C(1) << 31, UINT64_C(1) << 63, UINT64_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        ork_buffer_u64(&b.tensors, lengths[i]);
        ork_buffer_append(&b.tensors, name, 40);
        b.tensor_count = 1;
        assert_builder_refused(&b, ORK_BAD_FILE, "the limit is 63", 24);
    }
    ork_buffer_u64(&b.tensors, 41);
    ork_buffer_append(&b.tensors, name, 20);
    b.tensor_count = 1;
    assert_builder_refused(&b, ORK_BAD_FILE, "ends inside the name of tensor 1 of 1", 24);
    /* B09: one would silently win. */
    gguf_builder_tensor(&b, "same", ORK_GGML_I8, 1, one_block, NULL, 32);
    gguf_builder_tensor(&b, "other", ORK_GGML_I8, 1, one_block, NULL, 32);
    gguf_builder_tensor(&b, "same", ORK_GGML_I8, 1, one_block, NULL, 32);
    assert_builder_refused(&b, ORK_BAD_FILE,
                           "tensor 'same' stands twice: data at byte 160 of part 1 and at byte 224 of part 1", 224);
}

/* B05: the number of dimensions writes past no array. B01: zero. CVE-2024-21802: products that wrap. */
static void test_dimensions(void **state)
{
    (void)state;
    static const struct {
        uint32_t count;
        uint64_t dimensions[9];
        const char *words;
        int64_t offset; /* behind the name of one byte */
    } cases[] = {
        {5, {1, 1, 1, 1, 1}, "tensor 't' has 5 dimensions, the limit is 4", 0},
        {9, {1, 1, 1, 1, 1, 1, 1, 1, 1}, "tensor 't' has 9 dimensions", 0},
        {1, {0}, "tensor 't': bad dimension 0: 0", 4},
        {4, {32, 1, 1, 0}, "tensor 't': bad dimension 3: 0", 28},
        {2, {32, UINT64_MAX}, "tensor 't': bad dimension 1: -1", 12},
        {1, {UINT64_C(1) << 63}, "tensor 't': bad dimension 0: -9223372036854775808", 4},
        {2, {UINT64_C(1) << 32, UINT64_C(1) << 32}, "product of its dimensions is too large", 12},
        {2, {UINT64_C(1) << 32, UINT64_C(1) << 31}, "product of its dimensions is too large", 12},
        {3, {INT64_MAX, 1, 2}, "product of its dimensions is too large", 20},
        {4, {UINT64_C(1) << 40, 1, UINT64_C(1) << 40, 1}, "product of its dimensions is too large", 20},
    };
    struct gguf_builder b;
    gguf_builder_init(&b);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gguf_builder_raw_tensor(&b, "t", 1, ORK_GGML_F32, cases[i].count, cases[i].dimensions, 0);
        assert_builder_refused(&b, ORK_BAD_FILE, cases[i].words, 24 + 9 + cases[i].offset);
    }
    gguf_builder_raw_string(&b.tensors, "t", 1);
    ork_buffer_u32(&b.tensors, UINT32_MAX);
    for (int i = 0; i < 8; i++)
        ork_buffer_u64(&b.tensors, 1);
    b.tensor_count = 1;
    assert_builder_refused(&b, ORK_BAD_FILE, "tensor 't' has 4294967295 dimensions", 24 + 9);
}

/* B02, CVE-2025-53630, CVE-2026-33298: sizes near 2^64 that a pad turns into small numbers. */
static void test_tensor_sizes(void **state)
{
    (void)state;
    static const struct {
        uint32_t type;
        uint64_t dimensions[2];
        const char *words;
    } cases[] = {
        {ORK_GGML_F32, {(UINT64_C(1) << 62) - 1, 1}, "size of 4611686018427387903 F32 elements is too large"},
        {ORK_GGML_F32, {UINT64_C(1) << 61, 1}, "is too large"},
        {ORK_GGML_F64, {UINT64_C(1) << 61, 1}, "is too large"},
        {ORK_GGML_I64, {INT64_MAX, 1}, "is too large"},
        {ORK_GGML_F32, {(UINT64_C(1) << 61) - 1, 1}, "cut off"},
        {ORK_GGML_I8, {INT64_MAX, 1}, "too large"},
        {ORK_GGML_Q4_0, {UINT64_C(1) << 62, 1}, "cut off"},
        {ORK_GGML_Q8_0, {UINT64_C(1) << 40, UINT64_C(1) << 22}, "cut off"},
    };
    struct gguf_builder b;
    gguf_builder_init(&b);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gguf_builder_raw_tensor(&b, "t", 1, cases[i].type, 2, cases[i].dimensions, 0);
        struct ork_buffer file = gguf_builder_finish(&b);
        ork_error error = {0};
        ork_gguf *gguf = NULL;
        assert_int_equal(ork_gguf_parse(file.data, file.size_bytes, "", &gguf, &error), ORK_BAD_FILE);
        assert_null(gguf);
        if (!strstr(error.what, cases[i].words) && !strstr(error.what, "cut off"))
            fail_msg("wanted '%s', got '%s'", cases[i].words, error.what);
        ork_buffer_free(&file);
        gguf_builder_free(&b);
        gguf_builder_init(&b);
    }
}

/* Negative, removed, internal and unknown type ids; rows that end inside of a block. */
static void test_tensor_types(void **state)
{
    (void)state;
    static const struct {
        uint32_t type;
        ork_status status;
        const char *words;
    } cases[] = {
        {4, ORK_UNSUPPORTED, "type 4 (Q4_2) was removed from GGUF; nearest type: Q4_0"},
        {5, ORK_UNSUPPORTED, "type 5 (Q4_3) was removed"},
        {9, ORK_BAD_FILE, "type 9 (Q8_1) is an activation format and never stands in files; nearest type: Q8_0"},
        {15, ORK_BAD_FILE, "type 15 (Q8_K) is an activation format"},
        {31, ORK_UNSUPPORTED, "type 31 (Q4_0_4_4) was removed"},
        {32, ORK_UNSUPPORTED, "type 32 (Q4_0_4_8) was removed"},
        {33, ORK_UNSUPPORTED, "type 33 (Q4_0_8_8) was removed"},
        {36, ORK_UNSUPPORTED, "type 36 (IQ4_NL_4_4) was removed from GGUF; nearest type: IQ4_NL"},
        {37, ORK_UNSUPPORTED, "type 37 (IQ4_NL_4_8) was removed"},
        {38, ORK_UNSUPPORTED, "type 38 (IQ4_NL_8_8) was removed"},
        {43, ORK_UNSUPPORTED, "type 43 is unknown (known: 0 to 42"},
        {137, ORK_UNSUPPORTED, "type 137 is unknown"},
        {INT32_MAX, ORK_UNSUPPORTED, "type 2147483647 is unknown"},
        {UINT32_C(1) << 31, ORK_BAD_FILE, "type -2147483648 is negative"},
        {UINT32_MAX, ORK_BAD_FILE, "type -1 is negative"},
    };
    struct gguf_builder b;
    gguf_builder_init(&b);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gguf_builder_raw_tensor(&b, "t", 1, cases[i].type, 1, one_block, 0);
        assert_builder_refused(&b, cases[i].status, cases[i].words, 24 + 9 + 12);
    }
    for (uint32_t type = 0; type < 43; type++) {
        const struct ork_ggml_type_info *info = ork_ggml_type_find(type);
        if (!info || info->block_length == 1)
            continue;
        uint64_t dimensions[2] = {info->block_length + info->block_length / 2, 2};
        gguf_builder_raw_tensor(&b, "t", 1, type, 2, dimensions, 0);
        assert_builder_refused(&b, ORK_BAD_FILE, "no multiple of the", 24 + 9 + 20);
        gguf_builder_raw_tensor(&b, "t", 1, type, 0, NULL, 0);
        assert_builder_refused(&b, ORK_BAD_FILE, "dimension 0 is 1, no multiple of the", 24 + 9 + 4);
    }
}

/* B06, CVE-2026-7482: no tensor reaches beyond the file, by whichever arithmetic. */
static void test_tensor_ranges(void **state)
{
    (void)state;
    static const uint64_t unaligned[] = {1, 16, 31, 33, UINT64_MAX};
    static const uint64_t outside[] = {
        32, 64, UINT64_C(1) << 32, UINT64_C(1) << 63, UINT64_MAX - 31, UINT64_MAX - 95, UINT64_MAX - 127};
    struct gguf_builder b;
    gguf_builder_init(&b);
    for (size_t i = 0; i < sizeof unaligned / sizeof unaligned[0]; i++) {
        gguf_builder_raw_tensor(&b, "t", 1, ORK_GGML_I8, 1, one_block, unaligned[i]);
        gguf_builder_pad(&b.data, 32);
        assert_builder_refused(&b, ORK_BAD_FILE, "is no multiple of the alignment 32", 24 + 9 + 16);
    }
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        gguf_builder_raw_tensor(&b, "t", 1, ORK_GGML_I8, 1, one_block, outside[i]);
        for (int j = 0; j < 32; j++)
            ork_buffer_u8(&b.data, 0);
        assert_builder_refused(&b, ORK_BAD_FILE, "tensor 't'", ANYWHERE);
    }
    /* One byte short, and nothing at all behind the descriptions. */
    gguf_builder_tensor(&b, "t", ORK_GGML_F32, 1, (uint64_t[]){5}, NULL, 19);
    assert_builder_refused(&b, ORK_BAD_FILE, "tensor 't' needs bytes 64 to 84, but the file ends at 83", 64);
    gguf_builder_tensor(&b, "t", ORK_GGML_F32, 1, (uint64_t[]){5}, NULL, 0);
    assert_builder_refused(&b, ORK_BAD_FILE, "cut off, or a download not finished", 64);
}

static void test_overlaps(void **state)
{
    (void)state;
    static const uint64_t offsets[][3] = {{0, 0, 128}, {0, 32, 128}, {128, 0, 32}, {64, 128, 96}};
    struct gguf_builder b;
    gguf_builder_init(&b);
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        static const uint64_t dimension = 64;
        gguf_builder_raw_tensor(&b, "a", 1, ORK_GGML_I8, 1, &dimension, offsets[i][0]);
        gguf_builder_raw_tensor(&b, "b", 1, ORK_GGML_I8, 1, &dimension, offsets[i][1]);
        gguf_builder_raw_tensor(&b, "c", 1, ORK_GGML_I8, 1, &dimension, offsets[i][2]);
        for (int j = 0; j < 256; j++)
            ork_buffer_u8(&b.data, 0);
        assert_builder_refused(&b, ORK_BAD_FILE, "overlap", ANYWHERE);
    }
}

static void test_split_part_in_memory(void **state)
{
    (void)state;
    struct gguf_builder b;
    gguf_builder_init(&b);
    gguf_builder_split(&b, 0, 2, 0);
    assert_builder_refused(&b, ORK_UNSUPPORTED, "part 1 of 2 of a split model; split models can only be opened by path",
                           -1);
}

/* ---- paths ---- */

static void assert_path_refused(const char *path, ork_status status, const char *words)
{
    ork_gguf *gguf = NULL;
    ork_error error = {0};
    ork_status got = ork_gguf_open(path, &gguf, &error);
    if (got != status || !strstr(error.what, words))
        fail_msg("%s: wanted %s '%s', got %s '%s'", path, ork_status_name(status), words, ork_status_name(got),
                 error.what);
    assert_null(gguf);
    assert_string_equal(error.where, path);
    assert_int_equal(ork_gguf_open(path, &gguf, NULL), status);
}

/* B11: the system's reason, never "bad magic". */
static void test_b11_paths(void **state)
{
    (void)state;
    char directory[] = "/tmp/ork-gguf-XXXXXX", path[64];
    assert_non_null(mkdtemp(directory));
    assert_path_refused(directory, ORK_BAD_FILE, "is a directory");
    assert_path_refused("/dev/null", ORK_BAD_FILE, "is a character device");
    snprintf(path, sizeof path, "%s/missing.gguf", directory);
    assert_path_refused(path, ORK_NOT_FOUND, "No such file");
    snprintf(path, sizeof path, "%s/fifo.gguf", directory);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_path_refused(path, ORK_BAD_FILE, "is a FIFO");
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof path, "%s/short.gguf", directory);
    assert_true(gguf_builder_write_bytes(path, "", 0));
    assert_path_refused(path, ORK_BAD_FILE, "the file is empty");
    assert_true(gguf_builder_write_bytes(path, "GGU", 3));
    assert_path_refused(path, ORK_BAD_FILE, "the file has 3 bytes, too short");
    /* root may read everything. */
    if (geteuid() != 0) {
        assert_int_equal(chmod(path, 0), 0);
        assert_path_refused(path, ORK_IO, "Permission denied");
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(directory), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_too_short),
        cmocka_unit_test(test_other_formats_are_named),
        cmocka_unit_test(test_orkpacks_are_named),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_string_lengths),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_array_counts),
        cmocka_unit_test(test_metadata_cut_off),
        cmocka_unit_test(test_alignments),
        cmocka_unit_test(test_tensor_names),
        cmocka_unit_test(test_dimensions),
        cmocka_unit_test(test_tensor_sizes),
        cmocka_unit_test(test_tensor_types),
        cmocka_unit_test(test_tensor_ranges),
        cmocka_unit_test(test_overlaps),
        cmocka_unit_test(test_split_part_in_memory),
        cmocka_unit_test(test_b11_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
