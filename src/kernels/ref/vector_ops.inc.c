/* The vector functions of the kernel table, written once over v16 and compiled once per instruction set. The including
 * file chooses the instruction set (see kernels/vector.h) and names it in ORK_KERNEL. Knows rows of floats only. */
#include <math.h>

#include "kernels/kernels.h"
#include "kernels/vector_math.h"

static void ORK_KERNEL(rms_norm)(float *y, const float *x, const float *w, uint32_t n, float eps)
{
    v8d squares = v8d_zero();
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16)
        squares = v8d_add_squares(squares, v16_load(x + i));
    if (i < n)
        squares = v8d_add_squares(squares, v16_load_partial(x + i, n - i));
    v16 factor = v16_set1((float)(1.0 / sqrt(v8d_sum(squares) / (double)n + (double)eps)));
    i = 0;
    for (; i + 16 <= n; i += 16)
        v16_store(y + i, v16_multiply(v16_multiply(v16_load(x + i), factor), v16_load(w + i)));
    if (i < n) {
        v16 scaled = v16_multiply(v16_load_partial(x + i, n - i), factor);
        v16_store_partial(y + i, v16_multiply(scaled, v16_load_partial(w + i, n - i)), n - i);
    }
}

static void ORK_KERNEL(add)(float *y, const float *a, const float *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        y[i] = a[i] + b[i];
}

static void ORK_KERNEL(multiply)(float *y, const float *a, const float *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        y[i] = a[i] * b[i];
}

static void ORK_KERNEL(axpy)(float *y, const float *x, float a, uint32_t n)
{
    const v16 factor = v16_set1(a);
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16)
        v16_store(y + i, v16_fma(factor, v16_load(x + i), v16_load(y + i)));
    if (i < n) {
        v16 sum = v16_fma(factor, v16_load_partial(x + i, n - i), v16_load_partial(y + i, n - i));
        v16_store_partial(y + i, sum, n - i);
    }
}

static void ORK_KERNEL(silu_multiply)(float *y, const float *gate, const float *up, uint32_t n)
{
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16)
        v16_store(y + i, v16_multiply(v16_silu(v16_load(gate + i)), v16_load(up + i)));
    if (i < n) {
        v16 silu = v16_silu(v16_load_partial(gate + i, n - i));
        v16_store_partial(y + i, v16_multiply(silu, v16_load_partial(up + i, n - i)), n - i);
    }
}

static void ORK_KERNEL(sigmoid)(float *y, const float *x, uint32_t n)
{
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16)
        v16_store(y + i, v16_sigmoid(v16_load(x + i)));
    if (i < n)
        v16_store_partial(y + i, v16_sigmoid(v16_load_partial(x + i, n - i)), n - i);
}

static float ORK_KERNEL(copy_maximum)(float *y, const float *x, uint32_t n)
{
    const v16 least = v16_set1(-INFINITY);
    v16 top = least;
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16) {
        v16 v = v16_max(v16_load(x + i), least);
        v16_store(y + i, v);
        top = v16_max(v, top);
    }
    float maximum = v16_maximum(top);
    for (; i < n; i++) {
        y[i] = x[i] > -INFINITY ? x[i] : -INFINITY;
        maximum = y[i] > maximum ? y[i] : maximum;
    }
    return maximum;
}

static void ORK_KERNEL(softmax)(float *x, uint32_t n, float scale)
{
    const v16 factor = v16_set1(scale);
    v16 top = v16_set1(-INFINITY);
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16)
        top = v16_max(v16_multiply(v16_load(x + i), factor), top);
    float maximum = v16_maximum(top);
    for (; i < n; i++)
        maximum = x[i] * scale > maximum ? x[i] * scale : maximum;
    const v16 shift = v16_set1(maximum);
    v16 sum = v16_zero();
    i = 0;
    for (; i + 16 <= n; i += 16) {
        v16 e = v16_exp(v16_subtract(v16_multiply(v16_load(x + i), factor), shift));
        v16_store(x + i, e);
        sum = v16_add(sum, e);
    }
    if (i < n) {
        v16 e = v16_exp(v16_subtract(v16_multiply(v16_load_partial(x + i, n - i), factor), shift));
        v16_store_partial(x + i, e, n - i);
        sum = v16_add(sum, v16_load_partial(x + i, n - i)); /* lanes past the end count as 0 */
    }
    const v16 inverse = v16_set1(1.0f / v16_sum(sum));
    i = 0;
    for (; i + 16 <= n; i += 16)
        v16_store(x + i, v16_multiply(v16_load(x + i), inverse));
    if (i < n)
        v16_store_partial(x + i, v16_multiply(v16_load_partial(x + i, n - i), inverse), n - i);
}

/* Largest magnitude of n floats; NaN is skipped. */
V16_INLINE float ORK_KERNEL(absolute_maximum)(const float *x, uint32_t n)
{
    v16 top = v16_zero();
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16)
        top = v16_max(v16_absolute(v16_load(x + i)), top);
    if (i < n)
        top = v16_max(v16_absolute(v16_load_partial(x + i, n - i)), top);
    return v16_maximum(top);
}

/* Codes of the 16 inputs from i on, of which those beyond n are 0. */
V16_INLINE v16i ORK_KERNEL(codes)(const float *x, uint32_t i, uint32_t n, v16 factor)
{
    v16 v = i + 16 <= n ? v16_load(x + i) : i < n ? v16_load_partial(x + i, n - i) : v16_zero();
    v = v16_max(v16_set1(-127.0f), v16_multiply(v, factor));
    return v16_round(v16_min(v16_set1(127.0f), v));
}

/* One block of `padded` codes, of which the first n are of inputs; returns their sum. */
V16_INLINE int32_t ORK_KERNEL(quantize_block)(int8_t *plain, int8_t *split, const float *x, uint32_t n, uint32_t padded,
                                              v16 factor)
{
    v16i sums = v16i_zero();
    for (uint32_t i = 0; i < padded; i += 32) {
        v16i first = ORK_KERNEL(codes)(x, i, n, factor), second = ORK_KERNEL(codes)(x, i + 16, n, factor);
        sums = v16i_add(sums, v16i_add(first, second));
        if (plain)
            v16i_store_bytes(plain + i, first, second);
        if (split)
            v16i_store_bytes_split(split + i, first, second);
    }
    return v16i_sum(sums);
}

/* Sixteen blocks at a time: their maxima, the divisions side by side, their codes. */
static void ORK_KERNEL(quantize)(struct ork_activation *x, uint32_t row)
{
    const float *input = x->f32 + row * x->f32_stride;
    int8_t *plain = x->plain ? x->plain + (uint64_t)row * x->k_padded : NULL;
    int8_t *split = x->split ? x->split + (uint64_t)row * x->k_padded : NULL;
    const uint32_t k = x->k, k_padded = x->k_padded, size = x->block, blocks = x->blocks;
    float *scales = x->scales + (uint64_t)row * blocks;
    int32_t *sums = x->sums + (uint64_t)row * blocks;
    const v16 most = v16_set1(127.0f), huge = v16_set1(0x1.fffffep127f);
    for (uint32_t block = 0; block < blocks; block += 16) {
        const uint32_t count = blocks - block < 16 ? blocks - block : 16;
        float maxima[16] = {0}, factors[16];
        for (uint32_t i = 0; i < count; i++) {
            uint32_t begin = (block + i) * size, left = begin < k ? k - begin : 0;
            maxima[i] = ORK_KERNEL(absolute_maximum)(input + begin, left < size ? left : size);
        }
        v16 maximum = v16_min(v16_load(maxima), huge);
        v16 scale = v16_divide(maximum, most);
        if (count == 16)
            v16_store(scales + block, scale);
        else
            v16_store_partial(scales + block, scale, count);
        /* The bound serves maxima below 127 / FLT_MAX and 0: a quotient that is infinite would make 0 a NaN. Codes stay
         * right to within the size of such inputs. */
        v16_store(factors, v16_min(v16_divide(most, maximum), huge));
        for (uint32_t i = 0; i < count; i++) {
            uint32_t begin = (block + i) * size, left = begin < k ? k - begin : 0;
            uint32_t padded = k_padded - begin < size ? k_padded - begin : size;
            sums[block + i] =
                ORK_KERNEL(quantize_block)(plain ? plain + begin : NULL, split ? split + begin : NULL, input + begin,
                                           left < padded ? left : padded, padded, v16_set1(factors[i]));
        }
    }
}

static void ORK_KERNEL(rope_adjacent)(float *x, const float *cosine, const float *sine, uint32_t pairs)
{
    uint32_t i = 0;
    for (; i + 16 <= pairs; i += 16) {
        v16 a, b, c = v16_load(cosine + i), s = v16_load(sine + i);
        v16_load_pairs(&a, &b, x + 2 * i);
        v16_store_pairs(x + 2 * i, v16_subtract(v16_multiply(a, c), v16_multiply(b, s)),
                        v16_add(v16_multiply(a, s), v16_multiply(b, c)));
    }
    for (; i < pairs; i++) {
        float a = x[2 * i], b = x[2 * i + 1];
        x[2 * i] = a * cosine[i] - b * sine[i];
        x[2 * i + 1] = a * sine[i] + b * cosine[i];
    }
}

static void ORK_KERNEL(rope_halves)(float *x, const float *cosine, const float *sine, uint32_t pairs)
{
    uint32_t i = 0;
    for (; i + 16 <= pairs; i += 16) {
        v16 a = v16_load(x + i), b = v16_load(x + i + pairs), c = v16_load(cosine + i), s = v16_load(sine + i);
        v16_store(x + i, v16_subtract(v16_multiply(a, c), v16_multiply(b, s)));
        v16_store(x + i + pairs, v16_add(v16_multiply(a, s), v16_multiply(b, c)));
    }
    for (; i < pairs; i++) {
        float a = x[i], b = x[i + pairs];
        x[i] = a * cosine[i] - b * sine[i];
        x[i + pairs] = a * sine[i] + b * cosine[i];
    }
}

static void ORK_KERNEL(f32_to_f16)(uint16_t *y, const float *x, uint32_t n)
{
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16)
        v16_store_f16(y + i, v16_load(x + i));
    if (i < n) {
        uint16_t lanes[16];
        v16_store_f16(lanes, v16_load_partial(x + i, n - i));
        memcpy(y + i, lanes, (n - i) * sizeof(uint16_t));
    }
}

/* Channels whose last `taps` products are kept side by side: small enough for the nearest cache, long enough for streams
 * that the hardware follows. */
#define CONV_STRIP 256u

/* One token: u into the newest row of the ring, result into y. n: multiple of 16 but for the last vector. */
V16_INLINE void ORK_KERNEL(short_conv_row)(const struct ork_short_conv *a, uint32_t row, uint32_t begin, uint32_t n,
                                           float *const *u, const uint32_t taps)
{
    const float *b = a->b + row * a->stride + begin, *c = a->c + row * a->stride + begin;
    const float *x = a->x + row * a->stride + begin, *w = a->w + begin;
    float *y = a->y + row * a->y_stride + begin;
    for (uint32_t at = 0; at < n; at += 16) {
        const bool whole = n - at >= 16;
        const uint32_t left = n - at;
        v16 sum = v16_zero();
        for (uint32_t i = 0; i + 1 < taps; i++) {
            const float *weights = w + i * a->w_stride + at;
            sum = v16_fma(whole ? v16_load(weights) : v16_load_partial(weights, left), v16_load(u[i] + at), sum);
        }
        const float *weights = w + (taps - 1) * a->w_stride + at;
        if (whole) {
            v16 product = v16_multiply(v16_load(b + at), v16_load(x + at));
            v16_store(u[taps - 1] + at, product);
            sum = v16_fma(v16_load(weights), product, sum);
            v16_store(y + at, v16_multiply(sum, v16_load(c + at)));
        } else {
            v16 product = v16_multiply(v16_load_partial(b + at, left), v16_load_partial(x + at, left));
            v16_store(u[taps - 1] + at, product);
            sum = v16_fma(v16_load_partial(weights, left), product, sum);
            v16_store_partial(y + at, v16_multiply(sum, v16_load_partial(c + at, left)), left);
        }
    }
}

static void ORK_KERNEL(short_conv)(const struct ork_short_conv *a)
{
    float ring[ORK_SHORT_CONV_TAPS_MAX][CONV_STRIP];
    for (uint32_t begin = 0; begin < a->n; begin += CONV_STRIP) {
        const uint32_t n = a->n - begin < CONV_STRIP ? a->n - begin : CONV_STRIP, past = a->taps - 1;
        float *u[ORK_SHORT_CONV_TAPS_MAX];
        for (uint32_t i = 0; i < a->taps; i++)
            u[i] = ring[i];
        for (uint32_t i = 0; i < past; i++) {
            v16_store(u[i] + (n - 1) / 16 * 16, v16_zero()); /* whole vectors are read */
            memcpy(u[i], a->state + i * a->state_stride + begin, n * sizeof(float));
        }
        for (uint32_t row = 0; row < a->rows; row++) {
            if (a->taps == 3)
                ORK_KERNEL(short_conv_row)(a, row, begin, n, u, 3);
            else
                ORK_KERNEL(short_conv_row)(a, row, begin, n, u, a->taps);
            float *oldest = u[0];
            for (uint32_t i = 0; i < past; i++)
                u[i] = u[i + 1];
            u[past] = oldest;
        }
        for (uint32_t i = 0; i < past; i++)
            memcpy(a->state + i * a->state_stride + begin, u[i], n * sizeof(float));
    }
}
#undef CONV_STRIP

#include "kernels/ref/attention.inc.c"

#define ORK_VECTOR_TABLE(isa_number, isa_name)                                                                         \
    {                                                                                                                  \
        .isa = isa_number, .name = "vector_" isa_name, .rms_norm = ORK_KERNEL(rms_norm), .add = ORK_KERNEL(add),       \
        .multiply = ORK_KERNEL(multiply), .axpy = ORK_KERNEL(axpy), .silu_multiply = ORK_KERNEL(silu_multiply),        \
        .sigmoid = ORK_KERNEL(sigmoid), .softmax = ORK_KERNEL(softmax), .quantize = ORK_KERNEL(quantize),              \
        .copy_maximum = ORK_KERNEL(copy_maximum), .rope_adjacent = ORK_KERNEL(rope_adjacent),                          \
        .rope_halves = ORK_KERNEL(rope_halves), .attend = ORK_KERNEL(attend),                                          \
        .attend_merge = ORK_KERNEL(attend_merge), .attend_finish = ORK_KERNEL(attend_finish),                          \
        .f32_to_f16 = ORK_KERNEL(f32_to_f16), .short_conv = ORK_KERNEL(short_conv)                                     \
    }
