/* source.h - the CUDA source of a program of element-wise rows: one kernel, one pass over memory.
 *
 * A pure function. Sizes, strides and attributes are parameters of the kernel rather than text, so
 * few distinct sources serve many calls. */
#ifndef WEIR_DEVICE_CUDA_CODEGEN_SOURCE_H
#define WEIR_DEVICE_CUDA_CODEGEN_SOURCE_H

#include "core/fused.h"
#include "core/text.h"

/* How an input is read: position i is element i; a single element; else through that many axes. */
enum { WEIR_READ_DENSE = -1, WEIR_READ_SCALAR = 0 };

typedef struct weir_source {
    const weir_ew_program *program;
    weir_dtype             in[WEIR_EW_MAX_IN], out[WEIR_EW_MAX_OUT];    /* stored types */
    bool                   large;           /* 64-bit positions: 2^31 elements or more */
    int                    read[WEIR_EW_MAX_IN];
} weir_source;

/* A parameter of 8 bytes; their order is that of weir_source_fields. */
typedef enum weir_field_kind {
    WEIR_FIELD_COUNT,       /* number of elements */
    WEIR_FIELD_WIDE,        /* how WEIR_WIDTH positions are read: bits below */
    WEIR_FIELD_IN,          /* address of input `index` */
    WEIR_FIELD_OUT,         /* address of output `index` */
    WEIR_FIELD_S,           /* attribute of step `index`, encoded by weir_source_attr */
    WEIR_FIELD_T,
    WEIR_FIELD_SEED,        /* seed of draws, unless DRAW overrides it */
    WEIR_FIELD_DRAW,        /* NULL, or device memory {seed, position added to all RNGs} */
    WEIR_FIELD_RNG,         /* first block of the draw of step `index` */
    WEIR_FIELD_STRIDE,      /* stride of axis `axis` of input `index`, in elements */
    WEIR_FIELD_DIM,         /* size of that axis; not for the outermost one, axis 0 */
    WEIR_FIELD_MAGIC        /* for divisions by that size: weir_source_magic */
} weir_field_kind;

/* Bits of WIDE. i: input i is contiguous at a multiple of 16 bytes; 16 + i: output i is; 32 + i:
 * all positions read one element of input i. */
enum { WEIR_WIDE_OUT = 16, WEIR_WIDE_SAME = 32 };

typedef struct weir_field {
    weir_field_kind kind;
    int             index, axis;
} weir_field;

enum { WEIR_FIELDS = 5 + WEIR_EW_MAX_IN * (1 + 3 * WEIR_MAX_DIMS) + WEIR_EW_MAX_OUT +
                     3 * WEIR_EW_MAX_STEPS };

/* Lists the kernel's parameters; returns their number. */
int weir_source_fields(const weir_source *s, weir_field field[WEIR_FIELDS]);

/* The name of a generated kernel. */
#define WEIR_SOURCE_KERNEL "weir_row"

/* Elements per thread and step; a block has WEIR_CUDA_THREADS threads. */
int weir_source_width(const weir_source *s);

/* True if all steps have a row of their type; else *op is one that has none. */
bool weir_source_has(const weir_ew_program *p, weir_op *op);

/* Adds the text that is specific to this kernel; that of weir_source_begin precedes it. */
void weir_source_add(const weir_source *s, weir_string *text);

/* The common beginning of all kernels, core's arithmetic: *n bytes, terminated. */
const char *weir_source_begin(size_t *n);

/* Adds the names of the steps: "relu, add". */
void weir_source_names(const weir_ew_program *p, weir_string *text);

uint64_t weir_source_attr(weir_dtype type, double v);
uint64_t weir_source_magic(int64_t dim);

#endif
