/* The NPU's registers and their packers. Made by tools/npu_registers.py of tools/npu_registers.txt, which names the
 * sources; change that. ork_npu_put_BLOCK_REGISTER appends one command word; a field that is not named is 0. */
#ifndef ORK_ENGINE_NPU_REGISTERS_H
#define ORK_ENGINE_NPU_REGISTERS_H

#include "engine/npu/writer.h"

/* clang-format off */

/* Targets: the upper 16 bits of a command word. */
enum ork_npu_target { ORK_NPU_TARGET_PC = 0x0101, ORK_NPU_TARGET_CNA = 0x0201, ORK_NPU_TARGET_CORE = 0x0801,
    ORK_NPU_TARGET_DPU = 0x1001, ORK_NPU_TARGET_DPU_RDMA = 0x2001, ORK_NPU_TARGET_PPU = 0x4001,
    ORK_NPU_TARGET_PPU_RDMA = 0x8001, ORK_NPU_TARGET_SYNC = 0x0041, ORK_NPU_TARGET_START = 0x0081 };

/* Indices into ork_npu_registers. */
enum ork_npu_register_index { ORK_NPU_REGISTER_PC_VERSION, ORK_NPU_REGISTER_PC_VERSION_NUM,
    ORK_NPU_REGISTER_PC_OPERATION_ENABLE, ORK_NPU_REGISTER_PC_BASE_ADDRESS, ORK_NPU_REGISTER_PC_REGISTER_AMOUNTS,
    ORK_NPU_REGISTER_PC_INTERRUPT_MASK, ORK_NPU_REGISTER_PC_INTERRUPT_CLEAR, ORK_NPU_REGISTER_PC_INTERRUPT_STATUS,
    ORK_NPU_REGISTER_PC_INTERRUPT_RAW_STATUS, ORK_NPU_REGISTER_PC_TASK_CON, ORK_NPU_REGISTER_PC_TASK_DMA_BASE_ADDR,
    ORK_NPU_REGISTER_PC_TASK_STATUS, ORK_NPU_REGISTER_CNA_S_STATUS, ORK_NPU_REGISTER_CNA_S_POINTER,
    ORK_NPU_REGISTER_CNA_OPERATION_ENABLE, ORK_NPU_REGISTER_CNA_CONV_CON1, ORK_NPU_REGISTER_CNA_CONV_CON2,
    ORK_NPU_REGISTER_CNA_CONV_CON3, ORK_NPU_REGISTER_CNA_DATA_SIZE0, ORK_NPU_REGISTER_CNA_DATA_SIZE1,
    ORK_NPU_REGISTER_CNA_DATA_SIZE2, ORK_NPU_REGISTER_CNA_DATA_SIZE3, ORK_NPU_REGISTER_CNA_WEIGHT_SIZE0,
    ORK_NPU_REGISTER_CNA_WEIGHT_SIZE1, ORK_NPU_REGISTER_CNA_WEIGHT_SIZE2, ORK_NPU_REGISTER_CNA_CBUF_CON0,
    ORK_NPU_REGISTER_CNA_CBUF_CON1, ORK_NPU_REGISTER_CNA_CVT_CON0, ORK_NPU_REGISTER_CNA_CVT_CON1,
    ORK_NPU_REGISTER_CNA_CVT_CON2, ORK_NPU_REGISTER_CNA_CVT_CON3, ORK_NPU_REGISTER_CNA_CVT_CON4,
    ORK_NPU_REGISTER_CNA_FC_CON0, ORK_NPU_REGISTER_CNA_FC_CON1, ORK_NPU_REGISTER_CNA_PAD_CON0,
    ORK_NPU_REGISTER_CNA_FEATURE_DATA_ADDR, ORK_NPU_REGISTER_CNA_FC_CON2, ORK_NPU_REGISTER_CNA_DMA_CON0,
    ORK_NPU_REGISTER_CNA_DMA_CON1, ORK_NPU_REGISTER_CNA_DMA_CON2, ORK_NPU_REGISTER_CNA_FC_DATA_SIZE0,
    ORK_NPU_REGISTER_CNA_FC_DATA_SIZE1, ORK_NPU_REGISTER_CNA_CLK_GATE, ORK_NPU_REGISTER_CNA_DCOMP_CTRL,
    ORK_NPU_REGISTER_CNA_DCOMP_REGNUM, ORK_NPU_REGISTER_CNA_DCOMP_ADDR0, ORK_NPU_REGISTER_CNA_DCOMP_AMOUNT0,
    ORK_NPU_REGISTER_CNA_DCOMP_AMOUNT1, ORK_NPU_REGISTER_CNA_DCOMP_AMOUNT2, ORK_NPU_REGISTER_CNA_DCOMP_AMOUNT3,
    ORK_NPU_REGISTER_CNA_DCOMP_AMOUNT4, ORK_NPU_REGISTER_CNA_DCOMP_AMOUNT5, ORK_NPU_REGISTER_CNA_DCOMP_AMOUNT6,
    ORK_NPU_REGISTER_CNA_DCOMP_AMOUNT7, ORK_NPU_REGISTER_CNA_DCOMP_AMOUNT8, ORK_NPU_REGISTER_CNA_DCOMP_AMOUNT9,
    ORK_NPU_REGISTER_CNA_DCOMP_AMOUNT10, ORK_NPU_REGISTER_CNA_DCOMP_AMOUNT11, ORK_NPU_REGISTER_CNA_DCOMP_AMOUNT12,
    ORK_NPU_REGISTER_CNA_DCOMP_AMOUNT13, ORK_NPU_REGISTER_CNA_DCOMP_AMOUNT14, ORK_NPU_REGISTER_CNA_DCOMP_AMOUNT15,
    ORK_NPU_REGISTER_CNA_CVT_CON5, ORK_NPU_REGISTER_CNA_PAD_CON1, ORK_NPU_REGISTER_CORE_S_STATUS,
    ORK_NPU_REGISTER_CORE_S_POINTER, ORK_NPU_REGISTER_CORE_OPERATION_ENABLE, ORK_NPU_REGISTER_CORE_MAC_GATING,
    ORK_NPU_REGISTER_CORE_MISC_CFG, ORK_NPU_REGISTER_CORE_DATAOUT_SIZE_0, ORK_NPU_REGISTER_CORE_DATAOUT_SIZE_1,
    ORK_NPU_REGISTER_CORE_CLIP_TRUNCATE, ORK_NPU_REGISTER_CORE_UNNAMED_3030, ORK_NPU_REGISTER_DPU_S_STATUS,
    ORK_NPU_REGISTER_DPU_S_POINTER, ORK_NPU_REGISTER_DPU_OPERATION_ENABLE, ORK_NPU_REGISTER_DPU_FEATURE_MODE_CFG,
    ORK_NPU_REGISTER_DPU_DATA_FORMAT, ORK_NPU_REGISTER_DPU_OFFSET_PEND, ORK_NPU_REGISTER_DPU_DST_BASE_ADDR,
    ORK_NPU_REGISTER_DPU_DST_SURF_STRIDE, ORK_NPU_REGISTER_DPU_DATA_CUBE_WIDTH, ORK_NPU_REGISTER_DPU_DATA_CUBE_HEIGHT,
    ORK_NPU_REGISTER_DPU_DATA_CUBE_NOTCH_ADDR, ORK_NPU_REGISTER_DPU_DATA_CUBE_CHANNEL, ORK_NPU_REGISTER_DPU_BS_CFG,
    ORK_NPU_REGISTER_DPU_BS_ALU_CFG, ORK_NPU_REGISTER_DPU_BS_MUL_CFG, ORK_NPU_REGISTER_DPU_BS_RELUX_CMP_VALUE,
    ORK_NPU_REGISTER_DPU_BS_OW_CFG, ORK_NPU_REGISTER_DPU_BS_OW_OP, ORK_NPU_REGISTER_DPU_WDMA_SIZE_0,
    ORK_NPU_REGISTER_DPU_WDMA_SIZE_1, ORK_NPU_REGISTER_DPU_BN_CFG, ORK_NPU_REGISTER_DPU_BN_ALU_CFG,
    ORK_NPU_REGISTER_DPU_BN_MUL_CFG, ORK_NPU_REGISTER_DPU_BN_RELUX_CMP_VALUE, ORK_NPU_REGISTER_DPU_EW_CFG,
    ORK_NPU_REGISTER_DPU_EW_CVT_OFFSET_VALUE, ORK_NPU_REGISTER_DPU_EW_CVT_SCALE_VALUE,
    ORK_NPU_REGISTER_DPU_EW_RELUX_CMP_VALUE, ORK_NPU_REGISTER_DPU_OUT_CVT_OFFSET, ORK_NPU_REGISTER_DPU_OUT_CVT_SCALE,
    ORK_NPU_REGISTER_DPU_OUT_CVT_SHIFT, ORK_NPU_REGISTER_DPU_EW_OP_VALUE_0, ORK_NPU_REGISTER_DPU_EW_OP_VALUE_1,
    ORK_NPU_REGISTER_DPU_EW_OP_VALUE_2, ORK_NPU_REGISTER_DPU_EW_OP_VALUE_3, ORK_NPU_REGISTER_DPU_EW_OP_VALUE_4,
    ORK_NPU_REGISTER_DPU_EW_OP_VALUE_5, ORK_NPU_REGISTER_DPU_EW_OP_VALUE_6, ORK_NPU_REGISTER_DPU_EW_OP_VALUE_7,
    ORK_NPU_REGISTER_DPU_SURFACE_ADD, ORK_NPU_REGISTER_DPU_LUT_ACCESS_CFG, ORK_NPU_REGISTER_DPU_LUT_ACCESS_DATA,
    ORK_NPU_REGISTER_DPU_LUT_CFG, ORK_NPU_REGISTER_DPU_LUT_INFO, ORK_NPU_REGISTER_DPU_LUT_LE_START,
    ORK_NPU_REGISTER_DPU_LUT_LE_END, ORK_NPU_REGISTER_DPU_LUT_LO_START, ORK_NPU_REGISTER_DPU_LUT_LO_END,
    ORK_NPU_REGISTER_DPU_LUT_LE_SLOPE_SCALE, ORK_NPU_REGISTER_DPU_LUT_LE_SLOPE_SHIFT,
    ORK_NPU_REGISTER_DPU_LUT_LO_SLOPE_SCALE, ORK_NPU_REGISTER_DPU_LUT_LO_SLOPE_SHIFT,
    ORK_NPU_REGISTER_DPU_RDMA_S_STATUS, ORK_NPU_REGISTER_DPU_RDMA_S_POINTER, ORK_NPU_REGISTER_DPU_RDMA_OPERATION_ENABLE,
    ORK_NPU_REGISTER_DPU_RDMA_DATA_CUBE_WIDTH, ORK_NPU_REGISTER_DPU_RDMA_DATA_CUBE_HEIGHT,
    ORK_NPU_REGISTER_DPU_RDMA_DATA_CUBE_CHANNEL, ORK_NPU_REGISTER_DPU_RDMA_SRC_BASE_ADDR,
    ORK_NPU_REGISTER_DPU_RDMA_BRDMA_CFG, ORK_NPU_REGISTER_DPU_RDMA_BS_BASE_ADDR, ORK_NPU_REGISTER_DPU_RDMA_NRDMA_CFG,
    ORK_NPU_REGISTER_DPU_RDMA_BN_BASE_ADDR, ORK_NPU_REGISTER_DPU_RDMA_ERDMA_CFG, ORK_NPU_REGISTER_DPU_RDMA_EW_BASE_ADDR,
    ORK_NPU_REGISTER_DPU_RDMA_EW_SURF_STRIDE, ORK_NPU_REGISTER_DPU_RDMA_FEATURE_MODE_CFG,
    ORK_NPU_REGISTER_DPU_RDMA_SRC_DMA_CFG, ORK_NPU_REGISTER_DPU_RDMA_SURF_NOTCH, ORK_NPU_REGISTER_DPU_RDMA_PAD_CFG,
    ORK_NPU_REGISTER_DPU_RDMA_WEIGHT, ORK_NPU_REGISTER_DPU_RDMA_EW_SURF_NOTCH, ORK_NPU_REGISTER_SYNC_MARKER,
    ORK_NPU_REGISTER_START_OPERATION_ENABLE, ORK_NPU_REGISTER_GLOBAL_OPERATION_ENABLE, ORK_NPU_REGISTER_COUNT };

/* Offsets: the lower 16 bits of a command word. */
enum ork_npu_offset { ORK_NPU_OFFSET_PC_VERSION = 0x0000, ORK_NPU_OFFSET_PC_VERSION_NUM = 0x0004,
    ORK_NPU_OFFSET_PC_OPERATION_ENABLE = 0x0008, ORK_NPU_OFFSET_PC_BASE_ADDRESS = 0x0010,
    ORK_NPU_OFFSET_PC_REGISTER_AMOUNTS = 0x0014, ORK_NPU_OFFSET_PC_INTERRUPT_MASK = 0x0020,
    ORK_NPU_OFFSET_PC_INTERRUPT_CLEAR = 0x0024, ORK_NPU_OFFSET_PC_INTERRUPT_STATUS = 0x0028,
    ORK_NPU_OFFSET_PC_INTERRUPT_RAW_STATUS = 0x002c, ORK_NPU_OFFSET_PC_TASK_CON = 0x0030,
    ORK_NPU_OFFSET_PC_TASK_DMA_BASE_ADDR = 0x0034, ORK_NPU_OFFSET_PC_TASK_STATUS = 0x003c,
    ORK_NPU_OFFSET_CNA_S_STATUS = 0x1000, ORK_NPU_OFFSET_CNA_S_POINTER = 0x1004,
    ORK_NPU_OFFSET_CNA_OPERATION_ENABLE = 0x1008, ORK_NPU_OFFSET_CNA_CONV_CON1 = 0x100c,
    ORK_NPU_OFFSET_CNA_CONV_CON2 = 0x1010, ORK_NPU_OFFSET_CNA_CONV_CON3 = 0x1014,
    ORK_NPU_OFFSET_CNA_DATA_SIZE0 = 0x1020, ORK_NPU_OFFSET_CNA_DATA_SIZE1 = 0x1024,
    ORK_NPU_OFFSET_CNA_DATA_SIZE2 = 0x1028, ORK_NPU_OFFSET_CNA_DATA_SIZE3 = 0x102c,
    ORK_NPU_OFFSET_CNA_WEIGHT_SIZE0 = 0x1030, ORK_NPU_OFFSET_CNA_WEIGHT_SIZE1 = 0x1034,
    ORK_NPU_OFFSET_CNA_WEIGHT_SIZE2 = 0x1038, ORK_NPU_OFFSET_CNA_CBUF_CON0 = 0x1040,
    ORK_NPU_OFFSET_CNA_CBUF_CON1 = 0x1044, ORK_NPU_OFFSET_CNA_CVT_CON0 = 0x104c, ORK_NPU_OFFSET_CNA_CVT_CON1 = 0x1050,
    ORK_NPU_OFFSET_CNA_CVT_CON2 = 0x1054, ORK_NPU_OFFSET_CNA_CVT_CON3 = 0x1058, ORK_NPU_OFFSET_CNA_CVT_CON4 = 0x105c,
    ORK_NPU_OFFSET_CNA_FC_CON0 = 0x1060, ORK_NPU_OFFSET_CNA_FC_CON1 = 0x1064, ORK_NPU_OFFSET_CNA_PAD_CON0 = 0x1068,
    ORK_NPU_OFFSET_CNA_FEATURE_DATA_ADDR = 0x1070, ORK_NPU_OFFSET_CNA_FC_CON2 = 0x1074,
    ORK_NPU_OFFSET_CNA_DMA_CON0 = 0x1078, ORK_NPU_OFFSET_CNA_DMA_CON1 = 0x107c, ORK_NPU_OFFSET_CNA_DMA_CON2 = 0x1080,
    ORK_NPU_OFFSET_CNA_FC_DATA_SIZE0 = 0x1084, ORK_NPU_OFFSET_CNA_FC_DATA_SIZE1 = 0x1088,
    ORK_NPU_OFFSET_CNA_CLK_GATE = 0x1090, ORK_NPU_OFFSET_CNA_DCOMP_CTRL = 0x1100,
    ORK_NPU_OFFSET_CNA_DCOMP_REGNUM = 0x1104, ORK_NPU_OFFSET_CNA_DCOMP_ADDR0 = 0x1110,
    ORK_NPU_OFFSET_CNA_DCOMP_AMOUNT0 = 0x1140, ORK_NPU_OFFSET_CNA_DCOMP_AMOUNT1 = 0x1144,
    ORK_NPU_OFFSET_CNA_DCOMP_AMOUNT2 = 0x1148, ORK_NPU_OFFSET_CNA_DCOMP_AMOUNT3 = 0x114c,
    ORK_NPU_OFFSET_CNA_DCOMP_AMOUNT4 = 0x1150, ORK_NPU_OFFSET_CNA_DCOMP_AMOUNT5 = 0x1154,
    ORK_NPU_OFFSET_CNA_DCOMP_AMOUNT6 = 0x1158, ORK_NPU_OFFSET_CNA_DCOMP_AMOUNT7 = 0x115c,
    ORK_NPU_OFFSET_CNA_DCOMP_AMOUNT8 = 0x1160, ORK_NPU_OFFSET_CNA_DCOMP_AMOUNT9 = 0x1164,
    ORK_NPU_OFFSET_CNA_DCOMP_AMOUNT10 = 0x1168, ORK_NPU_OFFSET_CNA_DCOMP_AMOUNT11 = 0x116c,
    ORK_NPU_OFFSET_CNA_DCOMP_AMOUNT12 = 0x1170, ORK_NPU_OFFSET_CNA_DCOMP_AMOUNT13 = 0x1174,
    ORK_NPU_OFFSET_CNA_DCOMP_AMOUNT14 = 0x1178, ORK_NPU_OFFSET_CNA_DCOMP_AMOUNT15 = 0x117c,
    ORK_NPU_OFFSET_CNA_CVT_CON5 = 0x1180, ORK_NPU_OFFSET_CNA_PAD_CON1 = 0x1184, ORK_NPU_OFFSET_CORE_S_STATUS = 0x3000,
    ORK_NPU_OFFSET_CORE_S_POINTER = 0x3004, ORK_NPU_OFFSET_CORE_OPERATION_ENABLE = 0x3008,
    ORK_NPU_OFFSET_CORE_MAC_GATING = 0x300c, ORK_NPU_OFFSET_CORE_MISC_CFG = 0x3010,
    ORK_NPU_OFFSET_CORE_DATAOUT_SIZE_0 = 0x3014, ORK_NPU_OFFSET_CORE_DATAOUT_SIZE_1 = 0x3018,
    ORK_NPU_OFFSET_CORE_CLIP_TRUNCATE = 0x301c, ORK_NPU_OFFSET_CORE_UNNAMED_3030 = 0x3030,
    ORK_NPU_OFFSET_DPU_S_STATUS = 0x4000, ORK_NPU_OFFSET_DPU_S_POINTER = 0x4004,
    ORK_NPU_OFFSET_DPU_OPERATION_ENABLE = 0x4008, ORK_NPU_OFFSET_DPU_FEATURE_MODE_CFG = 0x400c,
    ORK_NPU_OFFSET_DPU_DATA_FORMAT = 0x4010, ORK_NPU_OFFSET_DPU_OFFSET_PEND = 0x4014,
    ORK_NPU_OFFSET_DPU_DST_BASE_ADDR = 0x4020, ORK_NPU_OFFSET_DPU_DST_SURF_STRIDE = 0x4024,
    ORK_NPU_OFFSET_DPU_DATA_CUBE_WIDTH = 0x4030, ORK_NPU_OFFSET_DPU_DATA_CUBE_HEIGHT = 0x4034,
    ORK_NPU_OFFSET_DPU_DATA_CUBE_NOTCH_ADDR = 0x4038, ORK_NPU_OFFSET_DPU_DATA_CUBE_CHANNEL = 0x403c,
    ORK_NPU_OFFSET_DPU_BS_CFG = 0x4040, ORK_NPU_OFFSET_DPU_BS_ALU_CFG = 0x4044, ORK_NPU_OFFSET_DPU_BS_MUL_CFG = 0x4048,
    ORK_NPU_OFFSET_DPU_BS_RELUX_CMP_VALUE = 0x404c, ORK_NPU_OFFSET_DPU_BS_OW_CFG = 0x4050,
    ORK_NPU_OFFSET_DPU_BS_OW_OP = 0x4054, ORK_NPU_OFFSET_DPU_WDMA_SIZE_0 = 0x4058,
    ORK_NPU_OFFSET_DPU_WDMA_SIZE_1 = 0x405c, ORK_NPU_OFFSET_DPU_BN_CFG = 0x4060, ORK_NPU_OFFSET_DPU_BN_ALU_CFG = 0x4064,
    ORK_NPU_OFFSET_DPU_BN_MUL_CFG = 0x4068, ORK_NPU_OFFSET_DPU_BN_RELUX_CMP_VALUE = 0x406c,
    ORK_NPU_OFFSET_DPU_EW_CFG = 0x4070, ORK_NPU_OFFSET_DPU_EW_CVT_OFFSET_VALUE = 0x4074,
    ORK_NPU_OFFSET_DPU_EW_CVT_SCALE_VALUE = 0x4078, ORK_NPU_OFFSET_DPU_EW_RELUX_CMP_VALUE = 0x407c,
    ORK_NPU_OFFSET_DPU_OUT_CVT_OFFSET = 0x4080, ORK_NPU_OFFSET_DPU_OUT_CVT_SCALE = 0x4084,
    ORK_NPU_OFFSET_DPU_OUT_CVT_SHIFT = 0x4088, ORK_NPU_OFFSET_DPU_EW_OP_VALUE_0 = 0x4090,
    ORK_NPU_OFFSET_DPU_EW_OP_VALUE_1 = 0x4094, ORK_NPU_OFFSET_DPU_EW_OP_VALUE_2 = 0x4098,
    ORK_NPU_OFFSET_DPU_EW_OP_VALUE_3 = 0x409c, ORK_NPU_OFFSET_DPU_EW_OP_VALUE_4 = 0x40a0,
    ORK_NPU_OFFSET_DPU_EW_OP_VALUE_5 = 0x40a4, ORK_NPU_OFFSET_DPU_EW_OP_VALUE_6 = 0x40a8,
    ORK_NPU_OFFSET_DPU_EW_OP_VALUE_7 = 0x40ac, ORK_NPU_OFFSET_DPU_SURFACE_ADD = 0x40c0,
    ORK_NPU_OFFSET_DPU_LUT_ACCESS_CFG = 0x4100, ORK_NPU_OFFSET_DPU_LUT_ACCESS_DATA = 0x4104,
    ORK_NPU_OFFSET_DPU_LUT_CFG = 0x4108, ORK_NPU_OFFSET_DPU_LUT_INFO = 0x410c, ORK_NPU_OFFSET_DPU_LUT_LE_START = 0x4110,
    ORK_NPU_OFFSET_DPU_LUT_LE_END = 0x4114, ORK_NPU_OFFSET_DPU_LUT_LO_START = 0x4118,
    ORK_NPU_OFFSET_DPU_LUT_LO_END = 0x411c, ORK_NPU_OFFSET_DPU_LUT_LE_SLOPE_SCALE = 0x4120,
    ORK_NPU_OFFSET_DPU_LUT_LE_SLOPE_SHIFT = 0x4124, ORK_NPU_OFFSET_DPU_LUT_LO_SLOPE_SCALE = 0x4128,
    ORK_NPU_OFFSET_DPU_LUT_LO_SLOPE_SHIFT = 0x412c, ORK_NPU_OFFSET_DPU_RDMA_S_STATUS = 0x5000,
    ORK_NPU_OFFSET_DPU_RDMA_S_POINTER = 0x5004, ORK_NPU_OFFSET_DPU_RDMA_OPERATION_ENABLE = 0x5008,
    ORK_NPU_OFFSET_DPU_RDMA_DATA_CUBE_WIDTH = 0x500c, ORK_NPU_OFFSET_DPU_RDMA_DATA_CUBE_HEIGHT = 0x5010,
    ORK_NPU_OFFSET_DPU_RDMA_DATA_CUBE_CHANNEL = 0x5014, ORK_NPU_OFFSET_DPU_RDMA_SRC_BASE_ADDR = 0x5018,
    ORK_NPU_OFFSET_DPU_RDMA_BRDMA_CFG = 0x501c, ORK_NPU_OFFSET_DPU_RDMA_BS_BASE_ADDR = 0x5020,
    ORK_NPU_OFFSET_DPU_RDMA_NRDMA_CFG = 0x5028, ORK_NPU_OFFSET_DPU_RDMA_BN_BASE_ADDR = 0x502c,
    ORK_NPU_OFFSET_DPU_RDMA_ERDMA_CFG = 0x5034, ORK_NPU_OFFSET_DPU_RDMA_EW_BASE_ADDR = 0x5038,
    ORK_NPU_OFFSET_DPU_RDMA_EW_SURF_STRIDE = 0x5040, ORK_NPU_OFFSET_DPU_RDMA_FEATURE_MODE_CFG = 0x5044,
    ORK_NPU_OFFSET_DPU_RDMA_SRC_DMA_CFG = 0x5048, ORK_NPU_OFFSET_DPU_RDMA_SURF_NOTCH = 0x504c,
    ORK_NPU_OFFSET_DPU_RDMA_PAD_CFG = 0x5064, ORK_NPU_OFFSET_DPU_RDMA_WEIGHT = 0x5068,
    ORK_NPU_OFFSET_DPU_RDMA_EW_SURF_NOTCH = 0x506c, ORK_NPU_OFFSET_SYNC_MARKER = 0x0000,
    ORK_NPU_OFFSET_START_OPERATION_ENABLE = 0x0008, ORK_NPU_OFFSET_GLOBAL_OPERATION_ENABLE = 0xf008 };

enum ork_npu_precision { ORK_NPU_PRECISION_INT8 = 0, ORK_NPU_PRECISION_INT16 = 1, ORK_NPU_PRECISION_FP16 = 2,
    ORK_NPU_PRECISION_BF16 = 3, ORK_NPU_PRECISION_INT4 = 6, ORK_NPU_PRECISION_TF32 = 7 };

enum ork_npu_output_precision { ORK_NPU_OUTPUT_PRECISION_INT8 = 0, ORK_NPU_OUTPUT_PRECISION_INT16 = 1,
    ORK_NPU_OUTPUT_PRECISION_FP16 = 2, ORK_NPU_OUTPUT_PRECISION_BF16 = 3, ORK_NPU_OUTPUT_PRECISION_INT32 = 4,
    ORK_NPU_OUTPUT_PRECISION_FP32 = 5, ORK_NPU_OUTPUT_PRECISION_INT4 = 6 };

enum ork_npu_output_mode { ORK_NPU_OUTPUT_MODE_TO_MEMORY = 2 };

struct ork_npu_pc_base_address { int64_t pc_sel, pc_source_addr; };
static inline void ork_npu_put_pc_base_address(struct ork_npu_writer *writer, struct ork_npu_pc_base_address fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_PC_BASE_ADDRESS, (const int64_t[]){fields.pc_sel,
        fields.pc_source_addr});
}
struct ork_npu_pc_register_amounts { int64_t pc_data_amount; };
static inline void ork_npu_put_pc_register_amounts(struct ork_npu_writer *writer,
    struct ork_npu_pc_register_amounts fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_PC_REGISTER_AMOUNTS, (const int64_t[]){fields.pc_data_amount});
}
struct ork_npu_pc_task_con { int64_t task_number, task_pp_en, task_count_clear, reserved_one; };
static inline void ork_npu_put_pc_task_con(struct ork_npu_writer *writer, struct ork_npu_pc_task_con fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_PC_TASK_CON, (const int64_t[]){fields.task_number, fields.task_pp_en,
        fields.task_count_clear, fields.reserved_one});
}
struct ork_npu_pc_task_dma_base_addr { int64_t dma_base_addr; };
static inline void ork_npu_put_pc_task_dma_base_addr(struct ork_npu_writer *writer,
    struct ork_npu_pc_task_dma_base_addr fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_PC_TASK_DMA_BASE_ADDR, (const int64_t[]){fields.dma_base_addr});
}
struct ork_npu_cna_s_pointer { int64_t pointer, pointer_pp_en, executer_pp_en, pointer_pp_mode, pointer_pp_clear,
    executer_pp_clear, executer, core_select; };
static inline void ork_npu_put_cna_s_pointer(struct ork_npu_writer *writer, struct ork_npu_cna_s_pointer fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_S_POINTER, (const int64_t[]){fields.pointer, fields.pointer_pp_en,
        fields.executer_pp_en, fields.pointer_pp_mode, fields.pointer_pp_clear, fields.executer_pp_clear,
        fields.executer, fields.core_select});
}
struct ork_npu_cna_conv_con1 { int64_t conv_mode, in_precision, proc_precision, argb_in, deconv, group_line_off,
    nonalign_dma; };
static inline void ork_npu_put_cna_conv_con1(struct ork_npu_writer *writer, struct ork_npu_cna_conv_con1 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_CONV_CON1, (const int64_t[]){fields.conv_mode, fields.in_precision,
        fields.proc_precision, fields.argb_in, fields.deconv, fields.group_line_off, fields.nonalign_dma});
}
struct ork_npu_cna_conv_con2 { int64_t cmd_fifo_srst, csc_do_en, csc_wo_en, feature_grains, kernel_group; };
static inline void ork_npu_put_cna_conv_con2(struct ork_npu_writer *writer, struct ork_npu_cna_conv_con2 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_CONV_CON2, (const int64_t[]){fields.cmd_fifo_srst, fields.csc_do_en,
        fields.csc_wo_en, fields.feature_grains, fields.kernel_group});
}
struct ork_npu_cna_conv_con3 { int64_t conv_x_stride, conv_y_stride, deconv_x_stride, deconv_y_stride,
    atrous_x_dilation, atrous_y_dilation, nn_mode; };
static inline void ork_npu_put_cna_conv_con3(struct ork_npu_writer *writer, struct ork_npu_cna_conv_con3 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_CONV_CON3, (const int64_t[]){fields.conv_x_stride,
        fields.conv_y_stride, fields.deconv_x_stride, fields.deconv_y_stride, fields.atrous_x_dilation,
        fields.atrous_y_dilation, fields.nn_mode});
}
struct ork_npu_cna_data_size0 { int64_t datain_height, datain_width; };
static inline void ork_npu_put_cna_data_size0(struct ork_npu_writer *writer, struct ork_npu_cna_data_size0 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_DATA_SIZE0, (const int64_t[]){fields.datain_height,
        fields.datain_width});
}
struct ork_npu_cna_data_size1 { int64_t datain_channel, datain_channel_real; };
static inline void ork_npu_put_cna_data_size1(struct ork_npu_writer *writer, struct ork_npu_cna_data_size1 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_DATA_SIZE1, (const int64_t[]){fields.datain_channel,
        fields.datain_channel_real});
}
struct ork_npu_cna_data_size2 { int64_t dataout_width; };
static inline void ork_npu_put_cna_data_size2(struct ork_npu_writer *writer, struct ork_npu_cna_data_size2 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_DATA_SIZE2, (const int64_t[]){fields.dataout_width});
}
struct ork_npu_cna_data_size3 { int64_t dataout_atomics, surf_mode; };
static inline void ork_npu_put_cna_data_size3(struct ork_npu_writer *writer, struct ork_npu_cna_data_size3 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_DATA_SIZE3, (const int64_t[]){fields.dataout_atomics,
        fields.surf_mode});
}
struct ork_npu_cna_weight_size0 { int64_t weight_bytes; };
static inline void ork_npu_put_cna_weight_size0(struct ork_npu_writer *writer, struct ork_npu_cna_weight_size0 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_WEIGHT_SIZE0, (const int64_t[]){fields.weight_bytes});
}
struct ork_npu_cna_weight_size1 { int64_t weight_bytes_per_kernel; };
static inline void ork_npu_put_cna_weight_size1(struct ork_npu_writer *writer, struct ork_npu_cna_weight_size1 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_WEIGHT_SIZE1, (const int64_t[]){fields.weight_bytes_per_kernel});
}
struct ork_npu_cna_weight_size2 { int64_t weight_kernels, weight_height, weight_width; };
static inline void ork_npu_put_cna_weight_size2(struct ork_npu_writer *writer, struct ork_npu_cna_weight_size2 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_WEIGHT_SIZE2, (const int64_t[]){fields.weight_kernels,
        fields.weight_height, fields.weight_width});
}
struct ork_npu_cna_cbuf_con0 { int64_t data_bank, weight_bank, fc_data_bank, data_reuse, weight_reuse; };
static inline void ork_npu_put_cna_cbuf_con0(struct ork_npu_writer *writer, struct ork_npu_cna_cbuf_con0 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_CBUF_CON0, (const int64_t[]){fields.data_bank, fields.weight_bank,
        fields.fc_data_bank, fields.data_reuse, fields.weight_reuse});
}
struct ork_npu_cna_cbuf_con1 { int64_t data_entries; };
static inline void ork_npu_put_cna_cbuf_con1(struct ork_npu_writer *writer, struct ork_npu_cna_cbuf_con1 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_CBUF_CON1, (const int64_t[]){fields.data_entries});
}
struct ork_npu_cna_cvt_con0 { int64_t cvt_bypass, cvt_type, round_type, data_sign, cvt_truncate_0, cvt_truncate_1,
    cvt_truncate_2, cvt_truncate_3; };
static inline void ork_npu_put_cna_cvt_con0(struct ork_npu_writer *writer, struct ork_npu_cna_cvt_con0 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_CVT_CON0, (const int64_t[]){fields.cvt_bypass, fields.cvt_type,
        fields.round_type, fields.data_sign, fields.cvt_truncate_0, fields.cvt_truncate_1, fields.cvt_truncate_2,
        fields.cvt_truncate_3});
}
struct ork_npu_cna_cvt_con1 { int64_t cvt_offset0, cvt_scale0; };
static inline void ork_npu_put_cna_cvt_con1(struct ork_npu_writer *writer, struct ork_npu_cna_cvt_con1 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_CVT_CON1, (const int64_t[]){fields.cvt_offset0, fields.cvt_scale0});
}
struct ork_npu_cna_cvt_con2 { int64_t cvt_offset1, cvt_scale1; };
static inline void ork_npu_put_cna_cvt_con2(struct ork_npu_writer *writer, struct ork_npu_cna_cvt_con2 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_CVT_CON2, (const int64_t[]){fields.cvt_offset1, fields.cvt_scale1});
}
struct ork_npu_cna_cvt_con3 { int64_t cvt_offset2, cvt_scale2; };
static inline void ork_npu_put_cna_cvt_con3(struct ork_npu_writer *writer, struct ork_npu_cna_cvt_con3 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_CVT_CON3, (const int64_t[]){fields.cvt_offset2, fields.cvt_scale2});
}
struct ork_npu_cna_cvt_con4 { int64_t cvt_offset3, cvt_scale3; };
static inline void ork_npu_put_cna_cvt_con4(struct ork_npu_writer *writer, struct ork_npu_cna_cvt_con4 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_CVT_CON4, (const int64_t[]){fields.cvt_offset3, fields.cvt_scale3});
}
struct ork_npu_cna_fc_con0 { int64_t fc_skip_en, fc_skip_data; };
static inline void ork_npu_put_cna_fc_con0(struct ork_npu_writer *writer, struct ork_npu_cna_fc_con0 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_FC_CON0, (const int64_t[]){fields.fc_skip_en, fields.fc_skip_data});
}
struct ork_npu_cna_fc_con1 { int64_t data_offset; };
static inline void ork_npu_put_cna_fc_con1(struct ork_npu_writer *writer, struct ork_npu_cna_fc_con1 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_FC_CON1, (const int64_t[]){fields.data_offset});
}
struct ork_npu_cna_pad_con0 { int64_t pad_top, pad_left; };
static inline void ork_npu_put_cna_pad_con0(struct ork_npu_writer *writer, struct ork_npu_cna_pad_con0 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_PAD_CON0, (const int64_t[]){fields.pad_top, fields.pad_left});
}
struct ork_npu_cna_feature_data_addr { int64_t feature_base_addr; };
static inline void ork_npu_put_cna_feature_data_addr(struct ork_npu_writer *writer,
    struct ork_npu_cna_feature_data_addr fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_FEATURE_DATA_ADDR, (const int64_t[]){fields.feature_base_addr});
}
struct ork_npu_cna_fc_con2 { int64_t weight_offset; };
static inline void ork_npu_put_cna_fc_con2(struct ork_npu_writer *writer, struct ork_npu_cna_fc_con2 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_FC_CON2, (const int64_t[]){fields.weight_offset});
}
struct ork_npu_cna_dma_con0 { int64_t data_burst_len, weight_burst_len, ov4k_bypass; };
static inline void ork_npu_put_cna_dma_con0(struct ork_npu_writer *writer, struct ork_npu_cna_dma_con0 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_DMA_CON0, (const int64_t[]){fields.data_burst_len,
        fields.weight_burst_len, fields.ov4k_bypass});
}
struct ork_npu_cna_dma_con1 { int64_t line_stride; };
static inline void ork_npu_put_cna_dma_con1(struct ork_npu_writer *writer, struct ork_npu_cna_dma_con1 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_DMA_CON1, (const int64_t[]){fields.line_stride});
}
struct ork_npu_cna_dma_con2 { int64_t surf_stride; };
static inline void ork_npu_put_cna_dma_con2(struct ork_npu_writer *writer, struct ork_npu_cna_dma_con2 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_DMA_CON2, (const int64_t[]){fields.surf_stride});
}
struct ork_npu_cna_fc_data_size0 { int64_t dma_height, dma_width; };
static inline void ork_npu_put_cna_fc_data_size0(struct ork_npu_writer *writer, struct ork_npu_cna_fc_data_size0 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_FC_DATA_SIZE0, (const int64_t[]){fields.dma_height,
        fields.dma_width});
}
struct ork_npu_cna_fc_data_size1 { int64_t dma_channel; };
static inline void ork_npu_put_cna_fc_data_size1(struct ork_npu_writer *writer, struct ork_npu_cna_fc_data_size1 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_FC_DATA_SIZE1, (const int64_t[]){fields.dma_channel});
}
struct ork_npu_cna_clk_gate { int64_t cna_feature_disable_clkgate, cna_weight_disable_clkgate, csc_disable_clkgate,
    cbuf_cs_disable_clkgate; };
static inline void ork_npu_put_cna_clk_gate(struct ork_npu_writer *writer, struct ork_npu_cna_clk_gate fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_CLK_GATE, (const int64_t[]){fields.cna_feature_disable_clkgate,
        fields.cna_weight_disable_clkgate, fields.csc_disable_clkgate, fields.cbuf_cs_disable_clkgate});
}
struct ork_npu_cna_dcomp_ctrl { int64_t decomp_control, wt_dec_bypass; };
static inline void ork_npu_put_cna_dcomp_ctrl(struct ork_npu_writer *writer, struct ork_npu_cna_dcomp_ctrl fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_DCOMP_CTRL, (const int64_t[]){fields.decomp_control,
        fields.wt_dec_bypass});
}
struct ork_npu_cna_dcomp_regnum { int64_t dcomp_regnum; };
static inline void ork_npu_put_cna_dcomp_regnum(struct ork_npu_writer *writer, struct ork_npu_cna_dcomp_regnum fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_DCOMP_REGNUM, (const int64_t[]){fields.dcomp_regnum});
}
struct ork_npu_cna_dcomp_addr0 { int64_t decompress_addr0; };
static inline void ork_npu_put_cna_dcomp_addr0(struct ork_npu_writer *writer, struct ork_npu_cna_dcomp_addr0 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_DCOMP_ADDR0, (const int64_t[]){fields.decompress_addr0});
}
struct ork_npu_cna_dcomp_amount0 { int64_t dcomp_amount0; };
static inline void ork_npu_put_cna_dcomp_amount0(struct ork_npu_writer *writer, struct ork_npu_cna_dcomp_amount0 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_DCOMP_AMOUNT0, (const int64_t[]){fields.dcomp_amount0});
}
struct ork_npu_cna_dcomp_amount1 { int64_t dcomp_amount1; };
static inline void ork_npu_put_cna_dcomp_amount1(struct ork_npu_writer *writer, struct ork_npu_cna_dcomp_amount1 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_DCOMP_AMOUNT1, (const int64_t[]){fields.dcomp_amount1});
}
struct ork_npu_cna_dcomp_amount2 { int64_t dcomp_amount2; };
static inline void ork_npu_put_cna_dcomp_amount2(struct ork_npu_writer *writer, struct ork_npu_cna_dcomp_amount2 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_DCOMP_AMOUNT2, (const int64_t[]){fields.dcomp_amount2});
}
struct ork_npu_cna_dcomp_amount3 { int64_t dcomp_amount3; };
static inline void ork_npu_put_cna_dcomp_amount3(struct ork_npu_writer *writer, struct ork_npu_cna_dcomp_amount3 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_DCOMP_AMOUNT3, (const int64_t[]){fields.dcomp_amount3});
}
struct ork_npu_cna_dcomp_amount4 { int64_t dcomp_amount4; };
static inline void ork_npu_put_cna_dcomp_amount4(struct ork_npu_writer *writer, struct ork_npu_cna_dcomp_amount4 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_DCOMP_AMOUNT4, (const int64_t[]){fields.dcomp_amount4});
}
struct ork_npu_cna_dcomp_amount5 { int64_t dcomp_amount5; };
static inline void ork_npu_put_cna_dcomp_amount5(struct ork_npu_writer *writer, struct ork_npu_cna_dcomp_amount5 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_DCOMP_AMOUNT5, (const int64_t[]){fields.dcomp_amount5});
}
struct ork_npu_cna_dcomp_amount6 { int64_t dcomp_amount6; };
static inline void ork_npu_put_cna_dcomp_amount6(struct ork_npu_writer *writer, struct ork_npu_cna_dcomp_amount6 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_DCOMP_AMOUNT6, (const int64_t[]){fields.dcomp_amount6});
}
struct ork_npu_cna_dcomp_amount7 { int64_t dcomp_amount7; };
static inline void ork_npu_put_cna_dcomp_amount7(struct ork_npu_writer *writer, struct ork_npu_cna_dcomp_amount7 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_DCOMP_AMOUNT7, (const int64_t[]){fields.dcomp_amount7});
}
struct ork_npu_cna_dcomp_amount8 { int64_t dcomp_amount8; };
static inline void ork_npu_put_cna_dcomp_amount8(struct ork_npu_writer *writer, struct ork_npu_cna_dcomp_amount8 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_DCOMP_AMOUNT8, (const int64_t[]){fields.dcomp_amount8});
}
struct ork_npu_cna_dcomp_amount9 { int64_t dcomp_amount9; };
static inline void ork_npu_put_cna_dcomp_amount9(struct ork_npu_writer *writer, struct ork_npu_cna_dcomp_amount9 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_DCOMP_AMOUNT9, (const int64_t[]){fields.dcomp_amount9});
}
struct ork_npu_cna_dcomp_amount10 { int64_t dcomp_amount10; };
static inline void ork_npu_put_cna_dcomp_amount10(struct ork_npu_writer *writer,
    struct ork_npu_cna_dcomp_amount10 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_DCOMP_AMOUNT10, (const int64_t[]){fields.dcomp_amount10});
}
struct ork_npu_cna_dcomp_amount11 { int64_t dcomp_amount11; };
static inline void ork_npu_put_cna_dcomp_amount11(struct ork_npu_writer *writer,
    struct ork_npu_cna_dcomp_amount11 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_DCOMP_AMOUNT11, (const int64_t[]){fields.dcomp_amount11});
}
struct ork_npu_cna_dcomp_amount12 { int64_t dcomp_amount12; };
static inline void ork_npu_put_cna_dcomp_amount12(struct ork_npu_writer *writer,
    struct ork_npu_cna_dcomp_amount12 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_DCOMP_AMOUNT12, (const int64_t[]){fields.dcomp_amount12});
}
struct ork_npu_cna_dcomp_amount13 { int64_t dcomp_amount13; };
static inline void ork_npu_put_cna_dcomp_amount13(struct ork_npu_writer *writer,
    struct ork_npu_cna_dcomp_amount13 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_DCOMP_AMOUNT13, (const int64_t[]){fields.dcomp_amount13});
}
struct ork_npu_cna_dcomp_amount14 { int64_t dcomp_amount14; };
static inline void ork_npu_put_cna_dcomp_amount14(struct ork_npu_writer *writer,
    struct ork_npu_cna_dcomp_amount14 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_DCOMP_AMOUNT14, (const int64_t[]){fields.dcomp_amount14});
}
struct ork_npu_cna_dcomp_amount15 { int64_t dcomp_amount15; };
static inline void ork_npu_put_cna_dcomp_amount15(struct ork_npu_writer *writer,
    struct ork_npu_cna_dcomp_amount15 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_DCOMP_AMOUNT15, (const int64_t[]){fields.dcomp_amount15});
}
struct ork_npu_cna_cvt_con5 { int64_t per_channel_cvt_en; };
static inline void ork_npu_put_cna_cvt_con5(struct ork_npu_writer *writer, struct ork_npu_cna_cvt_con5 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_CVT_CON5, (const int64_t[]){fields.per_channel_cvt_en});
}
struct ork_npu_cna_pad_con1 { int64_t pad_value; };
static inline void ork_npu_put_cna_pad_con1(struct ork_npu_writer *writer, struct ork_npu_cna_pad_con1 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CNA_PAD_CON1, (const int64_t[]){fields.pad_value});
}
struct ork_npu_core_s_pointer { int64_t pointer, pointer_pp_en, executer_pp_en, pointer_pp_mode, pointer_pp_clear,
    executer_pp_clear, executer, core_select; };
static inline void ork_npu_put_core_s_pointer(struct ork_npu_writer *writer, struct ork_npu_core_s_pointer fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CORE_S_POINTER, (const int64_t[]){fields.pointer, fields.pointer_pp_en,
        fields.executer_pp_en, fields.pointer_pp_mode, fields.pointer_pp_clear, fields.executer_pp_clear,
        fields.executer, fields.core_select});
}
struct ork_npu_core_mac_gating { int64_t slcg_op_en; };
static inline void ork_npu_put_core_mac_gating(struct ork_npu_writer *writer, struct ork_npu_core_mac_gating fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CORE_MAC_GATING, (const int64_t[]){fields.slcg_op_en});
}
struct ork_npu_core_misc_cfg { int64_t qd_en, dw_en, proc_precision, soft_gating; };
static inline void ork_npu_put_core_misc_cfg(struct ork_npu_writer *writer, struct ork_npu_core_misc_cfg fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CORE_MISC_CFG, (const int64_t[]){fields.qd_en, fields.dw_en,
        fields.proc_precision, fields.soft_gating});
}
struct ork_npu_core_dataout_size_0 { int64_t dataout_width, dataout_height; };
static inline void ork_npu_put_core_dataout_size_0(struct ork_npu_writer *writer,
    struct ork_npu_core_dataout_size_0 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CORE_DATAOUT_SIZE_0, (const int64_t[]){fields.dataout_width,
        fields.dataout_height});
}
struct ork_npu_core_dataout_size_1 { int64_t dataout_channel; };
static inline void ork_npu_put_core_dataout_size_1(struct ork_npu_writer *writer,
    struct ork_npu_core_dataout_size_1 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CORE_DATAOUT_SIZE_1, (const int64_t[]){fields.dataout_channel});
}
struct ork_npu_core_clip_truncate { int64_t clip_truncate, round_type; };
static inline void ork_npu_put_core_clip_truncate(struct ork_npu_writer *writer,
    struct ork_npu_core_clip_truncate fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CORE_CLIP_TRUNCATE, (const int64_t[]){fields.clip_truncate,
        fields.round_type});
}
struct ork_npu_core_unnamed_3030 { int64_t value; };
static inline void ork_npu_put_core_unnamed_3030(struct ork_npu_writer *writer, struct ork_npu_core_unnamed_3030 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_CORE_UNNAMED_3030, (const int64_t[]){fields.value});
}
struct ork_npu_dpu_s_pointer { int64_t pointer, pointer_pp_en, executer_pp_en, pointer_pp_mode, pointer_pp_clear,
    executer_pp_clear, executer; };
static inline void ork_npu_put_dpu_s_pointer(struct ork_npu_writer *writer, struct ork_npu_dpu_s_pointer fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_S_POINTER, (const int64_t[]){fields.pointer, fields.pointer_pp_en,
        fields.executer_pp_en, fields.pointer_pp_mode, fields.pointer_pp_clear, fields.executer_pp_clear,
        fields.executer});
}
struct ork_npu_dpu_feature_mode_cfg { int64_t flying_mode, output_mode, conv_mode, burst_len, surf_len, nonalign,
    rgp_type, tp_en, comb_use; };
static inline void ork_npu_put_dpu_feature_mode_cfg(struct ork_npu_writer *writer,
    struct ork_npu_dpu_feature_mode_cfg fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_FEATURE_MODE_CFG, (const int64_t[]){fields.flying_mode,
        fields.output_mode, fields.conv_mode, fields.burst_len, fields.surf_len, fields.nonalign, fields.rgp_type,
        fields.tp_en, fields.comb_use});
}
struct ork_npu_dpu_data_format { int64_t proc_precision, mc_surf_out, bs_mul_shift_value_neg, bn_mul_shift_value_neg,
    ew_truncate_neg, in_precision, out_precision; };
static inline void ork_npu_put_dpu_data_format(struct ork_npu_writer *writer, struct ork_npu_dpu_data_format fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_DATA_FORMAT, (const int64_t[]){fields.proc_precision,
        fields.mc_surf_out, fields.bs_mul_shift_value_neg, fields.bn_mul_shift_value_neg, fields.ew_truncate_neg,
        fields.in_precision, fields.out_precision});
}
struct ork_npu_dpu_offset_pend { int64_t offset_pend; };
static inline void ork_npu_put_dpu_offset_pend(struct ork_npu_writer *writer, struct ork_npu_dpu_offset_pend fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_OFFSET_PEND, (const int64_t[]){fields.offset_pend});
}
struct ork_npu_dpu_dst_base_addr { int64_t dst_base_addr; };
static inline void ork_npu_put_dpu_dst_base_addr(struct ork_npu_writer *writer, struct ork_npu_dpu_dst_base_addr fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_DST_BASE_ADDR, (const int64_t[]){fields.dst_base_addr});
}
struct ork_npu_dpu_dst_surf_stride { int64_t dst_surf_stride; };
static inline void ork_npu_put_dpu_dst_surf_stride(struct ork_npu_writer *writer,
    struct ork_npu_dpu_dst_surf_stride fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_DST_SURF_STRIDE, (const int64_t[]){fields.dst_surf_stride});
}
struct ork_npu_dpu_data_cube_width { int64_t width; };
static inline void ork_npu_put_dpu_data_cube_width(struct ork_npu_writer *writer,
    struct ork_npu_dpu_data_cube_width fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_DATA_CUBE_WIDTH, (const int64_t[]){fields.width});
}
struct ork_npu_dpu_data_cube_height { int64_t height, minmax_ctl; };
static inline void ork_npu_put_dpu_data_cube_height(struct ork_npu_writer *writer,
    struct ork_npu_dpu_data_cube_height fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_DATA_CUBE_HEIGHT, (const int64_t[]){fields.height,
        fields.minmax_ctl});
}
struct ork_npu_dpu_data_cube_notch_addr { int64_t notch_addr_0, notch_addr_1; };
static inline void ork_npu_put_dpu_data_cube_notch_addr(struct ork_npu_writer *writer,
    struct ork_npu_dpu_data_cube_notch_addr fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_DATA_CUBE_NOTCH_ADDR, (const int64_t[]){fields.notch_addr_0,
        fields.notch_addr_1});
}
struct ork_npu_dpu_data_cube_channel { int64_t channel, orig_channel; };
static inline void ork_npu_put_dpu_data_cube_channel(struct ork_npu_writer *writer,
    struct ork_npu_dpu_data_cube_channel fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_DATA_CUBE_CHANNEL, (const int64_t[]){fields.channel,
        fields.orig_channel});
}
struct ork_npu_dpu_bs_cfg { int64_t bs_bypass, bs_alu_bypass, bs_mul_bypass, bs_mul_prelu, bs_relu_bypass, bs_relux_en,
    bs_alu_src, bs_alu_algo; };
static inline void ork_npu_put_dpu_bs_cfg(struct ork_npu_writer *writer, struct ork_npu_dpu_bs_cfg fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_BS_CFG, (const int64_t[]){fields.bs_bypass, fields.bs_alu_bypass,
        fields.bs_mul_bypass, fields.bs_mul_prelu, fields.bs_relu_bypass, fields.bs_relux_en, fields.bs_alu_src,
        fields.bs_alu_algo});
}
struct ork_npu_dpu_bs_alu_cfg { int64_t bs_alu_operand; };
static inline void ork_npu_put_dpu_bs_alu_cfg(struct ork_npu_writer *writer, struct ork_npu_dpu_bs_alu_cfg fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_BS_ALU_CFG, (const int64_t[]){fields.bs_alu_operand});
}
struct ork_npu_dpu_bs_mul_cfg { int64_t bs_mul_src, bs_truncate_src, bs_mul_shift_value, bs_mul_operand; };
static inline void ork_npu_put_dpu_bs_mul_cfg(struct ork_npu_writer *writer, struct ork_npu_dpu_bs_mul_cfg fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_BS_MUL_CFG, (const int64_t[]){fields.bs_mul_src,
        fields.bs_truncate_src, fields.bs_mul_shift_value, fields.bs_mul_operand});
}
struct ork_npu_dpu_bs_relux_cmp_value { int64_t bs_relux_cmp_dat; };
static inline void ork_npu_put_dpu_bs_relux_cmp_value(struct ork_npu_writer *writer,
    struct ork_npu_dpu_bs_relux_cmp_value fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_BS_RELUX_CMP_VALUE, (const int64_t[]){fields.bs_relux_cmp_dat});
}
struct ork_npu_dpu_bs_ow_cfg { int64_t ow_src, od_bypass, size_e_0, size_e_1, size_e_2, tp_org_en, rgp_cnter; };
static inline void ork_npu_put_dpu_bs_ow_cfg(struct ork_npu_writer *writer, struct ork_npu_dpu_bs_ow_cfg fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_BS_OW_CFG, (const int64_t[]){fields.ow_src, fields.od_bypass,
        fields.size_e_0, fields.size_e_1, fields.size_e_2, fields.tp_org_en, fields.rgp_cnter});
}
struct ork_npu_dpu_bs_ow_op { int64_t ow_op; };
static inline void ork_npu_put_dpu_bs_ow_op(struct ork_npu_writer *writer, struct ork_npu_dpu_bs_ow_op fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_BS_OW_OP, (const int64_t[]){fields.ow_op});
}
struct ork_npu_dpu_wdma_size_0 { int64_t channel_wdma, size_c_wdma, tp_precision; };
static inline void ork_npu_put_dpu_wdma_size_0(struct ork_npu_writer *writer, struct ork_npu_dpu_wdma_size_0 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_WDMA_SIZE_0, (const int64_t[]){fields.channel_wdma,
        fields.size_c_wdma, fields.tp_precision});
}
struct ork_npu_dpu_wdma_size_1 { int64_t width_wdma, height_wdma; };
static inline void ork_npu_put_dpu_wdma_size_1(struct ork_npu_writer *writer, struct ork_npu_dpu_wdma_size_1 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_WDMA_SIZE_1, (const int64_t[]){fields.width_wdma,
        fields.height_wdma});
}
struct ork_npu_dpu_bn_cfg { int64_t bn_bypass, bn_alu_bypass, bn_mul_bypass, bn_mul_prelu, bn_relu_bypass, bn_relux_en,
    bn_alu_src, bn_alu_algo; };
static inline void ork_npu_put_dpu_bn_cfg(struct ork_npu_writer *writer, struct ork_npu_dpu_bn_cfg fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_BN_CFG, (const int64_t[]){fields.bn_bypass, fields.bn_alu_bypass,
        fields.bn_mul_bypass, fields.bn_mul_prelu, fields.bn_relu_bypass, fields.bn_relux_en, fields.bn_alu_src,
        fields.bn_alu_algo});
}
struct ork_npu_dpu_bn_alu_cfg { int64_t bn_alu_operand; };
static inline void ork_npu_put_dpu_bn_alu_cfg(struct ork_npu_writer *writer, struct ork_npu_dpu_bn_alu_cfg fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_BN_ALU_CFG, (const int64_t[]){fields.bn_alu_operand});
}
struct ork_npu_dpu_bn_mul_cfg { int64_t bn_mul_src, bn_truncate_src, bn_mul_shift_value, bn_mul_operand; };
static inline void ork_npu_put_dpu_bn_mul_cfg(struct ork_npu_writer *writer, struct ork_npu_dpu_bn_mul_cfg fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_BN_MUL_CFG, (const int64_t[]){fields.bn_mul_src,
        fields.bn_truncate_src, fields.bn_mul_shift_value, fields.bn_mul_operand});
}
struct ork_npu_dpu_bn_relux_cmp_value { int64_t bn_relux_cmp_dat; };
static inline void ork_npu_put_dpu_bn_relux_cmp_value(struct ork_npu_writer *writer,
    struct ork_npu_dpu_bn_relux_cmp_value fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_BN_RELUX_CMP_VALUE, (const int64_t[]){fields.bn_relux_cmp_dat});
}
struct ork_npu_dpu_ew_cfg { int64_t ew_bypass, ew_op_bypass, ew_op_type, ew_mul_prelu, ew_op_src, ew_lut_bypass,
    ew_op_cvt_bypass, ew_relu_bypass, ew_relux_en, ew_alu_algo, ew_binary_en, ew_equal_en, edata_size, ew_data_mode,
    ew_cvt_round, ew_cvt_type; };
static inline void ork_npu_put_dpu_ew_cfg(struct ork_npu_writer *writer, struct ork_npu_dpu_ew_cfg fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_EW_CFG, (const int64_t[]){fields.ew_bypass, fields.ew_op_bypass,
        fields.ew_op_type, fields.ew_mul_prelu, fields.ew_op_src, fields.ew_lut_bypass, fields.ew_op_cvt_bypass,
        fields.ew_relu_bypass, fields.ew_relux_en, fields.ew_alu_algo, fields.ew_binary_en, fields.ew_equal_en,
        fields.edata_size, fields.ew_data_mode, fields.ew_cvt_round, fields.ew_cvt_type});
}
struct ork_npu_dpu_ew_cvt_offset_value { int64_t ew_op_cvt_offset; };
static inline void ork_npu_put_dpu_ew_cvt_offset_value(struct ork_npu_writer *writer,
    struct ork_npu_dpu_ew_cvt_offset_value fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_EW_CVT_OFFSET_VALUE, (const int64_t[]){fields.ew_op_cvt_offset});
}
struct ork_npu_dpu_ew_cvt_scale_value { int64_t ew_op_cvt_scale, ew_op_cvt_shift, ew_truncate; };
static inline void ork_npu_put_dpu_ew_cvt_scale_value(struct ork_npu_writer *writer,
    struct ork_npu_dpu_ew_cvt_scale_value fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_EW_CVT_SCALE_VALUE, (const int64_t[]){fields.ew_op_cvt_scale,
        fields.ew_op_cvt_shift, fields.ew_truncate});
}
struct ork_npu_dpu_ew_relux_cmp_value { int64_t ew_relux_cmp_dat; };
static inline void ork_npu_put_dpu_ew_relux_cmp_value(struct ork_npu_writer *writer,
    struct ork_npu_dpu_ew_relux_cmp_value fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_EW_RELUX_CMP_VALUE, (const int64_t[]){fields.ew_relux_cmp_dat});
}
struct ork_npu_dpu_out_cvt_offset { int64_t out_cvt_offset; };
static inline void ork_npu_put_dpu_out_cvt_offset(struct ork_npu_writer *writer,
    struct ork_npu_dpu_out_cvt_offset fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_OUT_CVT_OFFSET, (const int64_t[]){fields.out_cvt_offset});
}
struct ork_npu_dpu_out_cvt_scale { int64_t out_cvt_scale, fp32tofp16_en; };
static inline void ork_npu_put_dpu_out_cvt_scale(struct ork_npu_writer *writer, struct ork_npu_dpu_out_cvt_scale fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_OUT_CVT_SCALE, (const int64_t[]){fields.out_cvt_scale,
        fields.fp32tofp16_en});
}
struct ork_npu_dpu_out_cvt_shift { int64_t out_cvt_shift, minus_exp, cvt_round, cvt_type; };
static inline void ork_npu_put_dpu_out_cvt_shift(struct ork_npu_writer *writer, struct ork_npu_dpu_out_cvt_shift fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_OUT_CVT_SHIFT, (const int64_t[]){fields.out_cvt_shift,
        fields.minus_exp, fields.cvt_round, fields.cvt_type});
}
struct ork_npu_dpu_ew_op_value_0 { int64_t ew_operand_0; };
static inline void ork_npu_put_dpu_ew_op_value_0(struct ork_npu_writer *writer, struct ork_npu_dpu_ew_op_value_0 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_EW_OP_VALUE_0, (const int64_t[]){fields.ew_operand_0});
}
struct ork_npu_dpu_ew_op_value_1 { int64_t ew_operand_1; };
static inline void ork_npu_put_dpu_ew_op_value_1(struct ork_npu_writer *writer, struct ork_npu_dpu_ew_op_value_1 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_EW_OP_VALUE_1, (const int64_t[]){fields.ew_operand_1});
}
struct ork_npu_dpu_ew_op_value_2 { int64_t ew_operand_2; };
static inline void ork_npu_put_dpu_ew_op_value_2(struct ork_npu_writer *writer, struct ork_npu_dpu_ew_op_value_2 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_EW_OP_VALUE_2, (const int64_t[]){fields.ew_operand_2});
}
struct ork_npu_dpu_ew_op_value_3 { int64_t ew_operand_3; };
static inline void ork_npu_put_dpu_ew_op_value_3(struct ork_npu_writer *writer, struct ork_npu_dpu_ew_op_value_3 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_EW_OP_VALUE_3, (const int64_t[]){fields.ew_operand_3});
}
struct ork_npu_dpu_ew_op_value_4 { int64_t ew_operand_4; };
static inline void ork_npu_put_dpu_ew_op_value_4(struct ork_npu_writer *writer, struct ork_npu_dpu_ew_op_value_4 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_EW_OP_VALUE_4, (const int64_t[]){fields.ew_operand_4});
}
struct ork_npu_dpu_ew_op_value_5 { int64_t ew_operand_5; };
static inline void ork_npu_put_dpu_ew_op_value_5(struct ork_npu_writer *writer, struct ork_npu_dpu_ew_op_value_5 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_EW_OP_VALUE_5, (const int64_t[]){fields.ew_operand_5});
}
struct ork_npu_dpu_ew_op_value_6 { int64_t ew_operand_6; };
static inline void ork_npu_put_dpu_ew_op_value_6(struct ork_npu_writer *writer, struct ork_npu_dpu_ew_op_value_6 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_EW_OP_VALUE_6, (const int64_t[]){fields.ew_operand_6});
}
struct ork_npu_dpu_ew_op_value_7 { int64_t ew_operand_7; };
static inline void ork_npu_put_dpu_ew_op_value_7(struct ork_npu_writer *writer, struct ork_npu_dpu_ew_op_value_7 fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_EW_OP_VALUE_7, (const int64_t[]){fields.ew_operand_7});
}
struct ork_npu_dpu_surface_add { int64_t surf_add; };
static inline void ork_npu_put_dpu_surface_add(struct ork_npu_writer *writer, struct ork_npu_dpu_surface_add fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_SURFACE_ADD, (const int64_t[]){fields.surf_add});
}
struct ork_npu_dpu_lut_access_cfg { int64_t lut_addr, lut_table_id, lut_access_type; };
static inline void ork_npu_put_dpu_lut_access_cfg(struct ork_npu_writer *writer,
    struct ork_npu_dpu_lut_access_cfg fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_LUT_ACCESS_CFG, (const int64_t[]){fields.lut_addr,
        fields.lut_table_id, fields.lut_access_type});
}
struct ork_npu_dpu_lut_access_data { int64_t lut_access_data; };
static inline void ork_npu_put_dpu_lut_access_data(struct ork_npu_writer *writer,
    struct ork_npu_dpu_lut_access_data fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_LUT_ACCESS_DATA, (const int64_t[]){fields.lut_access_data});
}
struct ork_npu_dpu_lut_cfg { int64_t lut_road_sel, lut_expand_en, lut_lo_le_mux, lut_uflow_priority, lut_oflow_priority,
    lut_hybrid_priority, lut_cal_sel; };
static inline void ork_npu_put_dpu_lut_cfg(struct ork_npu_writer *writer, struct ork_npu_dpu_lut_cfg fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_LUT_CFG, (const int64_t[]){fields.lut_road_sel,
        fields.lut_expand_en, fields.lut_lo_le_mux, fields.lut_uflow_priority, fields.lut_oflow_priority,
        fields.lut_hybrid_priority, fields.lut_cal_sel});
}
struct ork_npu_dpu_lut_info { int64_t lut_le_index_select, lut_lo_index_select; };
static inline void ork_npu_put_dpu_lut_info(struct ork_npu_writer *writer, struct ork_npu_dpu_lut_info fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_LUT_INFO, (const int64_t[]){fields.lut_le_index_select,
        fields.lut_lo_index_select});
}
struct ork_npu_dpu_lut_le_start { int64_t lut_le_start; };
static inline void ork_npu_put_dpu_lut_le_start(struct ork_npu_writer *writer, struct ork_npu_dpu_lut_le_start fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_LUT_LE_START, (const int64_t[]){fields.lut_le_start});
}
struct ork_npu_dpu_lut_le_end { int64_t lut_le_end; };
static inline void ork_npu_put_dpu_lut_le_end(struct ork_npu_writer *writer, struct ork_npu_dpu_lut_le_end fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_LUT_LE_END, (const int64_t[]){fields.lut_le_end});
}
struct ork_npu_dpu_lut_lo_start { int64_t lut_lo_start; };
static inline void ork_npu_put_dpu_lut_lo_start(struct ork_npu_writer *writer, struct ork_npu_dpu_lut_lo_start fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_LUT_LO_START, (const int64_t[]){fields.lut_lo_start});
}
struct ork_npu_dpu_lut_lo_end { int64_t lut_lo_end; };
static inline void ork_npu_put_dpu_lut_lo_end(struct ork_npu_writer *writer, struct ork_npu_dpu_lut_lo_end fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_LUT_LO_END, (const int64_t[]){fields.lut_lo_end});
}
struct ork_npu_dpu_lut_le_slope_scale { int64_t lut_le_slope_uflow_scale, lut_le_slope_oflow_scale; };
static inline void ork_npu_put_dpu_lut_le_slope_scale(struct ork_npu_writer *writer,
    struct ork_npu_dpu_lut_le_slope_scale fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_LUT_LE_SLOPE_SCALE, (const
        int64_t[]){fields.lut_le_slope_uflow_scale, fields.lut_le_slope_oflow_scale});
}
struct ork_npu_dpu_lut_le_slope_shift { int64_t lut_le_slope_uflow_shift, lut_le_slope_oflow_shift; };
static inline void ork_npu_put_dpu_lut_le_slope_shift(struct ork_npu_writer *writer,
    struct ork_npu_dpu_lut_le_slope_shift fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_LUT_LE_SLOPE_SHIFT, (const
        int64_t[]){fields.lut_le_slope_uflow_shift, fields.lut_le_slope_oflow_shift});
}
struct ork_npu_dpu_lut_lo_slope_scale { int64_t lut_lo_slope_uflow_scale, lut_lo_slope_oflow_scale; };
static inline void ork_npu_put_dpu_lut_lo_slope_scale(struct ork_npu_writer *writer,
    struct ork_npu_dpu_lut_lo_slope_scale fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_LUT_LO_SLOPE_SCALE, (const
        int64_t[]){fields.lut_lo_slope_uflow_scale, fields.lut_lo_slope_oflow_scale});
}
struct ork_npu_dpu_lut_lo_slope_shift { int64_t lut_lo_slope_uflow_shift, lut_lo_slope_oflow_shift; };
static inline void ork_npu_put_dpu_lut_lo_slope_shift(struct ork_npu_writer *writer,
    struct ork_npu_dpu_lut_lo_slope_shift fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_LUT_LO_SLOPE_SHIFT, (const
        int64_t[]){fields.lut_lo_slope_uflow_shift, fields.lut_lo_slope_oflow_shift});
}
struct ork_npu_dpu_rdma_s_pointer { int64_t pointer, pointer_pp_en, executer_pp_en, pointer_pp_mode, pointer_pp_clear,
    executer_pp_clear, executer; };
static inline void ork_npu_put_dpu_rdma_s_pointer(struct ork_npu_writer *writer,
    struct ork_npu_dpu_rdma_s_pointer fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_RDMA_S_POINTER, (const int64_t[]){fields.pointer,
        fields.pointer_pp_en, fields.executer_pp_en, fields.pointer_pp_mode, fields.pointer_pp_clear,
        fields.executer_pp_clear, fields.executer});
}
struct ork_npu_dpu_rdma_data_cube_width { int64_t width; };
static inline void ork_npu_put_dpu_rdma_data_cube_width(struct ork_npu_writer *writer,
    struct ork_npu_dpu_rdma_data_cube_width fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_RDMA_DATA_CUBE_WIDTH, (const int64_t[]){fields.width});
}
struct ork_npu_dpu_rdma_data_cube_height { int64_t height, ew_line_notch_addr; };
static inline void ork_npu_put_dpu_rdma_data_cube_height(struct ork_npu_writer *writer,
    struct ork_npu_dpu_rdma_data_cube_height fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_RDMA_DATA_CUBE_HEIGHT, (const int64_t[]){fields.height,
        fields.ew_line_notch_addr});
}
struct ork_npu_dpu_rdma_data_cube_channel { int64_t channel; };
static inline void ork_npu_put_dpu_rdma_data_cube_channel(struct ork_npu_writer *writer,
    struct ork_npu_dpu_rdma_data_cube_channel fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_RDMA_DATA_CUBE_CHANNEL, (const int64_t[]){fields.channel});
}
struct ork_npu_dpu_rdma_src_base_addr { int64_t src_base_addr; };
static inline void ork_npu_put_dpu_rdma_src_base_addr(struct ork_npu_writer *writer,
    struct ork_npu_dpu_rdma_src_base_addr fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_RDMA_SRC_BASE_ADDR, (const int64_t[]){fields.src_base_addr});
}
struct ork_npu_dpu_rdma_brdma_cfg { int64_t brdma_data_use; };
static inline void ork_npu_put_dpu_rdma_brdma_cfg(struct ork_npu_writer *writer,
    struct ork_npu_dpu_rdma_brdma_cfg fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_RDMA_BRDMA_CFG, (const int64_t[]){fields.brdma_data_use});
}
struct ork_npu_dpu_rdma_bs_base_addr { int64_t bs_base_addr; };
static inline void ork_npu_put_dpu_rdma_bs_base_addr(struct ork_npu_writer *writer,
    struct ork_npu_dpu_rdma_bs_base_addr fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_RDMA_BS_BASE_ADDR, (const int64_t[]){fields.bs_base_addr});
}
struct ork_npu_dpu_rdma_nrdma_cfg { int64_t nrdma_data_use; };
static inline void ork_npu_put_dpu_rdma_nrdma_cfg(struct ork_npu_writer *writer,
    struct ork_npu_dpu_rdma_nrdma_cfg fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_RDMA_NRDMA_CFG, (const int64_t[]){fields.nrdma_data_use});
}
struct ork_npu_dpu_rdma_bn_base_addr { int64_t bn_base_addr; };
static inline void ork_npu_put_dpu_rdma_bn_base_addr(struct ork_npu_writer *writer,
    struct ork_npu_dpu_rdma_bn_base_addr fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_RDMA_BN_BASE_ADDR, (const int64_t[]){fields.bn_base_addr});
}
struct ork_npu_dpu_rdma_erdma_cfg { int64_t erdma_disable, ov4k_bypass, erdma_data_size, erdma_nonalign,
    erdma_surf_mode, erdma_data_mode; };
static inline void ork_npu_put_dpu_rdma_erdma_cfg(struct ork_npu_writer *writer,
    struct ork_npu_dpu_rdma_erdma_cfg fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_RDMA_ERDMA_CFG, (const int64_t[]){fields.erdma_disable,
        fields.ov4k_bypass, fields.erdma_data_size, fields.erdma_nonalign, fields.erdma_surf_mode,
        fields.erdma_data_mode});
}
struct ork_npu_dpu_rdma_ew_base_addr { int64_t ew_base_addr; };
static inline void ork_npu_put_dpu_rdma_ew_base_addr(struct ork_npu_writer *writer,
    struct ork_npu_dpu_rdma_ew_base_addr fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_RDMA_EW_BASE_ADDR, (const int64_t[]){fields.ew_base_addr});
}
struct ork_npu_dpu_rdma_ew_surf_stride { int64_t ew_surf_stride; };
static inline void ork_npu_put_dpu_rdma_ew_surf_stride(struct ork_npu_writer *writer,
    struct ork_npu_dpu_rdma_ew_surf_stride fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_RDMA_EW_SURF_STRIDE, (const int64_t[]){fields.ew_surf_stride});
}
struct ork_npu_dpu_rdma_feature_mode_cfg { int64_t flying_mode, conv_mode, mrdma_fp16tofp32_en, mrdma_disable,
    proc_precision, comb_use, burst_len, in_precision; };
static inline void ork_npu_put_dpu_rdma_feature_mode_cfg(struct ork_npu_writer *writer,
    struct ork_npu_dpu_rdma_feature_mode_cfg fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_RDMA_FEATURE_MODE_CFG, (const int64_t[]){fields.flying_mode,
        fields.conv_mode, fields.mrdma_fp16tofp32_en, fields.mrdma_disable, fields.proc_precision, fields.comb_use,
        fields.burst_len, fields.in_precision});
}
struct ork_npu_dpu_rdma_src_dma_cfg { int64_t kernel_width, kernel_height, kernel_stride_width, kernel_stride_height,
    unpooling_en, pooling_method, line_notch_addr; };
static inline void ork_npu_put_dpu_rdma_src_dma_cfg(struct ork_npu_writer *writer,
    struct ork_npu_dpu_rdma_src_dma_cfg fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_RDMA_SRC_DMA_CFG, (const int64_t[]){fields.kernel_width,
        fields.kernel_height, fields.kernel_stride_width, fields.kernel_stride_height, fields.unpooling_en,
        fields.pooling_method, fields.line_notch_addr});
}
struct ork_npu_dpu_rdma_surf_notch { int64_t surf_notch_addr; };
static inline void ork_npu_put_dpu_rdma_surf_notch(struct ork_npu_writer *writer,
    struct ork_npu_dpu_rdma_surf_notch fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_RDMA_SURF_NOTCH, (const int64_t[]){fields.surf_notch_addr});
}
struct ork_npu_dpu_rdma_pad_cfg { int64_t pad_left, pad_top, pad_value; };
static inline void ork_npu_put_dpu_rdma_pad_cfg(struct ork_npu_writer *writer, struct ork_npu_dpu_rdma_pad_cfg fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_RDMA_PAD_CFG, (const int64_t[]){fields.pad_left, fields.pad_top,
        fields.pad_value});
}
struct ork_npu_dpu_rdma_weight { int64_t m_weight, b_weight, n_weight, e_weight; };
static inline void ork_npu_put_dpu_rdma_weight(struct ork_npu_writer *writer, struct ork_npu_dpu_rdma_weight fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_RDMA_WEIGHT, (const int64_t[]){fields.m_weight, fields.b_weight,
        fields.n_weight, fields.e_weight});
}
struct ork_npu_dpu_rdma_ew_surf_notch { int64_t ew_surf_notch; };
static inline void ork_npu_put_dpu_rdma_ew_surf_notch(struct ork_npu_writer *writer,
    struct ork_npu_dpu_rdma_ew_surf_notch fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_DPU_RDMA_EW_SURF_NOTCH, (const int64_t[]){fields.ew_surf_notch});
}
struct ork_npu_sync_marker { int64_t none; };
static inline void ork_npu_put_sync_marker(struct ork_npu_writer *writer, struct ork_npu_sync_marker fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_SYNC_MARKER, (const int64_t[]){fields.none});
}
struct ork_npu_start_operation_enable { int64_t cna_op_en, core_op_en, dpu_op_en, dpu_rdma_op_en, ppu_op_en,
    ppu_rdma_op_en; };
static inline void ork_npu_put_start_operation_enable(struct ork_npu_writer *writer,
    struct ork_npu_start_operation_enable fields)
{
    ork_npu_writer_put(writer, ORK_NPU_REGISTER_START_OPERATION_ENABLE, (const int64_t[]){fields.cna_op_en,
        fields.core_op_en, fields.dpu_op_en, fields.dpu_rdma_op_en, fields.ppu_op_en, fields.ppu_rdma_op_en});
}

/* clang-format on */

#endif
