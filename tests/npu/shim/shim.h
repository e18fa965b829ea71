/* The system-call shim: a library loaded before libc that answers open, ioctl, mmap and close on the NPU's device nodes as
 * the kernel would, with the silicon model behind. Owns the contract between the interposer (shim.c) and the drivers that
 * it plays (rknpu_kernel.c, rocket_kernel.c). Everything that is not an NPU node goes to the real system; while a driver
 * is played, paths below /dev/dri, /dev/accel, /dev/dma_heap and /dev/rknpu that it does not have do not exist.
 *
 * The played machine also has a device tree that names the SoC (common option soc=rk3588; soc= for no device tree), and lock
 * files in /run/lock of its own. Another process shares those with common option machine=PID of the process that plays it;
 * a child that was forked while a driver was played must not go on: that driver's threads are not in it, their locks are.
 *
 * ORK_SHIM chooses and sets up the driver: "rknpu" or "rocket", then ",key=value" pairs that the driver documents; unset:
 * everything goes to the real system. ORK_SHIM_FAULTS: a fault script (engine/npu/device/faults.h). ORK_SHIM_TRANSCRIPT: a
 * file that receives one line a call in strace's manner, and the kernel's log as lines that begin with "# ".
 *
 * Two ways to use it: the target ork_npu_shim (a module for LD_PRELOAD) with a program that knows nothing of it, or the
 * target ork_npu_shim_objects linked into a test, which then may set up one driver after the other. */
#ifndef ORK_TESTS_SHIM_H
#define ORK_TESTS_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/npu/device/faults.h"

/* ---- for tests that link the shim ---- */

/* Stops the driver that was played and plays another, as the environment variables of the same names would: options NULL
 * or "": none. Every node must be closed. Returns how many buffers the driver before still held that no open file had
 * (leaks of the driver itself), or -EBUSY (a node is open), -EINVAL (bad options or faults, named on stderr). */
int ork_shim_configure(const char *options, const char *faults, const char *transcript);
/* An event counter or level of the driver; the drivers list theirs. UINT64_MAX: no such name. */
uint64_t ork_shim_count(const char *name);
/* Node files open now. */
uint32_t ork_shim_open_files(void);
/* How often a fault of the script has struck. */
uint64_t ork_shim_faults_struck(enum ork_npu_fault_kind kind);

/* ---- for drivers ---- */

struct shim_options;
/* Value of a key of ORK_SHIM, or `otherwise`. Keys that no driver asked for in start are refused. */
const char *shim_option(const struct shim_options *options, const char *key, const char *otherwise);
uint64_t shim_option_number(const struct shim_options *options, const char *key, uint64_t otherwise);

/* All return 0 (or what the call returns) or a negative errno. Calls come from several threads at once: a driver has its
 * own lock. A file is closed only when no call on it is under way, as the kernel's reference counts see to it. */
struct shim_driver {
    const char *name;
    /* Once, before the first call. faults: the script, never NULL; the driver uses it under its own lock. */
    int (*start)(const struct shim_options *options, struct ork_npu_faults *faults);
    /* No file is open. Joins the driver's threads and frees everything; returns how many buffers were left. */
    int (*stop)(void);
    /* A node that this driver has at `path`: creates *file. -ENOENT: no such node. */
    int (*open)(const char *path, int flags, void **file);
    int (*close)(void *file);
    int (*ioctl)(void *file, unsigned long request, void *argument);
    /* Address of the memory at a map offset; the shim returns it as mmap's result. */
    int (*map)(void *file, size_t size_bytes, int protection, uint64_t offset, void **address);
    /* 0: it was this driver's; -ENOENT: not. May come after the file's close. */
    int (*unmap)(void *address, size_t size_bytes);
    /* Name of the request and its struct after the call, "RKNPU_ACTION, {flags=1, value=908}"; false: unknown. */
    bool (*describe)(unsigned long request, const void *argument, char *text, size_t size);
    uint64_t (*count)(const char *name); /* UINT64_MAX: unknown */
};
extern const struct shim_driver shim_rknpu, shim_rocket;

/* Calls handler with a copy of the caller's struct as the DRM core does: the caller's size, cut or filled up with zeros to
 * kernel_size; copied back (the caller's size) whatever the handler returns. kernel_request has the directions. */
int shim_drm_call(void *file, unsigned long request, unsigned long kernel_request, void *argument,
                  int (*handler)(void *file, void *copy));
/* DRM_IOCTL_VERSION: how the DRM core answers. */
#define SHIM_DRM_VERSION 0xc0406400ul
int shim_drm_version(void *argument, int major, int minor, int patch, const char *name, const char *date,
                     const char *description);
/* A line of the kernel's log, into the transcript. */
void shim_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* What would be a kernel oops or a frozen board: always an error of the program under test. Counted as "oopses" by
 * ork_shim_count; ends the process unless ORK_SHIM has oops=count. */
void shim_oops(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Zeroed pages, and their end: what drivers use for buffers, since their own mmap and munmap would come back to them. NULL:
 * none left. */
void *shim_pages_allocate(size_t size_bytes);
void shim_pages_free(void *pages, size_t size_bytes);
/* CLOCK_MONOTONIC. */
uint64_t shim_now_us(void);

#endif
