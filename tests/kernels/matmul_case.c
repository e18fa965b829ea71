/* See matmul_case.h. The formulas are those of quant/tier.h, written here a second time on purpose. */
#include "matmul_case.h"

#include <math.h>
#include <string.h>

#include "base/mathematics.h"

uint32_t matmul_brick_channels(enum ork_tier tier)
{
    return tier == ORK_TIER_I8 ? 32 : tier >= ORK_TIER_I4 ? 64 : 1;
}

enum ork_layout matmul_case_layout(enum ork_tier tier)
{
    static const enum ork_layout layouts[ORK_TIER_COUNT] = {
        [ORK_TIER_I8] = ORK_LAYOUT_BRICK32,   [ORK_TIER_I4] = ORK_LAYOUT_BRICK64,
        [ORK_TIER_NF4] = ORK_LAYOUT_BRICK64,  [ORK_TIER_I5] = ORK_LAYOUT_BRICK64_5,
        [ORK_TIER_I6] = ORK_LAYOUT_BRICK64_6, [ORK_TIER_N8] = ORK_LAYOUT_BRICK64_PAIR,
    };
    return layouts[tier];
}

static bool is_four_bits(enum ork_tier tier)
{
    return tier == ORK_TIER_I4 || tier == ORK_TIER_NF4;
}

static bool has_upper_bits(enum ork_tier tier)
{
    return tier == ORK_TIER_I5 || tier == ORK_TIER_I6;
}

static bool has_table(enum ork_tier tier)
{
    return tier == ORK_TIER_NF4 || tier == ORK_TIER_N8;
}

static bool is_float(enum ork_tier tier)
{
    return tier == ORK_TIER_F32 || tier == ORK_TIER_F16 || tier == ORK_TIER_BF16;
}

static uint32_t round_up(uint32_t value, uint32_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

/* n8: where in an expert's data the residual begins. */
static uint64_t residual_at(const struct matmul_shape *s)
{
    return (uint64_t)round_up(round_up(s->n, 64) / 2 * round_up(s->k, 32), 4096);
}

static uint64_t data_bytes(const struct matmul_shape *s)
{
    uint64_t n = round_up(s->n, matmul_brick_channels(s->tier)), k = round_up(s->k, 32);
    if (s->tier == ORK_TIER_F32)
        return 4 * (uint64_t)s->n * s->k;
    if (is_float(s->tier))
        return 2 * (uint64_t)s->n * s->k;
    if (has_upper_bits(s->tier))
        return n * k / 8 * (s->tier == ORK_TIER_I5 ? 5 : 6);
    if (s->tier == ORK_TIER_N8) /* the second half begins on a page */
        return residual_at(s) + n * k / 2;
    return is_four_bits(s->tier) ? n * k / 2 : n * k;
}

static uint64_t scale_bytes(const struct matmul_shape *s)
{
    if (is_float(s->tier))
        return 0;
    if (s->tier == ORK_TIER_G8)
        return 2 * (uint64_t)s->n * (round_up(s->k, 32) / 32);
    return 4 * (uint64_t)round_up(s->n, matmul_brick_channels(s->tier));
}

uint64_t matmul_case_bytes(const struct matmul_case *c)
{
    return data_bytes(&c->shape) + scale_bytes(&c->shape);
}

static struct guarded make_buffer(const struct matmul_shape *s, uint64_t size_bytes)
{
    return s->front ? guarded_allocate_front(size_bytes) : guarded_allocate(size_bytes);
}

static int8_t random_code(uint64_t *seed, enum code_style style, bool weight, bool flip)
{
    switch (style) {
    case CODES_ZERO:
        return weight ? (int8_t)(random_below(seed, 255) - 127) : 0;
    case CODES_LARGEST:
        return flip ? -127 : 127;
    case CODES_OPPOSITE:
        return weight != flip ? -127 : 127;
    default:
        return (int8_t)((int)random_below(seed, 255) - 127);
    }
}

static void fill_weights(struct matmul_case *c, uint64_t *seed)
{
    const struct matmul_shape *s = &c->shape;
    uint8_t *bytes = c->data.data;
    uint64_t count = c->data.size_bytes;
    if (s->tier == ORK_TIER_F32) {
        random_floats(seed, s->scale_style, c->data.data, count / 4);
        return;
    }
    if (is_float(s->tier)) {
        uint16_t *halves = c->data.data;
        for (uint64_t i = 0; i < count / 2; i++) {
            float value;
            random_floats(seed, s->scale_style, &value, 1);
            halves[i] = s->tier == ORK_TIER_F16 ? ork_f32_to_f16(value) : ork_f32_to_bf16(value);
        }
        return;
    }
    if (s->tier == ORK_TIER_N8) {
        /* Ends of the table with residuals that leave int8 (mod 256 then), or anything; an expert's halves alike. */
        for (uint64_t i = 0; i < count; i++)
            bytes[i] = s->codes == CODES_LARGEST ? 0x77 : s->codes == CODES_OPPOSITE ? 0x88 : (uint8_t)random_u64(seed);
        return;
    }
    if (is_four_bits(s->tier)) {
        /* i4: -8 is nibble 8 and 7 is nibble 7; nf4: the ends of the table. */
        uint8_t low = s->tier == ORK_TIER_I4 ? 0x88 : 0x00, high = s->tier == ORK_TIER_I4 ? 0x77 : 0xFF;
        for (uint64_t i = 0; i < count; i++)
            bytes[i] = s->codes == CODES_LARGEST ? high : s->codes == CODES_OPPOSITE ? low : (uint8_t)random_u64(seed);
        return;
    }
    if (has_upper_bits(s->tier)) {
        /* The ends of the range: nibbles 0 and the sign alone above, or nibbles 15 and all but the sign. */
        const uint64_t part = s->tier == ORK_TIER_I5 ? 320 : 192;
        const uint8_t sign = s->tier == ORK_TIER_I5 ? 0xFF : 0xAA;
        for (uint64_t i = 0; i < count; i++) {
            bool upper = i % part < 64;
            bytes[i] = s->codes == CODES_LARGEST    ? (uint8_t)(upper ? ~sign : 0xFF)
                       : s->codes == CODES_OPPOSITE ? (uint8_t)(upper ? sign : 0)
                                                    : (uint8_t)random_u64(seed);
        }
        return;
    }
    for (uint64_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)random_code(seed, s->codes, true, false);
}

static void fill_scales(struct matmul_case *c, uint64_t *seed)
{
    const struct matmul_shape *s = &c->shape;
    if (s->tier == ORK_TIER_G8) {
        uint16_t *halves = c->scales.data;
        for (size_t i = 0; i < c->scales.size_bytes / 2; i++) {
            float value;
            random_floats(seed, s->scale_style, &value, 1);
            halves[i] = ork_f32_to_f16(value);
            if ((halves[i] & 0x7C00) == 0x7C00)
                halves[i] = 0x7BFF; /* the largest finite half instead of infinity */
        }
    } else if (c->scales.size_bytes > 0) {
        random_floats(seed, s->scale_style, c->scales.data, c->scales.size_bytes / 4);
    }
    if (has_table(s->tier)) {
        /* Ascending, ends at -127 and 127 (-128 is an int8 too and must not break anything), one entry 0. */
        const int8_t codes[16] = {-128, -88, -67, -50, -36, -23, -11, 0, 10, 20, 31, 43, 56, 72, 92, 127};
        memcpy(c->table.data, codes, sizeof codes);
    }
}

/* Activation codes by hand, so that their extremes do not depend on a quantizer. */
static void fill_codes(struct matmul_case *c, uint64_t *seed)
{
    struct ork_activation *x = &c->x;
    for (uint32_t row = 0; row < x->rows; row++) {
        int8_t *plain = x->plain + (uint64_t)row * x->k_padded, *split = x->split + (uint64_t)row * x->k_padded;
        for (uint32_t k = 0; k < x->k_padded; k++)
            plain[k] = k < x->k ? random_code(seed, c->shape.codes, false, row % 2) : 0;
        for (uint32_t k = 0; k < x->k_padded; k++)
            split[k / 32 * 32 + k % 2 * 16 + k % 32 / 2] = plain[k];
        for (uint32_t block = 0; block < x->blocks; block++) {
            int32_t sum = 0;
            for (uint32_t k = block * x->block; k < x->k_padded && k < (block + 1) * x->block; k++)
                sum += plain[k];
            x->sums[(uint64_t)row * x->blocks + block] = sum;
        }
    }
    random_floats(seed, c->shape.x_style, x->scales, (size_t)x->rows * x->blocks);
    for (size_t i = 0; i < (size_t)x->rows * x->blocks; i++)
        x->scales[i] = fabsf(x->scales[i]);
}

static void make_activation(struct matmul_case *c, uint64_t *seed)
{
    const struct matmul_shape *s = &c->shape;
    const uint32_t rows = s->x_row_count;
    struct ork_activation *x = &c->x;
    x->rows = rows;
    x->k = s->k;
    x->k_padded = round_up(s->k, 32);
    x->block = s->block == 0 || s->block > x->k_padded ? x->k_padded : s->block;
    x->blocks = (x->k_padded + x->block - 1) / x->block;
    x->f32_stride = s->k;
    c->f32 = make_buffer(s, (uint64_t)rows * s->k * 4);
    random_floats(seed, s->x_style, c->f32.data, (size_t)rows * s->k);
    x->f32 = c->f32.data;
    c->plain = make_buffer(s, (uint64_t)rows * x->k_padded);
    c->split = make_buffer(s, (uint64_t)rows * x->k_padded);
    c->x_scales = make_buffer(s, (uint64_t)rows * x->blocks * 4);
    c->x_sums = make_buffer(s, (uint64_t)rows * x->blocks * 4);
    x->plain = c->plain.data;
    x->split = c->split.data;
    x->scales = c->x_scales.data;
    x->sums = c->x_sums.data;
    if (!is_float(s->tier))
        fill_codes(c, seed);
}

void matmul_case_make(struct matmul_case *c, const struct matmul_shape *shape, uint64_t *seed)
{
    memset(c, 0, sizeof *c);
    c->shape = *shape;
    const struct matmul_shape *s = &c->shape;
    c->data = make_buffer(s, data_bytes(s) * s->experts);
    c->scales = make_buffer(s, scale_bytes(s) * s->experts);
    c->table = make_buffer(s, has_table(s->tier) ? 16 : 0);
    fill_weights(c, seed);
    fill_scales(c, seed);
    make_activation(c, seed);
    c->matrix = (struct ork_matrix){
        .tier = s->tier,
        .layout = matmul_case_layout(s->tier),
        .n = s->n,
        .k = s->k,
        .experts = s->experts,
        .data = c->data.data,
        .data_expert_stride = data_bytes(s),
        .scales = is_float(s->tier) ? NULL : c->scales.data,
        .scale_expert_stride = scale_bytes(s),
        .table = has_table(s->tier) ? c->table.data : NULL,
        .name = "case",
    };
    if (s->shuffled) {
        c->x_rows = make_buffer(s, (uint64_t)s->m * 4);
        for (uint32_t i = 0; i < s->m; i++)
            ((uint32_t *)c->x_rows.data)[i] = random_below(seed, s->x_row_count);
    }
    c->y_stride = s->n + random_below(seed, 5);
    c->y = make_buffer(s, s->m == 0 ? 0 : ((s->m - 1) * c->y_stride + s->n) * 4);
}

void matmul_case_free(struct matmul_case *c)
{
    struct guarded *buffers[] = {&c->data,  &c->scales,   &c->table,  &c->f32,    &c->plain,
                                 &c->split, &c->x_scales, &c->x_sums, &c->x_rows, &c->y};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        guarded_free(buffers[i]);
}

struct ork_matmul_args matmul_case_args(const struct matmul_case *c, uint32_t n_begin, uint32_t n_end)
{
    return (struct ork_matmul_args){
        .w = &c->matrix,
        .expert = c->shape.expert,
        .x = &c->x,
        .x_rows = c->shape.shuffled ? c->x_rows.data : NULL,
        .m = c->shape.m,
        .n_begin = n_begin,
        .n_end = n_end,
        .y = c->y.data,
        .y_stride = c->y_stride,
    };
}

/* i5: a part of a brick is 16 channels, 64 bytes of fifth bits and 16 x 16 of nibbles; i6: 8 channels, 64 bytes of upper
 * pairs and 8 x 16. */
static int upper_code(const uint8_t *data, bool six, uint64_t kt, uint32_t n, uint32_t k)
{
    const uint32_t channels = six ? 8 : 16, bits = six ? 2 : 1;
    const uint8_t *part = data + ((n / 64) * kt + k / 32) * (six ? 1536 : 1280) + n % 64 / channels * (six ? 192 : 320);
    const uint32_t c = n % channels, byte = k % 32 / 2;
    int low = part[64 + c * 16 + byte] >> (k % 2 * 4) & 15;
    int high = part[c % 4 * 16 + byte] >> (c / 4 * bits + k % 2 * 4) & (six ? 3 : 1);
    int code = low + 16 * high;
    return code < (six ? 32 : 16) ? code : code - (six ? 64 : 32);
}

double matmul_case_weight(const struct matmul_case *c, uint32_t n, uint32_t k)
{
    const struct matmul_shape *s = &c->shape;
    const uint8_t *data = (const uint8_t *)c->data.data + s->expert * data_bytes(s);
    const uint8_t *scales = (const uint8_t *)c->scales.data + s->expert * scale_bytes(s);
    const uint64_t kt = round_up(s->k, 32) / 32;
    uint16_t half;
    float scale = 0, value;
    int nibble;
    switch (s->tier) {
    case ORK_TIER_F32:
        memcpy(&value, data + ((uint64_t)n * s->k + k) * 4, 4);
        return value;
    case ORK_TIER_F16:
        memcpy(&half, data + ((uint64_t)n * s->k + k) * 2, 2);
        return ork_f16_to_f32(half);
    case ORK_TIER_BF16:
        memcpy(&half, data + ((uint64_t)n * s->k + k) * 2, 2);
        return ork_bf16_to_f32(half);
    case ORK_TIER_G8:
        memcpy(&half, scales + (n * kt + k / 32) * 2, 2);
        return (double)ork_f16_to_f32(half) * (int8_t)data[n * kt * 32 + k];
    case ORK_TIER_I8:
        memcpy(&scale, scales + n * 4, 4);
        return (double)scale * (int8_t)data[((n / 32) * kt + k / 32) * 1024 + n % 32 * 32 + k % 32];
    case ORK_TIER_I5:
    case ORK_TIER_I6:
        memcpy(&scale, scales + n * 4, 4);
        return (double)scale * upper_code(data, s->tier == ORK_TIER_I6, kt, n, k);
    default:
        memcpy(&scale, scales + n * 4, 4);
        nibble = data[((n / 64) * kt + k / 32) * 1024 + n % 64 * 16 + k % 32 / 2] >> (k % 2 * 4) & 15;
        if (s->tier == ORK_TIER_N8) {
            const uint8_t *residual = data + residual_at(s) + ((n / 64) * kt + k / 32) * 1024;
            int more = residual[n % 64 * 16 + k % 32 / 2] >> (k % 2 * 4) & 15;
            int code = ((const int8_t *)c->table.data)[nibble] + 2 * (more < 8 ? more : more - 16);
            return (double)scale * (code > 127 ? code - 256 : code < -128 ? code + 256 : code);
        }
        if (s->tier == ORK_TIER_NF4)
            return (double)scale * ((const int8_t *)c->table.data)[nibble];
        return (double)scale * (nibble < 8 ? nibble : nibble - 16);
    }
}

double matmul_case_input(const struct matmul_case *c, uint32_t row, uint32_t k)
{
    if (is_float(c->shape.tier))
        return c->x.f32[(uint64_t)row * c->x.f32_stride + k];
    return (double)c->x.plain[(uint64_t)row * c->x.k_padded + k] *
           c->x.scales[(uint64_t)row * c->x.blocks + k / c->x.block];
}
