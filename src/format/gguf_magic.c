/* Owns telling a GGUF file from others by its first bytes, so that a wrong file is named and not only refused. Must not
 * know GGUF beyond its magic. */
#include "format/gguf_parts.h"
#include "format/orkpack.h"

#include <string.h>

#define MAGIC(text) text, sizeof text - 1

/* Advice follows the name after a semicolon. Sources: the formats' own specifications. */
static const struct {
    uint32_t offset;
    const char *bytes;
    size_t size_bytes;
    const char *name;
} formats[] = {
    {0, MAGIC("FUGG"), "a GGUF file with its bytes swapped"},
    {0, MAGIC("lmgg"), "a GGML file from before GGUF; convert it"},
    {0, MAGIC("fmgg"), "a GGMF file from before GGUF; convert it"},
    {0, MAGIC("tjgg"), "a GGJT file from before GGUF; convert it"},
    {0, MAGIC("algg"), "a GGLA adapter from before GGUF"},
    {0, MAGIC("version https://git-lfs"), "a Git LFS pointer; fetch the file itself with 'git lfs pull'"},
    {0, MAGIC("<!DOCTYPE"), "a web page; the download did not give the file"},
    {0, MAGIC("<!doctype"), "a web page; the download did not give the file"},
    {0, MAGIC("<html"), "a web page; the download did not give the file"},
    {0, MAGIC("PK\x03\x04"), "a zip archive or PyTorch checkpoint; convert it to GGUF"},
    {0, MAGIC("\x80\x02"), "a Python pickle or PyTorch checkpoint; convert it to GGUF"},
    {0, MAGIC("\x89HDF"), "an HDF5 file; convert it to GGUF"},
    {0, MAGIC("\x1f\x8b"), "a gzip archive; unpack it"},
    {0, MAGIC("\x28\xb5\x2f\xfd"), "a zstd archive; unpack it"},
    {0,
     MAGIC("\xfd"
           "7zXZ"),
     "an xz archive; unpack it"},
    {0,
     MAGIC("\x7f"
           "ELF"),
     "an ELF program or library"},
    {4, MAGIC("TFL3"), "a TensorFlow Lite model"},
    {0, MAGIC("RKNN"), "an RKNN model"},
    {0, MAGIC("{"), "a JSON text"},
};

/* A safetensors file: u64 length of a JSON header, then the header, which starts with a brace. */
static bool is_safetensors(const uint8_t *data, uint64_t size_bytes)
{
    struct ork_cursor cursor = ork_cursor_make(data, size_bytes);
    uint64_t header_bytes;
    uint8_t first;
    return ork_cursor_u64(&cursor, &header_bytes) && header_bytes >= 2 && header_bytes <= ork_cursor_left(&cursor) &&
           ork_cursor_u8(&cursor, &first) && first == '{';
}

static const char *recognise(const uint8_t *data, uint64_t size_bytes)
{
    bool foreign = false;
    if (ork_orkpack_recognise(data, size_bytes, &foreign))
        return "an orkpack, which is packed already";
    if (foreign)
        return "an .orkpack of another project";
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (size_bytes >= formats[i].offset + formats[i].size_bytes &&
            memcmp(data + formats[i].offset, formats[i].bytes, formats[i].size_bytes) == 0)
            return formats[i].name;
    if (is_safetensors(data, size_bytes))
        return "a safetensors file; convert it to GGUF";
    static const uint8_t zeros[4];
    if (memcmp(data, zeros, sizeof zeros) == 0)
        return "empty so far: zeros, as an unfinished download has";
    return NULL;
}

ork_status ork_gguf_check_magic(const void *data, uint64_t size_bytes, const char *path, ork_error *error)
{
    static const char magic[4] = {'G', 'G', 'U', 'F'};
    const uint8_t *bytes = data;
    if (size_bytes == 0)
        return ork_error_set(error, ORK_BAD_FILE, path, 0, "the file is empty, not a GGUF file");
    if (size_bytes < sizeof magic)
        return ork_error_set(error, ORK_BAD_FILE, path, 0, "the file has %llu bytes, too short for a GGUF file",
                             (unsigned long long)size_bytes);
    if (memcmp(bytes, magic, sizeof magic) == 0)
        return ORK_OK;
    const char *name = recognise(bytes, size_bytes);
    if (name)
        return ork_error_set(error, ORK_BAD_FILE, path, 0, "not a GGUF file: it looks like %s", name);
    return ork_error_set(error, ORK_BAD_FILE, path, 0,
                         "not a GGUF file: it starts with bytes %02x %02x %02x %02x instead of 'GGUF'", bytes[0],
                         bytes[1], bytes[2], bytes[3]);
}
