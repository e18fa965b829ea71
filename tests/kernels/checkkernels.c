/* The kernel harness: checks every row of every table that this machine can run, in the manner of checkasm.
 *
 *   checkkernels [--quick] [--verbose] [--bench [FILTER]]
 *
 * Ends with counts and, for each table, a checksum over all outputs; the checksums of two machines must be equal. Exit
 * code 0 when everything passed, 1 when not, 2 when the run itself broke. */
#include <stdlib.h>
#include <string.h>

#include "harness.h"

static bool parse(struct harness *h, int count, char **arguments, bool *bench, const char **filter)
{
    for (int i = 1; i < count; i++) {
        if (strcmp(arguments[i], "--quick") == 0) {
            h->quick = true;
        } else if (strcmp(arguments[i], "--verbose") == 0) {
            h->verbose = true;
        } else if (strcmp(arguments[i], "--bench") == 0) {
            *bench = true;
            if (i + 1 < count && arguments[i + 1][0] != '-')
                *filter = arguments[++i];
        } else {
            fprintf(stderr, "checkkernels: unknown option %s\n", arguments[i]);
            return false;
        }
    }
    return true;
}

static void add_table(struct harness *h, const char *name)
{
    h->names[h->table_count] = name;
    h->checksums[h->table_count++] = 0xCBF29CE484222325u;
}

#ifdef ORK_AVXVNNI_TWIN
void ork_kernels_install_avxvnni_evex(struct ork_kernels *kernels);
#endif

/* The AVX-VNNI kernels as AVX-512 machines can run them; see kernels/x86/integer_avxvnni.h. */
static void add_twin(struct harness *h)
{
#ifdef ORK_AVXVNNI_TWIN
    struct ork_kernels *kernels = &h->tables[h->table_count];
    if (!ork_kernels_build(ORK_ISA_AVX512, kernels) || !ork_kernels_build(ORK_ISA_AVX2, kernels))
        return;
    ork_kernels_install_avxvnni_evex(kernels);
    add_table(h, "avxvnni_evex");
#else
    (void)h;
#endif
}

int main(int count, char **arguments)
{
    static struct harness h = {.seed = 20261129};
    bool bench = false;
    const char *filter = "";
    if (!parse(&h, count, arguments, &bench, &filter))
        return 2;
    for (int isa = 0; isa < ORK_ISA_COUNT; isa++)
        if (ork_kernels_build((enum ork_isa)isa, &h.tables[h.table_count]))
            add_table(&h, ork_isa_name((enum ork_isa)isa));
    if (!bench)
        check_mask(&h); /* of the tables that the library has */
    add_twin(&h);
    if (bench)
        return bench_kernels(&h, filter);
    printf("tables:");
    for (uint32_t table = 0; table < h.table_count; table++)
        printf(" %s", h.names[table]);
    printf("\n");
    fflush(stdout);
    check_vectors(&h);
    check_accuracy(&h);
    check_matmuls(&h);
    check_surfaces(&h);
    for (uint32_t table = 0; table < h.table_count; table++) {
        printf("checksum %s %016llx\n", h.names[table], (unsigned long long)h.checksums[table]);
        harness_check(&h, h.checksums[table] == h.checksums[0], "checksum of %s differs from scalar", h.names[table]);
    }
    printf("%llu passed, %llu failed\n", (unsigned long long)h.passed, (unsigned long long)h.failed);
    return h.failed != 0;
}
