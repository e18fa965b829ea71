/* Packs a GGUF into a temporary directory and opens it; shared by the tests of whole models. */
#ifndef ORK_TESTS_MODEL_FIXTURE_H
#define ORK_TESTS_MODEL_FIXTURE_H

#include "ork/ork.h"

struct fixture {
    char directory[64], pack[128];
    ork_model *model;
};

/* path is relative to the source tree. tier: the default tier, for all matrices also embedding and output. Fails the
 * test (or ends the program) with the library's message. */
void fixture_open(struct fixture *fixture, const char *path, const char *tier);
/* The same with rules (REGEX=TIER). */
void fixture_open_by_rules(struct fixture *fixture, const char *path, const char *tier, const char *const *rules,
                           size_t rule_count);
void fixture_close(struct fixture *fixture);
ork_session *fixture_session(const struct fixture *fixture, uint32_t threads, uint32_t batch_rows);
/* For ork_session_params.cancel: says stop when it was asked *(int *)context times. */
bool fixture_cancel_after(void *context);
/* Dies with the error unless status is ORK_OK. */
void fixture_check(ork_status status, const ork_error *error, const char *what);

#endif
