/* phase.h - the three parts of a training step, in the order in which they run. */
#ifndef WEIR_CORE_PHASE_H
#define WEIR_CORE_PHASE_H

typedef enum weir_phase { WEIR_FORWARD, WEIR_BACKWARD, WEIR_UPDATES, WEIR_PHASE_COUNT } weir_phase;

extern const char *const weir_phase_name[WEIR_PHASE_COUNT];

#endif
