/* What the vendor driver's requests look like: numbers, structs, flags, in our own words (npu-hw.md 1.2 to 1.7). Knows
 * nothing of how they are used. */
#ifndef ORK_ENGINE_NPU_RKNPU_ABI_H
#define ORK_ENGINE_NPU_RKNPU_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>

struct ork_rknpu_action {
    uint32_t action; /* ORK_RKNPU_GET_... */
    uint32_t value;  /* in or out */
};

struct ork_rknpu_mem_create {
    uint32_t handle;     /* out; in: an object that exists, to look up */
    uint32_t flags;      /* ORK_RKNPU_MEM_... */
    uint64_t size_bytes; /* out: in whole pages */
    uint64_t object;     /* out: the driver's name of it */
    uint64_t iova;       /* out */
    uint64_t sram_bytes;
    /* From 0.9.6 on; the struct ends before this in older drivers. */
    int32_t domain;
    uint32_t core_mask; /* reserved before 0.9.8 */
};
#define ORK_RKNPU_MEM_CREATE_OLD_BYTES 40u

struct ork_rknpu_mem_map {
    uint32_t handle, reserved;
    uint64_t offset; /* out: for mmap */
};

struct ork_rknpu_mem_destroy {
    uint32_t handle, reserved;
    uint64_t object;
};

struct ork_rknpu_mem_sync {
    uint32_t flags; /* ORK_RKNPU_SYNC_... */
    uint32_t reserved;
    uint64_t object, offset, size_bytes;
};

#define ORK_RKNPU_SUBCORES 5
struct ork_rknpu_submit {
    uint32_t flags;      /* ORK_RKNPU_JOB_... */
    uint32_t timeout;    /* ms when blocking; compared with microseconds when not, see rknpu.c */
    uint32_t task_start; /* RK3588: only checked and reported, the ranges of the cores stand below */
    uint32_t task_number;
    uint32_t task_counter; /* out */
    int32_t priority;
    uint64_t task_object; /* of the buffer with the tasks */
    uint32_t domain;
    uint32_t reserved;
    uint64_t task_base_iova; /* added by the hardware to every address */
    int64_t elapsed_ns;      /* out, when blocking */
    uint32_t core_mask;
    int32_t fence; /* in and out */
    struct ork_rknpu_range {
        uint32_t start, number;
    } subcore[ORK_RKNPU_SUBCORES];
};

/* In the task buffer. Of the first task of a range the driver reads program_iova, amount and int_mask, of the last
 * int_mask; the rest is convention. */
struct ork_rknpu_task {
    uint32_t flags, index, enable_mask;
    uint32_t int_mask, int_clear, int_status; /* int_status: out, last task */
    uint32_t amount;                          /* words of the program without its tail of 4 */
    uint32_t offset;
    uint64_t program_iova;
} __attribute__((packed));

_Static_assert(sizeof(struct ork_rknpu_action) == 8, "action");
_Static_assert(sizeof(struct ork_rknpu_mem_create) == 48, "mem_create");
_Static_assert(offsetof(struct ork_rknpu_mem_create, domain) == ORK_RKNPU_MEM_CREATE_OLD_BYTES, "mem_create");
_Static_assert(sizeof(struct ork_rknpu_mem_map) == 16, "mem_map");
_Static_assert(sizeof(struct ork_rknpu_mem_destroy) == 16, "mem_destroy");
_Static_assert(sizeof(struct ork_rknpu_mem_sync) == 32, "mem_sync");
_Static_assert(sizeof(struct ork_rknpu_submit) == 104, "submit");
_Static_assert(offsetof(struct ork_rknpu_submit, task_object) == 24, "submit");
_Static_assert(offsetof(struct ork_rknpu_submit, domain) == 32, "submit");
_Static_assert(offsetof(struct ork_rknpu_submit, core_mask) == 56, "submit");
_Static_assert(offsetof(struct ork_rknpu_submit, subcore) == 64, "submit");
_Static_assert(sizeof(struct ork_rknpu_task) == 40, "task");
_Static_assert(offsetof(struct ork_rknpu_task, program_iova) == 32, "task");

/* DRM flavour: driver requests begin at 0x40. */
#define ORK_RKNPU_ACTION _IOWR('d', 0x40, struct ork_rknpu_action)
#define ORK_RKNPU_SUBMIT _IOWR('d', 0x41, struct ork_rknpu_submit)
#define ORK_RKNPU_MEM_CREATE _IOWR('d', 0x42, struct ork_rknpu_mem_create)
#define ORK_RKNPU_MEM_CREATE_OLD _IOC(_IOC_READ | _IOC_WRITE, 'd', 0x42, ORK_RKNPU_MEM_CREATE_OLD_BYTES)
#define ORK_RKNPU_MEM_MAP _IOWR('d', 0x43, struct ork_rknpu_mem_map)
#define ORK_RKNPU_MEM_DESTROY _IOWR('d', 0x44, struct ork_rknpu_mem_destroy)
#define ORK_RKNPU_MEM_SYNC _IOWR('d', 0x45, struct ork_rknpu_mem_sync)
/* Misc flavour (/dev/rknpu): bare numbers of its own kind. */
#define ORK_RKNPU_MISC_ACTION _IOWR('r', 0, struct ork_rknpu_action)

enum {
    ORK_RKNPU_GET_HARDWARE_VERSION = 0,
    ORK_RKNPU_GET_DRIVER_VERSION = 1,
    ORK_RKNPU_GET_FREQUENCY = 2,
    ORK_RKNPU_RESET = 6,
    ORK_RKNPU_GET_IOMMU_ENABLED = 18
};

enum {
    ORK_RKNPU_MEM_NON_CONTIGUOUS = 0x1,
    ORK_RKNPU_MEM_CACHEABLE = 0x2,
    ORK_RKNPU_MEM_KERNEL_MAPPING = 0x8,
    ORK_RKNPU_MEM_LIMIT_IOVA_ALIGNMENT = 0x400 /* from 0.9.7 on */
};

enum { ORK_RKNPU_SYNC_TO_DEVICE = 1, ORK_RKNPU_SYNC_FROM_DEVICE = 2 };

enum { ORK_RKNPU_JOB_PC = 0x1, ORK_RKNPU_JOB_NONBLOCK = 0x2, ORK_RKNPU_JOB_PINGPONG = 0x4 };

#define ORK_RKNPU_HARDWARE_VERSION 0x46495245u
/* As GET_DRIVER_VERSION answers: major * 10000 + minor * 100 + patch. */
#define ORK_RKNPU_VERSION(major, minor, patch) ((major)*10000u + (minor)*100u + (patch))

#endif
