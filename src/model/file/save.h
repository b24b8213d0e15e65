/* save.h - how the tensors of a model or a run are laid out in one file, for save.c and ranks.c. */
#ifndef WEIR_MODEL_FILE_SAVE_H
#define WEIR_MODEL_FILE_SAVE_H

#include "model/file/items.h"
#include "model/file/replace.h"

/* Bytes of the item's elements. */
uint64_t weir_save_bytes(const weir_file_item *item);

/* Puts the items that have elements, in the order of the file, at the front of l->list; *n is their
 * number. ERR_INVALID for two of one name. */
weir_status weir_save_arrange(weir_file_items *l, size_t *n);

/* Reads the elements of an item into `to`. */
weir_status weir_save_read(const weir_file_items *l, const weir_file_item *item, void *to);

/* Writes header and elements of the first n items. */
weir_status weir_save_write(const weir_file_items *l, size_t n, const weir_note *note, size_t notes,
                            weir_output *o);

/* weir_run_save of one process. */
weir_status weir_save_alone(const weir_run *run, const char *path,
                            const weir_save_options *options);

/* What a run writes down beside its tensors: format, method, step, random stream, reader. */
enum { WEIR_RUN_NOTES = 5 + WEIR_READER_NUMBERS };

typedef struct weir_run_notes {
    weir_note note[WEIR_RUN_NOTES];
    size_t    n;
    char      method[WEIR_METHOD_TEXT], number[WEIR_RUN_NOTES][24];
} weir_run_notes;

/* The notes point into *notes. ERR_INVALID for a step below 0. */
weir_status weir_run_notes_make(weir_run_notes *notes, const weir_run *run);

#endif
