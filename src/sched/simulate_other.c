/* Owns the model of the published system (ork-driver within llama.cpp): what it computes where, and what that costs by its
 * own figures. Exists to be compared with its measurements; ork's predictions use nothing of it. */
#include "sched/simulate.h"

#include <stdlib.h>
#include <string.h>

struct state {
    const struct ork_simulate_job *job;
    const struct ork_published_figures *figures;
    ork_policy policy;
    bool automatic; /* experts nf4 and projections q8_0, instead of one GGUF mix */
    uint32_t domains;
    double resident_share; /* of all experts */
    struct ork_bus bus;
    uint64_t random;
};

static bool is_expert(enum ork_shape_role role)
{
    return role == ORK_SHAPE_EXPERT || role == ORK_SHAPE_SHARED;
}

/* Seconds that one token's matrix takes on the CPU; *bytes are added up. */
static double read_s(const struct state *s, const struct ork_shape_member *member, double *bytes)
{
    const double weights = (double)member->n * member->k;
    double bits = s->job->shape->gguf_bits_layers, rate = s->figures->bytes_per_s;
    if (member->role == ORK_SHAPE_ROUTER) {
        bits = 32;
    } else if (member->role == ORK_SHAPE_HEAD) {
        bits = s->job->shape->gguf_bits_head;
    } else if (s->automatic) {
        bits = is_expert(member->role) ? s->figures->nf4_bits : s->figures->q8_bits;
        rate = is_expert(member->role) ? s->figures->nf4_bytes_per_s : rate;
    }
    *bytes += weights * bits / 8;
    return weights * bits / 8 / rate;
}

/* Nodes of its graph in a part: the mixer's are counted with the core, the feed forward's with the router. */
static double node_s(const struct state *s, uint32_t layer, enum ork_shape_part part)
{
    const struct ork_published_figures *figures = s->figures;
    const struct ork_shape *shape = s->job->shape;
    if (part == ORK_SHAPE_LAST)
        return figures->head_ops * figures->op_us * 1e-6;
    if (part == ORK_SHAPE_ROUTE)
        return (layer < shape->dense_layers ? figures->dense_ops : figures->experts_ops) * figures->op_us * 1e-6;
    if (part != ORK_SHAPE_CORE)
        return 0;
    if (shape->mixer[layer] == ORK_SHAPE_ATTENTION)
        return figures->attention_ops * figures->op_us * 1e-6;
    if (shape->mixer[layer] == ORK_SHAPE_CONVOLUTION)
        return figures->convolution_ops * figures->op_us * 1e-6;
    return (figures->delta_ops * figures->op_us + figures->delta_layer_us) * 1e-6;
}

/* One library call of one row inside its runtime, joined. */
static double call_wait_s(const struct state *s)
{
    const struct ork_npu_profile *npu = &s->job->board->npu;
    return (npu->host_call_us + npu->cores * npu->host_core_us + npu->submit_us + npu->complete_us + npu->task_us +
            s->figures->runtime_call_us) *
           1e-6;
}

static void cpu_start(struct state *s, uint32_t layer, const char *what, double wait_s, double bytes, double seconds)
{
    ork_bus_start(&s->bus, ORK_LANE_CPU, what, layer, wait_s, seconds > 0 ? bytes : 0,
                  seconds > 0 ? bytes / seconds : 0);
}

/* `calls` joined calls one after another that read bytes in all: the cores share each. */
static void npu_start(struct state *s, uint32_t layer, double calls, double bytes)
{
    ork_bus_start(&s->bus, ORK_LANE_NPU, "experts", layer, calls * call_wait_s(s), bytes,
                  s->job->board->npu.shared_bytes_per_s);
}

/* Expert matrices of a layer for one token. Gate and up are two calls. */
static void token_experts(struct state *s, const struct ork_shape_group *group, const struct ork_shape_member *member,
                          uint32_t hot)
{
    const double calls = group->part == ORK_SHAPE_UP ? 2 : 1;
    double bytes = 0, seconds = 0;
    const double one_s = read_s(s, member, &bytes);
    const uint32_t cold = member->count - hot;
    seconds = one_s * cold;
    bytes *= cold;
    const double npu_bytes = (double)member->n * member->k * hot;
    double wait_s = 0;
    if (s->policy == ORK_POLICY_STREAMING && group->part == ORK_SHAPE_UP)
        wait_s = member->count * s->figures->split_expert_us * 1e-6;
    if (s->policy == ORK_POLICY_PARTITION) { /* each joined before the next step */
        cpu_start(s, group->layer, "experts", wait_s, bytes, seconds);
        ork_bus_wait(&s->bus, ORK_LANE_CPU);
    }
    if (hot)
        npu_start(s, group->layer, calls * hot, npu_bytes);
    if (s->policy != ORK_POLICY_PARTITION)
        cpu_start(s, group->layer, "experts", wait_s, bytes, seconds);
    ork_bus_wait(&s->bus, ORK_LANE_CPU);
    ork_bus_wait(&s->bus, ORK_LANE_NPU);
}

static void token_group(struct state *s, const struct ork_shape_group *group, double context, uint32_t hot)
{
    const struct ork_shape *shape = s->job->shape;
    double bytes = 0, seconds = 0;
    for (uint32_t i = 0; i < group->member_count; i++)
        if (group->members[i].role != ORK_SHAPE_EXPERT)
            seconds += read_s(s, &group->members[i], &bytes);
    if (group->part == ORK_SHAPE_CORE && shape->mixer[group->layer] == ORK_SHAPE_ATTENTION) {
        const double kv = 4.0 * shape->heads_kv * shape->head_width * context;
        bytes += kv;
        seconds += kv / s->figures->bytes_per_s;
    }
    cpu_start(s, group->layer, "group", node_s(s, group->layer, group->part), bytes, seconds);
    ork_bus_wait(&s->bus, ORK_LANE_CPU);
    for (uint32_t i = 0; i < group->member_count; i++)
        if (group->members[i].role == ORK_SHAPE_EXPERT)
            token_experts(s, group, &group->members[i], hot);
}

static void token(struct state *s, double context)
{
    const struct ork_shape *shape = s->job->shape;
    struct ork_shape_group group;
    for (uint32_t layer = 0; layer < shape->layers; layer++) {
        uint32_t hot = 0; /* chosen experts that lie in NPU memory */
        for (uint32_t i = 0; i < shape->experts_used; i++)
            hot += ork_simulate_chance(&s->random) < s->resident_share;
        for (int part = 0; part < ORK_SHAPE_LAST; part++) {
            ork_shape_group(shape, layer, (enum ork_shape_part)part, &group);
            token_group(s, &group, context, hot);
        }
    }
    ork_shape_group(shape, shape->layers, ORK_SHAPE_LAST, &group);
    token_group(s, &group, context, 0);
    if (s->policy != ORK_POLICY_CPU && s->domains > 1) /* layers lie in the domains in order */
        ork_bus_pass(&s->bus, s->domains * s->job->board->npu.domain_switch_us * 1e-6);
}

static int compare_rows(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* All experts of a layer for a batch: those with the most rows go to the NPU with the split. */
static void batch_experts(struct state *s, uint32_t layer, uint32_t rows)
{
    const struct ork_shape *shape = s->job->shape;
    const struct ork_published_figures *figures = s->figures;
    uint32_t rows_of[1024], touched = (uint32_t)(shape->experts * figures->touched_share + 0.5);
    touched = touched < shape->experts_used ? shape->experts_used : touched;
    const uint32_t active = ork_simulate_choose(&s->random, touched, shape->experts_used, rows, rows_of);
    const bool split = s->policy == ORK_POLICY_STREAMING;
    const double hot = split ? figures->batched_experts / shape->layers : 0;
    qsort(rows_of, touched, sizeof rows_of[0], compare_rows);
    double kept = 0;
    for (uint32_t i = 0; i < touched; i++) {
        const double part = i + 1.0 <= hot ? 0 : i < hot ? i + 1.0 - hot : 1; /* a fraction at the edge */
        kept += rows_of[i] * part;
    }
    const double macs = kept * 3.0 * shape->width * shape->expert_width;
    if (split)
        ork_bus_start(&s->bus, ORK_LANE_NPU, "experts", layer, hot * figures->batched_expert_us * 1e-6, 0, 0);
    cpu_start(s, layer, "experts",
              macs / figures->expert_macs_per_s + (split ? active * figures->split_expert_us * 1e-6 : 0), 0, 0);
    ork_bus_wait(&s->bus, ORK_LANE_CPU);
    ork_bus_wait(&s->bus, ORK_LANE_NPU);
}

static void batch_layer(struct state *s, uint32_t layer, uint32_t rows, double context)
{
    const struct ork_shape *shape = s->job->shape;
    double macs = 0, floats = 0, wait_s = 0;
    for (int part = 0; part < ORK_SHAPE_LAST; part++) {
        struct ork_shape_group group;
        ork_shape_group(shape, layer, (enum ork_shape_part)part, &group);
        wait_s += node_s(s, layer, group.part);
        for (uint32_t i = 0; i < group.member_count; i++)
            if (group.members[i].role != ORK_SHAPE_EXPERT)
                macs += (double)group.members[i].n * group.members[i].k * rows;
    }
    if (shape->mixer[layer] == ORK_SHAPE_ATTENTION)
        floats = 2.0 * shape->heads * shape->head_width * (context + (rows + 1) / 2.0) * rows;
    else if (shape->mixer[layer] == ORK_SHAPE_DELTA)
        floats = 4.0 * shape->delta_value_heads * shape->delta_head_width * shape->delta_head_width * rows;
    cpu_start(s, layer, "layer", wait_s + macs / s->figures->dense_macs_per_s + floats / s->figures->float_macs_per_s,
              0, 0);
    ork_bus_wait(&s->bus, ORK_LANE_CPU);
    if (layer >= shape->dense_layers)
        batch_experts(s, layer, rows);
}

void ork_simulate_other(const struct ork_simulate_job *job, ork_policy policy, const char *weights, uint32_t domains,
                        ork_simulation *result, struct ork_simulate_record *record)
{
    const struct ork_shape *shape = job->shape;
    struct state s;
    memset(&s, 0, sizeof s);
    s.job = job;
    s.figures = &job->board->published;
    s.policy = policy;
    s.automatic = !strcmp(weights, "auto");
    s.domains = domains;
    s.random = job->seed;
    s.bus.limit = job->board->ork.bus_bytes_per_s * job->bus_share;
    s.bus.record = record;
    if (policy != ORK_POLICY_CPU && shape->experts) {
        const double expert = 3.0 * shape->width * shape->expert_width;
        const double all = (double)shape->experts * (shape->layers - shape->dense_layers);
        const double held = (double)(uint64_t)(s.figures->domain_bytes / expert) * domains;
        s.resident_share = held < all ? held / all : 1;
        result->npu_resident_bytes = (uint64_t)(s.resident_share * all * expert);
        result->npu_domains = domains;
    }
    for (uint32_t done = 0; done < job->prompt; done += ORK_SIMULATE_BATCH) {
        const uint32_t left = job->prompt - done, rows = left < ORK_SIMULATE_BATCH ? left : ORK_SIMULATE_BATCH;
        for (uint32_t layer = 0; layer < shape->layers; layer++)
            batch_layer(&s, layer, rows, (double)job->context + done);
    }
    const double begin_s = s.bus.now_s;
    for (int lane = 0; lane < ORK_LANE_COUNT; lane++)
        s.bus.lanes[lane].busy_s = 0;
    for (uint32_t i = 0; i < job->tokens; i++) {
        record->on = i + 1 == job->tokens;
        token(&s, (double)job->context + job->prompt + i);
    }
    record->on = false;
    const double decode_s = (s.bus.now_s - begin_s) / job->tokens;
    result->prefill_tokens_per_second = job->prompt / begin_s;
    result->decode_tokens_per_second = 1 / decode_s;
    result->decode_alone_tokens_per_second = 0;
    for (int lane = 0; lane < ORK_LANE_COUNT; lane++)
        result->busy_share[lane] = s.bus.lanes[lane].busy_s / (s.bus.now_s - begin_s);
}
