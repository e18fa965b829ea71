/* The fault script: what goes wrong on a software device, when, reproducibly. Owns its grammar and its random numbers;
 * knows no registers and no drivers.
 *
 * A script is a list of clauses separated by ';', each KIND or KIND:KEY=VALUE,... ; `seed=N` stands alone. Keys common to
 * all kinds: p (probability per event, 0..1), at (the event's number from 0, exactly once), from (all events from that
 * number on), every (each so many), core. An event is a job submitted, except for memory (an allocation), descriptors,
 * reset-fails (a reset) and switch (a change of domain). Example: "seed=7;late:p=0.01,us=5000;stop:at=12,after=3". */
#ifndef ORK_ENGINE_NPU_FAULTS_H
#define ORK_ENGINE_NPU_FAULTS_H

#include "ork/ork.h"

enum ork_npu_fault_kind {
    ORK_FAULT_NONE = 0,
    ORK_FAULT_LATE,        /* right, but us microseconds later */
    ORK_FAULT_NEVER,       /* accepted, counter stays 0, no interrupt: cured by a reset and resubmission */
    ORK_FAULT_STOP,        /* `after` of the tasks run, then nothing: cured by a reset */
    ORK_FAULT_CONSTANT,    /* says done, output is one value (key value) everywhere */
    ORK_FAULT_UNTOUCHED,   /* says done, output was not written */
    ORK_FAULT_TAIL,        /* says done, the last `atoms` of each output surface were not written */
    ORK_FAULT_FLIP,        /* says done, `words` 32-bit words of the output are wrong */
    ORK_FAULT_LOST,        /* right, but the interrupt is lost: never says done */
    ORK_FAULT_EARLY,       /* says done us microseconds before the output stands in memory */
    ORK_FAULT_DEAD,        /* the core takes jobs and never runs one again, resets do not help */
    ORK_FAULT_WEDGE,       /* nothing runs on any core until a reset */
    ORK_FAULT_REFUSE,      /* submit returns an error */
    ORK_FAULT_RESET_FAILS, /* a reset returns an error and does nothing */
    ORK_FAULT_MEMORY,      /* an allocation fails; key bytes: every one that would exceed so many in total */
    ORK_FAULT_DESCRIPTORS, /* at most `limit` buffers at once */
    ORK_FAULT_SWITCH,      /* a change of domain is refused after its waiting time */
    ORK_FAULT_KINDS
};

/* A fault of one event. */
struct ork_npu_fault {
    enum ork_npu_fault_kind kind;
    uint64_t us, after, value, atoms, words; /* of its clause, with defaults */
    uint64_t random;                         /* for whatever the fault leaves open */
};

struct ork_npu_faults;
/* script NULL or "": no faults. Refuses unknown words, naming the choices, and values out of range. */
ork_status ork_npu_faults_parse(const char *script, struct ork_npu_faults **faults, ork_error *error);
void ork_npu_faults_free(struct ork_npu_faults *faults);
/* The fault of the next event of a class; the first clause that fits wins. Deterministic in the order of calls. */
struct ork_npu_fault ork_npu_faults_next_job(struct ork_npu_faults *faults, uint32_t core);
/* Allocation of size_bytes with so many bytes and buffers held before. */
struct ork_npu_fault ork_npu_faults_next_allocation(struct ork_npu_faults *faults, uint64_t size_bytes,
                                                    uint64_t held_bytes, uint64_t held_buffers);
struct ork_npu_fault ork_npu_faults_next_reset(struct ork_npu_faults *faults);
struct ork_npu_fault ork_npu_faults_next_switch(struct ork_npu_faults *faults);
const char *ork_npu_fault_name(enum ork_npu_fault_kind kind);
/* How often a kind has struck. */
uint64_t ork_npu_faults_count(const struct ork_npu_faults *faults, enum ork_npu_fault_kind kind);

#endif
