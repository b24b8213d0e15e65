/* encode.h - fields of a protobuf message in memory that grows. Defined in encode.c.
 *
 * A failed allocation is remembered: what follows is left out, and weir_message_check says so. */
#ifndef WEIR_MODEL_ONNX_WRITE_ENCODE_H
#define WEIR_MODEL_ONNX_WRITE_ENCODE_H

#include "weir.h"

typedef struct weir_message {
    unsigned char *at; /* owned */
    size_t         n, room;
    bool           failed;
} weir_message;

/* Appends a field: a whole number (negative ones take 10 bytes, as int64 does), a float, n bytes, a
 * text, another message, a list of numbers in one field. */
void weir_put_int(weir_message *m, uint32_t field, int64_t v);
void weir_put_float(weir_message *m, uint32_t field, float v);
void weir_put_bytes(weir_message *m, uint32_t field, const void *at, size_t n);
void weir_put_text(weir_message *m, uint32_t field, const char *text);
void weir_put_message(weir_message *m, uint32_t field, const weir_message *part);
void weir_put_ints(weir_message *m, uint32_t field, const int64_t *v, size_t n);

/* Appends the head alone of a field of n bytes, which the caller writes behind it. */
void weir_put_head(weir_message *m, uint32_t field, uint64_t n);

/* Appends bytes without a head. */
void weir_put_raw(weir_message *m, const void *at, size_t n);

/* ERR_NOMEM after a failed allocation. */
weir_status weir_message_check(const weir_message *m);
void        weir_message_free(weir_message *m);

#endif
