/* What happens after a fault. Owner thread alone but for one, off everybody's path. */
#ifndef ORK_ENGINE_NPU_RECOVER_H
#define ORK_ENGINE_NPU_RECOVER_H

#include "engine/npu/inner.h"

/* Nothing is taken until the owner has recovered; with too many faults, never again. */
void ork_npu_faulted(ork_npu *npu, uint32_t suspects);
/* The ladder: waits for what may still run, cancels it, tests the cores; resets and tests; gives up cores; switches the
 * engine off. Afterwards npu->health is WELL or OFF. Bounded. */
void ork_npu_recover(ork_npu *npu);
/* For callers: where time is virtual, until a recovery is over, for the real time that it takes must not show; else returns
 * at once. */
void ork_npu_recovered_wait(ork_npu *npu);
void ork_npu_switch_off(ork_npu *npu, const char *why);
/* Makes sure that nothing runs: recovers if there was a fault. If even resets do not help, what may still run is forgotten,
 * and its memory left to the driver. */
void ork_npu_idle_force(ork_npu *npu);
/* Releases weights that jobs might have read, once nothing runs, and says what is still withheld. */
void ork_npu_quarantine_update(ork_npu *npu);

#endif
