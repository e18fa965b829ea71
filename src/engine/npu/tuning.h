/* Numbers of the NPU engine that could be tuned, with what chose them. Limits of the hardware stand in limits.h. */
#ifndef ORK_ENGINE_NPU_TUNING_H
#define ORK_ENGINE_NPU_TUNING_H

/* Matmuls of fewer rows stay on the CPU where nobody says better: where the published runtimes on RK3588 lose below
 * (docs/npu.md, "The engine"). Sessions say better, by the perf model. */
#define ORK_NPU_ROWS_MIN 32u

/* Surfaces of one job, at most; larger matmuls are cut by channels and rows. 512 rows of 16,384 inputs, and their products
 * with 8,192 channels. There are two of each in a domain that is used, as large as was needed so far. */
#define ORK_NPU_SURFACE_A_BYTES (8u << 20)
#define ORK_NPU_SURFACE_C_BYTES (16u << 20)
#define ORK_NPU_SURFACE_LEAST_BYTES (64u << 10)
/* Programs of a domain: 1 KiB a task. */
#define ORK_NPU_PROGRAM_SLOTS 2048u
/* What all this takes of a domain, with the weights of the self-test: left free by the model's. */
#define ORK_NPU_RESERVE_BYTES (2ull * (ORK_NPU_SURFACE_A_BYTES + ORK_NPU_SURFACE_C_BYTES) + (4u << 20))
#define ORK_NPU_TASKS_PER_PIECE 1024u
/* Compiled matmuls kept; a prefill of a model of 40 layers with 4 shapes, two halves, three domains and a last block of
 * other height needs 50. */
#define ORK_NPU_SETS_MAX 512u
/* A job is cut to at most this time: what a caller waits for a lost job beyond the deadline's floor, and far below the
 * 500 ms after which the mainline driver kills a job and the 100 ms that the hardware's users stay below. */
#define ORK_NPU_JOB_MOST_US 20000u

/* A job is late after so many times the predicted time, and never before the floor. The published times scatter by less
 * than a factor of two; the floor covers a thread that was not scheduled for a time slice or two. */
#define ORK_NPU_DEADLINE_FACTOR 4u
#define ORK_NPU_DEADLINE_FLOOR_US 10000u
/* How long the output may lag behind a driver's "done", and how often a result that does not prove right is read again. */
#define ORK_NPU_DONE_GRACE_US 500u
#define ORK_NPU_READ_AGAIN 2u
/* Steps of waiting where the device has no better idea: the first is shorter than an interrupt's way (5 to 20 us), the
 * last costs less than 5 % of the shortest job worth sending. */
#define ORK_NPU_LOOK_FIRST_US 10u
#define ORK_NPU_LOOK_LAST_US 100u

/* How much later than asked for the system may end the owner's sleeps: its default of 50 us is as long as a short chain. */
#define ORK_NPU_TIMER_SLACK_NS 1000ul

/* After a fault: how long a job that does not come is watched before it is cancelled, in deadlines. */
#define ORK_NPU_GRACE_DEADLINES 4u
/* Resets tried in a row, and the pause after each: "up to 6 tries" and "about 1 ms settle" were published. */
#define ORK_NPU_RESETS_MOST 6u
#define ORK_NPU_SETTLE_US 1000u
/* The engine switches itself off when more than so many of the last 64 jobs went wrong: each costs a recomputation. */
#define ORK_NPU_FAULTS_OF_64 16u
/* Resets since opening after which it is off as well: 100 ms each, and some of what wedges the hardware needs a power
 * cycle. */
#define ORK_NPU_RESETS_EVER 1000u

/* How long the owner looks for work before it sleeps; a group's next begin comes sooner than that. */
#define ORK_NPU_SPIN_US 20u
/* The same where chains run beside the CPU: the time between two begins of a token. Waking it costs the caller 28 us in a
 * virtual machine (bench_npu), ringing one that is awake less than 1. It stays on little cores where there are some. */
#define ORK_NPU_OVERLAY_SPIN_US 5000u
/* finish gives up when the owner shows no life for so long: twice, because where time is virtual the device computes on
 * this machine, however slow it is. The vendor driver may hold a call for 6 s when domains change. */
#define ORK_NPU_STUCK_US 8000000u
#define ORK_NPU_STUCK_VIRTUAL_US 300000000u
#define ORK_NPU_BEAT_LOOK_US 100000u /* how often finish looks for a sign of life */
/* How often an idle owner looks after swaps that it waits for. */
#define ORK_NPU_SWAP_LOOK_US 2000u
#define ORK_NPU_SWAP_LOOKS 500u

/* Matmuls that one begin can take: gate and up of 512 experts. */
#define ORK_NPU_BATCH_MAX 1024u
/* Late chains under way at a time: of four layers, each with a mixer and a feed-forward part, twice. */
#define ORK_NPU_OVERLAY_SLOTS 16u
/* A chain draws all of its bytes whether it comes in time or not, so one that hardly ever does rests: when less than LEAST of
 * its latest tries were in time, an average in which each counts 1/WEIGHT and that begins at START, it is passed over REST
 * times and tried once; each further miss doubles the rest. In time, it goes on from START. All misses: 11 tries, then 0.3 % of
 * the tokens. By chance, of 20,000 tokens, begun in 1.5 % with a chance of 0.15 to be in time, 4 % with 0.25, 16 % with 0.35,
 * 95 % with 0.5, 100 % with 0.65; half the weight begins 53 % with 0.5, a LEAST of a third 58 %. */
#define ORK_NPU_OVERLAY_RATE_ONE 65536u
#define ORK_NPU_OVERLAY_RATE_LEAST (ORK_NPU_OVERLAY_RATE_ONE / 4)
#define ORK_NPU_OVERLAY_RATE_START (ORK_NPU_OVERLAY_RATE_ONE / 2)
#define ORK_NPU_OVERLAY_RATE_WEIGHT 16u
#define ORK_NPU_OVERLAY_REST_FIRST 16u
#define ORK_NPU_OVERLAY_REST_MOST 512u
/* Chains share buffers of about this size: separate mappings are few (residency_inner.h). */
#define ORK_NPU_OVERLAY_CHUNK_BYTES (64ull << 20)
/* Absent weights whose arrival is watched at a time. */
#define ORK_NPU_WANTED_MAX 64u

#endif
