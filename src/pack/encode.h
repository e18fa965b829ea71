/* Encoding of one tensor on all threads. */
#ifndef ORK_PACK_ENCODE_H
#define ORK_PACK_ENCODE_H

#include "base/pool.h"
#include "format/gguf.h"
#include "format/orkpack.h"

typedef struct ork_pack_encoder ork_pack_encoder;

struct ork_pack_task {
    const char *where; /* path of the source, for errors */
    const struct ork_gguf_tensor *source;
    const struct ork_orkpack_tensor *tensor;            /* planned */
    const float *importance;                            /* [experts][k] or NULL */
    const int8_t *table;                                /* nf4: 16 entries, else NULL */
    bool (*tick)(void *context, uint64_t source_bytes); /* of this tensor so far; false stops. May be NULL */
    void *tick_context;
};

struct ork_pack_result {
    const uint8_t *planes[ORK_PLANE_COUNT]; /* in the encoder, until the next call */
    double squared_error, squared_norm;
};

/* Memory for the largest of the tensors. The pool must outlive the encoder. */
ork_status ork_pack_encoder_create(ork_pool *pool, const struct ork_orkpack_tensor *tensors, size_t count,
                                   ork_pack_encoder **encoder, ork_error *error);
void ork_pack_encoder_destroy(ork_pack_encoder *encoder);
/* A value that is not finite, or too large for a float tier, is ORK_BAD_FILE naming tensor and element (the lowest). */
ork_status ork_pack_encode(ork_pack_encoder *encoder, const struct ork_pack_task *task, struct ork_pack_result *result,
                           ork_error *error);

#endif
