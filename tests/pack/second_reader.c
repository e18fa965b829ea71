/* Helper of test_second_reader.py: packs a GGUF and writes out what ork decodes from the pack, tensors in index order,
 * [experts][n][k] as f32. Usage: second_reader GGUF PACK RAW TIER [RULE ...] */
#include "base/error.h"
#include "quant/tier.h"

#include <stdio.h>
#include <stdlib.h>

static bool write_tensor(const ork_orkpack *pack, const struct ork_orkpack_tensor *tensor, FILE *out, ork_error *error)
{
    struct ork_matrix matrix;
    if (ork_matrix_from_pack(pack, tensor, &matrix, error) != ORK_OK)
        return false;
    float *row = malloc(matrix.k * sizeof(float));
    bool written = row != NULL;
    for (uint32_t expert = 0; expert < matrix.experts && written; expert++)
        for (uint32_t channel = 0; channel < matrix.n && written; channel++) {
            ork_matrix_decode_row(&matrix, expert, channel, row);
            written = fwrite(row, sizeof(float), matrix.k, out) == matrix.k;
        }
    free(row);
    return written;
}

int main(int argc, char **argv)
{
    ork_error error = {0};
    ork_orkpack *pack = NULL;
    FILE *out;
    if (argc < 5)
        return 2;
    const ork_pack_params params = {
        .default_tier = argv[4],
        .tier_rules = (const char *const *)argv + 5,
        .tier_rule_count = (size_t)argc - 5,
        .overwrite = true,
        .threads = 2,
    };
    out = fopen(argv[3], "wb");
    bool done = out != NULL && ork_pack_file(argv[1], argv[2], &params, NULL, &error) == ORK_OK &&
                ork_orkpack_open(argv[2], ORK_LOAD_MAP, NULL, NULL, &pack, &error) == ORK_OK;
    for (size_t i = 0; done && i < ork_orkpack_tensor_count(pack); i++)
        done = write_tensor(pack, ork_orkpack_tensor_at(pack, i), out, &error);
    ork_orkpack_close(pack);
    if (out != NULL && fclose(out) != 0)
        done = false;
    if (!done)
        fprintf(stderr, "%s: %s\n", error.where, error.what);
    return done ? 0 : 1;
}
