/* The system-call shim: a library loaded before libc that answers open, ioctl, mmap and close on the NPU's device nodes as
 * the kernel would, with the silicon model behind. Owns the contract between the interposer (shim.c) and the drivers that
 * it plays (rknpu_kernel.c, rocket_kernel.c). Everything that is not an NPU node goes to the real system.
 *
 * ORK_SHIM chooses and sets up the driver: "rknpu" or "rocket", then ",key=value" pairs that the driver documents; unset:
 * everything goes to the real system. ORK_SHIM_FAULTS: a fault script (engine/npu/device/faults.h). ORK_SHIM_TRANSCRIPT: a
 * file that receives one line a call in strace's manner. */
#ifndef ORK_TESTS_SHIM_H
#define ORK_TESTS_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct shim_options;
/* Value of a key of ORK_SHIM, or `otherwise`. */
const char *shim_option(const struct shim_options *options, const char *key, const char *otherwise);
uint64_t shim_option_number(const struct shim_options *options, const char *key, uint64_t otherwise);

/* All return 0 (or what the call returns) or a negative errno. One lock is held around every call but `wait`. */
struct shim_driver {
    const char *name;
    int (*start)(const struct shim_options *options); /* once, before the first call */
    /* A node that this driver has at `path`: creates *file. -ENOENT: no such node. */
    int (*open)(const char *path, int flags, void **file);
    int (*close)(void *file);
    int (*ioctl)(void *file, unsigned long request, void *argument);
    /* Address of the memory at a map offset; the shim returns it as mmap's result. */
    int (*map)(void *file, size_t size_bytes, int protection, uint64_t offset, void **address);
    int (*unmap)(void *address, size_t size_bytes); /* 0: it was this driver's; -ENOENT: not */
    /* Names of requests and structs for the transcript: writes one line without newline; false: unknown. */
    bool (*describe)(unsigned long request, const void *argument, int result, char *text, size_t size);
};
extern const struct shim_driver shim_rknpu, shim_rocket;

#endif
