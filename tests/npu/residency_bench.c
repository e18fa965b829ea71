/* See residency_bench.h. */
#include "residency_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/checked.h"
#include "base/error.h"
#include "kernels/surfaces.h"

enum { PAGE_BYTES = 4096 };

static struct fake_device *fake_of(struct ork_npu_device *device)
{
    struct fake_device *fake = (struct fake_device *)device;
    assert_true(pthread_equal(fake->owner, pthread_self()));
    return fake;
}

static bool fails(const struct fake_device *fake, uint64_t call, uint64_t at)
{
    return at != 0 && (call == at || (fake->fail_all_after && call > at));
}

static void *pages(uint64_t size_bytes)
{
    void *memory = NULL;
    assert_int_equal(posix_memalign(&memory, PAGE_BYTES, size_bytes), 0);
    return memory;
}

static void add_memory(struct fake_device *fake, struct ork_npu_buffer *buffer)
{
    assert_true(fake->count < FAKE_BUFFERS && fake->count < fake->capabilities.buffers_max);
    struct fake_memory *memory = &fake->memory[fake->count++];
    *memory = (struct fake_memory){buffer,         buffer->host,    pages(buffer->size_bytes), buffer->size_bytes,
                                   buffer->domain, buffer->imported};
    memset(memory->shadow, 0xA7, buffer->size_bytes);
    fake->domain_bytes[buffer->domain] += buffer->size_bytes;
    assert_true(fake->domain_bytes[buffer->domain] <= fake->capabilities.domain_bytes);
}

static ork_status fake_allocate(struct ork_npu_device *device, uint32_t domain, uint64_t size_bytes,
                                struct ork_npu_buffer *buffer, ork_error *error)
{
    struct fake_device *fake = fake_of(device);
    assert_true(domain < fake->capabilities.domains && size_bytes > 0 && size_bytes % PAGE_BYTES == 0);
    assert_true(!fake->capabilities.buffer_bytes_max || size_bytes <= fake->capabilities.buffer_bytes_max);
    if (fails(fake, ++fake->allocations, fake->fail_allocation) ||
        (fake->bytes_max && fake->chunk_bytes + size_bytes > fake->bytes_max))
        return ork_error_set(error, ORK_NO_MEMORY, "fake", -1, "no memory in domain %u", domain);
    *buffer = (struct ork_npu_buffer){.host = pages(size_bytes), .size_bytes = size_bytes, .domain = domain};
    memset(buffer->host, 0xEE, size_bytes);
    fake->chunk_bytes += size_bytes;
    add_memory(fake, buffer);
    return ORK_OK;
}

static ork_status fake_import(struct ork_npu_device *device, uint32_t domain, const void *host, uint64_t size_bytes,
                              struct ork_npu_buffer *buffer, ork_error *error)
{
    struct fake_device *fake = fake_of(device);
    assert_true(fake->capabilities.imports && domain < fake->capabilities.domains);
    assert_true((uintptr_t)host % PAGE_BYTES == 0 && size_bytes > 0 && size_bytes % PAGE_BYTES == 0);
    if (fails(fake, ++fake->imports, fake->fail_import))
        return ork_error_set(error, ORK_IO, "fake", -1, "no import");
    *buffer =
        (struct ork_npu_buffer){.host = (uint8_t *)host, .size_bytes = size_bytes, .domain = domain, .imported = true};
    add_memory(fake, buffer);
    return ORK_OK;
}

static struct fake_memory *memory_of(const struct fake_device *fake, const struct ork_npu_buffer *buffer)
{
    for (uint32_t i = 0; i < fake->count; i++)
        if (fake->memory[i].host == buffer->host && fake->memory[i].domain == buffer->domain)
            return (struct fake_memory *)&fake->memory[i];
    fail();
    return NULL;
}

static void fake_release(struct ork_npu_device *device, struct ork_npu_buffer *buffer)
{
    struct fake_device *fake = fake_of(device);
    struct fake_memory *memory = memory_of(fake, buffer);
    fake->domain_bytes[memory->domain] -= memory->size_bytes;
    if (!memory->imported) {
        fake->chunk_bytes -= memory->size_bytes;
        free(buffer->host);
    }
    free(memory->shadow);
    *memory = fake->memory[--fake->count];
}

static ork_status fake_sync(struct ork_npu_device *device, const struct ork_npu_buffer *buffer, uint64_t offset,
                            uint64_t size_bytes, enum ork_npu_direction direction, ork_error *error)
{
    struct fake_device *fake = fake_of(device);
    struct fake_memory *memory = memory_of(fake, buffer);
    assert_int_equal(direction, ORK_NPU_TO_DEVICE);
    assert_true(offset + size_bytes <= memory->size_bytes);
    if (fails(fake, ++fake->syncs, fake->fail_sync))
        return ork_error_set(error, ORK_IO, "fake", -1, "no sync");
    memcpy(memory->shadow + offset, memory->host + offset, size_bytes);
    return ORK_OK;
}

static const struct ork_npu_capabilities *fake_capabilities(const struct ork_npu_device *device)
{
    return &((const struct fake_device *)device)->capabilities;
}

static const struct ork_npu_device_ops fake_ops = {
    .name = "fake",
    .capabilities = fake_capabilities,
    .allocate = fake_allocate,
    .import = fake_import,
    .release = fake_release,
    .sync = fake_sync,
};

void fake_device_make(struct fake_device *device, uint32_t domains, uint64_t domain_bytes, bool imports)
{
    memset(device, 0, sizeof *device);
    device->device.ops = &fake_ops;
    device->owner = pthread_self();
    device->capabilities.domains = domains;
    device->capabilities.domain_bytes = domain_bytes;
    device->capabilities.imports = imports;
    device->capabilities.cores = 3;
    device->capabilities.buffers_max = FAKE_BUFFERS;
}

const uint8_t *fake_read(const struct fake_device *device, const struct ork_npu_buffer *buffer, uint64_t offset)
{
    return memory_of(device, buffer)->shadow + offset;
}

/* ---- matrices ---- */

void test_matrix_make(struct test_matrix *m, enum ork_tier tier, uint32_t n, uint32_t k, uint32_t experts,
                      uint32_t offset)
{
    struct ork_tier_sizes sizes;
    const struct ork_tier_info *info = ork_tier_find(tier);
    assert_true(info && ork_tier_sizes(tier, n, k, &sizes));
    const uint64_t stride = ork_round_up(sizes.data_bytes, PAGE_BYTES);
    const uint32_t channels = (uint32_t)ork_round_up(n, info->brick_channels);
    memset(m, 0, sizeof *m);
    m->data = pages(stride * experts + PAGE_BYTES);
    m->scales = malloc(channels * sizeof *m->scales);
    assert_non_null(m->scales);
    for (uint32_t i = 0; i < channels; i++)
        m->scales[i] = 1.0f;
    for (uint32_t i = 0; i < 16; i++)
        m->table[i] = (int8_t)((int)(i * 16) - 112 + (int)(i % 3));
    m->table[7] = 0;
    uint64_t word = (uint64_t)random() | 1;
    for (uint64_t i = 0; i < (stride * experts + PAGE_BYTES) / 8; i++) {
        word = word * 6364136223846793005u + 1442695040888963407u;
        ((uint64_t *)m->data)[i] = word ^ word >> 32;
    }
    snprintf(m->name, sizeof m->name, "%s.%ux%u", info->name, n, k);
    m->matrix = (struct ork_matrix){.tier = tier,
                                    .layout = info->layout,
                                    .n = n,
                                    .k = k,
                                    .experts = experts,
                                    .data = (uint8_t *)m->data + offset,
                                    .data_expert_stride = stride,
                                    .scales = (const uint8_t *)m->scales,
                                    .table = ork_tier_has_table(tier) ? m->table : NULL,
                                    .name = m->name};
}

void test_matrix_free(struct test_matrix *m)
{
    free(m->data);
    free(m->scales);
}

static int32_t resident_code(const uint8_t *b, enum ork_npu_type type, uint32_t k_padded, uint32_t n, uint32_t k)
{
    if (type == ORK_NPU_W8A8)
        return (int8_t)b[(uint64_t)(n / 32) * (k_padded / 32) * 1024 + k / 32 * 1024 + n % 32 * 32 + k % 32];
    uint64_t q = (uint64_t)(n / 64) * (k_padded / 32) * 2048 + k / 32 * 2048 + n % 64 * 32 + k % 32;
    int32_t nibble = b[q / 2] >> q % 2 * 4 & 15;
    return nibble > 7 ? nibble - 16 : nibble;
}

bool test_resident_is_right(const struct fake_device *device, const struct ork_matrix *matrix, uint32_t expert,
                            enum ork_npu_type type, const struct ork_npu_resident *resident)
{
    const uint32_t group = type == ORK_NPU_W4A4 ? 64 : 32, n = resident->n, k = resident->k;
    if (resident->type != type || n < matrix->n || n % group != 0 || k != ork_round_up(matrix->k, 32) ||
        resident->offset % 64 != 0)
        return false;
    const uint8_t *b = fake_read(device, resident->buffer, resident->offset);
    uint32_t *key = calloc(k, sizeof *key), weight;
    float *row = malloc(k * sizeof *row);
    assert_true(key && row);
    bool good = true;
    for (uint32_t channel = 0; channel < n; channel++) {
        ork_surface_weights(channel, 1, &weight);
        for (uint32_t i = 0; i < k; i++)
            key[i] += weight * (uint32_t)resident_code(b, type, k, channel, i);
        if (channel >= matrix->n)
            continue;
        ork_matrix_decode_row(matrix, expert, channel, row);
        for (uint32_t i = 0; i < matrix->k && good; i++)
            good = row[i] == (float)resident_code(b, type, k, channel, i);
    }
    good = good && memcmp(key, resident->key, k * sizeof *key) == 0;
    free(key);
    free(row);
    return good;
}
