/* Prints published measurements of RK3588 boards beside the timing model: bench_npu_timing [BOARD.json]. With --raw: one row
 * a line as "fit|given|out published model", for tools/fit_npu_timing.py. */
#include <stdio.h>
#include <string.h>

#include "../tests/npu/published.h"

static const char *const uses[] = {"fit", "given", "out"};
static const char *const units[] = {"us", "GB/s", "GOPS", "times"};

static void print_table(const struct ork_npu_profile *profile)
{
    unsigned within = 0;
    printf("| measurement | source | cores | published | model | error | use | remarks |\n|---|---|---:|---:|---:|---:|---|---|\n");
    for (unsigned i = 0; i < published_row_count; i++) {
        const struct published_row *row = &published_rows[i];
        const double model = published_model(profile, row), error = model / row->value - 1;
        within += error <= PUBLISHED_TOLERANCE && error >= -PUBLISHED_TOLERANCE;
        printf("| %s | %s | %u | %g %s | %.4g | %+.0f %% | %s | %s%s%s |\n", row->what, row->source, row->call.cores,
               row->value, units[row->unit], model, error * 100, uses[row->use], row->note ? row->note : "",
               row->note && row->reason ? "; " : "", row->reason ? row->reason : "");
    }
    printf("\n%u of %u within %g %%\n\n", within, published_row_count, PUBLISHED_TOLERANCE * 100);
    for (const char *const *text = published_not_modelled; *text; text++)
        printf("- %s\n", *text);
}

int main(int count, char **arguments)
{
    const bool raw = count > 1 && !strcmp(arguments[1], "--raw");
    const char *path = count > 1 + raw ? arguments[1 + raw] : NULL;
    struct ork_npu_profile read;
    const struct ork_npu_profile *profile = path ? &read : ork_npu_profile_builtin();
    ork_error error;
    if (path && ork_npu_profile_read(path, &read, &error) != ORK_OK) {
        fprintf(stderr, "%s: %s\n", error.where, error.what);
        return 1;
    }
    if (!profile)
        return 1;
    if (!raw) {
        print_table(profile);
        return 0;
    }
    for (unsigned i = 0; i < published_row_count; i++)
        printf("%s %.9g %.9g\n", uses[published_rows[i].use], published_rows[i].value,
               published_model(profile, &published_rows[i]));
    return 0;
}
