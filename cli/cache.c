/* Owns the names and the making of cached packs. Must not know how packing works. */
#include "cache.h"
#include "progress.h"
#include "report.h"
#include "terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* FNV-1a, 64 bits: a name, not a proof. Every item ends with its NUL, so that items cannot run together. */
static uint64_t hash_text(uint64_t hash, const char *text)
{
    size_t size_bytes = strlen(text) + 1;
    for (size_t i = 0; i < size_bytes; i++)
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
    return hash;
}

static uint64_t hash_file(uint64_t hash, const char *path)
{
    struct stat status;
    char text[128] = "";
    if (stat(path, &status) == 0)
        snprintf(text, sizeof text, "%lld %lld.%09ld", (long long)status.st_size, (long long)status.st_mtim.tv_sec,
                 (long)status.st_mtim.tv_nsec);
    return hash_text(hash_text(hash, path), text);
}

static uint64_t hash_request(const cli_settings *settings, const char *gguf_path)
{
    char *resolved = realpath(gguf_path, NULL);
    uint64_t hash = hash_file(0xcbf29ce484222325u, resolved ? resolved : gguf_path);
    free(resolved);
    hash = hash_text(hash, ork_version());
    hash = hash_text(hash, settings->default_tier ? settings->default_tier : "auto");
    for (size_t i = 0; i < settings->tiers.count; i++)
        hash = hash_text(hash, settings->tiers.items[i]);
    return settings->imatrix ? hash_file(hash_text(hash, "imatrix"), settings->imatrix) : hash;
}

/* Makes the folder and those above it; 0 or -1 with errno. */
static int make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        int result = mkdir(path, 0700);
        *slash = '/';
        if (result != 0 && errno != EEXIST)
            return -1;
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST ? 0 : -1;
}

char *cli_cache_path(const char *below)
{
    const char *own = getenv("ORK_CACHE_DIR"), *shared = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (own && *own)
        return cli_format_text("%s%s", own, below);
    if (shared && *shared == '/') /* a relative one is to be ignored by the XDG rules */
        return cli_format_text("%s/ork%s", shared, below);
    return home && *home ? cli_format_text("%s/.cache/ork%s", home, below) : NULL;
}

int cli_cache_folder(const char *below, char **folder)
{
    *folder = cli_cache_path(below);
    if (!*folder)
        return cli_fail(CLI_FAILURE, "", "no cache folder: set ORK_CACHE_DIR (or pack the model with ork pack)");
    if (make_folders(*folder) == 0)
        return CLI_OK;
    int code = cli_fail(CLI_FAILURE, *folder, "cannot make the cache folder: %s (ORK_CACHE_DIR names another)",
                        strerror(errno));
    free(*folder);
    *folder = NULL;
    return code;
}

/* "<file name without .gguf>-<16 hex digits>.orkpack" */
static char *name_pack(const char *folder, const char *gguf_path, uint64_t hash)
{
    const char *slash = strrchr(gguf_path, '/'), *base = slash ? slash + 1 : gguf_path;
    size_t length = strlen(base);
    if (length > 5 && strcmp(base + length - 5, ".gguf") == 0)
        length -= 5;
    if (length > 150)
        length = 150;
    return cli_format_text("%s/%.*s-%016llx.orkpack", folder, (int)length, base, (unsigned long long)hash);
}

static bool is_file_at(int fd, const char *path)
{
    struct stat held, named;
    return fstat(fd, &held) == 0 && stat(path, &named) == 0 && held.st_dev == named.st_dev &&
           held.st_ino == named.st_ino;
}

/* Waits for another process that packs the same file. Returns a descriptor that holds the lock, or -1 when there can be
 * none, which only costs doing the same work twice. */
static int lock_pack(const char *lock_path)
{
    bool is_said = false;
    while (!cli_interrupted()) {
        int fd = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0)
            return -1;
        if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
            if (!is_said)
                cli_say("another process packs this file, waiting");
            is_said = true;
            if (flock(fd, LOCK_EX) != 0) {
                bool is_broken = errno != EINTR;
                close(fd);
                if (is_broken)
                    return -1;
                continue;
            }
        }
        if (is_file_at(fd, lock_path)) /* its holder before us may have removed it */
            return fd;
        close(fd);
    }
    return -1;
}

static bool is_usable(const char *pack_path)
{
    ork_card *card;
    ork_error error;
    if (access(pack_path, F_OK) != 0)
        return false;
    if (ork_card_open(pack_path, &card, &error) == ORK_OK) {
        ork_card_close(card);
        return true;
    }
    cli_say("%s: cannot be used any more (%s), packing again", pack_path, error.what);
    return false;
}

static int pack(const cli_settings *settings, const char *gguf_path, const char *pack_path)
{
    cli_progress progress;
    cli_progress_begin(&progress, "packing");
    ork_pack_params params = {
        .default_tier = settings->default_tier,
        .tier_rules = settings->tiers.items,
        .tier_rule_count = settings->tiers.count,
        .imatrix_path = settings->imatrix,
        .overwrite = true, /* only what is_usable() refused can be there */
        .progress = cli_progress_report,
        .progress_context = &progress,
    };
    ork_pack_report report;
    ork_error error;
    cli_say("packing %s into %s (once; ORK_CACHE_DIR names another folder)", gguf_path, pack_path);
    ork_status status = ork_pack_file(gguf_path, pack_path, &params, &report, &error);
    cli_progress_end(&progress);
    if (status == ORK_CANCELLED) {
        cli_say("interrupted; what is packed is kept, the same command goes on");
        return cli_interrupt_exit_code();
    }
    if (status != ORK_OK)
        return cli_report_error(&error);
    if (report.unmatched_rule_count)
        cli_say("%zu of the --tier rules matched no tensor", report.unmatched_rule_count);
    char size[32];
    cli_say("packed %zu tensors, %s, in %.1f s", report.tensor_count,
            cli_format_bytes(report.pack_bytes, size, sizeof size), report.seconds);
    return CLI_OK;
}

int cli_cache_get(const cli_settings *settings, const char *gguf_path, char **pack_path)
{
    char *folder = NULL;
    *pack_path = NULL;
    int code = cli_cache_folder("/packs", &folder);
    if (code != CLI_OK)
        return code;
    char *path = name_pack(folder, gguf_path, hash_request(settings, gguf_path));
    free(folder);
    if (is_usable(path)) {
        if (settings->verbose)
            cli_say("using %s", path);
        *pack_path = path;
        return CLI_OK;
    }
    char *lock_path = cli_format_text("%s.lock", path);
    int lock = lock_pack(lock_path);
    if (cli_interrupted())
        code = cli_interrupt_exit_code();
    else if (access(path, F_OK) != 0 || !is_usable(path)) /* another process may have made it meanwhile */
        code = pack(settings, gguf_path, path);
    if (lock >= 0) {
        unlink(lock_path);
        close(lock);
    }
    free(lock_path);
    if (code == CLI_OK)
        *pack_path = path;
    else
        free(path);
    return code;
}
