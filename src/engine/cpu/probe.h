/* Inside of the probes: what the measurements of memory and of arithmetic share. Knows no command line. */
#ifndef ORK_ENGINE_CPU_PROBE_H
#define ORK_ENGINE_CPU_PROBE_H

#include "base/pool.h"
#include "kernels/probe.h"

enum {
    ORK_PROBE_THREAD_COUNTS_MAX = 32,
    ORK_PROBE_REPETITIONS = 5,
    ORK_PROBE_REPETITIONS_MAX = 1000,
    ORK_PROBE_K = 2048 /* inputs of the weights that kernels are measured with */
};

/* One call of a probe: what was asked for, checked and completed, and the threads that measure. */
struct ork_probe {
    uint32_t thread_counts[ORK_PROBE_THREAD_COUNTS_MAX];
    uint32_t thread_count_count, threads_most;
    uint32_t repetitions;
    bool repetitions_given;
    enum ork_tier tiers[ORK_TIER_COUNT];
    uint32_t tier_count;
    const struct ork_kernels *kernels;
    const struct ork_probe_kernels *loops;
    ork_pool *pool; /* of threads_most threads */
    bool (*cancel)(void *context);
    void *cancel_context;
    double *samples; /* for whoever measures */
};

/* params may be NULL. *probe is ended with ork_probe_end, also after an error. */
ork_status ork_probe_begin(struct ork_probe *probe, const ork_probe_params *params, ork_error *error);
/* Room for so many samples in probe->samples, in place of what was there. */
ork_status ork_probe_reserve_samples(struct ork_probe *probe, size_t count, ork_error *error);
void ork_probe_end(struct ork_probe *probe);
/* ORK_CANCELLED when the caller said stop. */
ork_status ork_probe_poll(const struct ork_probe *probe, ork_error *error);
/* Whether a further repetition is to be made: all that were asked for, else as many of the default as the time allows. */
bool ork_probe_goes_on(const struct ork_probe *probe, uint32_t done, uint64_t deadline_us);
/* Runs the region on so many threads and returns the seconds it took, never 0. */
double ork_probe_time(struct ork_probe *probe, uint32_t threads, ork_pool_function function, void *context);
/* The middle one, or the mean of the two in the middle. Sorts the samples; count >= 1. */
double ork_probe_median(double *samples, size_t count);

/* A buffer to be read. */
struct ork_probe_buffer {
    uint8_t *data;
    uint64_t size_bytes, reserved_bytes;
    const char *pages; /* "4k", "huge", "file" */
    bool is_file;
};
/* Anonymous memory, written once by all threads. huge: advised for huge pages, else advised against. */
ork_status ork_probe_buffer_allocate(struct ork_probe *probe, uint64_t size_bytes, bool huge,
                                     struct ork_probe_buffer *buffer, ork_error *error);
/* The first size_bytes of a file, or all of it if it is smaller. */
ork_status ork_probe_buffer_map(const char *path, uint64_t size_bytes, struct ork_probe_buffer *buffer,
                                ork_error *error);
void ork_probe_buffer_free(struct ork_probe_buffer *buffer);
/* Bytes of the buffer that lie in transparent huge pages; 0 where the system does not say. */
uint64_t ork_probe_huge_page_bytes(const struct ork_probe_buffer *buffer);

/* How the threads read a buffer. */
struct ork_probe_pattern {
    uint32_t threads, streams, prefetch_bytes;
};
/* One pass over the buffer, in 10^9 bytes a second. */
double ork_probe_read_once(struct ork_probe *probe, const struct ork_probe_buffer *buffer,
                           struct ork_probe_pattern pattern);

/* Matrices of one tier side by side in a buffer, and activations for them. */
struct ork_probe_weights {
    struct ork_matrix *matrices; /* [count] */
    uint32_t count;
    uint64_t bytes; /* codes and scales of all matrices */
    struct ork_activation x;
    void *activation_memory;
    uint32_t m;
    float *y; /* [m][n] */
};
/* As many matrices of n (a multiple of 256) x ORK_PROBE_K as the buffer holds, at most `most`; m rows of activations. */
ork_status ork_probe_weights_make(struct ork_probe *probe, enum ork_tier tier, uint32_t n, uint32_t m, uint32_t most,
                                  uint8_t *buffer, uint64_t buffer_bytes, struct ork_probe_weights *weights,
                                  ork_error *error);
void ork_probe_weights_free(struct ork_probe_weights *weights);
/* Bytes of one matrix in a buffer. */
uint64_t ork_probe_matrix_bytes(enum ork_tier tier, uint32_t n);
/* Multiplies all matrices `turns` times, each thread its run of channels; seconds. */
double ork_probe_multiply(struct ork_probe *probe, const struct ork_probe_weights *weights, uint32_t threads,
                          uint32_t turns);
/* What a tier reached: the medians of `count` >= 1 rates and of their fractions of a limit. Sorts both. */
ork_probe_tier ork_probe_tier_of(const struct ork_probe_weights *weights, uint32_t threads, double *rates,
                                 double *fractions, size_t count);

#endif
