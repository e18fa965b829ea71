/* The interposer of the system-call shim. Owns the table of node files, the options and the transcript; knows no driver's
 * requests. Works in any thread. Sanitizers' runtimes call libc before they are set up: until this library's constructor has
 * run, calls go straight to the kernel, and the file is built without ThreadSanitizer's instrumentation. */
#include "shim/shim.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ork/ork.h"

#define EXPORT __attribute__((visibility("default")))
enum { FILES_MAX = 4096, OPTIONS_MAX = 32 };

struct shim_options {
    char text[1024];
    struct option {
        const char *key, *value;
        bool used;
    } items[OPTIONS_MAX];
    size_t count;
};

/* A node file that is open: `references` counts its descriptor and the calls under way. */
struct node {
    void *file;
    uint32_t references;
    int descriptor;
};

static struct {
    int (*open)(const char *path, int flags, ...);
    int (*openat)(int directory, const char *path, int flags, ...);
    int (*close)(int descriptor);
    int (*ioctl)(int descriptor, unsigned long request, ...);
    void *(*mmap)(void *address, size_t size, int protection, int flags, int descriptor, off_t offset);
    int (*munmap)(void *address, size_t size);
} real;
static atomic_bool ready; /* `real` is filled */

static pthread_mutex_t state_lock = PTHREAD_MUTEX_INITIALIZER;
static const struct shim_driver *driver; /* played now, NULL: none */
static bool configured;
static struct shim_options options;
static struct ork_npu_faults *faults;
static struct node *nodes[FILES_MAX];
static uint32_t open_nodes;
static atomic_uint busy; /* node files and mappings: 0 lets every call pass quickly */
static atomic_ullong oopses;
static bool count_oopses;

static pthread_mutex_t transcript_lock = PTHREAD_MUTEX_INITIALIZER;
static FILE *transcript;

#define SOC_PATH "/proc/device-tree/compatible"
#define LOCK_DIRECTORY "/run/lock/"
#define LOCK_PREFIX "/tmp/ork-shim-%ld-"
static char soc[128];        /* option soc: the SoC's name in the device tree, "" for no device tree */
static char lock_prefix[64]; /* where lock files of the played machine stand */

__attribute__((constructor)) static void resolve(void)
{
    /* Through memcpy, since ISO C has no conversion from object to function pointers. */
    void *symbols[6] = {dlsym(RTLD_NEXT, "open"),  dlsym(RTLD_NEXT, "openat"), dlsym(RTLD_NEXT, "close"),
                        dlsym(RTLD_NEXT, "ioctl"), dlsym(RTLD_NEXT, "mmap"),   dlsym(RTLD_NEXT, "munmap")};
    memcpy(&real.open, &symbols[0], sizeof real.open);
    memcpy(&real.openat, &symbols[1], sizeof real.openat);
    memcpy(&real.close, &symbols[2], sizeof real.close);
    memcpy(&real.ioctl, &symbols[3], sizeof real.ioctl);
    memcpy(&real.mmap, &symbols[4], sizeof real.mmap);
    memcpy(&real.munmap, &symbols[5], sizeof real.munmap);
    atomic_store(&ready, true);
}

/* ---- options ---- */

static int options_parse(struct shim_options *o, const char *text, const char **driver_name)
{
    memset(o, 0, sizeof *o);
    if (strlen(text) >= sizeof o->text)
        return -EINVAL;
    strcpy(o->text, text);
    char *next = o->text;
    *driver_name = strsep(&next, ",");
    while (next) {
        char *pair = strsep(&next, ",");
        char *equals = strchr(pair, '=');
        if (!equals || o->count == OPTIONS_MAX)
            return -EINVAL;
        *equals = 0;
        o->items[o->count++] = (struct option){pair, equals + 1, false};
    }
    return 0;
}

const char *shim_option(const struct shim_options *o, const char *key, const char *otherwise)
{
    for (size_t i = 0; i < o->count; i++)
        if (!strcmp(o->items[i].key, key)) {
            ((struct option *)&o->items[i])->used = true;
            return o->items[i].value;
        }
    return otherwise;
}

uint64_t shim_option_number(const struct shim_options *o, const char *key, uint64_t otherwise)
{
    const char *value = shim_option(o, key, NULL);
    return value ? strtoull(value, NULL, 0) : otherwise;
}

/* ---- transcript and log ---- */

static void transcript_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void transcript_line(const char *format, ...)
{
    int saved = errno;
    pthread_mutex_lock(&transcript_lock);
    if (transcript) {
        va_list arguments;
        va_start(arguments, format);
        vfprintf(transcript, format, arguments);
        va_end(arguments);
        fputc('\n', transcript);
        fflush(transcript);
    }
    pthread_mutex_unlock(&transcript_lock);
    errno = saved;
}

/* "0" or "-1 EINVAL (Invalid argument)". */
static const char *result_text(char *text, size_t size, int result)
{
    if (result >= 0)
        snprintf(text, size, "%d", result);
    else {
        const char *name = strerrorname_np(-result);
        snprintf(text, size, "-1 %s (%s)", name ? name : "?",
                 strerrordesc_np(-result) ? strerrordesc_np(-result) : "?");
    }
    return text;
}

void shim_log(const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    transcript_line("# %s", line);
}

void shim_oops(const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    transcript_line("# oops: %s", line);
    atomic_fetch_add(&oopses, 1);
    if (!count_oopses) {
        fprintf(stderr, "shim: the kernel would oops: %s\n", line);
        abort();
    }
}

uint64_t shim_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

/* ---- which driver is played ---- */

static int start_locked(const char *text, const char *script, const char *path)
{
    const char *name = NULL;
    if (!text || !*text)
        return 0;
    if (options_parse(&options, text, &name)) {
        fprintf(stderr, "shim: not DRIVER[,KEY=VALUE]...: %s\n", text);
        return -EINVAL;
    }
    const struct shim_driver *chosen = !strcmp(name, "rknpu")    ? &shim_rknpu
                                       : !strcmp(name, "rocket") ? &shim_rocket
                                                                 : NULL;
    if (!chosen) {
        fprintf(stderr, "shim: no driver \"%s\": rknpu, rocket\n", name);
        return -EINVAL;
    }
    ork_error error;
    if (ork_npu_faults_parse(script, &faults, &error) != ORK_OK) {
        fprintf(stderr, "shim: faults: %s %s\n", error.where, error.what);
        return -EINVAL;
    }
    if (path && *path && !(transcript = fopen(path, "we")))
        fprintf(stderr, "shim: cannot write %s\n", path);
    snprintf(soc, sizeof soc, "%s", shim_option(&options, "soc", "rk3588"));
    snprintf(lock_prefix, sizeof lock_prefix, LOCK_PREFIX,
             (long)shim_option_number(&options, "machine", (uint64_t)getpid()));
    atomic_store(&oopses, 0);
    count_oopses = !strcmp(shim_option(&options, "oops", "abort"), "count");
    int result = chosen->start(&options, faults);
    for (size_t i = 0; !result && i < options.count; i++)
        if (!options.items[i].used) {
            fprintf(stderr, "shim: %s has no option \"%s\"\n", name, options.items[i].key);
            chosen->stop();
            result = -EINVAL;
        }
    if (result) {
        ork_npu_faults_free(faults);
        faults = NULL;
        return result;
    }
    driver = chosen;
    return 0;
}

/* Also when a program ends that did not set the shim up itself; not in its children. */
__attribute__((destructor)) static void remove_lock(void)
{
    char path[128], own[64];
    snprintf(own, sizeof own, LOCK_PREFIX, (long)getpid());
    if (!*lock_prefix || strcmp(own, lock_prefix))
        return;
    snprintf(path, sizeof path, "%sork-npu.lock", lock_prefix);
    unlink(path);
}

EXPORT int ork_shim_configure(const char *text, const char *script, const char *path)
{
    pthread_mutex_lock(&state_lock);
    int result = 0, left = 0;
    if (open_nodes)
        result = -EBUSY;
    else {
        if (driver) {
            left = driver->stop();
            remove_lock();
        }
        driver = NULL;
        ork_npu_faults_free(faults);
        faults = NULL;
        pthread_mutex_lock(&transcript_lock);
        if (transcript)
            fclose(transcript);
        transcript = NULL;
        pthread_mutex_unlock(&transcript_lock);
        configured = true;
        result = start_locked(text, script, path);
    }
    pthread_mutex_unlock(&state_lock);
    return result ? result : left;
}

EXPORT uint64_t ork_shim_count(const char *name)
{
    if (!strcmp(name, "oopses"))
        return atomic_load(&oopses);
    return driver ? driver->count(name) : UINT64_MAX;
}

EXPORT uint32_t ork_shim_open_files(void)
{
    pthread_mutex_lock(&state_lock);
    uint32_t count = open_nodes;
    pthread_mutex_unlock(&state_lock);
    return count;
}

EXPORT uint64_t ork_shim_faults_struck(enum ork_npu_fault_kind kind)
{
    return faults ? ork_npu_faults_count(faults, kind) : 0;
}

/* ---- helpers of the drivers ---- */

int shim_drm_call(void *file, unsigned long request, unsigned long kernel_request, void *argument,
                  int (*handler)(void *file, void *copy))
{
    unsigned char copy[256] = {0};
    size_t size = _IOC_SIZE(request), in = size, out = size;
    unsigned directions = _IOC_DIR(request) & _IOC_DIR(kernel_request);
    if (!(directions & _IOC_WRITE))
        in = 0;
    if (!(directions & _IOC_READ))
        out = 0;
    if (in > sizeof copy || out > sizeof copy || _IOC_SIZE(kernel_request) > sizeof copy)
        return -EINVAL;
    if ((in || out) && !argument)
        return -EFAULT;
    if (in)
        memcpy(copy, argument, in);
    int result = handler(file, copy);
    if (out)
        memcpy(argument, copy, out);
    return result;
}

/* struct drm_version of the public DRM interface: 64 bytes. */
struct drm_version_layout {
    int32_t major, minor, patch, padding;
    uint64_t name_length, name, date_length, date, description_length, description;
};
_Static_assert(sizeof(struct drm_version_layout) == 64, "DRM_IOCTL_VERSION");

static void drm_text(uint64_t *length, uint64_t address, const char *text)
{
    uint64_t n = strlen(text);
    if (address && *length)
        memcpy((void *)(uintptr_t)address, text, n < *length ? n : *length);
    *length = n;
}

int shim_drm_version(void *argument, int major, int minor, int patch, const char *name, const char *date,
                     const char *description)
{
    struct drm_version_layout *version = argument;
    if (!version)
        return -EFAULT;
    version->major = major;
    version->minor = minor;
    version->patch = patch;
    drm_text(&version->name_length, version->name, name);
    drm_text(&version->date_length, version->date, date);
    drm_text(&version->description_length, version->description, description);
    return 0;
}

void *shim_pages_allocate(size_t size)
{
    void *pages = real.mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

void shim_pages_free(void *pages, size_t size)
{
    if (pages)
        real.munmap(pages, size);
}

/* ---- node files ---- */

static bool node_path(const char *path)
{
    return (!strncmp(path, "/dev/dri/", 9) || !strncmp(path, "/dev/accel/", 11) ||
            !strncmp(path, "/dev/dma_heap/", 14) || !strcmp(path, "/dev/rknpu"));
}

/* Other files that belong to the played machine: the device tree's name of the SoC, and lock files. */
static bool machine_open(const char *path, int flags, mode_t mode, int *descriptor)
{
    if (!strcmp(path, SOC_PATH)) {
        errno = ENOENT;
        *descriptor = *soc ? memfd_create("compatible", flags & O_CLOEXEC ? MFD_CLOEXEC : 0) : -1;
        if (*descriptor >= 0) {
            char text[256];
            int length = snprintf(text, sizeof text, "ork,test-board%crockchip,%s", 0, soc) + 1;
            if (pwrite(*descriptor, text, (size_t)length, 0) != length)
                abort();
        }
        return true;
    }
    if (strncmp(path, LOCK_DIRECTORY, strlen(LOCK_DIRECTORY)))
        return false;
    char redirected[256];
    snprintf(redirected, sizeof redirected, "%s%s", lock_prefix, path + strlen(LOCK_DIRECTORY));
    *descriptor = real.open(redirected, flags, mode);
    return true;
}

/* Opens a node of the driver that is played. False: the call is the real system's. */
static bool node_open(const char *path, int flags, mode_t mode, int *descriptor)
{
    if (!path || (!node_path(path) && strcmp(path, SOC_PATH) && strncmp(path, LOCK_DIRECTORY, strlen(LOCK_DIRECTORY))))
        return false;
    pthread_mutex_lock(&state_lock);
    if (!configured) {
        configured = true;
        if (start_locked(getenv("ORK_SHIM"), getenv("ORK_SHIM_FAULTS"), getenv("ORK_SHIM_TRANSCRIPT")))
            abort(); /* a test's own mistake, already named */
    }
    bool playing = driver;
    if (!playing || machine_open(path, flags, mode, descriptor)) {
        pthread_mutex_unlock(&state_lock);
        return playing;
    }
    int result = -ENOMEM, fd = -1;
    struct node *node = calloc(1, sizeof *node);
    if (!node)
        goto out;
    result = driver->open(path, flags, &node->file);
    if (result)
        goto out;
    /* A descriptor of the process's own table, so that limits and close-on-exec hold. */
    fd = real.open("/dev/null", O_RDWR | (flags & O_CLOEXEC));
    result = fd < 0 ? -errno : fd < FILES_MAX ? 0 : -EMFILE;
    if (result) {
        driver->close(node->file);
        goto out;
    }
    node->descriptor = fd;
    node->references = 1;
    nodes[fd] = node;
    open_nodes++;
    atomic_fetch_add(&busy, 1);
    node = NULL;
    result = fd;
    fd = -1;
out:
    pthread_mutex_unlock(&state_lock);
    if (fd >= 0)
        real.close(fd);
    free(node);
    char text[128];
    transcript_line("openat(AT_FDCWD, \"%s\", %s%s) = %s", path,
                    (flags & O_ACCMODE) == O_RDWR     ? "O_RDWR"
                    : (flags & O_ACCMODE) == O_WRONLY ? "O_WRONLY"
                                                      : "O_RDONLY",
                    flags & O_CLOEXEC ? "|O_CLOEXEC" : "", result_text(text, sizeof text, result));
    if (result < 0)
        errno = -result;
    *descriptor = result < 0 ? -1 : result;
    return true;
}

static struct node *node_get(int descriptor)
{
    if (descriptor < 0 || descriptor >= FILES_MAX || !atomic_load(&busy))
        return NULL;
    pthread_mutex_lock(&state_lock);
    struct node *node = nodes[descriptor];
    if (node)
        node->references++;
    pthread_mutex_unlock(&state_lock);
    return node;
}

static void node_put(struct node *node)
{
    pthread_mutex_lock(&state_lock);
    bool last = !--node->references;
    pthread_mutex_unlock(&state_lock);
    if (!last)
        return;
    driver->close(node->file);
    pthread_mutex_lock(&state_lock);
    open_nodes--;
    atomic_fetch_sub(&busy, 1);
    pthread_mutex_unlock(&state_lock);
    free(node);
}

/* ---- the calls ---- */

static mode_t mode_argument(int flags, va_list arguments)
{
    return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(arguments, mode_t) : 0;
}

static int open_any(int directory, const char *path, int flags, mode_t mode)
{
    if (!atomic_load(&ready))
        return (int)syscall(SYS_openat, directory, path, flags, mode);
    int descriptor;
    if (node_open(path, flags, mode, &descriptor))
        return descriptor;
    return real.openat(directory, path, flags, mode);
}

EXPORT int open(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_argument(flags, arguments);
    va_end(arguments);
    return open_any(AT_FDCWD, path, flags, mode);
}

EXPORT int open64(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_argument(flags, arguments);
    va_end(arguments);
    return open_any(AT_FDCWD, path, flags, mode);
}

EXPORT int openat(int directory, const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_argument(flags, arguments);
    va_end(arguments);
    return open_any(directory, path, flags, mode);
}

EXPORT int openat64(int directory, const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_argument(flags, arguments);
    va_end(arguments);
    return open_any(directory, path, flags, mode);
}

/* What fortified programs call. */
EXPORT int __open_2(const char *path, int flags);
EXPORT int __open_2(const char *path, int flags)
{
    return open_any(AT_FDCWD, path, flags, 0);
}

EXPORT int __open64_2(const char *path, int flags);
EXPORT int __open64_2(const char *path, int flags)
{
    return open_any(AT_FDCWD, path, flags, 0);
}

EXPORT int close(int descriptor)
{
    if (!atomic_load(&ready))
        return (int)syscall(SYS_close, descriptor);
    struct node *node = NULL;
    if (descriptor >= 0 && descriptor < FILES_MAX && atomic_load(&busy)) {
        pthread_mutex_lock(&state_lock);
        node = nodes[descriptor];
        nodes[descriptor] = NULL;
        pthread_mutex_unlock(&state_lock);
    }
    int result = real.close(descriptor);
    if (node) {
        node_put(node);
        transcript_line("close(%d) = 0", descriptor);
    }
    return result;
}

EXPORT int ioctl(int descriptor, unsigned long request, ...)
{
    va_list arguments;
    va_start(arguments, request);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    if (!atomic_load(&ready))
        return (int)syscall(SYS_ioctl, descriptor, request, argument);
    struct node *node = node_get(descriptor);
    if (!node)
        return real.ioctl(descriptor, request, argument);
    request &= 0xffffffffu;
    int result = driver->ioctl(node->file, request, argument);
    if (transcript) {
        char text[768], end[128];
        if (request == SHIM_DRM_VERSION)
            snprintf(text, sizeof text, "DRM_IOCTL_VERSION, {name=\"%s\"}", driver->name);
        else if (!driver->describe(request, argument, text, sizeof text))
            snprintf(text, sizeof text, "_IOC(%#x, '%c', %#x, %u), %p", (unsigned)_IOC_DIR(request),
                     (int)_IOC_TYPE(request), (unsigned)_IOC_NR(request), (unsigned)_IOC_SIZE(request), argument);
        transcript_line("ioctl(%d, %s) = %s", descriptor, text, result_text(end, sizeof end, result));
    }
    node_put(node);
    if (result >= 0)
        return result;
    errno = -result;
    return -1;
}

static void *map_any(void *address, size_t size, int protection, int flags, int descriptor, off_t offset)
{
    if (!atomic_load(&ready))
        return (void *)syscall(SYS_mmap, address, size, protection, flags, descriptor, offset);
    struct node *node = flags & MAP_ANONYMOUS ? NULL : node_get(descriptor);
    if (!node)
        return real.mmap(address, size, protection, flags, descriptor, offset);
    void *memory = NULL;
    int result = flags & MAP_SHARED ? driver->map(node->file, size, protection, (uint64_t)offset, &memory) : -EINVAL;
    if (!result)
        atomic_fetch_add(&busy, 1);
    char text[128];
    if (result)
        result_text(text, sizeof text, result);
    else
        snprintf(text, sizeof text, "%p", memory);
    transcript_line("mmap(NULL, %zu, %s%s, MAP_SHARED, %d, %#llx) = %s", size,
                    protection & PROT_READ ? "PROT_READ" : "0", protection & PROT_WRITE ? "|PROT_WRITE" : "",
                    descriptor, (unsigned long long)offset, text);
    node_put(node);
    if (!result)
        return memory;
    errno = -result;
    return MAP_FAILED;
}

EXPORT void *mmap(void *address, size_t size, int protection, int flags, int descriptor, off_t offset)
{
    return map_any(address, size, protection, flags, descriptor, offset);
}

EXPORT void *mmap64(void *address, size_t size, int protection, int flags, int descriptor, off64_t offset)
{
    return map_any(address, size, protection, flags, descriptor, (off_t)offset);
}

EXPORT int munmap(void *address, size_t size)
{
    if (!atomic_load(&ready))
        return (int)syscall(SYS_munmap, address, size);
    if (atomic_load(&busy) && driver) {
        int result = driver->unmap(address, size);
        if (result != -ENOENT) {
            char text[128];
            transcript_line("munmap(%p, %zu) = %s", address, size, result_text(text, sizeof text, result));
            if (!result)
                atomic_fetch_sub(&busy, 1);
            else
                errno = -result;
            return result ? -1 : 0;
        }
    }
    return real.munmap(address, size);
}
