/* The kernel table: what this machine can run, what ORK_CPU_MASK allows, and filling the table from scalar upwards.
 * Knows no kernel's inside. */
#include "kernels/kernels.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "kernels/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

static const char *const isa_names[ORK_ISA_COUNT] = {"scalar", "avx2", "avxvnni", "avx512", "neon", "dotprod", "i8mm"};

const char *ork_isa_name(enum ork_isa isa)
{
    return (unsigned)isa < ORK_ISA_COUNT ? isa_names[isa] : "unknown";
}

#if defined(__x86_64__)
/* XCR0: which register files the operating system saves. */
static uint64_t saved_registers(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* CPUID leaf 7.1, EAX bit 4. */
static bool has_avx_vnni(void)
{
    uint32_t a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || a < 1) /* EAX: the last subleaf */
        return false;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1u << 4);
}

/* Bits are of Intel's manual, volume 2, CPUID leaves 1 and 7. */
static bool machine_runs(enum ork_isa isa)
{
    uint32_t a, b, c, d;
    if (isa == ORK_ISA_SCALAR)
        return true;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_FMA) || !(c & bit_F16C) || !(c & bit_AVX))
        return false;
    if ((saved_registers() & 0x06) != 0x06) /* SSE and AVX state */
        return false;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2))
        return false;
    if (isa == ORK_ISA_AVX2)
        return true;
    if (isa == ORK_ISA_AVXVNNI)
        return has_avx_vnni();
    const uint32_t leaf7_b = bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL;
    const uint32_t leaf7_c = bit_AVX512VBMI | bit_AVX512VNNI;
    return isa == ORK_ISA_AVX512 && (b & leaf7_b) == leaf7_b && (c & leaf7_c) == leaf7_c &&
           (saved_registers() & 0xE6) == 0xE6; /* and mask registers, both halves of zmm */
}
#elif defined(__aarch64__) && defined(__linux__)
static bool machine_runs(enum ork_isa isa)
{
    const unsigned long asimd = 1ul << 1, dot_product = 1ul << 20; /* HWCAP_ASIMD, HWCAP_ASIMDDP */
    const unsigned long matrix_multiply = 1ul << 13;               /* HWCAP2_I8MM */
    const unsigned long first = getauxval(AT_HWCAP), second = getauxval(AT_HWCAP2);
    switch (isa) {
    case ORK_ISA_SCALAR:
        return true;
    case ORK_ISA_NEON:
        return first & asimd;
    case ORK_ISA_DOTPROD:
        return (first & asimd) && (first & dot_product);
    case ORK_ISA_I8MM:
        return (first & asimd) && (first & dot_product) && (second & matrix_multiply);
    default:
        return false;
    }
}
#else
static bool machine_runs(enum ork_isa isa)
{
    return isa == ORK_ISA_SCALAR;
}
#endif

/* What this build contains, worst first. */
static const struct {
    enum ork_isa isa;
    void (*install)(struct ork_kernels *kernels);
} builds[] = {
    {ORK_ISA_SCALAR, ork_kernels_install_scalar},
#if defined(__x86_64__)
    {ORK_ISA_AVX2, ork_kernels_install_avx2},
    {ORK_ISA_AVXVNNI, ork_kernels_install_avxvnni},
    {ORK_ISA_AVX512, ork_kernels_install_avx512},
#elif defined(__aarch64__)
    {ORK_ISA_NEON, ork_kernels_install_neon},
    {ORK_ISA_DOTPROD, ork_kernels_install_dotprod},
    {ORK_ISA_I8MM, ork_kernels_install_i8mm},
#endif
};
enum { BUILD_COUNT = sizeof builds / sizeof builds[0] };

static bool build_contains(enum ork_isa isa)
{
    for (size_t i = 0; i < BUILD_COUNT; i++)
        if (builds[i].isa == isa)
            return true;
    return false;
}

bool ork_kernels_build(enum ork_isa isa, struct ork_kernels *kernels)
{
    if (!build_contains(isa) || !machine_runs(isa))
        return false;
    memset(kernels, 0, sizeof *kernels);
    for (size_t i = 0; i < BUILD_COUNT && builds[i].isa <= isa; i++)
        builds[i].install(kernels);
    return true;
}

/* "avx2, avx512, scalar": the words of ORK_CPU_MASK that mean something in this build. */
static void list_choices(char *text, size_t size)
{
    text[0] = '\0';
    for (size_t i = 0; i < BUILD_COUNT; i++) {
        if (i > 0)
            strncat(text, ", ", size - strlen(text) - 1);
        strncat(text, isa_names[builds[i].isa], size - strlen(text) - 1);
    }
}

static ork_status parse_mask(const char *mask, enum ork_isa *most, ork_error *error)
{
    char choices[64];
    list_choices(choices, sizeof choices);
    for (int isa = 0; isa < ORK_ISA_COUNT; isa++) {
        if (strcmp(mask, isa_names[isa]) != 0)
            continue;
        if (!build_contains((enum ork_isa)isa))
            return ork_error_set(error, ORK_BAD_ARGUMENT, "ORK_CPU_MASK", -1,
                                 "'%s' belongs to another processor architecture; choices here: %s", mask, choices);
        *most = (enum ork_isa)isa;
        return ORK_OK;
    }
    return ork_error_set(error, ORK_BAD_ARGUMENT, "ORK_CPU_MASK", -1, "unknown instruction set '%.64s'; choices: %s",
                         mask, choices);
}

ork_status ork_kernels_build_masked(const char *mask, struct ork_kernels *kernels, ork_error *error)
{
    enum ork_isa most = builds[BUILD_COUNT - 1].isa;
    if (mask && *mask) {
        ork_status status = parse_mask(mask, &most, error);
        if (status)
            return status;
    }
    for (size_t i = BUILD_COUNT; i-- > 0;)
        if (builds[i].isa <= most && ork_kernels_build(builds[i].isa, kernels))
            break; /* at the latest the scalar one */
    return ORK_OK;
}

static pthread_once_t table_once = PTHREAD_ONCE_INIT;
static struct ork_kernels table;
static ork_status table_status;
static ork_error table_error;

static void build_table(void)
{
    table_status = ork_kernels_build_masked(getenv("ORK_CPU_MASK"), &table, &table_error);
}

ork_status ork_kernels_get(const struct ork_kernels **kernels, ork_error *error)
{
    pthread_once(&table_once, build_table);
    if (table_status) {
        if (error)
            *error = table_error;
        return table_status;
    }
    *kernels = &table;
    return ORK_OK;
}
