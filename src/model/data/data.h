/* data.h - shared by the loaders: construction of a data set, and files that are checked first.
 * Defined in data.c and file.c. */
#ifndef WEIR_MODEL_DATA_DATA_H
#define WEIR_MODEL_DATA_DATA_H

#include "weir.h"

/* Sample i is elements [i * elements, (i + 1) * elements) of value; its labels lie in label alike.
 * A text's labels are its values one byte on: label is then value + 1. Exactly one of label and
 * real is there if labels > 0. */
struct weir_data {
    weir_desc sample;           /* of type u8 or f32 */
    int64_t   n, elements, labels, classes;
    void     *value;            /* owned */
    uint8_t  *label;            /* owned unless the data set is a text */
    double   *real;             /* owned: the label column of a CSV file */
    bool      text;
};

/* Creates a data set of n samples (n >= 1, dims >= 1), with memory for values if `values`; NULL
 * after a failure. The caller owns it and has checked the sizes against a file. */
weir_data *weir_data_new(weir_desc sample, int64_t n, bool values);

/* An open regular file. what: the loader, for messages. */
typedef struct weir_file {
    const char *what, *path;
    int         fd;
    uint64_t    size, at;       /* bytes in all, bytes read */
} weir_file;

/* Opens a regular file; fails with ERR_IO. After a failure nothing is open. Closing twice is
 * allowed. */
weir_status weir_file_open(weir_file *f, const char *what, const char *path);
void        weir_file_close(weir_file *f);

/* Reads the next `bytes` bytes into `to`; fails with ERR_IO if the file ends before. */
weir_status weir_file_read(weir_file *f, void *to, size_t bytes);

/* Goes back to the first byte. ERR_IO. */
weir_status weir_file_rewind(weir_file *f);

/* Sets the message "WHAT: PATH: ..." and returns ERR_IO. */
weir_status weir_file_fail(const weir_file *f, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
