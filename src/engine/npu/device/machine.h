/* What the real devices ask of the machine: which SoC, which driver stands behind a node, and that nobody else of ours uses
 * the NPU. Knows no requests of any NPU driver. */
#ifndef ORK_ENGINE_NPU_MACHINE_H
#define ORK_ENGINE_NPU_MACHINE_H

#include "ork/ork.h"

/* The SoC from the device tree (/proc/device-tree/compatible): "rk3588" or "rk3588s". ORK_UNSUPPORTED: any other machine;
 * the error quotes what the device tree says. */
ork_status ork_npu_soc_read(char *soc, size_t size, ork_error *error);

/* One process at a time may drive the NPU: two that do have crashed boards (npu-hw.md 10). The lock is a file ork-npu.lock
 * in /run/lock, or else in XDG_RUNTIME_DIR, or else in /tmp, locked with flock, which ends with the process; it holds the
 * process id for the message of the next one. ORK_IO: held, or no directory can be written. */
ork_status ork_npu_lock_take(int *descriptor, ork_error *error);
void ork_npu_lock_drop(int *descriptor);

/* Name of the DRM driver behind an open node; false: it is no DRM node. */
bool ork_npu_drm_name(int descriptor, char *name, size_t size);

/* ioctl with bounded repeats when a signal came in between (EINTR, EAGAIN, and the kernel's own ERESTARTSYS, which the
 * vendor driver has let through). 0 or a negative errno. */
int ork_npu_ioctl(int descriptor, unsigned long request, void *argument);
/* The same without repeats, for requests that must not be made twice. *interrupted: a signal came in between, whether the
 * request was carried out is unknown; the result is then 0. */
int ork_npu_ioctl_once(int descriptor, unsigned long request, void *argument, bool *interrupted);

#endif
