/* items.h - the tensors of a model or a run with the names that they have in a file. */
#ifndef WEIR_MODEL_FILE_ITEMS_H
#define WEIR_MODEL_FILE_ITEMS_H

#include "model/file/sources.h"
#include "model/optim.h"

typedef enum weir_file_kind {
    WEIR_FILE_PLAIN,            /* must be in the file */
    WEIR_FILE_LR,               /* the optimiser's rate, on the host; must be in the file */
    WEIR_FILE_RATE,             /* a tensor that schedules write: may be absent */
    WEIR_FILE_PART,             /* an optimiser's state: absent with the parameter's others */
    WEIR_FILE_SUM               /* a sum of gradients: may be absent */
} weir_file_kind;

enum { WEIR_FILE_NAME = WEIR_NAME_MAX + 48 };

typedef struct weir_file_item {
    weir_file_kind   kind;
    char             name[WEIR_FILE_NAME];
    weir_desc        desc;
    weir_tensor     *tensor;    /* borrowed; NULL: not made yet */
    weir_tensor     *param;     /* of a part and a sum: whose it is */
    weir_file_entry *entry;     /* what the file has for it, borrowed; NULL: nothing */
    weir_file_source *from;     /* the file that has it */
} weir_file_item;

/* Owned items, and where they come from, borrowed. */
typedef struct weir_file_items {
    const char  *what;          /* the function, for messages */
    weir_model  *model;         /* of a run, as optim; NULL for a model alone */
    weir_optim  *optim;         /* or NULL */
    weir_list    list;          /* of weir_file_item */
} weir_file_items;

/* Collects the tensors of a model, or of all parts of a run. Free the items even after a failure.
 */
weir_status weir_items_of_model(weir_file_items *l, const char *what, const weir_model *m);
weir_status weir_items_of_run(weir_file_items *l, const char *what, const weir_run *run);
void        weir_items_free(weir_file_items *l);

/* The numbers of a reader's place, and their keys in __metadata__, in one order. */
enum { WEIR_READER_NUMBERS = 7 };
extern const char *const weir_reader_key[WEIR_READER_NUMBERS];
void weir_reader_numbers(const weir_batches_state *at, uint64_t number[WEIR_READER_NUMBERS]);
void weir_reader_place(const uint64_t number[WEIR_READER_NUMBERS], weir_batches_state *at);

static inline weir_file_item *weir_items_at(const weir_file_items *l, size_t i)
{
    return l->list.at[i];
}

#endif
