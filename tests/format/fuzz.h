/* What a fuzz target offers: the function that libFuzzer calls, and valid inputs from which the replay runner starts. */
#ifndef ORK_TESTS_FUZZ_H
#define ORK_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Parses any bytes and uses whatever was accepted; crashes on a fault. Always 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);
/* Calls add(context, data, size_bytes) for each valid input; the callee copies. */
void fuzz_seeds(void (*add)(void *context, const void *data, size_t size_bytes), void *context);

#endif
