/* header.h - the header of a safetensors file: names, types, shapes and places of its tensors.
 *
 * A file is 8 bytes of header size (little-endian), a JSON object, and the elements of all tensors
 * without holes, row-major and little-endian (github.com/huggingface/safetensors). Files are
 * hostile until they are read: every number is checked against the size of the file first.
 * Defined in header.c and header_write.c. */
#ifndef WEIR_MODEL_FILE_HEADER_H
#define WEIR_MODEL_FILE_HEADER_H

#include "model/data/data.h"

/* A tensor of the file. */
typedef struct weir_file_entry {
    const char *name;           /* in weir_header.text */
    const char *type;           /* the format's name of the dtype, static: "F32" */
    weir_desc   desc;
    bool        known;          /* desc.dtype is valid: Weir has the type */
    bool        taken;          /* for the caller: a tensor was found for it */
    uint64_t    begin, end;     /* bytes, from the first element of the file */
} weir_file_entry;

/* A line of __metadata__. */
typedef struct weir_note {
    const char *key, *value;
} weir_note;

typedef struct weir_header {
    char            *text;      /* decoded; owned, as all below */
    weir_file_entry *entry;     /* [entries], sorted by name */
    size_t           entries;
    weir_note       *note;      /* [notes], sorted by key */
    size_t           notes;
    uint64_t         elements;  /* where the elements begin in the file, in bytes */
} weir_header;

/* Reads and checks the header of the open file f: ERR_IO names the mistake, ERR_NOMEM. After a
 * failure nothing is left to free. Takes less than 7 bytes for each byte of the header, and 200. */
weir_status weir_header_read(weir_header *h, weir_file *f);
void        weir_header_free(weir_header *h);

/* The tensor of this name, or the value of this key; NULL if the file lacks it. */
weir_file_entry *weir_header_find(const weir_header *h, const char *name);
const char *weir_header_note(const weir_header *h, const char *key);

/* The whole number that the file f notes under the key. ERR_IO, said for a file of `writer`. */
weir_status weir_header_number(const weir_header *h, const weir_file *f, const char *writer,
                               const char *key, uint64_t *value);

/* Reads the elements of e from the file f. ERR_IO. */
weir_status weir_header_elements(const weir_header *h, weir_file *f, const weir_file_entry *e,
                                 void *to);

/* The text of a file's first bytes, size included, for `n` tensors with names in this order and
 * `notes` notes; *bytes is its length, a multiple of 8. The caller frees it by weir_host_free. NULL
 * if memory runs out or the header would have more than WEIR_HEADER_MAX bytes. */
char *weir_header_write(const weir_file_entry *entry, size_t n, const weir_note *note, size_t notes,
                        size_t *bytes);

/* The format's own limit, in bytes. */
#define WEIR_HEADER_MAX 100000000u

/* Writes "F32 (2, 3)" into buf. */
#define WEIR_SHAPE_TEXT 200
const char *weir_shape_text(const weir_desc *d, const char *type, char buf[WEIR_SHAPE_TEXT]);

/* The format's name of a dtype: "F32". */
const char *weir_type_name(weir_dtype t);

#endif
