/* Stop strings on a byte stream: how much of it may be shown. A pure function. */
#ifndef ORK_CLI_STOP_H
#define ORK_CLI_STOP_H

#include <stdbool.h>
#include <stddef.h>

/* bytes: what has come and was not shown yet, size_bytes of it. Returns how many of these bytes may be shown now:
 *  - a stop string is complete: everything before it, and *found is true. Of several, the one that ends first counts;
 *    of those that end together, the longest.
 *  - otherwise everything but the longest tail that a stop string begins with.
 * The caller drops what was shown, appends what comes next and calls again; at the end of the stream the held tail is
 * ordinary text. The shown text does not depend on how the stream was cut into pieces. Empty stop strings match
 * nothing. */
size_t cli_stop_scan(const char *bytes, size_t size_bytes, const char *const *stops, size_t stop_count, bool *found);

#endif
