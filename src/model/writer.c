/* writer.c - text that is counted first and written then. */
#include "model/writer.h"

#include <stdarg.h>
#include <stdio.h>

void weir_writer_add(weir_writer *w, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    const int n = vsnprintf(w->at ? w->at + w->n : NULL, w->at ? w->capacity - w->n : 0, format,
                            args);
    va_end(args);
    w->n += n > 0 ? (size_t)n : 0;
}

void weir_writer_string(weir_writer *w, const char *s)
{
    weir_writer_add(w, "\"");
    for (; *s; s++)
        if (*s == '"' || *s == '\\' || (unsigned char)*s < 0x20)
            weir_writer_add(w, "\\u%04x", (unsigned)(unsigned char)*s);
        else
            weir_writer_add(w, "%c", *s);
    weir_writer_add(w, "\"");
}
