/* Owns temporary packs for tests. */
#include "model/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void fixture_check(ork_status status, const ork_error *error, const char *what)
{
    if (status == ORK_OK)
        return;
    fprintf(stderr, "%s: %s: %s (%s)\n", what, error->where, error->what, ork_status_name(status));
    abort();
}

void fixture_open_by_rules(struct fixture *fixture, const char *path, const char *tier, const char *const *rules,
                           size_t rule_count)
{
    ork_error error;
    char source[512];
    snprintf(source, sizeof source, "%s/%s", ORK_SOURCE_DIR, path);
    strcpy(fixture->directory, "/tmp/ork-test-XXXXXX");
    if (!mkdtemp(fixture->directory))
        abort();
    snprintf(fixture->pack, sizeof fixture->pack, "%s/model.orkpack", fixture->directory);
    ork_pack_params params = {.default_tier = tier, .tier_rules = rules, .tier_rule_count = rule_count, .threads = 1};
    fixture_check(ork_pack_file(source, fixture->pack, &params, NULL, &error), &error, source);
    fixture_check(ork_model_open(fixture->pack, NULL, &fixture->model, &error), &error, fixture->pack);
}

void fixture_open(struct fixture *fixture, const char *path, const char *tier)
{
    fixture_open_by_rules(fixture, path, tier, NULL, 0);
}

void fixture_close(struct fixture *fixture)
{
    ork_model_close(fixture->model);
    unlink(fixture->pack);
    rmdir(fixture->directory);
}

ork_session *fixture_session(const struct fixture *fixture, uint32_t threads, uint32_t batch_rows)
{
    ork_error error;
    ork_session *session;
    ork_session_params params = {.context_length = 256,
                                 .threads = threads,
                                 .batch_rows = batch_rows,
                                 .kv_type_key = ORK_KV_F32,
                                 .kv_type_value = ORK_KV_F32,
                                 .spin_us = UINT32_MAX};
    fixture_check(ork_session_create(fixture->model, &params, &session, &error), &error, "session");
    return session;
}

bool fixture_cancel_after(void *context)
{
    int *left = context;
    return (*left)-- <= 0;
}
