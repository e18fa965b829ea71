/* Files as memory: mapping, and copying into anonymous huge pages. Knows no formats. */
#ifndef ORK_BASE_FILE_H
#define ORK_BASE_FILE_H

#include "ork/ork.h"

/* Read-only file content. data is NULL for an empty file. */
struct ork_mapping {
    const uint8_t *data;
    uint64_t size_bytes;
    uint64_t reserved_bytes; /* address space held: size rounded to pages or huge pages */
    bool copied;             /* anonymous memory instead of the page cache */
};

/* Maps a regular file; directories, FIFOs and devices are refused with their kind named. */
ork_status ork_file_map(const char *path, struct ork_mapping *mapping, ork_error *error);
/* Reads a regular file into anonymous memory advised for huge pages, dropping the page cache behind it. progress may be
 * NULL. */
ork_status ork_file_copy(const char *path, struct ork_mapping *mapping, ork_progress_function progress, void *context,
                         ork_error *error);
void ork_mapping_release(struct ork_mapping *mapping);
/* Zeroed anonymous memory, advised for huge pages from 2 MiB on; NULL when there is none. Freed with ork_pages_free. */
void *ork_pages_allocate(uint64_t size_bytes);
void ork_pages_free(void *pages, uint64_t size_bytes);
/* MemAvailable within the cgroup limits, bytes; 0 when unknown. */
uint64_t ork_memory_available_bytes(void);

#endif
