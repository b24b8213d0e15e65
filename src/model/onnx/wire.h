/* wire.h - fields of a protobuf message in a file or in memory, read without copying it.
 *
 * A message is a range of bytes. A cursor goes over its fields; a field that is a string, a message
 * or a list is again a range, which is only read where the caller asks for it. So weights are
 * skipped over, and nothing is allocated but one window. Every length is checked against the
 * message around it. Format: protobuf.dev/programming-guides/encoding. */
#ifndef WEIR_MODEL_ONNX_WIRE_H
#define WEIR_MODEL_ONNX_WIRE_H

#include "model/data/data.h"

/* Bytes [at, end) of the source. */
typedef struct weir_wire_range {
    uint64_t at, end;
} weir_wire_range;

/* Where the bytes come from: a file, or memory of the caller. */
typedef struct weir_wire_source {
    weir_file            file;  /* of the name alone if the bytes are in memory */
    const unsigned char *bytes; /* borrowed; NULL: a file */
    uint64_t             size;
    unsigned char       *window; /* of a file: its bytes [window_at, window_end); owned */
    uint64_t             window_at, window_end;
} weir_wire_source;

/* path NULL: n bytes in memory. ERR_IO, ERR_NOMEM; after a failure nothing is open. */
weir_status weir_wire_open(weir_wire_source *s, const char *what, const char *path,
                           const void *bytes, size_t n);
void        weir_wire_close(weir_wire_source *s);

/* Copies the range to `to`. ERR_IO if it is not there. */
weir_status weir_wire_copy(weir_wire_source *s, weir_wire_range from, void *to);

/* Copies `bytes` bytes at the offset `at` of the open file f. ERR_IO. */
weir_status weir_wire_pread(const weir_file *f, uint64_t at, void *to, size_t bytes);

/* "PATH: ..." with ERR_IO. */
weir_status weir_wire_fail(const weir_wire_source *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

typedef enum weir_wire_kind {
    WEIR_WIRE_NUMBER = 0, /* a varint */
    WEIR_WIRE_FIXED64 = 1,
    WEIR_WIRE_RANGE = 2,
    WEIR_WIRE_FIXED32 = 5
} weir_wire_kind;

typedef struct weir_wire_field {
    uint32_t        number;
    weir_wire_kind  kind;
    uint64_t        value; /* of numbers: the bits */
    weir_wire_range range; /* of the others */
} weir_wire_field;

/* A place inside a message. */
typedef struct weir_wire {
    weir_wire_source *from;
    uint64_t          at, end;
} weir_wire;

weir_wire weir_wire_over(weir_wire_source *s, weir_wire_range message);

/* The next field; *more is false at the end. ERR_IO for bytes that are no field. */
weir_status weir_wire_next(weir_wire *w, weir_wire_field *f, bool *more);

/* The next varint, or fixed number of `bytes` (4 or 8) bytes, of a packed list. */
weir_status weir_wire_varint(weir_wire *w, uint64_t *value);
weir_status weir_wire_fixed(weir_wire *w, int bytes, uint64_t *value);

#endif
