/* Guards what sessions give the NPU: for each matrix from the number of rows on that the perf model says and `ork explain`
 * shows, multiply-add by multiply-add; given rows win; without figures of an NPU the CPU does everything; and mixed groups
 * have the bits of the CPU alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "engine/npu/engine.h"
#include "model/fixture.h"
#include "model/model.h"
#include "sched/perf.h"

enum { TIERS = 7 };
static const char *const tiers[TIERS] = {"i8", "nf4", "i4", "n8", "i5", "i6", "f32"};
static const char *const dense = "tests/compat/tiny/llama3.gguf", *const experts = "tests/compat/tiny/lfm2moe.gguf";

/* A board on which the crossovers of the tiny models lie between two rows and more than a pass has. */
static struct ork_perf quick_board(void)
{
    struct ork_perf perf;
    ork_error error;
    fixture_check(ork_perf_from_board(NULL, &perf, &error), &error, "board");
    perf.npu.submit_us = perf.npu.complete_us = 1; /* against 2.5 us: 40 rows of 16 x 64 on this CPU, 2 of 301 x 64 */
    perf.npu.task_us = 0.5;
    perf.npu.host_call_us = perf.npu.host_core_us = 0;
    perf.pack_bytes_per_s = perf.unpack_bytes_per_s = 1e12;
    for (int tier = 0; tier < ORK_TIER_COUNT; tier++)
        perf.tiers[tier] = (struct ork_perf_tier){1e12, 16e9};
    perf.region_s = perf.row_s = 1e-9;
    return perf;
}

static ork_npu *open_npu(uint32_t rows_min)
{
    ork_error error;
    ork_npu *npu;
    const ork_npu_params params = {.kind = ORK_NPU_SOFT, .rows_min = rows_min, .skip_self_test = true};
    fixture_check(ork_npu_open(&params, &npu, &error), &error, "NPU");
    return npu;
}

static ork_session *create_session(const ork_model *model, ork_npu *npu, const struct ork_perf *perf)
{
    ork_error error;
    ork_session *session;
    const ork_session_params params = {
        .context_length = 128, .threads = 2, .activation_block = UINT32_MAX, .spin_us = 20, .npu = npu, .perf = perf};
    fixture_check(ork_session_create(model, &params, &session, &error), &error, "session");
    return session;
}

/* One pass of so many rows, all with logits. */
static void evaluate(ork_session *session, const ork_model *model, uint32_t rows)
{
    const size_t vocabulary = ork_card_get_summary(ork_model_card(model))->vocabulary_size;
    ork_token tokens[128];
    ork_error error;
    for (uint32_t i = 0; i < rows; i++)
        tokens[i] = (ork_token)((i * 2654435761u >> 7) % vocabulary);
    ork_session_clear(session);
    fixture_check(ork_session_sync(session, tokens, rows, 0, &error), &error, "sync");
}

static const struct ork_matrix *find(const ork_model *model, const ork_explained_group *group, const char *name)
{
    const struct ork_layer *layer = &model->layers[group->layer < model->hp.layers ? group->layer : 0];
    const bool convolution = strstr(group->kind, "convolution");
    const struct {
        const char *name;
        const struct ork_matrix *matrix;
    } names[] = {
        {"q", &layer->q},
        {"k", &layer->k},
        {"v", &layer->v},
        {"input", &layer->conv_input},
        {"output", convolution ? &layer->conv_output : &layer->attention_output},
        {"gate", &layer->gate},
        {"up", &layer->up},
        {"down", &layer->down},
        {"router", &layer->router},
        {"head", &model->output},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i].name, name))
            return names[i].matrix;
    fail_msg("no matrix %s", name);
    return NULL;
}

/* What a report promises of a pass: multiply-adds of matrices that are no stacks, and at most those of stacks. */
struct promise {
    uint64_t alone, stacks;
    uint32_t taken, left; /* matrices */
};

static struct promise read_report(const ork_model *model, const ork_npu *npu, const struct ork_perf *perf,
                                  uint32_t rows)
{
    ork_explanation *report;
    ork_error error;
    struct promise promise = {0};
    const ork_explain_params params = {.rows = rows};
    fixture_check(ork_explain(model, perf, &params, &report, &error), &error, "explain");
    for (size_t i = 0; i < report->group_count; i++) {
        const ork_explained_group *group = &report->groups[i];
        uint32_t taken = 0;
        for (uint32_t j = 0; j < group->member_count; j++) {
            const ork_explained_member *member = &group->members[j];
            const struct ork_matrix *matrix = find(model, group, member->name);
            const uint32_t from = member->rows_min ? member->rows_min : UINT32_MAX;
            const uint64_t macs = (uint64_t)rows * member->channels * member->inputs * member->experts_used;
            assert_int_equal(matrix->n, member->channels);
            assert_int_equal(ork_npu_rows_min(npu, matrix), from);
            taken += rows >= from;
            if (!ork_tier_find(matrix->tier)->brick_bytes)
                continue;
            promise.taken += from != UINT32_MAX;
            promise.left += from == UINT32_MAX;
            if (rows >= from)
                *(member->experts > 1 ? &promise.stacks : &promise.alone) += macs;
        }
        /* Logits are asked of all rows here, while the report is of one that wants the last. */
        if (strcmp(group->kind, "head") != 0 && !strstr(group->kind, "experts"))
            assert_int_equal(!strcmp(group->route, "npu"), taken == group->member_count);
        assert_int_equal(group->rows_min && group->rows_min <= rows, !strstr(group->kind, "experts")
                                                                         ? taken == group->member_count
                                                                         : group->rows_min && group->rows_min <= rows);
    }
    ork_free(report);
    return promise;
}

static void check_routes(const char *path, const char *tier, bool *some, bool *not_all)
{
    const struct ork_perf perf = quick_board();
    struct fixture fixture;
    fixture_open(&fixture, path, tier);
    ork_npu *npu = open_npu(0);
    ork_session *session = create_session(fixture.model, npu, &perf);
    for (uint32_t rows = 2; rows <= 128; rows += rows < 16 ? 2 : 14) {
        ork_session_stats before, after;
        const struct promise promise = read_report(fixture.model, npu, &perf, rows);
        ork_session_get_stats(session, &before);
        assert_int_equal(before.npu, promise.taken > 0);
        assert_int_equal(before.npu_matrices, promise.taken);
        assert_int_equal(before.npu_matrices_left, promise.left);
        evaluate(session, fixture.model, rows);
        ork_session_get_stats(session, &after);
        const uint64_t done = after.npu_multiply_adds - before.npu_multiply_adds;
        assert_in_range(done, promise.alone, promise.alone + promise.stacks);
        *some |= promise.alone > 0;
        *not_all |= promise.alone < after.batch_multiply_adds - before.batch_multiply_adds;
    }
    ork_session_destroy(session);
    ork_npu_close(npu);
    fixture_close(&fixture);
}

static void test_sessions_do_what_the_report_says(void **state)
{
    (void)state;
    for (int i = 0; i < TIERS; i++) {
        bool some = false, not_all = false;
        check_routes(dense, tiers[i], &some, &not_all);
        assert_int_equal(some, strcmp(tiers[i], "f32") != 0);
        assert_int_equal(not_all, some); /* nothing is counted where the NPU has no part */
    }
}

static void test_experts(void **state)
{
    (void)state;
    bool some = false, not_all = false;
    check_routes(experts, "nf4", &some, &not_all);
    assert_true(some && not_all);
}

/* Some matrices of a group on the NPU, others on the CPU: the bits are those of the CPU with whole rows. */
static void test_mixed_groups_have_the_bits_of_the_cpu(void **state)
{
    (void)state;
    const struct ork_perf perf = quick_board();
    struct fixture fixture;
    fixture_open(&fixture, dense, "i8");
    const size_t vocabulary = ork_card_get_summary(ork_model_card(fixture.model))->vocabulary_size;
    ork_npu *npu = open_npu(0);
    ork_session *alone = create_session(fixture.model, NULL, NULL), *both = create_session(fixture.model, npu, &perf);
    for (uint32_t rows = 2; rows <= 128; rows += 9) {
        evaluate(alone, fixture.model, rows);
        evaluate(both, fixture.model, rows);
        for (uint32_t i = 0; i < rows; i++)
            assert_memory_equal(ork_session_logits(both, i), ork_session_logits(alone, i), vocabulary * sizeof(float));
    }
    ork_session_stats stats;
    ork_session_get_stats(both, &stats);
    assert_true(stats.npu_multiply_adds > 0 && stats.npu_multiply_adds < stats.batch_multiply_adds);
    assert_true(stats.npu_rows_least < stats.npu_rows_most);
    ork_session_destroy(alone);
    ork_session_destroy(both);
    ork_npu_close(npu);
    fixture_close(&fixture);
}

static void test_given_rows_win(void **state)
{
    (void)state;
    struct ork_perf none = quick_board();
    struct fixture fixture;
    ork_session_stats stats;
    none.has_npu = false;
    fixture_open(&fixture, dense, "nf4");
    ork_npu *npu = open_npu(7);
    ork_session *session = create_session(fixture.model, npu, &none);
    ork_session_get_stats(session, &stats);
    assert_true(stats.npu && stats.npu_matrices > 0);
    assert_int_equal(stats.npu_matrices_left, 0);
    assert_int_equal(stats.npu_rows_least, 7);
    assert_int_equal(stats.npu_rows_most, 7);
    evaluate(session, fixture.model, 6);
    ork_session_get_stats(session, &stats);
    assert_int_equal(stats.npu_multiply_adds, 0);
    evaluate(session, fixture.model, 7);
    ork_session_get_stats(session, &stats);
    assert_true(stats.npu_multiply_adds > 0);
    ork_session_destroy(session);
    ork_npu_close(npu);
    fixture_close(&fixture);
}

static void test_without_figures_of_an_npu_the_cpu_does_everything(void **state)
{
    (void)state;
    struct ork_perf none = quick_board();
    struct fixture fixture;
    ork_session_stats stats;
    ork_npu_stats work;
    none.has_npu = false;
    fixture_open(&fixture, dense, "nf4");
    ork_npu *npu = open_npu(0);
    ork_session *session = create_session(fixture.model, npu, &none);
    evaluate(session, fixture.model, 100);
    ork_session_get_stats(session, &stats);
    ork_npu_get_stats(npu, &work);
    assert_false(stats.npu);
    assert_non_null(strstr(stats.npu_why, "CPU"));
    assert_int_equal(stats.npu_matrices, 0);
    assert_true(stats.npu_matrices_left > 0);
    assert_int_equal(stats.npu_multiply_adds, 0);
    assert_int_equal(work.resident_bytes, 0);
    ork_session_destroy(session);
    /* The built-in board's where nothing is given: of models as small as this it sends the widest matrix at most. */
    session = create_session(fixture.model, npu, NULL);
    struct ork_perf board;
    ork_error error;
    fixture_check(ork_perf_from_board(NULL, &board, &error), &error, "board");
    const struct promise promise = read_report(fixture.model, npu, &board, 2);
    ork_session_get_stats(session, &stats);
    assert_int_equal(stats.npu_matrices, promise.taken);
    assert_int_equal(stats.npu_matrices_left, promise.left);
    ork_session_destroy(session);
    ork_npu_close(npu);
    fixture_close(&fixture);
}

/* The arithmetic of a group depends on the rows from which its matrices are wanted, so they must not change under a session. */
static void test_the_first_session_decides(void **state)
{
    (void)state;
    const struct ork_perf perf = quick_board();
    struct ork_perf slow = perf;
    struct fixture fixture;
    ork_session_stats stats, second;
    slow.npu.task_us = 1000;
    fixture_open(&fixture, dense, "i8");
    ork_npu *npu = open_npu(0);
    ork_session *a = create_session(fixture.model, npu, &perf), *b = create_session(fixture.model, npu, &slow);
    ork_session_get_stats(a, &stats);
    ork_session_get_stats(b, &second);
    assert_true(stats.npu_matrices > 0);
    assert_int_equal(second.npu_matrices, stats.npu_matrices);
    assert_int_equal(second.npu_rows_least, stats.npu_rows_least);
    assert_int_equal(second.npu_rows_most, stats.npu_rows_most);
    ork_session_destroy(a);
    ork_session_destroy(b);
    a = create_session(fixture.model, npu, &slow);
    ork_session_get_stats(a, &second);
    assert_false(second.npu && second.npu_rows_least <= stats.npu_rows_least);
    ork_session_destroy(a);
    ork_npu_close(npu);
    fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sessions_do_what_the_report_says),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_mixed_groups_have_the_bits_of_the_cpu),
        cmocka_unit_test(test_given_rows_win),
        cmocka_unit_test(test_without_figures_of_an_npu_the_cpu_does_everything),
        cmocka_unit_test(test_the_first_session_decides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
