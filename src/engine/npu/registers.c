/* The NPU's registers as tables. Made by tools/npu_registers.py of tools/npu_registers.txt; change that. */
#include "engine/npu/registers.h"

/* clang-format off */

static const struct ork_npu_field_value values_precision[] = {{"int8", 0}, {"int16", 1}, {"fp16", 2}, {"bf16", 3},
    {"int4", 6}, {"tf32", 7}};
static const struct ork_npu_field_value values_output_precision[] = {{"int8", 0}, {"int16", 1}, {"fp16", 2},
    {"bf16", 3}, {"int32", 4}, {"fp32", 5}, {"int4", 6}};
static const struct ork_npu_field_value values_output_mode[] = {{"to_memory", 2}};
const struct ork_npu_enumeration ork_npu_enumerations[] = {
    {NULL, 0},
    {values_precision, 6},
    {values_output_precision, 7},
    {values_output_mode, 1},
};

const struct ork_npu_block ork_npu_blocks[] = {
    {"pc", 0x0101},
    {"cna", 0x0201},
    {"core", 0x0801},
    {"dpu", 0x1001},
    {"dpu_rdma", 0x2001},
    {"ppu", 0x4001},
    {"ppu_rdma", 0x8001},
    {"sync", 0x0041},
    {"start", 0x0081},
    {"global", 0x0000},
};
const size_t ork_npu_block_count = sizeof ork_npu_blocks / sizeof *ork_npu_blocks;

/* Name, lowest bit, bits, two's complement, enumeration. */
const struct ork_npu_field ork_npu_fields[] = {
    {"version", 0, 32, 0, 0},
    {"version_num", 0, 32, 0, 0},
    {"op_en", 0, 1, 0, 0},
    {"pc_sel", 0, 1, 0, 0}, {"pc_source_addr", 4, 28, 0, 0},
    {"pc_data_amount", 0, 16, 0, 0},
    {"cna_feature_0", 0, 1, 0, 0}, {"cna_feature_1", 1, 1, 0, 0}, {"cna_weight_0", 2, 1, 0, 0},
    {"cna_weight_1", 3, 1, 0, 0}, {"cna_csc_0", 4, 1, 0, 0}, {"cna_csc_1", 5, 1, 0, 0}, {"core_0", 6, 1, 0, 0},
    {"core_1", 7, 1, 0, 0}, {"dpu_0", 8, 1, 0, 0}, {"dpu_1", 9, 1, 0, 0}, {"ppu_0", 10, 1, 0, 0},
    {"ppu_1", 11, 1, 0, 0}, {"dma_read_error", 12, 1, 0, 0}, {"dma_write_error", 13, 1, 0, 0},
    {"cna_feature_0", 0, 1, 0, 0}, {"cna_feature_1", 1, 1, 0, 0}, {"cna_weight_0", 2, 1, 0, 0},
    {"cna_weight_1", 3, 1, 0, 0}, {"cna_csc_0", 4, 1, 0, 0}, {"cna_csc_1", 5, 1, 0, 0}, {"core_0", 6, 1, 0, 0},
    {"core_1", 7, 1, 0, 0}, {"dpu_0", 8, 1, 0, 0}, {"dpu_1", 9, 1, 0, 0}, {"ppu_0", 10, 1, 0, 0},
    {"ppu_1", 11, 1, 0, 0}, {"dma_read_error", 12, 1, 0, 0}, {"dma_write_error", 13, 1, 0, 0},
    {"cna_feature_0", 0, 1, 0, 0}, {"cna_feature_1", 1, 1, 0, 0}, {"cna_weight_0", 2, 1, 0, 0},
    {"cna_weight_1", 3, 1, 0, 0}, {"cna_csc_0", 4, 1, 0, 0}, {"cna_csc_1", 5, 1, 0, 0}, {"core_0", 6, 1, 0, 0},
    {"core_1", 7, 1, 0, 0}, {"dpu_0", 8, 1, 0, 0}, {"dpu_1", 9, 1, 0, 0}, {"ppu_0", 10, 1, 0, 0},
    {"ppu_1", 11, 1, 0, 0}, {"dma_read_error", 12, 1, 0, 0}, {"dma_write_error", 13, 1, 0, 0},
    {"cna_feature_0", 0, 1, 0, 0}, {"cna_feature_1", 1, 1, 0, 0}, {"cna_weight_0", 2, 1, 0, 0},
    {"cna_weight_1", 3, 1, 0, 0}, {"cna_csc_0", 4, 1, 0, 0}, {"cna_csc_1", 5, 1, 0, 0}, {"core_0", 6, 1, 0, 0},
    {"core_1", 7, 1, 0, 0}, {"dpu_0", 8, 1, 0, 0}, {"dpu_1", 9, 1, 0, 0}, {"ppu_0", 10, 1, 0, 0},
    {"ppu_1", 11, 1, 0, 0}, {"dma_read_error", 12, 1, 0, 0}, {"dma_write_error", 13, 1, 0, 0},
    {"task_number", 0, 12, 0, 0}, {"task_pp_en", 12, 1, 0, 0}, {"task_count_clear", 13, 1, 0, 0},
    {"reserved_one", 14, 1, 0, 0},
    {"dma_base_addr", 4, 28, 0, 0},
    {"task_status", 0, 28, 0, 0},
    {"status_0", 0, 2, 0, 0}, {"status_1", 16, 2, 0, 0},
    {"pointer", 0, 1, 0, 0}, {"pointer_pp_en", 1, 1, 0, 0}, {"executer_pp_en", 2, 1, 0, 0},
    {"pointer_pp_mode", 3, 1, 0, 0}, {"pointer_pp_clear", 4, 1, 0, 0}, {"executer_pp_clear", 5, 1, 0, 0},
    {"executer", 16, 1, 0, 0}, {"core_select", 28, 2, 0, 0},
    {"op_en", 0, 1, 0, 0},
    {"conv_mode", 0, 4, 0, 0}, {"in_precision", 4, 3, 0, 1}, {"proc_precision", 7, 3, 0, 1}, {"argb_in", 12, 4, 0, 0},
    {"deconv", 16, 1, 0, 0}, {"group_line_off", 29, 1, 0, 0}, {"nonalign_dma", 30, 1, 0, 0},
    {"cmd_fifo_srst", 0, 1, 0, 0}, {"csc_do_en", 1, 1, 0, 0}, {"csc_wo_en", 2, 1, 0, 0},
    {"feature_grains", 4, 10, 0, 0}, {"kernel_group", 16, 8, 0, 0},
    {"conv_x_stride", 0, 3, 0, 0}, {"conv_y_stride", 3, 3, 0, 0}, {"deconv_x_stride", 8, 3, 0, 0},
    {"deconv_y_stride", 11, 3, 0, 0}, {"atrous_x_dilation", 16, 5, 0, 0}, {"atrous_y_dilation", 21, 5, 0, 0},
    {"nn_mode", 28, 3, 0, 0},
    {"datain_height", 0, 11, 0, 0}, {"datain_width", 16, 11, 0, 0},
    {"datain_channel", 0, 16, 0, 0}, {"datain_channel_real", 16, 14, 0, 0},
    {"dataout_width", 0, 11, 0, 0},
    {"dataout_atomics", 0, 22, 0, 0}, {"surf_mode", 22, 2, 0, 0},
    {"weight_bytes", 0, 32, 0, 0},
    {"weight_bytes_per_kernel", 0, 19, 0, 0},
    {"weight_kernels", 0, 14, 0, 0}, {"weight_height", 16, 5, 0, 0}, {"weight_width", 24, 5, 0, 0},
    {"data_bank", 0, 4, 0, 0}, {"weight_bank", 4, 4, 0, 0}, {"fc_data_bank", 8, 3, 0, 0}, {"data_reuse", 12, 1, 0, 0},
    {"weight_reuse", 13, 1, 0, 0},
    {"data_entries", 0, 14, 0, 0},
    {"cvt_bypass", 0, 1, 0, 0}, {"cvt_type", 1, 1, 0, 0}, {"round_type", 2, 1, 0, 0}, {"data_sign", 3, 1, 0, 0},
    {"cvt_truncate_0", 4, 6, 0, 0}, {"cvt_truncate_1", 10, 6, 0, 0}, {"cvt_truncate_2", 16, 6, 0, 0},
    {"cvt_truncate_3", 22, 6, 0, 0},
    {"cvt_offset0", 0, 16, 0, 0}, {"cvt_scale0", 16, 16, 0, 0},
    {"cvt_offset1", 0, 16, 0, 0}, {"cvt_scale1", 16, 16, 0, 0},
    {"cvt_offset2", 0, 16, 0, 0}, {"cvt_scale2", 16, 16, 0, 0},
    {"cvt_offset3", 0, 16, 0, 0}, {"cvt_scale3", 16, 16, 0, 0},
    {"fc_skip_en", 0, 1, 0, 0}, {"fc_skip_data", 16, 16, 0, 0},
    {"data_offset", 0, 17, 0, 0},
    {"pad_top", 0, 4, 0, 0}, {"pad_left", 4, 4, 0, 0},
    {"feature_base_addr", 0, 32, 0, 0},
    {"weight_offset", 0, 17, 0, 0},
    {"data_burst_len", 0, 4, 0, 0}, {"weight_burst_len", 16, 4, 0, 0}, {"ov4k_bypass", 31, 1, 0, 0},
    {"line_stride", 0, 28, 0, 0},
    {"surf_stride", 0, 28, 1, 0},
    {"dma_height", 0, 11, 0, 0}, {"dma_width", 16, 14, 0, 0},
    {"dma_channel", 0, 16, 0, 0},
    {"cna_feature_disable_clkgate", 0, 1, 0, 0}, {"cna_weight_disable_clkgate", 1, 1, 0, 0},
    {"csc_disable_clkgate", 2, 1, 0, 0}, {"cbuf_cs_disable_clkgate", 4, 1, 0, 0},
    {"decomp_control", 0, 3, 0, 0}, {"wt_dec_bypass", 3, 1, 0, 0},
    {"dcomp_regnum", 0, 32, 0, 0},
    {"decompress_addr0", 0, 32, 0, 0},
    {"dcomp_amount0", 0, 32, 0, 0},
    {"dcomp_amount1", 0, 32, 0, 0},
    {"dcomp_amount2", 0, 32, 0, 0},
    {"dcomp_amount3", 0, 32, 0, 0},
    {"dcomp_amount4", 0, 32, 0, 0},
    {"dcomp_amount5", 0, 32, 0, 0},
    {"dcomp_amount6", 0, 32, 0, 0},
    {"dcomp_amount7", 0, 32, 0, 0},
    {"dcomp_amount8", 0, 32, 0, 0},
    {"dcomp_amount9", 0, 32, 0, 0},
    {"dcomp_amount10", 0, 32, 0, 0},
    {"dcomp_amount11", 0, 32, 0, 0},
    {"dcomp_amount12", 0, 32, 0, 0},
    {"dcomp_amount13", 0, 32, 0, 0},
    {"dcomp_amount14", 0, 32, 0, 0},
    {"dcomp_amount15", 0, 32, 0, 0},
    {"per_channel_cvt_en", 0, 32, 0, 0},
    {"pad_value", 0, 32, 0, 0},
    {"status_0", 0, 2, 0, 0}, {"status_1", 16, 2, 0, 0},
    {"pointer", 0, 1, 0, 0}, {"pointer_pp_en", 1, 1, 0, 0}, {"executer_pp_en", 2, 1, 0, 0},
    {"pointer_pp_mode", 3, 1, 0, 0}, {"pointer_pp_clear", 4, 1, 0, 0}, {"executer_pp_clear", 5, 1, 0, 0},
    {"executer", 16, 1, 0, 0}, {"core_select", 28, 2, 0, 0},
    {"op_en", 0, 1, 0, 0},
    {"slcg_op_en", 0, 27, 0, 0},
    {"qd_en", 0, 1, 0, 0}, {"dw_en", 1, 1, 0, 0}, {"proc_precision", 8, 3, 0, 1}, {"soft_gating", 14, 6, 0, 0},
    {"dataout_width", 0, 16, 0, 0}, {"dataout_height", 16, 16, 0, 0},
    {"dataout_channel", 0, 16, 0, 0},
    {"clip_truncate", 0, 5, 0, 0}, {"round_type", 6, 1, 0, 0},
    {"value", 0, 32, 0, 0},
    {"status_0", 0, 2, 0, 0}, {"status_1", 16, 2, 0, 0},
    {"pointer", 0, 1, 0, 0}, {"pointer_pp_en", 1, 1, 0, 0}, {"executer_pp_en", 2, 1, 0, 0},
    {"pointer_pp_mode", 3, 1, 0, 0}, {"pointer_pp_clear", 4, 1, 0, 0}, {"executer_pp_clear", 5, 1, 0, 0},
    {"executer", 16, 1, 0, 0},
    {"op_en", 0, 1, 0, 0},
    {"flying_mode", 0, 1, 0, 0}, {"output_mode", 1, 2, 0, 3}, {"conv_mode", 3, 2, 0, 0}, {"burst_len", 5, 4, 0, 0},
    {"surf_len", 9, 16, 0, 0}, {"nonalign", 25, 1, 0, 0}, {"rgp_type", 26, 4, 0, 0}, {"tp_en", 30, 1, 0, 0},
    {"comb_use", 31, 1, 0, 0},
    {"proc_precision", 0, 3, 0, 2}, {"mc_surf_out", 3, 1, 0, 0}, {"bs_mul_shift_value_neg", 4, 6, 0, 0},
    {"bn_mul_shift_value_neg", 10, 6, 0, 0}, {"ew_truncate_neg", 16, 10, 0, 0}, {"in_precision", 26, 3, 0, 2},
    {"out_precision", 29, 3, 0, 2},
    {"offset_pend", 0, 16, 0, 0},
    {"dst_base_addr", 0, 32, 0, 0},
    {"dst_surf_stride", 4, 28, 0, 0},
    {"width", 0, 13, 0, 0},
    {"height", 0, 13, 0, 0}, {"minmax_ctl", 22, 3, 0, 0},
    {"notch_addr_0", 0, 13, 0, 0}, {"notch_addr_1", 16, 13, 0, 0},
    {"channel", 0, 13, 0, 0}, {"orig_channel", 16, 13, 0, 0},
    {"bs_bypass", 0, 1, 0, 0}, {"bs_alu_bypass", 1, 1, 0, 0}, {"bs_mul_bypass", 4, 1, 0, 0},
    {"bs_mul_prelu", 5, 1, 0, 0}, {"bs_relu_bypass", 6, 1, 0, 0}, {"bs_relux_en", 7, 1, 0, 0},
    {"bs_alu_src", 8, 1, 0, 0}, {"bs_alu_algo", 16, 4, 0, 0},
    {"bs_alu_operand", 0, 32, 0, 0},
    {"bs_mul_src", 0, 1, 0, 0}, {"bs_truncate_src", 1, 1, 0, 0}, {"bs_mul_shift_value", 8, 6, 0, 0},
    {"bs_mul_operand", 16, 16, 0, 0},
    {"bs_relux_cmp_dat", 0, 32, 0, 0},
    {"ow_src", 0, 1, 0, 0}, {"od_bypass", 1, 1, 0, 0}, {"size_e_0", 2, 3, 0, 0}, {"size_e_1", 5, 3, 0, 0},
    {"size_e_2", 8, 3, 0, 0}, {"tp_org_en", 27, 1, 0, 0}, {"rgp_cnter", 28, 4, 0, 0},
    {"ow_op", 0, 16, 0, 0},
    {"channel_wdma", 0, 13, 0, 0}, {"size_c_wdma", 16, 11, 0, 0}, {"tp_precision", 27, 1, 0, 0},
    {"width_wdma", 0, 13, 0, 0}, {"height_wdma", 16, 13, 0, 0},
    {"bn_bypass", 0, 1, 0, 0}, {"bn_alu_bypass", 1, 1, 0, 0}, {"bn_mul_bypass", 4, 1, 0, 0},
    {"bn_mul_prelu", 5, 1, 0, 0}, {"bn_relu_bypass", 6, 1, 0, 0}, {"bn_relux_en", 7, 1, 0, 0},
    {"bn_alu_src", 8, 1, 0, 0}, {"bn_alu_algo", 16, 4, 0, 0},
    {"bn_alu_operand", 0, 32, 0, 0},
    {"bn_mul_src", 0, 1, 0, 0}, {"bn_truncate_src", 1, 1, 0, 0}, {"bn_mul_shift_value", 8, 6, 0, 0},
    {"bn_mul_operand", 16, 16, 0, 0},
    {"bn_relux_cmp_dat", 0, 32, 0, 0},
    {"ew_bypass", 0, 1, 0, 0}, {"ew_op_bypass", 1, 1, 0, 0}, {"ew_op_type", 2, 1, 0, 0}, {"ew_mul_prelu", 5, 1, 0, 0},
    {"ew_op_src", 6, 1, 0, 0}, {"ew_lut_bypass", 7, 1, 0, 0}, {"ew_op_cvt_bypass", 8, 1, 0, 0},
    {"ew_relu_bypass", 9, 1, 0, 0}, {"ew_relux_en", 10, 1, 0, 0}, {"ew_alu_algo", 16, 4, 0, 0},
    {"ew_binary_en", 20, 1, 0, 0}, {"ew_equal_en", 21, 1, 0, 0}, {"edata_size", 22, 2, 0, 0},
    {"ew_data_mode", 28, 2, 0, 0}, {"ew_cvt_round", 30, 1, 0, 0}, {"ew_cvt_type", 31, 1, 0, 0},
    {"ew_op_cvt_offset", 0, 32, 0, 0},
    {"ew_op_cvt_scale", 0, 16, 0, 0}, {"ew_op_cvt_shift", 16, 6, 0, 0}, {"ew_truncate", 22, 10, 0, 0},
    {"ew_relux_cmp_dat", 0, 32, 0, 0},
    {"out_cvt_offset", 0, 32, 0, 0},
    {"out_cvt_scale", 0, 16, 0, 0}, {"fp32tofp16_en", 16, 1, 0, 0},
    {"out_cvt_shift", 0, 12, 0, 0}, {"minus_exp", 12, 8, 0, 0}, {"cvt_round", 30, 1, 0, 0}, {"cvt_type", 31, 1, 0, 0},
    {"ew_operand_0", 0, 32, 0, 0},
    {"ew_operand_1", 0, 32, 0, 0},
    {"ew_operand_2", 0, 32, 0, 0},
    {"ew_operand_3", 0, 32, 0, 0},
    {"ew_operand_4", 0, 32, 0, 0},
    {"ew_operand_5", 0, 32, 0, 0},
    {"ew_operand_6", 0, 32, 0, 0},
    {"ew_operand_7", 0, 32, 0, 0},
    {"surf_add", 4, 28, 0, 0},
    {"lut_addr", 0, 10, 0, 0}, {"lut_table_id", 16, 1, 0, 0}, {"lut_access_type", 17, 1, 0, 0},
    {"lut_access_data", 0, 16, 0, 0},
    {"lut_road_sel", 0, 1, 0, 0}, {"lut_expand_en", 1, 1, 0, 0}, {"lut_lo_le_mux", 2, 2, 0, 0},
    {"lut_uflow_priority", 4, 1, 0, 0}, {"lut_oflow_priority", 5, 1, 0, 0}, {"lut_hybrid_priority", 6, 1, 0, 0},
    {"lut_cal_sel", 7, 1, 0, 0},
    {"lut_le_index_select", 8, 8, 0, 0}, {"lut_lo_index_select", 16, 8, 0, 0},
    {"lut_le_start", 0, 32, 0, 0},
    {"lut_le_end", 0, 32, 0, 0},
    {"lut_lo_start", 0, 32, 0, 0},
    {"lut_lo_end", 0, 32, 0, 0},
    {"lut_le_slope_uflow_scale", 0, 16, 0, 0}, {"lut_le_slope_oflow_scale", 16, 16, 0, 0},
    {"lut_le_slope_uflow_shift", 0, 5, 0, 0}, {"lut_le_slope_oflow_shift", 5, 5, 0, 0},
    {"lut_lo_slope_uflow_scale", 0, 16, 0, 0}, {"lut_lo_slope_oflow_scale", 16, 16, 0, 0},
    {"lut_lo_slope_uflow_shift", 0, 5, 0, 0}, {"lut_lo_slope_oflow_shift", 5, 5, 0, 0},
    {"status_0", 0, 2, 0, 0}, {"status_1", 16, 2, 0, 0},
    {"pointer", 0, 1, 0, 0}, {"pointer_pp_en", 1, 1, 0, 0}, {"executer_pp_en", 2, 1, 0, 0},
    {"pointer_pp_mode", 3, 1, 0, 0}, {"pointer_pp_clear", 4, 1, 0, 0}, {"executer_pp_clear", 5, 1, 0, 0},
    {"executer", 16, 1, 0, 0},
    {"op_en", 0, 1, 0, 0},
    {"width", 0, 13, 0, 0},
    {"height", 0, 13, 0, 0}, {"ew_line_notch_addr", 16, 13, 0, 0},
    {"channel", 0, 13, 0, 0},
    {"src_base_addr", 0, 32, 0, 0},
    {"brdma_data_use", 1, 4, 0, 0},
    {"bs_base_addr", 0, 32, 0, 0},
    {"nrdma_data_use", 1, 4, 0, 0},
    {"bn_base_addr", 0, 32, 0, 0},
    {"erdma_disable", 0, 1, 0, 0}, {"ov4k_bypass", 1, 1, 0, 0}, {"erdma_data_size", 2, 2, 0, 0},
    {"erdma_nonalign", 28, 1, 0, 0}, {"erdma_surf_mode", 29, 1, 0, 0}, {"erdma_data_mode", 30, 2, 0, 0},
    {"ew_base_addr", 0, 32, 0, 0},
    {"ew_surf_stride", 4, 28, 0, 0},
    {"flying_mode", 0, 1, 0, 0}, {"conv_mode", 1, 2, 0, 0}, {"mrdma_fp16tofp32_en", 3, 1, 0, 0},
    {"mrdma_disable", 4, 1, 0, 0}, {"proc_precision", 5, 3, 0, 0}, {"comb_use", 8, 3, 0, 0}, {"burst_len", 11, 4, 0, 0},
    {"in_precision", 15, 3, 0, 0},
    {"kernel_width", 0, 3, 0, 0}, {"kernel_height", 3, 3, 0, 0}, {"kernel_stride_width", 6, 3, 0, 0},
    {"kernel_stride_height", 9, 3, 0, 0}, {"unpooling_en", 12, 1, 0, 0}, {"pooling_method", 13, 1, 0, 0},
    {"line_notch_addr", 19, 13, 0, 0},
    {"surf_notch_addr", 4, 28, 0, 0},
    {"pad_left", 0, 3, 0, 0}, {"pad_top", 4, 3, 0, 0}, {"pad_value", 16, 16, 0, 0},
    {"m_weight", 0, 8, 0, 0}, {"b_weight", 8, 8, 0, 0}, {"n_weight", 16, 8, 0, 0}, {"e_weight", 24, 8, 0, 0},
    {"ew_surf_notch", 4, 28, 0, 0},
    {"cna_op_en", 0, 1, 0, 0}, {"core_op_en", 2, 1, 0, 0}, {"dpu_op_en", 3, 1, 0, 0}, {"dpu_rdma_op_en", 4, 1, 0, 0},
    {"ppu_op_en", 5, 1, 0, 0}, {"ppu_rdma_op_en", 6, 1, 0, 0},
    {"cna_op_en", 0, 1, 0, 0}, {"core_op_en", 2, 1, 0, 0}, {"dpu_op_en", 3, 1, 0, 0}, {"dpu_rdma_op_en", 4, 1, 0, 0},
    {"ppu_op_en", 5, 1, 0, 0}, {"ppu_rdma_op_en", 6, 1, 0, 0},
};

/* Name, block, offset, first field, fields. */
const struct ork_npu_register ork_npu_registers[ORK_NPU_REGISTER_COUNT] = {
    {"version", 0, 0x0000, 0, 1}, /* PC */
    {"version_num", 0, 0x0004, 1, 1}, /* PC */
    {"operation_enable", 0, 0x0008, 2, 1}, /* PC */
    {"base_address", 0, 0x0010, 3, 2}, /* PC */
    {"register_amounts", 0, 0x0014, 5, 1}, /* PC */
    {"interrupt_mask", 0, 0x0020, 6, 14}, /* PC */
    {"interrupt_clear", 0, 0x0024, 20, 14}, /* PC */
    {"interrupt_status", 0, 0x0028, 34, 14}, /* PC */
    {"interrupt_raw_status", 0, 0x002c, 48, 14}, /* PC */
    {"task_con", 0, 0x0030, 62, 4}, /* PC */
    {"task_dma_base_addr", 0, 0x0034, 66, 1}, /* PC */
    {"task_status", 0, 0x003c, 67, 1}, /* PC */
    {"s_status", 1, 0x1000, 68, 2}, /* CNA */
    {"s_pointer", 1, 0x1004, 70, 8}, /* CNA */
    {"operation_enable", 1, 0x1008, 78, 1}, /* CNA */
    {"conv_con1", 1, 0x100c, 79, 7}, /* CNA */
    {"conv_con2", 1, 0x1010, 86, 5}, /* CNA */
    {"conv_con3", 1, 0x1014, 91, 7}, /* CNA */
    {"data_size0", 1, 0x1020, 98, 2}, /* CNA */
    {"data_size1", 1, 0x1024, 100, 2}, /* CNA */
    {"data_size2", 1, 0x1028, 102, 1}, /* CNA */
    {"data_size3", 1, 0x102c, 103, 2}, /* CNA */
    {"weight_size0", 1, 0x1030, 105, 1}, /* CNA */
    {"weight_size1", 1, 0x1034, 106, 1}, /* CNA */
    {"weight_size2", 1, 0x1038, 107, 3}, /* CNA */
    {"cbuf_con0", 1, 0x1040, 110, 5}, /* CNA */
    {"cbuf_con1", 1, 0x1044, 115, 1}, /* CNA */
    {"cvt_con0", 1, 0x104c, 116, 8}, /* CNA */
    {"cvt_con1", 1, 0x1050, 124, 2}, /* CNA */
    {"cvt_con2", 1, 0x1054, 126, 2}, /* CNA */
    {"cvt_con3", 1, 0x1058, 128, 2}, /* CNA */
    {"cvt_con4", 1, 0x105c, 130, 2}, /* CNA */
    {"fc_con0", 1, 0x1060, 132, 2}, /* CNA */
    {"fc_con1", 1, 0x1064, 134, 1}, /* CNA */
    {"pad_con0", 1, 0x1068, 135, 2}, /* CNA */
    {"feature_data_addr", 1, 0x1070, 137, 1}, /* CNA */
    {"fc_con2", 1, 0x1074, 138, 1}, /* CNA */
    {"dma_con0", 1, 0x1078, 139, 3}, /* CNA */
    {"dma_con1", 1, 0x107c, 142, 1}, /* CNA */
    {"dma_con2", 1, 0x1080, 143, 1}, /* CNA */
    {"fc_data_size0", 1, 0x1084, 144, 2}, /* CNA */
    {"fc_data_size1", 1, 0x1088, 146, 1}, /* CNA */
    {"clk_gate", 1, 0x1090, 147, 4}, /* CNA */
    {"dcomp_ctrl", 1, 0x1100, 151, 2}, /* CNA */
    {"dcomp_regnum", 1, 0x1104, 153, 1}, /* CNA */
    {"dcomp_addr0", 1, 0x1110, 154, 1}, /* CNA */
    {"dcomp_amount0", 1, 0x1140, 155, 1}, /* CNA */
    {"dcomp_amount1", 1, 0x1144, 156, 1}, /* CNA */
    {"dcomp_amount2", 1, 0x1148, 157, 1}, /* CNA */
    {"dcomp_amount3", 1, 0x114c, 158, 1}, /* CNA */
    {"dcomp_amount4", 1, 0x1150, 159, 1}, /* CNA */
    {"dcomp_amount5", 1, 0x1154, 160, 1}, /* CNA */
    {"dcomp_amount6", 1, 0x1158, 161, 1}, /* CNA */
    {"dcomp_amount7", 1, 0x115c, 162, 1}, /* CNA */
    {"dcomp_amount8", 1, 0x1160, 163, 1}, /* CNA */
    {"dcomp_amount9", 1, 0x1164, 164, 1}, /* CNA */
    {"dcomp_amount10", 1, 0x1168, 165, 1}, /* CNA */
    {"dcomp_amount11", 1, 0x116c, 166, 1}, /* CNA */
    {"dcomp_amount12", 1, 0x1170, 167, 1}, /* CNA */
    {"dcomp_amount13", 1, 0x1174, 168, 1}, /* CNA */
    {"dcomp_amount14", 1, 0x1178, 169, 1}, /* CNA */
    {"dcomp_amount15", 1, 0x117c, 170, 1}, /* CNA */
    {"cvt_con5", 1, 0x1180, 171, 1}, /* CNA */
    {"pad_con1", 1, 0x1184, 172, 1}, /* CNA */
    {"s_status", 2, 0x3000, 173, 2}, /* CORE */
    {"s_pointer", 2, 0x3004, 175, 8}, /* CORE */
    {"operation_enable", 2, 0x3008, 183, 1}, /* CORE */
    {"mac_gating", 2, 0x300c, 184, 1}, /* CORE */
    {"misc_cfg", 2, 0x3010, 185, 4}, /* CORE */
    {"dataout_size_0", 2, 0x3014, 189, 2}, /* CORE */
    {"dataout_size_1", 2, 0x3018, 191, 1}, /* CORE */
    {"clip_truncate", 2, 0x301c, 192, 2}, /* CORE */
    {"unnamed_3030", 2, 0x3030, 194, 1}, /* CORE */
    {"s_status", 3, 0x4000, 195, 2}, /* DPU */
    {"s_pointer", 3, 0x4004, 197, 7}, /* DPU */
    {"operation_enable", 3, 0x4008, 204, 1}, /* DPU */
    {"feature_mode_cfg", 3, 0x400c, 205, 9}, /* DPU */
    {"data_format", 3, 0x4010, 214, 7}, /* DPU */
    {"offset_pend", 3, 0x4014, 221, 1}, /* DPU */
    {"dst_base_addr", 3, 0x4020, 222, 1}, /* DPU */
    {"dst_surf_stride", 3, 0x4024, 223, 1}, /* DPU */
    {"data_cube_width", 3, 0x4030, 224, 1}, /* DPU */
    {"data_cube_height", 3, 0x4034, 225, 2}, /* DPU */
    {"data_cube_notch_addr", 3, 0x4038, 227, 2}, /* DPU */
    {"data_cube_channel", 3, 0x403c, 229, 2}, /* DPU */
    {"bs_cfg", 3, 0x4040, 231, 8}, /* DPU */
    {"bs_alu_cfg", 3, 0x4044, 239, 1}, /* DPU */
    {"bs_mul_cfg", 3, 0x4048, 240, 4}, /* DPU */
    {"bs_relux_cmp_value", 3, 0x404c, 244, 1}, /* DPU */
    {"bs_ow_cfg", 3, 0x4050, 245, 7}, /* DPU */
    {"bs_ow_op", 3, 0x4054, 252, 1}, /* DPU */
    {"wdma_size_0", 3, 0x4058, 253, 3}, /* DPU */
    {"wdma_size_1", 3, 0x405c, 256, 2}, /* DPU */
    {"bn_cfg", 3, 0x4060, 258, 8}, /* DPU */
    {"bn_alu_cfg", 3, 0x4064, 266, 1}, /* DPU */
    {"bn_mul_cfg", 3, 0x4068, 267, 4}, /* DPU */
    {"bn_relux_cmp_value", 3, 0x406c, 271, 1}, /* DPU */
    {"ew_cfg", 3, 0x4070, 272, 16}, /* DPU */
    {"ew_cvt_offset_value", 3, 0x4074, 288, 1}, /* DPU */
    {"ew_cvt_scale_value", 3, 0x4078, 289, 3}, /* DPU */
    {"ew_relux_cmp_value", 3, 0x407c, 292, 1}, /* DPU */
    {"out_cvt_offset", 3, 0x4080, 293, 1}, /* DPU */
    {"out_cvt_scale", 3, 0x4084, 294, 2}, /* DPU */
    {"out_cvt_shift", 3, 0x4088, 296, 4}, /* DPU */
    {"ew_op_value_0", 3, 0x4090, 300, 1}, /* DPU */
    {"ew_op_value_1", 3, 0x4094, 301, 1}, /* DPU */
    {"ew_op_value_2", 3, 0x4098, 302, 1}, /* DPU */
    {"ew_op_value_3", 3, 0x409c, 303, 1}, /* DPU */
    {"ew_op_value_4", 3, 0x40a0, 304, 1}, /* DPU */
    {"ew_op_value_5", 3, 0x40a4, 305, 1}, /* DPU */
    {"ew_op_value_6", 3, 0x40a8, 306, 1}, /* DPU */
    {"ew_op_value_7", 3, 0x40ac, 307, 1}, /* DPU */
    {"surface_add", 3, 0x40c0, 308, 1}, /* DPU */
    {"lut_access_cfg", 3, 0x4100, 309, 3}, /* DPU */
    {"lut_access_data", 3, 0x4104, 312, 1}, /* DPU */
    {"lut_cfg", 3, 0x4108, 313, 7}, /* DPU */
    {"lut_info", 3, 0x410c, 320, 2}, /* DPU */
    {"lut_le_start", 3, 0x4110, 322, 1}, /* DPU */
    {"lut_le_end", 3, 0x4114, 323, 1}, /* DPU */
    {"lut_lo_start", 3, 0x4118, 324, 1}, /* DPU */
    {"lut_lo_end", 3, 0x411c, 325, 1}, /* DPU */
    {"lut_le_slope_scale", 3, 0x4120, 326, 2}, /* DPU */
    {"lut_le_slope_shift", 3, 0x4124, 328, 2}, /* DPU */
    {"lut_lo_slope_scale", 3, 0x4128, 330, 2}, /* DPU */
    {"lut_lo_slope_shift", 3, 0x412c, 332, 2}, /* DPU */
    {"s_status", 4, 0x5000, 334, 2}, /* DPU_RDMA */
    {"s_pointer", 4, 0x5004, 336, 7}, /* DPU_RDMA */
    {"operation_enable", 4, 0x5008, 343, 1}, /* DPU_RDMA */
    {"data_cube_width", 4, 0x500c, 344, 1}, /* DPU_RDMA */
    {"data_cube_height", 4, 0x5010, 345, 2}, /* DPU_RDMA */
    {"data_cube_channel", 4, 0x5014, 347, 1}, /* DPU_RDMA */
    {"src_base_addr", 4, 0x5018, 348, 1}, /* DPU_RDMA */
    {"brdma_cfg", 4, 0x501c, 349, 1}, /* DPU_RDMA */
    {"bs_base_addr", 4, 0x5020, 350, 1}, /* DPU_RDMA */
    {"nrdma_cfg", 4, 0x5028, 351, 1}, /* DPU_RDMA */
    {"bn_base_addr", 4, 0x502c, 352, 1}, /* DPU_RDMA */
    {"erdma_cfg", 4, 0x5034, 353, 6}, /* DPU_RDMA */
    {"ew_base_addr", 4, 0x5038, 359, 1}, /* DPU_RDMA */
    {"ew_surf_stride", 4, 0x5040, 360, 1}, /* DPU_RDMA */
    {"feature_mode_cfg", 4, 0x5044, 361, 8}, /* DPU_RDMA */
    {"src_dma_cfg", 4, 0x5048, 369, 7}, /* DPU_RDMA */
    {"surf_notch", 4, 0x504c, 376, 1}, /* DPU_RDMA */
    {"pad_cfg", 4, 0x5064, 377, 3}, /* DPU_RDMA */
    {"weight", 4, 0x5068, 380, 4}, /* DPU_RDMA */
    {"ew_surf_notch", 4, 0x506c, 384, 1}, /* DPU_RDMA */
    {"marker", 7, 0x0000, 385, 0}, /* SYNC */
    {"operation_enable", 8, 0x0008, 385, 6}, /* START */
    {"operation_enable", 9, 0xf008, 391, 6}, /* GLOBAL */
};
