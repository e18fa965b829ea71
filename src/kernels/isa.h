/* What the instruction set files of this room offer to its table. Each installs its rows over those that are there
 * already; that the machine can run them is for the caller to know. */
#ifndef ORK_KERNELS_ISA_H
#define ORK_KERNELS_ISA_H

#include "kernels/kernels.h"

void ork_kernels_install_scalar(struct ork_kernels *kernels);
void ork_kernels_install_avx2(struct ork_kernels *kernels);
void ork_kernels_install_avxvnni(struct ork_kernels *kernels);
void ork_kernels_install_avx512(struct ork_kernels *kernels);
void ork_kernels_install_neon(struct ork_kernels *kernels);
void ork_kernels_install_dotprod(struct ork_kernels *kernels);
void ork_kernels_install_i8mm(struct ork_kernels *kernels);

void ork_matmul_g8_scalar(const struct ork_matmul_args *args);
void ork_matmul_i8_scalar(const struct ork_matmul_args *args);
void ork_matmul_i4_scalar(const struct ork_matmul_args *args);
void ork_matmul_nf4_scalar(const struct ork_matmul_args *args);
void ork_matmul_i5_scalar(const struct ork_matmul_args *args);
void ork_matmul_i6_scalar(const struct ork_matmul_args *args);
void ork_matmul_n8_scalar(const struct ork_matmul_args *args);
void ork_matmul_g8_avx2(const struct ork_matmul_args *args);
void ork_matmul_i8_avx2(const struct ork_matmul_args *args);
void ork_matmul_i4_avx2(const struct ork_matmul_args *args);
void ork_matmul_nf4_avx2(const struct ork_matmul_args *args);
void ork_matmul_i5_avx2(const struct ork_matmul_args *args);
void ork_matmul_i6_avx2(const struct ork_matmul_args *args);
void ork_matmul_n8_avx2(const struct ork_matmul_args *args);
void ork_matmul_g8_avx512(const struct ork_matmul_args *args);
void ork_matmul_i8_avx512(const struct ork_matmul_args *args);
void ork_matmul_i4_avx512(const struct ork_matmul_args *args);
void ork_matmul_nf4_avx512(const struct ork_matmul_args *args);
void ork_matmul_i5_avx512(const struct ork_matmul_args *args);
void ork_matmul_i6_avx512(const struct ork_matmul_args *args);
void ork_matmul_n8_avx512(const struct ork_matmul_args *args);
void ork_matmul_g8_neon(const struct ork_matmul_args *args);
void ork_matmul_i8_neon(const struct ork_matmul_args *args);
void ork_matmul_i4_neon(const struct ork_matmul_args *args);
void ork_matmul_nf4_neon(const struct ork_matmul_args *args);
void ork_matmul_i5_neon(const struct ork_matmul_args *args);
void ork_matmul_i6_neon(const struct ork_matmul_args *args);
void ork_matmul_n8_neon(const struct ork_matmul_args *args);
void ork_matmul_g8_dotprod(const struct ork_matmul_args *args);
void ork_matmul_i8_dotprod(const struct ork_matmul_args *args);
void ork_matmul_i4_dotprod(const struct ork_matmul_args *args);
void ork_matmul_nf4_dotprod(const struct ork_matmul_args *args);
void ork_matmul_i5_dotprod(const struct ork_matmul_args *args);
void ork_matmul_i6_dotprod(const struct ork_matmul_args *args);
void ork_matmul_n8_dotprod(const struct ork_matmul_args *args);
void ork_matmul_i8_i8mm(const struct ork_matmul_args *args);
void ork_matmul_i4_i8mm(const struct ork_matmul_args *args);
void ork_matmul_nf4_i8mm(const struct ork_matmul_args *args);
void ork_matmul_i5_i8mm(const struct ork_matmul_args *args);
void ork_matmul_i6_i8mm(const struct ork_matmul_args *args);
void ork_matmul_n8_i8mm(const struct ork_matmul_args *args);

/* The surface kernels of one instruction set: their declarations, and their part of the table. */
#define ORK_SURFACE_DECLARE(isa)                                                                                       \
    void ork_surface_input_i8_##isa(const struct ork_surface_input *input);                                            \
    void ork_surface_input_i4_##isa(const struct ork_surface_input *input);                                            \
    void ork_surface_output_i32_##isa(const struct ork_surface_output *output);                                        \
    void ork_surface_output_i32_rows_##isa(const struct ork_surface_output *output);                                   \
    void ork_surface_output_i16_##isa(const struct ork_surface_output *output);                                        \
    void ork_surface_row_checks_##isa(const int8_t *codes, uint64_t stride, const uint32_t *rows, uint32_t m,          \
                                      const uint32_t *key, uint32_t k, uint32_t *checks);                              \
    void ork_surface_key_i8_##isa(const uint8_t *bricks, uint32_t k_tiles, const uint32_t *weights, uint32_t *key);    \
    void ork_surface_key_i4_##isa(const uint8_t *bricks, uint32_t k_tiles, const uint32_t *weights, uint32_t *key);    \
    void ork_surface_inflate_##isa(enum ork_tier tier, const int8_t *table, const uint8_t *bricks,                     \
                                   const uint8_t *residual, uint32_t k_tiles, uint8_t *out)
#define ORK_SURFACE_TABLE(isa)                                                                                         \
    {                                                                                                                  \
        .name = "surface_" #isa, .input_i8 = ork_surface_input_i8_##isa, .input_i4 = ork_surface_input_i4_##isa,       \
        .output_i32 = ork_surface_output_i32_##isa, .output_i32_rows = ork_surface_output_i32_rows_##isa,              \
        .output_i16 = ork_surface_output_i16_##isa, .row_checks = ork_surface_row_checks_##isa,                        \
        .key_i8 = ork_surface_key_i8_##isa, .key_i4 = ork_surface_key_i4_##isa, .inflate = ork_surface_inflate_##isa   \
    }
ORK_SURFACE_DECLARE(scalar);
ORK_SURFACE_DECLARE(avx2);
ORK_SURFACE_DECLARE(avx512);
ORK_SURFACE_DECLARE(neon);

/* Fills one matmul row of the table. */
#define ORK_MATMUL_ROW(kernels, row_tier, row_layout, row_activation, row_isa, function, row_name)                     \
    ((kernels)->matmul[row_tier] = (struct ork_matmul_kernel){.tier = (row_tier),                                      \
                                                              .layout = (row_layout),                                  \
                                                              .activation = (row_activation),                          \
                                                              .isa = (row_isa),                                        \
                                                              .run = (function),                                       \
                                                              .name = (row_name)})

#endif
