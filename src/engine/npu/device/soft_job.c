/* Jobs of the software device: checked and copied, and how much work their programs are. Knows the few registers that say
 * how large a task is; everything else about programs is the silicon's. */
#include "engine/npu/device/soft_internal.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/error.h"
#include "engine/npu/registers.h"

#define WORDS_MAX 4096u
#define BUFFERS_PER_JOB_MAX 65536u

static const uint16_t size_registers[SOFT_SIZE_WORDS] = {
    [SOFT_PRECISION] = ORK_NPU_OFFSET_CNA_CONV_CON1,
    [SOFT_PIXELS] = ORK_NPU_OFFSET_CNA_DATA_SIZE0,
    [SOFT_INPUTS] = ORK_NPU_OFFSET_CNA_DATA_SIZE1,
    [SOFT_CHANNELS] = ORK_NPU_OFFSET_CNA_WEIGHT_SIZE2,
};

static bool writes(uint64_t word, int which)
{
    return ork_npu_word_target(word) == ORK_NPU_TARGET_CNA && ork_npu_word_offset(word) == size_registers[which];
}

/* Where a program last writes a register; 0 when nowhere (word 0 then does not match, and the search is made again). */
static uint16_t find_word(const struct soft_task *task, int which)
{
    for (uint32_t i = task->count; i-- > 0;)
        if (writes(task->words[i], which))
            return (uint16_t)i;
    return 0;
}

void soft_job_work(struct ork_npu_job *job, struct ork_npu_work *work)
{
    *work = (struct ork_npu_work){0};
    for (uint32_t t = 0; t < job->task_count; t++) {
        struct soft_task *task = &job->tasks[t];
        uint32_t values[SOFT_SIZE_WORDS];
        for (int which = 0; which < SOFT_SIZE_WORDS; which++) {
            if (!writes(task->words[task->at[which]], which))
                task->at[which] = find_word(task, which);
            const uint64_t word = task->words[task->at[which]];
            values[which] = writes(word, which) ? ork_npu_word_value(word) : 0;
        }
        const struct ork_npu_shape shape = {
            .type = (values[SOFT_PRECISION] >> 4 & 7) == 6 ? ORK_NPU_W4A4 : ORK_NPU_W8A8, /* 6: int4, npu-hw.md 3.5 */
            .m = (values[SOFT_PIXELS] >> 16 & 0x7ff) * (values[SOFT_PIXELS] & 0x7ff),
            .k = values[SOFT_INPUTS] & 0xffff,
            .n = values[SOFT_CHANNELS] & 0x3fff,
        };
        ork_npu_work_add(work, &shape);
    }
}

static ork_status check_buffers(struct soft *soft, const struct ork_npu_job_params *params, ork_error *error)
{
    const uint64_t count = (uint64_t)params->input_count + params->output_count;
    if (count > BUFFERS_PER_JOB_MAX)
        return ork_error_set(error, ORK_BAD_ARGUMENT, "soft NPU", -1, "a job on %" PRIu64 " buffers", count);
    for (uint32_t i = 0; i < count; i++) {
        const bool output = i >= params->input_count;
        const struct ork_npu_buffer *buffer = output ? params->outputs[i - params->input_count] : params->inputs[i];
        const struct soft_buffer *found = soft_find(soft, buffer);
        const char *wrong = NULL;
        if (!found)
            wrong = "is none of this device";
        else if (found->domain != params->domain)
            wrong = "belongs to another domain";
        else if (output && found->imported)
            wrong = "is imported and cannot be written";
        for (uint32_t j = 0; output && j < params->input_count && !wrong; j++)
            if (params->inputs[j]->handle == buffer->handle)
                wrong = "is an input too";
        if (wrong)
            return ork_error_set(error, ORK_BAD_ARGUMENT, "soft NPU", -1, "%s %" PRIu32 " of a job %s",
                                 output ? "output" : "input", output ? i - params->input_count : i, wrong);
    }
    return ORK_OK;
}

/* Programs must stand in an input, whole. */
static ork_status locate_program(struct soft *soft, const struct ork_npu_job_params *params, uint32_t index,
                                 struct soft_task *task, ork_error *error)
{
    const struct ork_npu_task *given = &params->tasks[index];
    if (given->program_iova % 16 || given->program_words < 1 || given->program_words > WORDS_MAX)
        return ork_error_set(error, ORK_BAD_ARGUMENT, "soft NPU", -1,
                             "task %" PRIu32 ": program of %" PRIu32 " words at 0x%" PRIx32
                             " (1 to %u, a multiple of 16)",
                             index, given->program_words, given->program_iova, WORDS_MAX);
    const uint64_t size_bytes = 8ull * given->program_words;
    for (uint32_t i = 0; i < params->input_count; i++) {
        const struct soft_buffer *found = soft_find(soft, params->inputs[i]);
        if (given->program_iova < found->iova)
            continue;
        const uint64_t inside = given->program_iova - found->iova;
        if (inside <= found->size_bytes && size_bytes <= found->size_bytes - inside) {
            task->words = (const uint64_t *)(const void *)(found->host + inside);
            task->count = given->program_words;
            return ORK_OK;
        }
    }
    return ork_error_set(error, ORK_BAD_ARGUMENT, "soft NPU", -1,
                         "task %" PRIu32 ": its program at 0x%" PRIx32 " is in none of the inputs", index,
                         given->program_iova);
}

void soft_job_free(struct soft *soft, struct ork_npu_job *job)
{
    if (soft->jobs == job)
        soft->jobs = job->next;
    if (job->next)
        job->next->previous = job->previous;
    if (job->previous)
        job->previous->next = job->next;
    free(job->tasks);
    free(job->handles);
    free(job);
}

ork_status soft_job_create(struct ork_npu_device *device, const struct ork_npu_job_params *params,
                           struct ork_npu_job **job, ork_error *error)
{
    struct soft *soft = soft_of(device);
    const struct ork_npu_capabilities *can = &soft->capabilities;
    *job = NULL;
    if (params->core >= can->cores || params->domain >= can->domains || params->task_count < 1 ||
        params->task_count > can->tasks_per_job_max)
        return ork_error_set(error, ORK_BAD_ARGUMENT, "soft NPU", -1,
                             "job of %" PRIu32 " tasks on core %" PRIu32 " in domain %" PRIu32 " (at most %" PRIu32
                             ", %" PRIu32 " cores, %" PRIu32 " domains)",
                             params->task_count, params->core, params->domain, can->tasks_per_job_max, can->cores,
                             can->domains);
    ork_status status = check_buffers(soft, params, error);
    if (status != ORK_OK)
        return status;
    const uint32_t buffers = params->input_count + params->output_count;
    struct ork_npu_job *made = calloc(1, sizeof *made);
    if (!made)
        return ork_error_no_memory(error, "soft NPU", sizeof *made);
    *made = (struct ork_npu_job){.core = params->core,
                                 .domain = params->domain,
                                 .first_iova = params->tasks[0].program_iova,
                                 .first_words = params->tasks[0].program_words,
                                 .task_count = params->task_count,
                                 .buffer_count = buffers,
                                 .start_ns = SOFT_NEVER,
                                 .finish_ns = SOFT_NEVER,
                                 .tasks = calloc(params->task_count, sizeof *made->tasks),
                                 .handles = calloc(buffers ? buffers : 1, sizeof *made->handles)};
    if (!made->tasks || !made->handles)
        status = ork_error_no_memory(error, "soft NPU", params->task_count * sizeof *made->tasks);
    for (uint32_t i = 0; status == ORK_OK && i < params->task_count; i++)
        status = locate_program(soft, params, i, &made->tasks[i], error);
    if (status != ORK_OK) {
        soft_job_free(soft, made);
        return status;
    }
    for (uint32_t i = 0; i < buffers; i++)
        made->handles[i] = (uint32_t)(i < params->input_count ? params->inputs[i] : params->outputs[i - params->input_count])
                               ->handle;
    made->next = soft->jobs;
    if (soft->jobs)
        soft->jobs->previous = made;
    soft->jobs = made;
    *job = made;
    return ORK_OK;
}

void soft_job_destroy(struct ork_npu_device *device, struct ork_npu_job *job)
{
    struct soft *soft = soft_of(device);
    if (!job)
        return;
    pthread_mutex_lock(&soft->lock);
    const bool misuse = soft_job_in_use(soft, job);
    soft->stats.misuses += misuse;
    pthread_mutex_unlock(&soft->lock);
    if (!misuse) /* else it stays until the device is closed */
        soft_job_free(soft, job);
}
