/* kind.h - kinds of memory by their content, for counting bytes. */
#ifndef WEIR_CORE_KIND_H
#define WEIR_CORE_KIND_H

typedef enum weir_kind {
    WEIR_KIND_PARAM, WEIR_KIND_STATE, WEIR_KIND_INPUT, WEIR_KIND_OUTPUT,    /* persistent */
    WEIR_KIND_ACTIVATION, WEIR_KIND_GRADIENT, WEIR_KIND_WORKSPACE,          /* in the arena */
    WEIR_KIND_COUNT
} weir_kind;

extern const char *const weir_kind_name[WEIR_KIND_COUNT];

#endif
