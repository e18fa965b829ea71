/* Guards ORK_CPU_MASK: each word caps the table, an unknown word and one of another architecture are errors that name
 * the choices. The table is built once a process, so every word gets a process of its own. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

/* 0: a table capped at `most`; 1: refused with the choices named; 2: anything else. */
static int try_mask(const char *mask, enum ork_isa most, uint32_t table_count)
{
    const struct ork_kernels *kernels = NULL;
    ork_error error = {0};
    setenv("ORK_CPU_MASK", mask, 1);
    ork_status status = ork_kernels_get(&kernels, &error);
    if (status == ORK_OK)
        return kernels && kernels->isa <= most && (table_count < 2 || most == ORK_ISA_SCALAR || kernels->isa == most) ? 0
                                                                                                                       : 2;
    return status == ORK_BAD_ARGUMENT && error.code == status && strstr(error.what, "scalar") ? 1 : 2;
}

static int in_child(const char *mask, enum ork_isa most, uint32_t table_count)
{
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(try_mask(mask, most, table_count));
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void check_mask(struct harness *h)
{
#if defined(__aarch64__)
    const enum ork_isa foreign[] = {ORK_ISA_AVX2, ORK_ISA_AVX512};
#else
    const enum ork_isa foreign[] = {ORK_ISA_NEON};
#endif
    for (uint32_t table = 0; table < h->table_count; table++) {
        enum ork_isa isa = h->tables[table].isa;
        harness_check(h, in_child(ork_isa_name(isa), isa, h->table_count) == 0, "ORK_CPU_MASK=%s", ork_isa_name(isa));
    }
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        harness_check(h, in_child(ork_isa_name(foreign[i]), ORK_ISA_SCALAR, 0) == 1, "ORK_CPU_MASK=%s is not refused",
                      ork_isa_name(foreign[i]));
    harness_check(h, in_child("sse9", ORK_ISA_SCALAR, 0) == 1, "ORK_CPU_MASK=sse9 is not refused");
    harness_check(h, in_child("", h->tables[h->table_count - 1].isa, h->table_count) == 0, "empty ORK_CPU_MASK");
}
