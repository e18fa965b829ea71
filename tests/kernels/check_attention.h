/* The checks of the vector functions that take structures: attention and short convolution. */
#ifndef ORK_TESTS_KERNELS_CHECK_ATTENTION_H
#define ORK_TESTS_KERNELS_CHECK_ATTENTION_H

#include "harness.h"

void check_attentions(struct harness *h);
void check_short_convs(struct harness *h);

#endif
