/* The device vtable: what the NPU engine needs of a driver. Owns the contract; three peers stand behind it: rknpu.c,
 * rocket.c, soft.c. Knows no matmuls.
 *
 * All calls on a device come from one thread at a time, its owner. Nothing here blocks for longer than its own bound, and
 * every call has an error. Addresses (iova) are 32 bits wide and belong to a domain; one job sees one domain. */
#ifndef ORK_ENGINE_NPU_DEVICE_H
#define ORK_ENGINE_NPU_DEVICE_H

#include "base/clock.h"
#include "ork/ork.h"

#define ORK_NPU_DOMAINS_MAX 16u
#define ORK_NPU_DOMAIN_BYTES (3840ull << 20) /* of 4 GiB, what allocations may use: npu-hw.md 1.8 */

struct ork_npu_device; /* a peer's own */

struct ork_npu_capabilities {
    const char *driver;      /* "rknpu", "rocket", "soft", "soft-real-time" */
    char soc[32];            /* "rk3588" */
    char node[64];           /* "/dev/dri/card1" or "" */
    uint32_t driver_version; /* major * 10000 + minor * 100 + patch */
    uint32_t hardware_version;
    uint32_t cores;        /* that can run jobs at once */
    uint32_t domains;      /* usable address spaces, at least 1 */
    uint64_t domain_bytes; /* in each */
    uint64_t clock_hz;     /* of the cores, 0: unknown */
    uint32_t tasks_per_job_max;
    uint32_t job_limit_us; /* a job longer than this is killed by the driver (rocket's watchdog), 0: none */
    uint32_t buffers_max;  /* allocations at once that the descriptor limit allows */
    bool knows_completion; /* poll answers done; else outputs must be watched */
    bool imports;          /* import works for page-aligned host memory */
    bool virtual_time;     /* the device has a clock of its own, see ork_npu_device_ops.clock */
    /* Domain d is the address space of core d alone (rocket): domains == cores, and a job's core must equal its domain. */
    bool core_per_domain;
    /* sync acts on the whole buffer (rocket): a sync FROM_DEVICE throws away what the host wrote anywhere in it since the
     * last sync TO_DEVICE. Inputs and outputs of different jobs therefore stand in different buffers. */
    bool sync_whole;
    uint64_t buffer_bytes_max; /* of one allocation, 0: no limit but the domain's */
};

/* Memory that both the host and the NPU see. */
struct ork_npu_buffer {
    uint8_t *host;
    uint64_t size_bytes; /* whole pages */
    uint32_t iova, domain;
    uint64_t handle, object; /* the driver's names */
    bool imported;           /* host memory is the caller's and may be read-only */
};

enum ork_npu_direction { ORK_NPU_TO_DEVICE = 1, ORK_NPU_FROM_DEVICE = 2 };

struct ork_npu_task {
    uint32_t program_iova;
    uint32_t program_words; /* with the tail */
};

/* What a job is made of. Arrays are copied by job_create; buffers must outlive the job. */
struct ork_npu_job_params {
    uint32_t core; /* 0..cores-1; a device that chooses itself (rocket) takes it as which of its queues */
    uint32_t domain;
    const struct ork_npu_task *tasks;           /* linked in this order by their own tails */
    uint32_t task_count;                        /* 1..tasks_per_job_max */
    const struct ork_npu_buffer *const *inputs; /* programs, A, B */
    uint32_t input_count;
    const struct ork_npu_buffer *const *outputs; /* C; none of them is an input */
    uint32_t output_count;
};
struct ork_npu_job; /* a peer's own: a job made ready once, submitted any number of times, one at a time */

enum ork_npu_state {
    ORK_NPU_PENDING = 0,
    ORK_NPU_DONE = 1,   /* the driver says so; never trusted without a check of the output */
    ORK_NPU_FAILED = 2, /* the driver says that it will not come */
    ORK_NPU_UNKNOWN = 3 /* the driver cannot say: watch the output */
};

struct ork_npu_device_ops {
    const char *name;
    void (*close)(struct ork_npu_device *device); /* drains first, bounded; frees what is left */
    const struct ork_npu_capabilities *(*capabilities)(const struct ork_npu_device *device);
    /* The clock that deadlines of this device are measured on. */
    const struct ork_clock *(*clock)(const struct ork_npu_device *device);
    /* Zeroed or not: contents are unspecified. Errors: ORK_NO_MEMORY names domain, size and what is used. */
    ork_status (*allocate)(struct ork_npu_device *device, uint32_t domain, uint64_t size_bytes,
                           struct ork_npu_buffer *buffer, ork_error *error);
    /* Host memory of the caller, whole pages, read by the NPU alone. ORK_UNSUPPORTED unless capabilities say imports. */
    ork_status (*import)(struct ork_npu_device *device, uint32_t domain, const void *host, uint64_t size_bytes,
                         struct ork_npu_buffer *buffer, ork_error *error);
    /* No job that names it may be running. */
    void (*release)(struct ork_npu_device *device, struct ork_npu_buffer *buffer);
    /* Cache maintenance of a range. */
    ork_status (*sync)(struct ork_npu_device *device, const struct ork_npu_buffer *buffer, uint64_t offset,
                       uint64_t size_bytes, enum ork_npu_direction direction, ork_error *error);
    ork_status (*job_create)(struct ork_npu_device *device, const struct ork_npu_job_params *params,
                             struct ork_npu_job **job, ork_error *error);
    /* Not while it runs. */
    void (*job_destroy)(struct ork_npu_device *device, struct ork_npu_job *job);
    /* Queues the job behind what its core has, without waiting. */
    ork_status (*submit)(struct ork_npu_device *device, struct ork_npu_job *job, ork_error *error);
    enum ork_npu_state (*poll)(struct ork_npu_device *device, struct ork_npu_job *job);
    /* True when the job is certainly not running any more (done, taken out of the queue); false: only a reset helps. */
    bool (*cancel)(struct ork_npu_device *device, struct ork_npu_job *job);
    /* The whole device; afterwards no job runs and none has completed by it. May take a tenth of a second. */
    ork_status (*reset)(struct ork_npu_device *device, ork_error *error);
    /* When waiting for this job, the time worth looking again, on the device's clock; a hint. */
    uint64_t (*next_look_ns)(struct ork_npu_device *device, struct ork_npu_job *job);
};

/* Every peer begins with this. */
struct ork_npu_device {
    const struct ork_npu_device_ops *ops;
};

/* Each opens one device or says why not (ORK_NOT_FOUND: no such node; ORK_IO: no permission, busy; ORK_UNSUPPORTED: unknown
 * SoC, old driver, IOMMU off). params as in the public header. */
ork_status ork_npu_rknpu_open(const ork_npu_params *params, struct ork_npu_device **device, ork_error *error);
ork_status ork_npu_rocket_open(const ork_npu_params *params, struct ork_npu_device **device, ork_error *error);
ork_status ork_npu_soft_open(const ork_npu_params *params, struct ork_npu_device **device, ork_error *error);

#endif
