/* One matmul of one table row, for bench/mca.py, which has an emulator record the instructions that it takes.
 *
 *   mca_call ISA TIER CHANNELS INPUTS ROWS BLOCK
 *
 * Contents do not matter: no kernel branches on them. Exit code 2 for words that name no row. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"

static const struct {
    const char *name;
    enum ork_tier tier;
    double bits;
} tiers[] = {{"g8", ORK_TIER_G8, 8}, {"i8", ORK_TIER_I8, 8}, {"i6", ORK_TIER_I6, 6},
             {"i5", ORK_TIER_I5, 5}, {"i4", ORK_TIER_I4, 4}, {"nf4", ORK_TIER_NF4, 4}};

static void *zeros(size_t size_bytes)
{
    void *data = aligned_alloc(4096, (size_bytes + 4095) / 4096 * 4096 + 4096);
    if (!data)
        exit(1);
    return memset(data, 0, size_bytes);
}

static void call(const struct ork_matmul_kernel *row, double bits, uint32_t n, uint32_t k, uint32_t m, uint32_t block)
{
    struct ork_activation x = {.rows = m, .k = k, .k_padded = k, .block = block, .blocks = k / block};
    x.plain = zeros((size_t)m * k);
    x.split = zeros((size_t)m * k);
    x.scales = zeros((size_t)m * x.blocks * sizeof(float));
    x.sums = zeros((size_t)m * x.blocks * sizeof(int32_t));
    struct ork_matrix w = {.tier = row->tier, .layout = row->layout, .n = n, .k = k, .experts = 1};
    w.data = zeros((size_t)(n * (double)k * bits / 8) + 4096);
    w.scales = zeros((size_t)n * k + 4096);
    w.table = zeros(256);
    struct ork_matmul_args args = {.w = &w, .x = &x, .m = m, .n_end = n, .y_stride = n};
    args.y = zeros((size_t)m * n * sizeof(float));
    row->run(&args);
    free(x.plain);
    free(x.split);
    free(x.scales);
    free(x.sums);
    free((void *)w.data);
    free((void *)w.scales);
    free((void *)w.table);
    free(args.y);
}

int main(int count, char **words)
{
    struct ork_kernels kernels;
    if (count != 7 || ork_kernels_build_masked(words[1], &kernels, NULL))
        return 2;
    for (size_t i = 0; i < sizeof tiers / sizeof tiers[0]; i++) {
        const struct ork_matmul_kernel *row = &kernels.matmul[tiers[i].tier];
        if (strcmp(tiers[i].name, words[2]) != 0 || !row->run)
            continue;
        call(row, tiers[i].bits, (uint32_t)atoi(words[3]), (uint32_t)atoi(words[4]), (uint32_t)atoi(words[5]),
             (uint32_t)atoi(words[6]));
        printf("%s\n", row->name);
        return 0;
    }
    return 2;
}
