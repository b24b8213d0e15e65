/* kind.c - the names of the kinds of memory, as dumps and messages print them. */
#include "core/kind.h"

const char *const weir_kind_name[WEIR_KIND_COUNT] = {
    [WEIR_KIND_PARAM] = "param",           [WEIR_KIND_STATE] = "state",
    [WEIR_KIND_INPUT] = "input",           [WEIR_KIND_OUTPUT] = "output",
    [WEIR_KIND_ACTIVATION] = "activation", [WEIR_KIND_GRADIENT] = "gradient",
    [WEIR_KIND_WORKSPACE] = "workspace",
};
