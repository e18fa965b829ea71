/* Guards ORK_CPU_MASK: each word caps the table, an unknown word and one of another architecture are errors that name
 * the choices, and the process's own table follows the environment. */
#include <stdlib.h>
#include <string.h>

#include "harness.h"

/* The best instruction set up to `most` that this machine runs. */
static enum ork_isa best_below(const struct harness *h, enum ork_isa most)
{
    enum ork_isa best = ORK_ISA_SCALAR;
    for (uint32_t table = 0; table < h->table_count; table++)
        if (h->tables[table].isa <= most)
            best = h->tables[table].isa;
    return best;
}

static void check_word(struct harness *h, const char *mask, enum ork_isa want)
{
    struct ork_kernels kernels;
    ork_error error = {0};
    ork_status status = ork_kernels_build_masked(mask, &kernels, &error);
    harness_check(h, status == ORK_OK && kernels.isa == want && kernels.matmul[ORK_TIER_NF4].isa <= want,
                  "ORK_CPU_MASK=%s gives %s instead of %s", mask, status ? error.what : ork_isa_name(kernels.isa),
                  ork_isa_name(want));
}

static void check_refused(struct harness *h, const char *mask)
{
    struct ork_kernels kernels;
    ork_error error = {0};
    ork_status status = ork_kernels_build_masked(mask, &kernels, &error);
    harness_check(h,
                  status == ORK_BAD_ARGUMENT && error.code == status && strstr(error.what, "scalar") &&
                      strstr(error.what, ork_isa_name(h->tables[h->table_count - 1].isa)),
                  "ORK_CPU_MASK=%s is not refused with the choices: %s", mask, error.what);
    harness_check(h, ork_kernels_build_masked(mask, &kernels, NULL) == status, "without an error to fill");
}

void check_mask(struct harness *h)
{
#if defined(__aarch64__)
    const enum ork_isa own[] = {ORK_ISA_SCALAR, ORK_ISA_NEON, ORK_ISA_DOTPROD, ORK_ISA_I8MM},
                       foreign[] = {ORK_ISA_AVX2, ORK_ISA_AVXVNNI, ORK_ISA_AVX512};
#elif defined(__x86_64__)
    const enum ork_isa own[] = {ORK_ISA_SCALAR, ORK_ISA_AVX2, ORK_ISA_AVXVNNI, ORK_ISA_AVX512},
                       foreign[] = {ORK_ISA_NEON, ORK_ISA_DOTPROD, ORK_ISA_I8MM};
#else
    const enum ork_isa own[] = {ORK_ISA_SCALAR}, foreign[] = {ORK_ISA_AVX2, ORK_ISA_AVXVNNI, ORK_ISA_AVX512, ORK_ISA_NEON};
#endif
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        check_word(h, ork_isa_name(own[i]), best_below(h, own[i]));
    check_word(h, NULL, h->tables[h->table_count - 1].isa);
    check_word(h, "", h->tables[h->table_count - 1].isa);
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        check_refused(h, ork_isa_name(foreign[i]));
    check_refused(h, "sse9");
    check_refused(h, "AVX2 ");
    const struct ork_kernels *kernels = NULL;
    setenv("ORK_CPU_MASK", "scalar", 1);
    harness_check(h, ork_kernels_get(&kernels, NULL) == ORK_OK && kernels->isa == ORK_ISA_SCALAR,
                  "ORK_CPU_MASK=scalar does not reach the process's table");
}
