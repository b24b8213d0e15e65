/* source.h - the CUDA source of a program of element-wise rows: one kernel, one pass over memory.
 *
 * A pure function. Sizes, strides and attributes are parameters of the kernel, not part of its
 * text, so that few distinct sources serve many calls. */
#ifndef WEIR_DEVICE_CUDA_CODEGEN_SOURCE_H
#define WEIR_DEVICE_CUDA_CODEGEN_SOURCE_H

#include "core/fused.h"
#include "core/text.h"

/* How an input is read: position i is element i; it is one element; else by that many axes. */
enum { WEIR_READ_DENSE = -1, WEIR_READ_SCALAR = 0 };

typedef struct weir_source {
    const weir_ew_program *program;
    weir_dtype             in[WEIR_EW_MAX_IN], out[WEIR_EW_MAX_OUT];    /* as stored */
    bool                   large;           /* positions of 64 bits: 2^31 elements or more */
    int                    read[WEIR_EW_MAX_IN];
} weir_source;

/* A parameter: 8 bytes. They follow each other as weir_source_fields lists them. */
typedef enum weir_field_kind {
    WEIR_FIELD_COUNT,       /* of elements */
    WEIR_FIELD_WIDE,        /* how to read WEIR_WIDTH positions: enum below */
    WEIR_FIELD_IN,          /* address of input `index` */
    WEIR_FIELD_OUT,         /* address of output `index` */
    WEIR_FIELD_S,           /* of step `index`: an attribute as weir_source_attr writes it */
    WEIR_FIELD_T,
    WEIR_FIELD_SEED,        /* of draws, unless DRAW says otherwise */
    WEIR_FIELD_DRAW,        /* NULL, or device memory {seed, position to be added to all RNGs} */
    WEIR_FIELD_RNG,         /* of step `index`: first block of its draw */
    WEIR_FIELD_STRIDE,      /* of axis `axis` of input `index`, in elements */
    WEIR_FIELD_DIM,         /* its size; not of the outermost one, axis 0 */
    WEIR_FIELD_MAGIC        /* for divisions by that: weir_source_magic */
} weir_field_kind;

/* Bits of WIDE. i: those of input i lie side by side at a multiple of 16 bytes; 16 + i: those of
 * output i do; 32 + i: they are one element of input i. */
enum { WEIR_WIDE_OUT = 16, WEIR_WIDE_SAME = 32 };

typedef struct weir_field {
    weir_field_kind kind;
    int             index, axis;
} weir_field;

enum { WEIR_FIELDS = 5 + WEIR_EW_MAX_IN * (1 + 3 * WEIR_MAX_DIMS) + WEIR_EW_MAX_OUT +
                     3 * WEIR_EW_MAX_STEPS };

/* The parameters of the kernel; returns how many. */
int weir_source_fields(const weir_source *s, weir_field field[WEIR_FIELDS]);

/* The name of a generated kernel. */
#define WEIR_SOURCE_KERNEL "weir_row"

/* Elements that a thread computes at once; threads of a block are WEIR_CUDA_THREADS. */
int weir_source_width(const weir_source *s);

/* Do all steps have a row of their type? If not, *op is one that has none. */
bool weir_source_has(const weir_ew_program *p, weir_op *op);

/* Adds what is special to this kernel; the text of weir_source_begin comes before it. */
void weir_source_add(const weir_source *s, weir_string *text);

/* The same beginning for all kernels: core's arithmetic. Of *n bytes, terminated. */
const char *weir_source_begin(size_t *n);

/* "relu, add" */
void weir_source_names(const weir_ew_program *p, weir_string *text);

uint64_t weir_source_attr(weir_dtype type, double v);
uint64_t weir_source_magic(int64_t dim);

#endif
