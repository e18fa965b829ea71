/* The kernel interface of the mainline driver `rocket` in our own words: request numbers and structures, checked against the
 * published sizes. Owns facts alone (npu-hw.md 2.2); the driver and the system-call shim of the tests both read it. */
#ifndef ORK_ENGINE_NPU_ROCKET_ABI_H
#define ORK_ENGINE_NPU_ROCKET_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>

/* drm_version, of every DRM node. */
struct rocket_drm_version {
    int32_t major, minor, patch;
    uint64_t name_size; /* in: room in name; out: length */
    uint64_t name;
    uint64_t date_size, date;
    uint64_t description_size, description;
};

struct rocket_gem_close {
    uint32_t handle, padding;
};

struct rocket_create_bo {
    uint32_t size_bytes;
    uint32_t handle;      /* out */
    uint64_t dma_address; /* out: in the address space of the open file */
    uint64_t map_offset;  /* out */
};

struct rocket_submit {
    uint64_t jobs;
    uint32_t job_count, job_size_bytes;
    uint64_t reserved; /* 0 */
};

struct rocket_abi_job {
    uint64_t tasks, inputs, outputs; /* pointers: tasks, handles, handles */
    uint32_t task_count, task_size_bytes;
    uint32_t input_count, output_count;
};

struct rocket_abi_task {
    uint32_t regcmd;       /* address of the program */
    uint32_t regcmd_count; /* words of 64 bits, tail included */
};

struct rocket_prep_bo {
    uint32_t handle, reserved;
    int64_t deadline_ns; /* CLOCK_MONOTONIC; 0: do not wait */
};

struct rocket_fini_bo {
    uint32_t handle, reserved;
};

#define ROCKET_DRM_VERSION _IOWR('d', 0x00, struct rocket_drm_version)
#define ROCKET_GEM_CLOSE _IOW('d', 0x09, struct rocket_gem_close)
#define ROCKET_CREATE_BO _IOWR('d', 0x40, struct rocket_create_bo)
#define ROCKET_SUBMIT _IOW('d', 0x41, struct rocket_submit)
#define ROCKET_PREP_BO _IOW('d', 0x42, struct rocket_prep_bo)
#define ROCKET_FINI_BO _IOW('d', 0x43, struct rocket_fini_bo)

_Static_assert(sizeof(struct rocket_drm_version) == 64, "drm_version");
_Static_assert(sizeof(struct rocket_create_bo) == 24 && offsetof(struct rocket_create_bo, dma_address) == 8,
               "create_bo");
_Static_assert(sizeof(struct rocket_submit) == 24 && offsetof(struct rocket_submit, job_size_bytes) == 12, "submit");
_Static_assert(sizeof(struct rocket_abi_job) == 40 && offsetof(struct rocket_abi_job, task_count) == 24 &&
                   offsetof(struct rocket_abi_job, input_count) == 32,
               "job");
_Static_assert(sizeof(struct rocket_abi_task) == 8, "task");
_Static_assert(sizeof(struct rocket_prep_bo) == 16 && offsetof(struct rocket_prep_bo, deadline_ns) == 8, "prep_bo");
_Static_assert(sizeof(struct rocket_fini_bo) == 8, "fini_bo");
_Static_assert(ROCKET_DRM_VERSION == 0xC0406400u && ROCKET_GEM_CLOSE == 0x40086409u, "requests of every DRM node");
_Static_assert(ROCKET_CREATE_BO == 0xC0186440u && ROCKET_SUBMIT == 0x40186441u && ROCKET_PREP_BO == 0x40106442u &&
                   ROCKET_FINI_BO == 0x40086443u,
               "requests of the driver");

#define ROCKET_WATCHDOG_MS 500u /* of the kernel's scheduler, a job */
/* The kernel keeps the mapped size in a signed 32-bit number. */
#define ROCKET_BO_BYTES_MAX 0x7ffff000u

#endif
