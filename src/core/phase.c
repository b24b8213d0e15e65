/* phase.c - the names of the phases, as dumps and profiles print them. */
#include "core/phase.h"

const char *const weir_phase_name[WEIR_PHASE_COUNT] = {
    [WEIR_FORWARD] = "forward", [WEIR_BACKWARD] = "backward", [WEIR_UPDATES] = "update"};
