/* Small facts of the system below a root directory: short files of sysfs, procfs and the device tree, read within bounds.
 * Knows no devices and gives no advice. root is "" or "/" for the running system, or a test tree. */
#ifndef ORK_ENGINE_NPU_SYSTEM_H
#define ORK_ENGINE_NPU_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads up to capacity - 1 bytes and ends them with 0; the number of bytes, -1 when there is no such file. Waits for
 * nothing: FIFOs and devices are not read. */
long ork_system_read(const char *root, const char *path, char *text, size_t capacity);
/* The first line without blanks at its end; "" and false when there is none. */
bool ork_system_line(const char *root, const char *path, char *text, size_t capacity);
/* A decimal number at the beginning of a file. */
bool ork_system_number(const char *root, const char *path, uint64_t *value);
/* "root/path" with single slashes; false when it does not fit. */
bool ork_system_path(const char *root, const char *path, char *out, size_t capacity);
/* SoC of the device tree, "rk3588": the `rockchip,` name of the root's compatible list without its maker, the s variants
 * of RK3588 counting as rk3588; "" when there is no device tree or it names no Rockchip SoC. False: there is no device
 * tree. */
bool ork_system_soc(const char *root, char *soc, size_t capacity);

#endif
