/* Owns the table of tensor types that may stand in a GGUF file: ids, names, block sizes. Must not know how blocks are
 * decoded. Source of the numbers: the GGUF specification and ggml's type traits (August 2026, 43 ids). */
#include "format/gguf_parts.h"

static const struct ork_ggml_type_info types[] = {
    {0, "F32", 1, 4},         {1, "F16", 1, 2},        {2, "Q4_0", 32, 18},      {3, "Q4_1", 32, 20},
    {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},     {8, "Q8_0", 32, 34},      {10, "Q2_K", 256, 84},
    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},  {13, "Q5_K", 256, 176},   {14, "Q6_K", 256, 210},
    {16, "IQ2_XXS", 256, 66}, {17, "IQ2_XS", 256, 74}, {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},
    {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110}, {22, "IQ2_S", 256, 82},   {23, "IQ4_XS", 256, 136},
    {24, "I8", 1, 1},         {25, "I16", 1, 2},       {26, "I32", 1, 4},        {27, "I64", 1, 8},
    {28, "F64", 1, 8},        {29, "IQ1_M", 256, 56},  {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},
    {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},   {40, "NVFP4", 64, 36},    {41, "Q1_0", 128, 18},
    {42, "Q2_0", 64, 18},
};
enum { TYPE_COUNT = sizeof types / sizeof types[0], TYPE_ID_MAX = 42 };

const struct ork_ggml_type_info *ork_ggml_type_find(uint32_t id)
{
    for (int i = 0; i < TYPE_COUNT; i++)
        if (types[i].id == id)
            return &types[i];
    return NULL;
}

/* Ids that once stood in files or exist only inside ggml, with the type to use instead. */
static const struct {
    uint32_t id;
    ork_status status;
    const char *name, *reason, *instead;
} refused[] = {
    {4, ORK_UNSUPPORTED, "Q4_2", "was removed from GGUF", "Q4_0"},
    {5, ORK_UNSUPPORTED, "Q4_3", "was removed from GGUF", "Q4_1"},
    {9, ORK_BAD_FILE, "Q8_1", "is an activation format and never stands in files", "Q8_0"},
    {15, ORK_BAD_FILE, "Q8_K", "is an activation format and never stands in files", "Q8_0"},
    {31, ORK_UNSUPPORTED, "Q4_0_4_4", "was removed from GGUF", "Q4_0"},
    {32, ORK_UNSUPPORTED, "Q4_0_4_8", "was removed from GGUF", "Q4_0"},
    {33, ORK_UNSUPPORTED, "Q4_0_8_8", "was removed from GGUF", "Q4_0"},
    {36, ORK_UNSUPPORTED, "IQ4_NL_4_4", "was removed from GGUF", "IQ4_NL"},
    {37, ORK_UNSUPPORTED, "IQ4_NL_4_8", "was removed from GGUF", "IQ4_NL"},
    {38, ORK_UNSUPPORTED, "IQ4_NL_8_8", "was removed from GGUF", "IQ4_NL"},
};

ork_status ork_gguf_refuse_type(uint32_t id, const char *tensor, const char *path, uint64_t offset, ork_error *error)
{
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (refused[i].id == id)
            return ork_error_set(error, refused[i].status, path, (int64_t)offset,
                                 "tensor '%s': type %u (%s) %s; nearest type: %s", tensor, id, refused[i].name,
                                 refused[i].reason, refused[i].instead);
    if (id > INT32_MAX)
        return ork_error_set(error, ORK_BAD_FILE, path, (int64_t)offset, "tensor '%s': type %lld is negative", tensor,
                             (long long)id - (INT64_C(1) << 32));
    return ork_error_set(error, ORK_UNSUPPORTED, path, (int64_t)offset,
                         "tensor '%s': type %u is unknown (known: 0 to %d; forks of llama.cpp use higher ids)", tensor,
                         id, TYPE_ID_MAX);
}
