/* Cards inside the library. */
#ifndef ORK_MODEL_CARD_H
#define ORK_MODEL_CARD_H

#include "format/orkpack.h"

/* A card that lives on its own; closed with ork_card_close(). */
ork_status ork_card_from_orkpack(const ork_orkpack *pack, ork_card **card, ork_error *error);

/* False for tensors that the main pass never reads: those of blocks from block_count on, and "nextn" ones, both of
 * next-token predictors. */
bool ork_tensor_is_in_main_pass(const char *name, uint32_t block_count);

#endif
