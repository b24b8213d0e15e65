/* writer.h - text that is counted first and written then: headers of files, summaries. */
#ifndef WEIR_MODEL_WRITER_H
#define WEIR_MODEL_WRITER_H

#include <stddef.h>

/* at NULL: counts only. n grows by what add would write, whatever the capacity. */
typedef struct weir_writer {
    char  *at;
    size_t n, capacity;
} weir_writer;

__attribute__((format(printf, 2, 3))) void weir_writer_add(weir_writer *w, const char *format, ...);

/* s in the quotes and escapes of JSON. */
void weir_writer_string(weir_writer *w, const char *s);

#endif
