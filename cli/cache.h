/* Packs of GGUF files that were given where an orkpack is wanted: made once, kept in the user's cache. */
#ifndef ORK_CLI_CACHE_H
#define ORK_CLI_CACHE_H

#include "settings.h"

/* The pack that belongs to this GGUF, its size and time, and the packing options; makes it when it is not there or no
 * longer readable. *pack_path is freed by the caller. Returns an exit code, message printed. */
int cli_cache_get(const cli_settings *settings, const char *gguf_path, char **pack_path);

/* A path below the cache folder ("/calibration.json"), freed by the caller; NULL: nothing names a cache folder. */
char *cli_cache_path(const char *below);
/* The cache folder, or one below it ("/packs"), made if need be; *folder is freed by the caller. Exit code, message printed. */
int cli_cache_folder(const char *below, char **folder);

#endif
