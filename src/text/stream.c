/* Owns turning tokens back into text: control tokens left out, SPM's leading space, and no output that ends inside a
 * UTF-8 sequence. Must not know how text became tokens. */
#include "base/error.h"
#include "text/internal.h"
#include "text/utf8.h"

#include <stdlib.h>

struct ork_text_stream {
    const ork_tokenizer *tokenizer;
    bool special;
    bool strip_space; /* still to be done: nothing has come out yet */
    /* The text of the last call, then `cut_bytes` bytes of a sequence that is not complete. */
    struct ork_buffer text;
    size_t cut_bytes; /* at most 3 */
};

ork_status ork_tokenizer_stream_create(const ork_tokenizer *tokenizer, bool special, bool strip_space,
                                       ork_text_stream **out, ork_error *error)
{
    *out = NULL;
    struct ork_text_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return ork_error_no_memory(error, "text stream", sizeof *stream);
    stream->tokenizer = tokenizer;
    stream->special = special;
    stream->strip_space = strip_space && tokenizer->vocabulary.kind == ORK_TOKENIZER_SPM && tokenizer->spm.adds_space;
    *out = stream;
    return ORK_OK;
}

void ork_text_stream_destroy(ork_text_stream *stream)
{
    if (!stream)
        return;
    ork_buffer_free(&stream->text);
    free(stream);
}

/* Drops the text of the last call and moves the cut sequence to the front. */
static void begin_call(ork_text_stream *stream)
{
    if (stream->cut_bytes)
        memmove(stream->text.data, stream->text.data + stream->text.size_bytes - stream->cut_bytes, stream->cut_bytes);
    stream->text.size_bytes = stream->cut_bytes;
    stream->cut_bytes = 0;
}

/* Appends the piece and makes everything well formed, except a cut sequence at the end, which is counted. */
static void append_piece(ork_text_stream *stream, const uint8_t *piece, size_t size_bytes)
{
    struct ork_buffer *text = &stream->text;
    uint8_t held[4];
    size_t held_bytes = text->size_bytes, position = 0, length;
    if (held_bytes)
        memcpy(held, text->data, held_bytes);
    /* The only sequence that spans the seam is the one that begins in what was held back; complete it first. */
    while (held_bytes && position < size_bytes && held_bytes < sizeof held) {
        held[held_bytes++] = piece[position++];
        enum ork_utf8_state state = ork_utf8_next(held, held_bytes, &length);
        if (state == ORK_UTF8_CUT)
            continue;
        text->size_bytes = 0;
        if (state == ORK_UTF8_VALID) {
            ork_buffer_append(text, held, length);
        } else {
            ork_buffer_append(text, ORK_UTF8_REPLACEMENT, ORK_UTF8_REPLACEMENT_BYTES);
            position--; /* the byte that broke it begins something new */
        }
        held_bytes = 0;
    }
    if (held_bytes) {
        text->size_bytes = 0;
        ork_buffer_append(text, held, held_bytes);
        stream->cut_bytes = held_bytes;
        return;
    }
    for (; position < size_bytes; position += length) {
        enum ork_utf8_state state = ork_utf8_next(piece + position, size_bytes - position, &length);
        if (state == ORK_UTF8_BAD) {
            ork_buffer_append(text, ORK_UTF8_REPLACEMENT, ORK_UTF8_REPLACEMENT_BYTES);
        } else {
            ork_buffer_append(text, piece + position, length);
            stream->cut_bytes = state == ORK_UTF8_CUT ? length : 0;
        }
    }
}

static ork_status end_call(ork_text_stream *stream, const char **text, size_t *size_bytes, ork_error *error)
{
    if (stream->text.failed)
        return ork_error_no_memory(error, "text stream", stream->text.size_bytes);
    *size_bytes = stream->text.size_bytes - stream->cut_bytes;
    *text = stream->text.data ? (const char *)stream->text.data : "";
    return ORK_OK;
}

ork_status ork_text_stream_push(ork_text_stream *stream, ork_token token, const char **text, size_t *size_bytes,
                                ork_error *error)
{
    size_t piece_bytes;
    const char *piece = ork_tokenizer_piece(stream->tokenizer, token, &piece_bytes);
    if (!piece)
        return ork_error_set(error, ORK_BAD_ARGUMENT, NULL, -1, "token %d is outside the vocabulary of %u tokens",
                             token, stream->tokenizer->vocabulary.size);
    if (!stream->special && ork_tokenizer_is_special(stream->tokenizer, token))
        piece_bytes = 0;
    if (stream->strip_space && piece_bytes) {
        stream->strip_space = false;
        if (piece[0] == ' ') {
            piece++;
            piece_bytes--;
        }
    }
    begin_call(stream);
    append_piece(stream, (const uint8_t *)piece, piece_bytes);
    return end_call(stream, text, size_bytes, error);
}

ork_status ork_text_stream_finish(ork_text_stream *stream, const char **text, size_t *size_bytes, ork_error *error)
{
    begin_call(stream);
    bool rest = stream->text.size_bytes > 0;
    stream->text.size_bytes = 0;
    if (rest)
        ork_buffer_append(&stream->text, ORK_UTF8_REPLACEMENT, ORK_UTF8_REPLACEMENT_BYTES);
    return end_call(stream, text, size_bytes, error);
}

ork_status ork_tokenizer_detokenize(const ork_tokenizer *tokenizer, const ork_token *tokens, size_t count, bool special,
                                    char **out, size_t *size_bytes, ork_error *error)
{
    *out = NULL;
    *size_bytes = 0;
    struct ork_buffer all = {0};
    struct ork_text_stream *stream;
    ork_status status = ork_tokenizer_stream_create(tokenizer, special, true, &stream, error);
    if (status != ORK_OK)
        return status;
    const char *text;
    size_t length;
    for (size_t i = 0; i < count && status == ORK_OK; i++) {
        status = ork_text_stream_push(stream, tokens[i], &text, &length, error);
        if (status == ORK_OK)
            ork_buffer_append(&all, text, length);
    }
    if (status == ORK_OK)
        status = ork_text_stream_finish(stream, &text, &length, error);
    if (status == ORK_OK) {
        ork_buffer_append(&all, text, length);
        ork_buffer_u8(&all, 0);
        if (all.failed)
            status = ork_error_no_memory(error, "text", all.size_bytes);
    }
    if (status == ORK_OK) {
        *out = (char *)all.data;
        *size_bytes = all.size_bytes - 1;
    } else {
        ork_buffer_free(&all);
    }
    ork_text_stream_destroy(stream);
    return status;
}
