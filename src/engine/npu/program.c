/* The register programs of matmul tasks. Owns what stands in each register; limits stand in limits.c, fields in
 * registers.h.
 *
 * The recipe is that of npu-hw.md 4.2 and 4.3 (happyme531/rknpu2_matmul_open; for W8A8 also allbilly/rk3588,
 * oRKLLM/ork-driver and, in most registers, mtx512/rk3588-npu): a matmul is a convolution with a kernel of 1 x 1 over an
 * image of `width` x `height` pixels, one for each row of A. Native surfaces are one line of m pixels, rows are m lines of
 * one. Registers that have no part in it are written as 0, as the vendor's programs do. */
#include "engine/npu/program.h"

#include "base/checked.h"
#include "base/error.h"
#include "engine/npu/limits.h"
#include "engine/npu/registers.h"

#include <assert.h>
#include <string.h>

/* Appends one register; fields that are not named are 0. */
#define PUT(writer, name, ...) ork_npu_put_##name(writer, (struct ork_npu_##name){__VA_ARGS__})

enum {
    ATOM_BYTES = 16,
    CBUF_LINE_BYTES = 64, /* unit of CNA DATA_ENTRIES */
    BURST_16 = 15,        /* transactions of 16 beats */
    ONE = 1,              /* fixed-point scales of 1 */
    /* A kernel group's results fill 8 surfaces of atoms for both types: 32 of 4 bytes or 64 of 2. */
    GROUP_SURFACES = 8,
    SIZE_E = GROUP_SURFACES - 1
};

/* Where addresses and links stand. The first word must be the DPU's pointer. */
enum { WORD_A = 1, WORD_B = 2, WORD_C = 3 };
enum { TAIL_WORDS = 4, BODY_WORDS = 103, PROGRAM_WORDS = BODY_WORDS + TAIL_WORDS };
enum { WORD_LINK = BODY_WORDS, WORD_LINK_AMOUNT, WORD_SYNC, WORD_START };
static_assert(PROGRAM_WORDS <= ORK_NPU_PROGRAM_SLOT_WORDS, "a program fits its slot");

/* Numbers that several registers need. */
struct geometry {
    const struct ork_npu_shape *shape;
    int64_t width, height, pixels;     /* of the image */
    int64_t kernel_bytes, row_entries; /* of one channel of B; CBUF lines of one pixel */
    int64_t input_precision;
    struct ork_npu_schedule schedule;
};

static struct geometry geometry_of(const struct ork_npu_shape *shape)
{
    bool is_native = shape->input == ORK_NPU_NATIVE, is_int4 = shape->type == ORK_NPU_W4A4;
    int64_t kernel_bytes = is_int4 ? shape->k / 2 : shape->k;
    return (struct geometry){
        .shape = shape,
        .width = is_native ? shape->m : 1,
        .height = is_native ? 1 : shape->m,
        .pixels = shape->m,
        .kernel_bytes = kernel_bytes,
        .row_entries = (int64_t)ork_divide_up((uint64_t)kernel_bytes, CBUF_LINE_BYTES),
        .input_precision = is_int4 ? ORK_NPU_PRECISION_INT4 : ORK_NPU_PRECISION_INT8,
        .schedule = ork_npu_schedule_of(shape),
    };
}

static void put_start_and_addresses(struct ork_npu_writer *writer, const struct ork_npu_addresses *addresses)
{
    PUT(writer, dpu_s_pointer, .pointer_pp_en = 1, .executer_pp_en = 1, .pointer_pp_mode = 1);
    PUT(writer, cna_feature_data_addr, .feature_base_addr = addresses->a);
    PUT(writer, cna_dcomp_addr0, .decompress_addr0 = addresses->b);
    PUT(writer, dpu_dst_base_addr, .dst_base_addr = addresses->c);
}

/* How many pixels, inputs and channels there are, and how the CBUF is shared. */
static void put_cna_sizes(struct ork_npu_writer *writer, const struct geometry *g)
{
    PUT(writer, cna_conv_con1, .in_precision = g->input_precision, .proc_precision = g->input_precision,
        .group_line_off = g->shape->input == ORK_NPU_ROWS);
    PUT(writer, cna_conv_con2, .feature_grains = g->schedule.grains);
    PUT(writer, cna_conv_con3, .conv_x_stride = 1, .conv_y_stride = 1);
    PUT(writer, cna_data_size0, .datain_width = g->width, .datain_height = g->height);
    PUT(writer, cna_data_size1, .datain_channel = g->shape->k, .datain_channel_real = (int64_t)g->shape->k - 1);
    PUT(writer, cna_data_size2, .dataout_width = g->width);
    PUT(writer, cna_data_size3, .dataout_atomics = g->pixels);
    PUT(writer, cna_weight_size0, .weight_bytes = g->kernel_bytes * g->shape->n);
    PUT(writer, cna_weight_size1, .weight_bytes_per_kernel = g->kernel_bytes);
    PUT(writer, cna_weight_size2, .weight_width = 1, .weight_height = 1, .weight_kernels = g->shape->n);
    PUT(writer, cna_cbuf_con0, .data_bank = g->schedule.data_banks, .weight_bank = g->schedule.weight_banks);
    PUT(writer, cna_cbuf_con1, .data_entries = g->width * g->row_entries);
}

/* No conversion of inputs, no padding, no zero skipping; strides in atoms. */
static void put_cna_fetch(struct ork_npu_writer *writer, const struct geometry *g)
{
    bool is_native = g->shape->input == ORK_NPU_NATIVE;
    PUT(writer, cna_cvt_con0, .cvt_bypass = 1, .cvt_type = 1, .data_sign = 1);
    PUT(writer, cna_cvt_con1, .cvt_scale0 = ONE);
    PUT(writer, cna_cvt_con2, .cvt_scale1 = ONE);
    PUT(writer, cna_cvt_con3, .cvt_scale2 = ONE);
    PUT(writer, cna_cvt_con4, .cvt_scale3 = ONE);
    PUT(writer, cna_fc_con0, 0);
    PUT(writer, cna_fc_con1, 0);
    PUT(writer, cna_pad_con0, 0);
    PUT(writer, cna_fc_con2, 0);
    PUT(writer, cna_dma_con0, .data_burst_len = BURST_16, .weight_burst_len = BURST_16);
    /* Native: the hardware counts lines in groups of four, a surface's pitch is 4 * width + the surface stride: the stride
     * is negative for fewer than four lines, and must not be clamped to 0 (npu-hw.md 5). */
    PUT(writer, cna_dma_con1, .line_stride = is_native ? 4 * g->width : g->kernel_bytes / ATOM_BYTES);
    PUT(writer, cna_dma_con2, .surf_stride = is_native ? g->width * (g->height - 4) : 0);
    PUT(writer, cna_fc_data_size0, .dma_width = g->width, .dma_height = g->height);
    PUT(writer, cna_fc_data_size1, .dma_channel = g->shape->k);
    PUT(writer, cna_cvt_con5, 0);
    PUT(writer, cna_pad_con1, 0);
}

/* Weights are not compressed. Left out, a task that is not the first of its chain computes wrong results (npu-hw.md 3.2). */
static void put_cna_decompression(struct ork_npu_writer *writer)
{
    PUT(writer, cna_dcomp_ctrl, 0);
    PUT(writer, cna_dcomp_regnum, 0);
    PUT(writer, cna_dcomp_amount0, 0);
    PUT(writer, cna_dcomp_amount1, 0);
    PUT(writer, cna_dcomp_amount2, 0);
    PUT(writer, cna_dcomp_amount3, 0);
    PUT(writer, cna_dcomp_amount4, 0);
    PUT(writer, cna_dcomp_amount5, 0);
    PUT(writer, cna_dcomp_amount6, 0);
    PUT(writer, cna_dcomp_amount7, 0);
    PUT(writer, cna_dcomp_amount8, 0);
    PUT(writer, cna_dcomp_amount9, 0);
    PUT(writer, cna_dcomp_amount10, 0);
    PUT(writer, cna_dcomp_amount11, 0);
    PUT(writer, cna_dcomp_amount12, 0);
    PUT(writer, cna_dcomp_amount13, 0);
    PUT(writer, cna_dcomp_amount14, 0);
    PUT(writer, cna_dcomp_amount15, 0);
}

static void put_core(struct ork_npu_writer *writer, const struct geometry *g)
{
    PUT(writer, core_misc_cfg, .qd_en = 1, .proc_precision = g->input_precision);
    PUT(writer, core_dataout_size_0, .dataout_width = g->width - 1, .dataout_height = g->height - 1);
    PUT(writer, core_dataout_size_1, .dataout_channel = (int64_t)g->shape->n - 1);
    PUT(writer, core_clip_truncate, 0);
    PUT(writer, core_unnamed_3030, 0);
}

/* Where results go. Native: surfaces of 4 channels (W8A8) or 8 (W4A4), each an atom a pixel. Rows: one atom follows another
 * in a pixel, and the notch leads to the next pixel. */
static void put_dpu_output(struct ork_npu_writer *writer, const struct geometry *g)
{
    bool is_int4 = g->shape->type == ORK_NPU_W4A4, is_native = g->shape->output == ORK_NPU_NATIVE;
    int64_t n = g->shape->n, atoms = n * (is_int4 ? 2 : 4) / ATOM_BYTES, surface_atoms = is_native ? g->pixels : 1;
    int64_t notch = is_native ? 0 : atoms - 1;
    PUT(writer, dpu_feature_mode_cfg, .output_mode = ORK_NPU_OUTPUT_MODE_TO_MEMORY, .burst_len = BURST_16);
    PUT(writer, dpu_data_format,
        .proc_precision = is_int4 ? ORK_NPU_OUTPUT_PRECISION_INT4 : ORK_NPU_OUTPUT_PRECISION_INT8,
        .in_precision = is_int4 ? ORK_NPU_OUTPUT_PRECISION_INT4 : ORK_NPU_OUTPUT_PRECISION_INT8,
        .out_precision = is_int4 ? ORK_NPU_OUTPUT_PRECISION_INT16 : ORK_NPU_OUTPUT_PRECISION_INT32);
    PUT(writer, dpu_offset_pend, 0);
    PUT(writer, dpu_dst_surf_stride, .dst_surf_stride = surface_atoms);
    PUT(writer, dpu_data_cube_width, .width = g->width - 1);
    PUT(writer, dpu_data_cube_height, .height = g->height - 1);
    PUT(writer, dpu_data_cube_notch_addr, .notch_addr_0 = notch, .notch_addr_1 = notch);
    PUT(writer, dpu_data_cube_channel, .channel = n - 1, .orig_channel = n - 1);
    PUT(writer, dpu_bs_ow_cfg, .od_bypass = 1, .size_e_0 = SIZE_E, .size_e_1 = SIZE_E, .size_e_2 = SIZE_E);
    PUT(writer, dpu_bs_ow_op, 0);
    PUT(writer, dpu_wdma_size_0, .channel_wdma = n - 1);
    PUT(writer, dpu_wdma_size_1, .width_wdma = g->width - 1, .height_wdma = g->height - 1);
    PUT(writer, dpu_surface_add, .surf_add = GROUP_SURFACES * surface_atoms);
}

/* Bias, batch norm, elementwise operations and the output converter: all passed by. */
static void put_dpu_bypasses(struct ork_npu_writer *writer)
{
    PUT(writer, dpu_bs_cfg, .bs_bypass = 1, .bs_alu_bypass = 1, .bs_mul_bypass = 1, .bs_relu_bypass = 1);
    PUT(writer, dpu_bs_alu_cfg, 0);
    PUT(writer, dpu_bs_mul_cfg, 0);
    PUT(writer, dpu_bs_relux_cmp_value, 0);
    PUT(writer, dpu_bn_cfg, .bn_bypass = 1, .bn_alu_bypass = 1, .bn_mul_bypass = 1, .bn_relu_bypass = 1);
    PUT(writer, dpu_bn_alu_cfg, 0);
    PUT(writer, dpu_bn_mul_cfg, 0);
    PUT(writer, dpu_bn_relux_cmp_value, 0);
    PUT(writer, dpu_ew_cfg, .ew_bypass = 1, .ew_op_bypass = 1, .ew_lut_bypass = 1, .ew_op_cvt_bypass = 1,
        .ew_relu_bypass = 1);
    PUT(writer, dpu_ew_cvt_offset_value, 0);
    PUT(writer, dpu_ew_cvt_scale_value, .ew_op_cvt_scale = ONE);
    PUT(writer, dpu_ew_relux_cmp_value, 0);
    PUT(writer, dpu_out_cvt_offset, 0);
    PUT(writer, dpu_out_cvt_scale, .out_cvt_scale = ONE);
    PUT(writer, dpu_out_cvt_shift, 0);
    PUT(writer, dpu_ew_op_value_0, 0);
    PUT(writer, dpu_ew_op_value_1, 0);
    PUT(writer, dpu_ew_op_value_2, 0);
    PUT(writer, dpu_ew_op_value_3, 0);
    PUT(writer, dpu_ew_op_value_4, 0);
    PUT(writer, dpu_ew_op_value_5, 0);
    PUT(writer, dpu_ew_op_value_6, 0);
    PUT(writer, dpu_ew_op_value_7, 0);
    PUT(writer, dpu_lut_access_cfg, 0);
    PUT(writer, dpu_lut_access_data, 0);
    PUT(writer, dpu_lut_cfg, 0);
    PUT(writer, dpu_lut_info, 0);
    PUT(writer, dpu_lut_le_start, 0);
    PUT(writer, dpu_lut_le_end, 0);
    PUT(writer, dpu_lut_lo_start, 0);
    PUT(writer, dpu_lut_lo_end, 0);
    PUT(writer, dpu_lut_le_slope_scale, 0);
    PUT(writer, dpu_lut_le_slope_shift, 0);
    PUT(writer, dpu_lut_lo_slope_scale, 0);
    PUT(writer, dpu_lut_lo_slope_shift, 0);
}

/* Register amount of a program as its predecessor's link says it: 2 * (amount + 1) words are fetched (npu-hw.md 3.2). */
static uint32_t link_amount(void)
{
    return (uint32_t)ork_divide_up(BODY_WORDS, 2) + 1;
}

static void put_tail(struct ork_npu_writer *writer)
{
    writer->count = BODY_WORDS + 1; /* the link: a word of zeros */
    PUT(writer, pc_register_amounts, 0);
    PUT(writer, sync_marker, 0);
    PUT(writer, start_operation_enable, .cna_op_en = 1, .core_op_en = 1, .dpu_op_en = 1);
}

uint32_t ork_npu_program_words(enum ork_npu_type type)
{
    (void)type; /* both have the same registers */
    return PROGRAM_WORDS;
}

ork_status ork_npu_program_write(const struct ork_npu_shape *shape, const struct ork_npu_addresses *addresses,
                                 uint64_t *words, ork_error *error)
{
    ork_status status = ork_npu_shape_check(shape, error);
    if (status != ORK_OK)
        return status;
    if ((addresses->a | addresses->b | addresses->c) % ATOM_BYTES)
        return ork_error_set(error, ORK_BAD_ARGUMENT, NULL, -1, "addresses 0x%x, 0x%x, 0x%x are no multiples of %d",
                             addresses->a, addresses->b, addresses->c, ATOM_BYTES);
    memset(words, 0, ORK_NPU_PROGRAM_SLOT_WORDS * sizeof *words);
    struct ork_npu_writer writer = {.words = words, .capacity = PROGRAM_WORDS};
    struct geometry g = geometry_of(shape);
    put_start_and_addresses(&writer, addresses);
    put_cna_sizes(&writer, &g);
    put_cna_fetch(&writer, &g);
    put_cna_decompression(&writer);
    put_core(&writer, &g);
    put_dpu_output(&writer, &g);
    put_dpu_bypasses(&writer);
    assert(writer.failed_register || writer.count == BODY_WORDS);
    put_tail(&writer);
    if (writer.failed_register)
        return ork_error_set(error, ORK_LIMIT, NULL, -1, "%s.%s: %s: %lld does not fit",
                             ork_npu_blocks[writer.failed_register->block].name, writer.failed_register->name,
                             writer.failed_field ? writer.failed_field->name : "the program",
                             (long long)writer.failed_value);
    return ORK_OK;
}

static void set_value(uint64_t *word, uint32_t value)
{
    *word = ork_npu_word(ork_npu_word_target(*word), ork_npu_word_offset(*word), value);
}

void ork_npu_program_set_addresses(enum ork_npu_type type, const struct ork_npu_addresses *addresses, uint64_t *words)
{
    (void)type;
    set_value(&words[WORD_A], addresses->a);
    set_value(&words[WORD_B], addresses->b);
    set_value(&words[WORD_C], addresses->c);
}

void ork_npu_program_get_addresses(enum ork_npu_type type, const uint64_t *words, struct ork_npu_addresses *addresses)
{
    (void)type;
    addresses->a = ork_npu_word_value(words[WORD_A]);
    addresses->b = ork_npu_word_value(words[WORD_B]);
    addresses->c = ork_npu_word_value(words[WORD_C]);
}

void ork_npu_program_set_next(enum ork_npu_type type, bool last, uint32_t next_iova, enum ork_npu_type next_type,
                              uint64_t *words)
{
    (void)type;
    (void)next_type;
    assert(next_iova % ATOM_BYTES == 0);
    words[WORD_LINK] = last ? 0 : ork_npu_word(ORK_NPU_TARGET_PC, ORK_NPU_OFFSET_PC_BASE_ADDRESS, next_iova);
    set_value(&words[WORD_LINK_AMOUNT], last ? 0 : link_amount());
}
