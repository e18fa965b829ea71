/* Owns how the units of one phase of a region are dealt out to its threads; must not know what a unit is.
 *
 * Every thread owns one run of units and takes from its front: half of what is left, so that the first piece is one long
 * stream through the weights and the last ones are short. A thread that has finished its own run takes from the ends of
 * the others', so that a core that is slow or was taken away does not hold up the rest. All threads compute the same
 * initial runs, so whoever comes first writes a run down; a tag tells runs of this phase from what earlier ones left. */
#include "engine/cpu/engine.h"

#include "base/checked.h"
#include "engine/cpu/tuning.h"

#define PLACE_BITS 20u
#define PLACE_MASK ((1u << PLACE_BITS) - 1)
#define TAG_LIMIT (1u << 24)

/* A run in one word: tag | begin | end. */
static uint64_t pack_run(uint32_t tag, uint32_t begin, uint32_t end)
{
    return (uint64_t)tag << (2 * PLACE_BITS) | (uint64_t)begin << PLACE_BITS | end;
}

/* Takes a piece of the run of thread `owner`; false when nothing is left of it. */
static bool take_piece(struct ork_cpu_share *share, uint32_t owner, bool own, uint32_t threads, uint32_t *begin,
                       uint32_t *end)
{
    atomic_ullong *word = &share->runs[owner].word;
    unsigned long long seen = atomic_load_explicit(word, memory_order_relaxed);
    for (;;) {
        uint32_t first = (uint32_t)(seen >> PLACE_BITS) & PLACE_MASK, last = (uint32_t)seen & PLACE_MASK;
        if (seen >> (2 * PLACE_BITS) != share->tag)
            ork_split_range(share->units, owner, threads, &first, &last);
        if (first == last)
            return false;
        uint32_t piece = (last - first) / 2;
        piece = piece > share->piece_most ? share->piece_most : piece ? piece : 1;
        uint32_t left_first = own ? first + piece : first, left_last = own ? last : last - piece;
        /* The results of earlier phases were made visible by a barrier; the word itself carries nothing else. */
        if (atomic_compare_exchange_weak_explicit(word, &seen, pack_run(share->tag, left_first, left_last),
                                                  memory_order_relaxed, memory_order_relaxed)) {
            *begin = own ? first : left_last;
            *end = own ? left_first : last;
            return true;
        }
    }
}

struct ork_cpu_share ork_cpu_share_make(struct ork_cpu *cpu, uint32_t phase, uint32_t units, uint32_t rows,
                                        uint32_t threads)
{
    struct ork_cpu_share share = {.runs = cpu->runs, .tag = cpu->region_tag + phase, .unit = 1, .count = units};
    while (units > PLACE_MASK) {
        share.unit *= 2;
        units = (uint32_t)ork_divide_up(share.count, share.unit);
    }
    share.units = units;
    uint32_t most = rows == 1 ? PLACE_MASK : units / (threads * ORK_CPU_PIECES_PER_THREAD);
    share.piece_most = most ? most : 1;
    return share;
}

bool ork_cpu_share_next(struct ork_cpu_share *share, uint32_t thread, uint32_t threads, uint32_t *begin, uint32_t *end)
{
    for (; share->passed < threads; share->passed++) {
        uint32_t owner = (thread + share->passed) % threads;
        if (!take_piece(share, owner, share->passed == 0, threads, begin, end))
            continue;
        uint64_t limit = (uint64_t)*end * share->unit;
        *begin *= share->unit;
        *end = limit < share->count ? (uint32_t)limit : share->count;
        return true;
    }
    return false;
}

void ork_cpu_run(struct ork_cpu *cpu, uint32_t rows, ork_pool_function function, void *context)
{
    cpu->region_tag += ORK_CPU_PHASES;
    if (cpu->region_tag > TAG_LIMIT - 2 * ORK_CPU_PHASES) {
        /* Tags begin anew: what is written down under them must be gone. Tag 0 is no region's. */
        for (uint32_t i = 0; i < cpu->pool_threads; i++)
            atomic_store_explicit(&cpu->runs[i].word, 0, memory_order_relaxed);
        cpu->region_tag = ORK_CPU_PHASES;
    }
    ork_pool_run(cpu->pool, rows > 1 ? cpu->threads_batch : cpu->threads, function, context);
}
