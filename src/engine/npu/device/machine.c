/* The machine around a real NPU: device tree, lock file, DRM names. Must not know any NPU driver. */
#include "engine/npu/device/machine.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define COMPATIBLE "/proc/device-tree/compatible"

static ssize_t read_some(int descriptor, char *text, size_t size)
{
    ssize_t n;
    do
        n = read(descriptor, text, size);
    while (n < 0 && errno == EINTR);
    return n;
}

ork_status ork_npu_soc_read(char *soc, size_t size, ork_error *error)
{
    char text[512];
    int descriptor = open(COMPATIBLE, O_RDONLY | O_CLOEXEC);
    ssize_t length = descriptor < 0 ? -1 : read_some(descriptor, text, sizeof text - 1);
    if (descriptor >= 0)
        close(descriptor);
    if (length < 0)
        return ork_error_set(error, ORK_UNSUPPORTED, COMPATIBLE, -1,
                             "the machine has no device tree, so it is no RK3588 board");
    text[length] = 0;
    /* Strings one after the other, the board first, the SoC last. */
    static const char *const known[] = {"rockchip,rk3588", "rockchip,rk3588s"};
    for (size_t at = 0; at < (size_t)length; at += strlen(text + at) + 1)
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            if (!strcmp(text + at, known[i])) {
                snprintf(soc, size, "%s", known[i] + strlen("rockchip,"));
                return ORK_OK;
            }
    for (ssize_t i = 0; i + 1 < length; i++)
        if (!text[i])
            text[i] = ' ';
    return ork_error_set(error, ORK_UNSUPPORTED, COMPATIBLE, -1,
                         "register programs are for the RK3588's NPU only; this machine is \"%.200s\"", text);
}

static int lock_open(char *path, size_t size)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    const char *directories[] = {"/run/lock", runtime && *runtime == '/' ? runtime : NULL, "/tmp"};
    int saved = ENOENT;
    for (size_t i = 0; i < sizeof directories / sizeof *directories; i++) {
        if (!directories[i])
            continue;
        snprintf(path, size, "%s/ork-npu.lock", directories[i]);
        /* O_NOFOLLOW: the directory may be writable by all. */
        int descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (descriptor >= 0) {
            (void)!fchmod(descriptor, 0666); /* other users shall be able to take it later, whatever our umask is */
            return descriptor;
        }
        saved = errno;
        if (saved == EACCES && !access(path, F_OK))
            break; /* it is there, but not for us: another directory would be another lock */
    }
    errno = saved;
    return -1;
}

ork_status ork_npu_lock_take(int *descriptor, ork_error *error)
{
    char path[512], text[32];
    *descriptor = -1;
    int fd = lock_open(path, sizeof path);
    if (fd < 0)
        return ork_error_errno(error, path, "cannot open the NPU's lock file");
    int result;
    do
        result = flock(fd, LOCK_EX | LOCK_NB);
    while (result && errno == EINTR);
    if (result && errno == EWOULDBLOCK) {
        ssize_t n = read_some(fd, text, sizeof text - 1);
        text[n > 0 ? n : 0] = 0;
        long process = strtol(text, NULL, 10);
        close(fd);
        if (process > 0)
            return ork_error_set(error, ORK_IO, path, -1, "the NPU is in use by process %ld", process);
        return ork_error_set(error, ORK_IO, path, -1, "the NPU is in use by another process");
    }
    if (result) {
        ork_error_errno(error, path, "cannot lock the NPU's lock file");
        close(fd);
        return error ? error->code : ORK_IO;
    }
    int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) || pwrite(fd, text, (size_t)n, 0) != n)
        (void)0; /* the lock holds without the name in it */
    *descriptor = fd;
    return ORK_OK;
}

void ork_npu_lock_drop(int *descriptor)
{
    if (*descriptor >= 0)
        close(*descriptor);
    *descriptor = -1;
}

/* The public DRM interface's struct drm_version: lengths and addresses of three strings. */
struct drm_version_request {
    int32_t major, minor, patch, padding;
    uint64_t name_length, name, date_length, date, description_length, description;
};
_Static_assert(sizeof(struct drm_version_request) == 64, "DRM_IOCTL_VERSION takes 64 bytes");
#define DRM_VERSION_REQUEST _IOWR('d', 0x00, struct drm_version_request)

bool ork_npu_drm_name(int descriptor, char *name, size_t size)
{
    struct drm_version_request version = {0};
    memset(name, 0, size);
    version.name = (uint64_t)(uintptr_t)name;
    version.name_length = size - 1;
    return !ork_npu_ioctl(descriptor, DRM_VERSION_REQUEST, &version);
}

/* The kernel's own name for "begin again"; the vendor driver has let it through to programs. */
enum { ERESTARTSYS_LEAKED = 512 };

int ork_npu_ioctl(int descriptor, unsigned long request, void *argument)
{
    enum { TRIES = 100 };
    for (int i = 0; i < TRIES; i++) {
        if (ioctl(descriptor, request, argument) >= 0)
            return 0;
        if (errno != EINTR && errno != EAGAIN && errno != ERESTARTSYS_LEAKED)
            break;
    }
    return -errno;
}

int ork_npu_ioctl_once(int descriptor, unsigned long request, void *argument, bool *interrupted)
{
    *interrupted = false;
    if (ioctl(descriptor, request, argument) >= 0)
        return 0;
    *interrupted = errno == EINTR || errno == ERESTARTSYS_LEAKED;
    return *interrupted ? 0 : -errno;
}
