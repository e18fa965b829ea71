/* Comparing two probability distributions over the vocabulary, token by token, and llama.cpp's file of base
 * probabilities (models.md 7.6: "_logits_", n_ctx, n_vocab, n_chunk, tokens, then one record a position: scale,
 * smallest log probability, one 16-bit code a token). Little endian, as llama.cpp writes it. */
#ifndef ORK_CLI_DIVERGENCE_H
#define ORK_CLI_DIVERGENCE_H

#include "ork/ork.h"

#include <jansson.h>

#include <stdio.h>

typedef struct cli_base_file {
    FILE *stream;
    char *path, *temporary_path; /* the second only while writing */
    uint32_t chunk_length, vocabulary_size, chunk_count;
    ork_token *tokens; /* [chunk_count][chunk_length]; when reading */
    uint16_t *record;  /* [cli_base_record_words()] */
} cli_base_file;

/* Positions of a chunk that count: the second half, without the last. */
uint32_t cli_counted_positions(uint32_t chunk_length);
size_t cli_base_record_words(uint32_t vocabulary_size);

/* All return exit codes, message printed. Writing goes to a temporary file that cli_base_commit() renames. */
int cli_base_create(cli_base_file *file, const char *path, uint32_t chunk_length, uint32_t vocabulary_size,
                    uint32_t chunk_count, const ork_token *tokens);
int cli_base_append(cli_base_file *file, const float *logits, ork_token next, double *negative_log_probability);
int cli_base_commit(cli_base_file *file);
int cli_base_open(cli_base_file *file, const char *path, uint32_t vocabulary_size);
int cli_base_read(cli_base_file *file); /* the next record, into file->record */
void cli_base_close(cli_base_file *file);

/* Sums over positions; the names follow llama-perplexity's report. */
typedef struct cli_divergence {
    double nll, nll_squared, base_nll, base_nll_squared, nll_product;
    double kld, kld_squared, delta, delta_squared, delta_fourth;
    size_t same_top_count, count;
    float *kld_values, *delta_values; /* [capacity] */
    size_t capacity;
} cli_divergence;

void cli_divergence_init(cli_divergence *divergence, size_t capacity);
void cli_divergence_free(cli_divergence *divergence);
/* record: of the base for this position; logits: of the model at hand. */
void cli_divergence_add(cli_divergence *divergence, const float *logits, uint32_t vocabulary_size,
                        const uint16_t *record, ork_token next);
/* One line of the running table on standard output, with its heading before the first. */
void cli_divergence_print_line(const cli_divergence *divergence, uint32_t chunk);
/* The statistics at the end; sorts the values. */
void cli_divergence_print(cli_divergence *divergence);
json_t *cli_divergence_json(cli_divergence *divergence);

/* -log softmax(logits)[next]: maximum taken off, terms in float, sum in double. */
double cli_negative_log_probability(const float *logits, uint32_t vocabulary_size, ork_token next);

#endif
