/* Owns virtual time: lanes that wait and draw bytes, and who gets what of the bus. Knows no models and no policies. */
#include "sched/simulate.h"

#include <math.h>

void ork_bus_start(struct ork_bus *bus, int lane, const char *what, uint32_t layer, double wait_s, double bytes,
                   double rate)
{
    struct ork_lane *slot = &bus->lanes[lane];
    slot->live = true;
    slot->wait_s = wait_s > 0 ? wait_s : 0;
    slot->bytes = bytes > 0 ? bytes : 0;
    slot->rate = rate;
    slot->begin_s = bus->now_s;
    slot->what = what;
    slot->layer = layer;
}

static void finish(struct ork_bus *bus, int lane)
{
    struct ork_lane *slot = &bus->lanes[lane];
    slot->live = false;
    slot->end_s = bus->now_s;
    slot->busy_s += slot->end_s - slot->begin_s;
    const struct ork_lane done = *slot;
    if (bus->idle)
        bus->idle(bus->context, lane);
    struct ork_simulate_record *record = bus->record;
    if (!record || !record->on || record->count == record->capacity)
        return;
    record->events[record->count++] = (ork_simulation_event){
        .engine = lane == ORK_LANE_CPU ? "cpu"
                  : lane == 1          ? "npu0"
                  : lane == 2          ? "npu1"
                                       : "npu2",
        .what = done.what,
        .layer = done.layer,
        .begin_us = done.begin_s * 1e6,
        .end_us = done.end_s * 1e6,
    };
}

/* What each drawing lane gets. */
static void share(const struct ork_bus *bus, double *rates)
{
    double total = 0;
    bool cpu = false, npu = false;
    for (int i = 0; i < ORK_LANE_COUNT; i++) {
        const struct ork_lane *lane = &bus->lanes[i];
        rates[i] = lane->live && lane->wait_s <= 0 && lane->bytes > 0 ? lane->rate : 0;
        total += rates[i];
        if (rates[i] > 0)
            *(i == ORK_LANE_CPU ? &cpu : &npu) = true;
    }
    for (int i = 0; cpu && npu && total > bus->limit && i < ORK_LANE_COUNT; i++)
        rates[i] *= bus->limit / total;
}

/* Moves to the next change of any lane, at most `most` seconds. */
static double step(struct ork_bus *bus, double most)
{
    double rates[ORK_LANE_COUNT];
    share(bus, rates);
    double least = most;
    for (int i = 0; i < ORK_LANE_COUNT; i++) {
        const struct ork_lane *lane = &bus->lanes[i];
        if (!lane->live)
            continue;
        const double left = lane->wait_s > 0 ? lane->wait_s : lane->bytes > 0 ? lane->bytes / rates[i] : 0;
        least = left < least ? left : least;
    }
    bus->now_s += least;
    for (int i = 0; i < ORK_LANE_COUNT; i++) {
        struct ork_lane *lane = &bus->lanes[i];
        if (!lane->live)
            continue;
        if (lane->wait_s > 0) {
            lane->wait_s = lane->wait_s <= least ? 0 : lane->wait_s - least;
        } else if (lane->bytes > 0) {
            /* A rest below a byte is rounding. */
            lane->bytes -= rates[i] * least;
            lane->bytes = lane->bytes < 1 ? 0 : lane->bytes;
        }
        if (lane->wait_s <= 0 && lane->bytes <= 0)
            finish(bus, i);
    }
    return least;
}

void ork_bus_wait(struct ork_bus *bus, int lane)
{
    while (bus->lanes[lane].live)
        step(bus, INFINITY);
}

void ork_bus_pass(struct ork_bus *bus, double seconds)
{
    while (seconds > 1e-12)
        seconds -= step(bus, seconds);
}

uint64_t ork_simulate_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

double ork_simulate_chance(uint64_t *state)
{
    return (double)(ork_simulate_random(state) >> 11) * 0x1p-53;
}

uint32_t ork_simulate_choose(uint64_t *state, uint32_t count, uint32_t used, uint32_t rows, uint32_t *rows_of)
{
    uint32_t order[1024], active = 0; /* as many as a shape may have */
    for (uint32_t i = 0; i < count; i++) {
        order[i] = i;
        rows_of[i] = 0;
    }
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t i = 0; i < used; i++) {
            const uint32_t j = i + (uint32_t)(ork_simulate_random(state) % (count - i)), chosen = order[j];
            order[j] = order[i];
            order[i] = chosen;
            active += rows_of[chosen]++ == 0;
        }
    return active;
}
