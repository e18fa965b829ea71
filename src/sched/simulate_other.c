/* Owns the model of the published system (ork-driver within llama.cpp): what it computes where, and what that costs by its
 * own figures. Exists to be compared with its measurements; ork's predictions use nothing of it. */
#include "sched/simulate.h"

#include <stdlib.h>
#include <string.h>

struct state {
    const struct ork_simulate_job *job;
    const struct ork_model_shape *shape;
    const struct ork_published_figures *figures;
    ork_policy policy;
    bool automatic; /* experts nf4 and projections q8_0, instead of one GGUF mix */
    uint32_t domains;
    uint32_t experts, experts_used; /* of a layer */
    double expert_weights;          /* of one, all its matrices */
    double resident_share;          /* of all experts */
    uint64_t resident_bytes;
    double absent_bytes; /* int8, of experts that were wanted */
    struct ork_bus bus;
    uint64_t random;
};

static bool is_shared(const struct ork_group_member *member)
{
    return !strncmp(member->name, "shared", 6);
}

static bool is_stack(const struct ork_group_member *member)
{
    return member->experts > 1;
}

/* Seconds that one matrix takes on the CPU for one token; *bytes are added up. */
static double read_s(const struct state *s, const struct ork_group *group, const struct ork_group_member *member,
                     double *bytes)
{
    const double weights = (double)member->n * member->k;
    double bits = s->job->model->gguf_bits_layers, rate = s->figures->bytes_per_s;
    if (member->tier == ORK_TIER_F32) {
        bits = 32;
    } else if (group->kind == ORK_GROUP_HEAD) {
        bits = s->job->model->gguf_bits_head;
    } else if (s->automatic) {
        const bool expert = is_stack(member) || is_shared(member);
        bits = expert ? s->figures->nf4_bits : s->figures->q8_bits;
        rate = expert ? s->figures->nf4_bytes_per_s : rate;
    }
    *bytes += weights * bits / 8;
    return weights * bits / 8 / rate;
}

static bool begins_layer(const struct state *s, size_t i)
{
    return s->shape->groups[i].layer < s->shape->layer_count &&
           (!i || s->shape->groups[i - 1].layer != s->shape->groups[i].layer);
}

/* Nodes of its graph: the mixer's are counted with a layer's first group, the feed forward's with the router or the dense
 * part. */
static double node_s(const struct state *s, size_t i)
{
    const struct ork_published_figures *figures = s->figures;
    const double op_s = figures->op_us * 1e-6;
    switch (s->shape->groups[i].kind) {
    case ORK_GROUP_HEAD:
        return figures->head_ops * op_s;
    case ORK_GROUP_ROUTER:
        return figures->experts_ops * op_s;
    case ORK_GROUP_DENSE_UP:
        return figures->dense_ops * op_s;
    case ORK_GROUP_ATTENTION_IN:
        return figures->attention_ops * op_s;
    case ORK_GROUP_CONVOLUTION_IN:
        return figures->convolution_ops * op_s;
    case ORK_GROUP_DELTA_IN:
        return begins_layer(s, i) ? figures->delta_ops * op_s + figures->delta_layer_us * 1e-6 : 0;
    default:
        return 0;
    }
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

/* Expert matrices of a group for one token, `hot` of the chosen experts on the NPU. */
static void token_experts(struct state *s, const struct ork_group *group, uint32_t hot)
{
    double bytes = 0, seconds = 0, npu_bytes = 0, calls = 0, wait_s = 0;
    for (uint32_t i = 0; i < group->member_count; i++) {
        const struct ork_group_member *member = &group->members[i];
        double one = 0;
        if (!is_stack(member))
            continue;
        const uint32_t cold = member->experts_used - hot;
        seconds += read_s(s, group, member, &one) * cold;
        bytes += one * cold;
        npu_bytes += (double)member->n * member->k * hot;
        s->absent_bytes += (double)member->n * member->k * cold;
        calls += hot;
    }
    if (s->policy == ORK_POLICY_STREAMING && group->kind == ORK_GROUP_EXPERT_UP)
        wait_s = group->members[0].experts_used * s->figures->split_expert_us * 1e-6;
    if (s->policy == ORK_POLICY_PARTITION) { /* each joined before the next step */
        cpu_start(s, group->layer, "experts", wait_s, bytes, seconds);
        ork_bus_wait(&s->bus, ORK_LANE_CPU);
    }
    if (calls > 0)
        npu_start(s, group->layer, calls, npu_bytes);
    if (s->policy != ORK_POLICY_PARTITION)
        cpu_start(s, group->layer, "experts", wait_s, bytes, seconds);
    ork_bus_wait(&s->bus, ORK_LANE_CPU);
    ork_bus_wait(&s->bus, ORK_LANE_NPU);
}

static void token_group(struct state *s, size_t i, double context, uint32_t hot)
{
    const struct ork_group *group = &s->shape->groups[i];
    double bytes = 0, seconds = 0;
    for (uint32_t j = 0; j < group->member_count; j++)
        if (!is_stack(&group->members[j]))
            seconds += read_s(s, group, &group->members[j], &bytes);
    if (group->kind == ORK_GROUP_ATTENTION_IN) {
        const double kv = (double)s->shape->layers[group->layer].kv_bytes * context;
        bytes += kv;
        seconds += kv / s->figures->bytes_per_s;
    }
    cpu_start(s, group->layer, "group", node_s(s, i), bytes, seconds);
    ork_bus_wait(&s->bus, ORK_LANE_CPU);
    if (group->kind == ORK_GROUP_EXPERT_UP || group->kind == ORK_GROUP_EXPERT_DOWN)
        token_experts(s, group, hot);
}

static void token(struct state *s, double context)
{
    uint32_t hot = 0; /* a layer's chosen experts that lie in NPU memory */
    for (size_t i = 0; i < s->shape->group_count; i++) {
        if (begins_layer(s, i)) {
            hot = 0;
            for (uint32_t j = 0; j < s->experts_used; j++)
                hot += ork_simulate_chance(&s->random) < s->resident_share;
        }
        token_group(s, i, context, hot);
    }
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
    const struct ork_published_figures *figures = s->figures;
    uint32_t rows_of[1024], touched = (uint32_t)(s->experts * figures->touched_share + 0.5);
    touched = touched < s->experts_used ? s->experts_used : touched;
    const uint32_t active = ork_simulate_choose(&s->random, touched, s->experts_used, rows, rows_of);
    const bool split = s->policy == ORK_POLICY_STREAMING;
    const double hot = split ? figures->batched_experts / s->shape->layer_count : 0;
    qsort(rows_of, touched, sizeof rows_of[0], compare_rows);
    double kept = 0;
    for (uint32_t i = 0; i < touched; i++) {
        const double part = i + 1.0 <= hot ? 0 : i < hot ? i + 1.0 - hot : 1; /* a fraction at the edge */
        kept += rows_of[i] * part;
    }
    const double macs = kept * s->expert_weights;
    if (s->policy != ORK_POLICY_CPU)
        s->absent_bytes += active * (1 - s->resident_share) * s->expert_weights;
    if (split)
        ork_bus_start(&s->bus, ORK_LANE_NPU, "experts", layer, hot * figures->batched_expert_us * 1e-6, 0, 0);
    cpu_start(s, layer, "experts",
              macs / figures->expert_macs_per_s + (split ? active * figures->split_expert_us * 1e-6 : 0), 0, 0);
    ork_bus_wait(&s->bus, ORK_LANE_CPU);
    ork_bus_wait(&s->bus, ORK_LANE_NPU);
}

/* Groups from `first` on that are one layer's. Returns the first group behind. */
static size_t batch_layer(struct state *s, size_t first, uint32_t rows, double context)
{
    const struct ork_group *groups = s->shape->groups;
    const struct ork_layer_cost *cost = &s->shape->layers[groups[first].layer];
    double macs = 0, floats = 0, wait_s = 0;
    bool experts = false;
    size_t i = first;
    for (; i < s->shape->group_count && groups[i].layer == groups[first].layer; i++) {
        wait_s += node_s(s, i);
        experts = experts || groups[i].kind == ORK_GROUP_EXPERT_UP;
        for (uint32_t j = 0; j < groups[i].member_count; j++)
            if (!is_stack(&groups[i].members[j]))
                macs += (double)groups[i].members[j].n * groups[i].members[j].k * rows;
    }
    if (groups[first].kind == ORK_GROUP_ATTENTION_IN)
        floats = (double)cost->kv_macs * (context + (rows + 1) / 2.0) * rows;
    else if (groups[first].kind == ORK_GROUP_DELTA_IN)
        floats = (double)cost->state_macs * rows;
    cpu_start(s, groups[first].layer, "layer",
              wait_s + macs / s->figures->dense_macs_per_s + floats / s->figures->float_macs_per_s, 0, 0);
    ork_bus_wait(&s->bus, ORK_LANE_CPU);
    if (experts)
        batch_experts(s, groups[first].layer, rows);
    return i;
}

/* Sizes of an expert, and how many of all lie in NPU memory. */
static void count_experts(struct state *s)
{
    double all = 0;
    for (size_t i = 0; i < s->shape->group_count; i++) {
        const struct ork_group *group = &s->shape->groups[i];
        if (group->kind != ORK_GROUP_EXPERT_UP && group->kind != ORK_GROUP_EXPERT_DOWN)
            continue;
        if (group->kind == ORK_GROUP_EXPERT_UP) {
            all += group->members[0].experts;
            s->expert_weights = 0;
        }
        s->experts = group->members[0].experts;
        s->experts_used = group->members[0].experts_used;
        for (uint32_t j = 0; j < group->member_count; j++)
            if (is_stack(&group->members[j]))
                s->expert_weights += (double)group->members[j].n * group->members[j].k;
    }
    if (s->policy == ORK_POLICY_CPU || !(all > 0))
        return;
    const double held = (double)(uint64_t)(s->figures->domain_bytes / s->expert_weights) * s->domains;
    s->resident_share = held < all ? held / all : 1;
    s->resident_bytes = (uint64_t)(s->resident_share * all * s->expert_weights);
}

void ork_simulate_other(const struct ork_simulate_job *job, ork_policy policy, const char *weights, uint32_t domains,
                        ork_simulation *result, struct ork_simulate_record *record)
{
    struct state s;
    memset(&s, 0, sizeof s);
    s.job = job;
    s.shape = job->model->shape;
    s.figures = &job->board->published;
    s.policy = policy;
    s.automatic = !strcmp(weights, "auto");
    s.domains = domains;
    s.random = job->seed;
    s.bus.limit = job->perf.bus_bytes_per_s;
    s.bus.record = record;
    count_experts(&s);
    result->npu_resident_bytes = s.resident_bytes;
    result->npu_domains = policy != ORK_POLICY_CPU ? domains : 0;
    result->npu_fill_seconds = (double)s.resident_bytes / job->perf.swap_bytes_per_s;
    for (uint32_t done = 0; done < job->prompt; done += ORK_SIMULATE_BATCH) {
        const uint32_t left = job->prompt - done, rows = left < ORK_SIMULATE_BATCH ? left : ORK_SIMULATE_BATCH;
        for (size_t i = 0; i < s.shape->group_count;)
            i = s.shape->groups[i].kind == ORK_GROUP_HEAD ? i + 1
                                                          : batch_layer(&s, i, rows, (double)job->context + done);
    }
    if (policy != ORK_POLICY_CPU)
        ork_simulate_swap(job, s.absent_bytes, s.bus.now_s, &result->prompt_swap);
    s.absent_bytes = 0;
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
    if (policy != ORK_POLICY_CPU)
        ork_simulate_swap(job, s.absent_bytes / job->tokens, decode_s, &result->token_swap);
    for (int lane = 0; lane < ORK_LANE_COUNT; lane++)
        result->busy_share[lane] = s.bus.lanes[lane].busy_s / (s.bus.now_s - begin_s);
}
