/* The default code table of nf4. */
#include "quant/tier.h"

const int8_t ork_nf4_table[16] = {-127, -88, -67, -50, -36, -23, -12, 0, 10, 20, 31, 43, 56, 71, 92, 127};
