/* Owns llama.cpp's file of base probabilities: writing, checking, reading. Must not know statistics. */
#include "divergence.h"
#include "report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADER_BYTES = 20 };
static const char magic[8] = {'_', 'l', 'o', 'g', 'i', 't', 's', '_'};

uint32_t cli_counted_positions(uint32_t chunk_length)
{
    return chunk_length - 1 - chunk_length / 2;
}

size_t cli_base_record_words(uint32_t vocabulary_size)
{
    return 2 * (((size_t)vocabulary_size + 1) / 2) + 4;
}

static int write_failed(const cli_base_file *file)
{
    return cli_fail(CLI_FAILURE, file->temporary_path, "cannot write: %s", strerror(errno ? errno : EIO));
}

int cli_base_create(cli_base_file *file, const char *path, uint32_t chunk_length, uint32_t vocabulary_size,
                    uint32_t chunk_count, const ork_token *tokens)
{
    uint32_t numbers[3] = {chunk_length, vocabulary_size, chunk_count};
    size_t token_count = (size_t)chunk_length * chunk_count;
    memset(file, 0, sizeof *file);
    if (access(path, F_OK) == 0)
        return cli_fail(CLI_FAILURE, path, "exists; remove it, or add --kl-divergence to compare with it");
    file->path = cli_copy_text(path);
    file->temporary_path = cli_format_text("%s.part", path);
    file->chunk_length = chunk_length;
    file->vocabulary_size = vocabulary_size;
    file->chunk_count = chunk_count;
    file->record = cli_allocate(cli_base_record_words(vocabulary_size) * sizeof *file->record);
    file->stream = fopen(file->temporary_path, "wbe");
    if (!file->stream)
        return cli_fail(CLI_FAILURE, file->temporary_path, "cannot create: %s", strerror(errno));
    errno = 0;
    if (fwrite(magic, sizeof magic, 1, file->stream) != 1 || fwrite(numbers, sizeof numbers, 1, file->stream) != 1 ||
        fwrite(tokens, sizeof *tokens, token_count, file->stream) != token_count)
        return write_failed(file);
    return CLI_OK;
}

int cli_base_append(cli_base_file *file, const float *logits, ork_token next, double *negative_log_probability)
{
    uint32_t size = file->vocabulary_size;
    float highest = logits[0], lowest = logits[0];
    for (uint32_t i = 1; i < size; i++) {
        highest = fmaxf(highest, logits[i]);
        lowest = fminf(lowest, logits[i]);
    }
    lowest = fmaxf(lowest, highest - 16); /* below exp(-16) nothing counts */
    double sum = 0;
    for (uint32_t i = 0; i < size; i++)
        sum += expf(logits[i] - highest);
    float log_sum = (float)log(sum);
    float head[2] = {(highest - lowest) / 65535.0f, lowest - highest - log_sum};
    size_t words = cli_base_record_words(size);
    memset(file->record, 0, words * sizeof *file->record);
    memcpy(file->record, head, sizeof head);
    float inverse = head[0] > 0 ? 1 / head[0] : 0;
    for (uint32_t i = 0; i < size; i++) {
        float code = logits[i] > lowest ? rintf(inverse * (logits[i] - lowest)) : 0;
        file->record[4 + i] = (uint16_t)fminf(code, 65535.0f);
    }
    *negative_log_probability = highest + log_sum - logits[next];
    errno = 0;
    if (fwrite(file->record, sizeof *file->record, words, file->stream) != words)
        return write_failed(file);
    return CLI_OK;
}

int cli_base_commit(cli_base_file *file)
{
    errno = 0;
    int failed = fflush(file->stream) != 0 || fsync(fileno(file->stream)) != 0;
    if (failed)
        return write_failed(file);
    fclose(file->stream);
    file->stream = NULL;
    if (rename(file->temporary_path, file->path) != 0)
        return cli_fail(CLI_FAILURE, file->path, "cannot rename: %s", strerror(errno));
    free(file->temporary_path);
    file->temporary_path = NULL;
    return CLI_OK;
}

/* Every size follows from the header, so that the file must be exactly so long; nothing is allocated before. */
static int check_size(cli_base_file *file, uint32_t vocabulary_size)
{
    struct stat status;
    if (fstat(fileno(file->stream), &status) != 0)
        return cli_fail(CLI_BAD_INPUT, file->path, "cannot read: %s", strerror(errno));
    if (file->vocabulary_size != vocabulary_size)
        return cli_fail(CLI_BAD_INPUT, file->path, "is for a vocabulary of %u tokens, the model has %u (at byte 12)",
                        file->vocabulary_size, vocabulary_size);
    if (file->chunk_length < 4 || file->chunk_length > 1u << 24 || file->chunk_count < 1 ||
        file->chunk_count > 1u << 24)
        return cli_fail(CLI_BAD_INPUT, file->path, "has %u chunks of %u tokens (at byte 8)", file->chunk_count,
                        file->chunk_length);
    /* at most 2^24 * (2^26 + 2^23 * 2^33): no overflow in 128 bits, and compared there */
    unsigned __int128 expected =
        (unsigned __int128)file->chunk_count * ((unsigned __int128)file->chunk_length * sizeof(ork_token) +
                                                (unsigned __int128)cli_counted_positions(file->chunk_length) *
                                                    cli_base_record_words(vocabulary_size) * sizeof(uint16_t));
    if ((unsigned __int128)(uint64_t)status.st_size != expected + HEADER_BYTES)
        return cli_fail(CLI_BAD_INPUT, file->path, "is %s: %u chunks of %u tokens are announced (at byte %lld)",
                        (unsigned __int128)(uint64_t)status.st_size < expected + HEADER_BYTES ? "truncated"
                                                                                              : "too long",
                        file->chunk_count, file->chunk_length, (long long)status.st_size);
    return CLI_OK;
}

int cli_base_open(cli_base_file *file, const char *path, uint32_t vocabulary_size)
{
    char start[8];
    uint32_t numbers[3];
    memset(file, 0, sizeof *file);
    int code = cli_check_input(path);
    if (code != CLI_OK)
        return code;
    file->path = cli_copy_text(path);
    file->stream = fopen(path, "rbe");
    if (!file->stream)
        return cli_fail(CLI_BAD_INPUT, path, "cannot open: %s", strerror(errno));
    if (fread(start, sizeof start, 1, file->stream) != 1 || memcmp(start, magic, sizeof magic) != 0 ||
        fread(numbers, sizeof numbers, 1, file->stream) != 1)
        return cli_fail(CLI_BAD_INPUT, path, "is not a file of base probabilities (at byte 0)");
    file->chunk_length = numbers[0];
    file->vocabulary_size = numbers[1];
    file->chunk_count = numbers[2];
    code = check_size(file, vocabulary_size);
    if (code != CLI_OK)
        return code;
    size_t count = (size_t)file->chunk_length * file->chunk_count;
    file->tokens = cli_allocate(count * sizeof *file->tokens);
    file->record = cli_allocate(cli_base_record_words(vocabulary_size) * sizeof *file->record);
    if (fread(file->tokens, sizeof *file->tokens, count, file->stream) != count)
        return cli_fail(CLI_BAD_INPUT, path, "cannot read its tokens (at byte %d)", HEADER_BYTES);
    for (size_t i = 0; i < count; i++)
        if (file->tokens[i] < 0 || (uint32_t)file->tokens[i] >= vocabulary_size)
            return cli_fail(CLI_BAD_INPUT, path, "token %d is not in the vocabulary (at byte %zu)", file->tokens[i],
                            HEADER_BYTES + i * sizeof *file->tokens);
    return CLI_OK;
}

int cli_base_read(cli_base_file *file)
{
    size_t words = cli_base_record_words(file->vocabulary_size);
    long long at = ftello(file->stream);
    if (fread(file->record, sizeof *file->record, words, file->stream) != words)
        return cli_fail(CLI_BAD_INPUT, file->path, "cannot read a record (at byte %lld)", at);
    return CLI_OK;
}

void cli_base_close(cli_base_file *file)
{
    if (file->stream)
        fclose(file->stream);
    if (file->temporary_path)
        unlink(file->temporary_path);
    free(file->path);
    free(file->temporary_path);
    free(file->tokens);
    free(file->record);
    memset(file, 0, sizeof *file);
}
