/* Owns the statistics of a comparison: perplexity ratio, KL divergence, change of the true token's probability, top-1
 * agreement, in llama-perplexity's definitions. Must not know files or models. */
#include "divergence.h"
#include "json.h"
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct estimate {
    double value, error;
} estimate;

double cli_negative_log_probability(const float *logits, uint32_t vocabulary_size, ork_token next)
{
    float highest = logits[0];
    for (uint32_t i = 1; i < vocabulary_size; i++)
        highest = fmaxf(highest, logits[i]);
    double sum = 0;
    for (uint32_t i = 0; i < vocabulary_size; i++)
        sum += expf(logits[i] - highest);
    return log(sum) - (double)(logits[next] - highest);
}

void cli_divergence_init(cli_divergence *divergence, size_t capacity)
{
    memset(divergence, 0, sizeof *divergence);
    divergence->capacity = capacity;
    divergence->kld_values = cli_allocate(capacity * sizeof(float));
    divergence->delta_values = cli_allocate(capacity * sizeof(float));
}

void cli_divergence_free(cli_divergence *divergence)
{
    free(divergence->kld_values);
    free(divergence->delta_values);
    memset(divergence, 0, sizeof *divergence);
}

void cli_divergence_add(cli_divergence *divergence, const float *logits, uint32_t vocabulary_size,
                        const uint16_t *record, ork_token next)
{
    float head[2]; /* scale, smallest log probability */
    memcpy(head, record, sizeof head);
    const uint16_t *codes = record + 4;
    uint32_t top = 0, base_top = 0;
    for (uint32_t i = 1; i < vocabulary_size; i++) {
        top = logits[i] > logits[top] ? i : top;
        base_top = codes[i] > codes[base_top] ? i : base_top;
    }
    double sum = 0;
    for (uint32_t i = 0; i < vocabulary_size; i++)
        sum += expf(logits[i] - logits[top]);
    float log_sum = (float)log(sum), offset = logits[top] + log_sum; /* log q = logit - offset */

    double kld = 0;
    for (uint32_t i = 0; i < vocabulary_size; i++) {
        float base = head[0] * codes[i] + head[1];
        if (base > -16.0f)
            kld += expf(base) * (base - logits[i] + offset);
    }
    float nll = offset - logits[next], base_nll = -(head[0] * codes[next] + head[1]);
    float delta = expf(-nll) - expf(-base_nll);
    double delta_squared = (double)delta * delta;
    divergence->nll += nll;
    divergence->nll_squared += nll * nll;
    divergence->base_nll += base_nll;
    divergence->base_nll_squared += base_nll * base_nll;
    divergence->nll_product += nll * base_nll;
    divergence->kld += kld;
    divergence->kld_squared += kld * kld;
    divergence->delta += delta;
    divergence->delta_squared += delta_squared;
    divergence->delta_fourth += delta_squared * delta_squared;
    divergence->same_top_count += top == base_top;
    divergence->kld_values[divergence->count] = (float)kld;
    divergence->delta_values[divergence->count] = delta;
    divergence->count++;
}

static estimate mean_of(double sum, double sum_of_squares, size_t count)
{
    estimate result = {0, 0};
    if (count < 1)
        return result;
    result.value = sum / (double)count;
    double variance = sum_of_squares / (double)count - result.value * result.value;
    if (variance > 0 && count > 10)
        result.error = sqrt(variance / (double)(count - 1));
    return result;
}

/* What is derived from the sums, each with its uncertainty. */
typedef struct summary {
    estimate log_ppl, base_log_ppl, ppl, base_ppl, log_ratio, ratio, difference, kld, delta, delta_rms, same_top;
    double correlation;
} summary;

static summary summarize(const cli_divergence *d)
{
    summary s = {0};
    size_t n = d->count;
    double covariance = 0;
    s.log_ppl = mean_of(d->nll, d->nll_squared, n);
    s.base_log_ppl = mean_of(d->base_nll, d->base_nll_squared, n);
    s.ppl = (estimate){exp(s.log_ppl.value), exp(s.log_ppl.value) * s.log_ppl.error};
    s.base_ppl = (estimate){exp(s.base_log_ppl.value), exp(s.base_log_ppl.value) * s.base_log_ppl.error};
    if (n >= 10)
        covariance = (d->nll_product / (double)n - s.log_ppl.value * s.base_log_ppl.value) / (double)(n - 1);
    s.correlation = covariance / (s.log_ppl.error * s.base_log_ppl.error);
    double log_variance =
        s.log_ppl.error * s.log_ppl.error + s.base_log_ppl.error * s.base_log_ppl.error - 2 * covariance;
    s.log_ratio = (estimate){s.log_ppl.value - s.base_log_ppl.value, sqrt(fmax(log_variance, 0))};
    s.ratio = (estimate){exp(s.log_ratio.value), exp(s.log_ratio.value) * s.log_ratio.error};
    double variance = s.ppl.error * s.ppl.error + s.base_ppl.error * s.base_ppl.error -
                      2 * s.ppl.value * s.base_ppl.value * covariance;
    s.difference = (estimate){s.ppl.value - s.base_ppl.value, sqrt(fmax(variance, 0))};
    s.kld = mean_of(d->kld, d->kld_squared, n);
    s.delta = mean_of(d->delta, d->delta_squared, n);
    estimate square = mean_of(d->delta_squared, d->delta_fourth, n);
    s.delta_rms.value = sqrt(square.value);
    s.delta_rms.error = s.delta_rms.value > 0 ? 0.5 / s.delta_rms.value * square.error : 0;
    double same = n ? (double)d->same_top_count / (double)n : 0;
    s.same_top = (estimate){same, n > 1 ? sqrt(same * (1 - same) / (double)(n - 1)) : 0};
    return s;
}

void cli_divergence_print_line(const cli_divergence *divergence, uint32_t chunk)
{
    summary s = summarize(divergence);
    if (chunk == 1)
        cli_output_format(
            "chunk             PPL               ln(PPL(Q)/PPL(base))          KL Divergence              "
            "Δp RMS            Same top p\n");
    cli_output_format("%4u    %9.4f ± %9.4f    %10.5f ± %10.5f    %10.5f ± %10.5f    %6.3f ± %6.3f %%    "
                      "%6.3f ± %6.3f %%\n",
                      chunk, s.ppl.value, s.ppl.error, s.log_ratio.value, s.log_ratio.error, s.kld.value, s.kld.error,
                      100 * s.delta_rms.value, 100 * s.delta_rms.error, 100 * s.same_top.value, 100 * s.same_top.error);
    cli_output_write("", 0);
}

static int compare_floats(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* values: sorted. Linear between the two nearest. */
static float percentile(const float *values, size_t count, float fraction)
{
    float position = fraction * (float)(count - 1);
    size_t index = (size_t)position;
    float rest = position - (float)index;
    return (1 - rest) * values[index] + rest * values[index + 1 < count ? index + 1 : index];
}

static const struct {
    float fraction;
    const char *label, *key;
} percentiles[] = {
    {1.0f, "Maximum", "maximum"}, {0.999f, "99.9%  ", "p99_9"}, {0.99f, "99.0%  ", "p99"},
    {0.95f, "95.0%  ", "p95"},    {0.9f, "90.0%  ", "p90"},     {0.75f, "75.0%  ", "p75"},
    {0.5f, "Median ", "median"},  {0.25f, "25.0%  ", "p25"},    {0.1f, "10.0%  ", "p10"},
    {0.05f, " 5.0%  ", "p5"},     {0.01f, " 1.0%  ", "p1"},     {0.001f, " 0.1%  ", "p0_1"},
    {0.0f, "Minimum", "minimum"},
};
enum { PERCENTILE_COUNT = sizeof percentiles / sizeof *percentiles };

static void sort_values(cli_divergence *divergence)
{
    qsort(divergence->kld_values, divergence->count, sizeof(float), compare_floats);
    qsort(divergence->delta_values, divergence->count, sizeof(float), compare_floats);
}

void cli_divergence_print(cli_divergence *divergence)
{
    summary s = summarize(divergence);
    sort_values(divergence);
    cli_output_format("\n====== Perplexity statistics ======\n");
    cli_output_format("Mean PPL(Q)                   : %10.6f ± %10.6f\n", s.ppl.value, s.ppl.error);
    cli_output_format("Mean PPL(base)                : %10.6f ± %10.6f\n", s.base_ppl.value, s.base_ppl.error);
    cli_output_format("Cor(ln(PPL(Q)), ln(PPL(base))): %6.2f%%\n", 100 * s.correlation);
    cli_output_format("Mean ln(PPL(Q)/PPL(base))     : %10.6f ± %10.6f\n", s.log_ratio.value, s.log_ratio.error);
    cli_output_format("Mean PPL(Q)/PPL(base)         : %10.6f ± %10.6f\n", s.ratio.value, s.ratio.error);
    cli_output_format("Mean PPL(Q)-PPL(base)         : %10.6f ± %10.6f\n", s.difference.value, s.difference.error);
    cli_output_format("\n====== KL divergence statistics ======\n");
    cli_output_format("Mean    KLD: %10.6f ± %10.6f\n", s.kld.value, s.kld.error);
    for (size_t i = 0; i < PERCENTILE_COUNT; i++)
        cli_output_format("%s KLD: %10.6f\n", percentiles[i].label,
                          (double)percentile(divergence->kld_values, divergence->count, percentiles[i].fraction));
    cli_output_format("\n====== Token probability statistics ======\n");
    cli_output_format("Mean    Δp: %6.3f ± %5.3f %%\n", 100 * s.delta.value, 100 * s.delta.error);
    for (size_t i = 0; i < PERCENTILE_COUNT; i++)
        cli_output_format("%s Δp: %6.3f%%\n", percentiles[i].label,
                          100.0 *
                              (double)percentile(divergence->delta_values, divergence->count, percentiles[i].fraction));
    cli_output_format("RMS Δp    : %6.3f ± %5.3f %%\n", 100 * s.delta_rms.value, 100 * s.delta_rms.error);
    cli_output_format("Same top p: %6.3f ± %5.3f %%\n", 100 * s.same_top.value, 100 * s.same_top.error);
}

static void set_estimate(json_t *object, const char *key, estimate value)
{
    char name[64];
    cli_json_set_number(object, key, value.value);
    snprintf(name, sizeof name, "%s_error", key);
    cli_json_set_number(object, name, value.error);
}

static json_t *percentiles_json(const float *values, size_t count)
{
    json_t *object = json_object();
    for (size_t i = 0; i < PERCENTILE_COUNT; i++)
        cli_json_set_number(object, percentiles[i].key, (double)percentile(values, count, percentiles[i].fraction));
    return object;
}

json_t *cli_divergence_json(cli_divergence *divergence)
{
    summary s = summarize(divergence);
    sort_values(divergence);
    json_t *object = json_object();
    cli_json_set_integer(object, "tokens", divergence->count);
    set_estimate(object, "perplexity", s.ppl);
    set_estimate(object, "perplexity_base", s.base_ppl);
    set_estimate(object, "log_ratio", s.log_ratio);
    set_estimate(object, "ratio", s.ratio);
    set_estimate(object, "difference", s.difference);
    cli_json_set_number(object, "correlation", s.correlation);
    set_estimate(object, "kld", s.kld);
    json_object_set_new(object, "kld_percentiles", percentiles_json(divergence->kld_values, divergence->count));
    set_estimate(object, "delta_p", s.delta);
    set_estimate(object, "delta_p_rms", s.delta_rms);
    json_object_set_new(object, "delta_p_percentiles", percentiles_json(divergence->delta_values, divergence->count));
    set_estimate(object, "same_top", s.same_top);
    return object;
}
