/* Probe loops in plain C, for machines without a better instruction set. */
#define PROBE_VECTOR_BYTES 16
#include "kernels/probe_read.inc.c"

#include <string.h>

enum { DOT_BYTES = 256, CHAINS = 16 };

static uint32_t probe_dot(uint64_t rounds)
{
    int8_t a[DOT_BYTES], b[DOT_BYTES];
    uint32_t sum = 0;
    memset(a, 3, sizeof a);
    memset(b, 2, sizeof b);
    for (uint64_t round = 0; round < rounds; round++) {
        int32_t products = 0;
        __asm__ volatile("" : : "r"(a), "r"(b) : "memory"); /* they might have changed */
        for (size_t i = 0; i < DOT_BYTES; i++)
            products += a[i] * b[i];
        sum += (uint32_t)products;
    }
    return sum;
}

static float probe_multiply_add(uint64_t rounds)
{
    float sums[CHAINS] = {0}, total = 0, x = 0.5f;
    for (uint64_t round = 0; round < rounds; round++) {
        __asm__ volatile("" : "+m"(x));
        for (size_t i = 0; i < CHAINS; i++)
            sums[i] += x * x;
    }
    for (size_t i = 0; i < CHAINS; i++)
        total += sums[i];
    return total;
}

const struct ork_probe_kernels ork_probe_kernels_scalar = {
    .isa = ORK_ISA_SCALAR,
    .read = probe_read,
    .dot_name = "int8 products in C",
    .dot_products = DOT_BYTES,
    .dot = probe_dot,
    .multiply_add_name = "float multiply and add in C",
    .multiply_adds = CHAINS,
    .multiply_add = probe_multiply_add,
};
