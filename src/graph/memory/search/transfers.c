/* transfers.c - one copy after another in each direction: offloads as early as possible, prefetches
 * as late as possible. The step waits for as long as the latest offload is late, plus for as long
 * as the earliest prefetch would have to begin before its memory is free. Takes linear time. */
#include "graph/memory/search/transfers.h"

#include <math.h>

void weir_transfer_list_free(weir_transfer_list *t)
{
    weir_vec_free(&t->by_ready);
    weir_vec_free(&t->by_due);
}

bool weir_transfer_list_add(weir_transfer_list *t, const weir_transfer *transfer)
{
    if (!weir_vec_push(&t->by_ready, *transfer) || !weir_vec_push(&t->by_due, *transfer))
        return false;
    weir_transfer *const out = t->by_ready.at, *const in = t->by_due.at;
    for (uint32_t i = t->by_ready.n - 1; i > 0 && out[i - 1].ready > transfer->ready; i--) {
        out[i] = out[i - 1];
        out[i - 1] = *transfer;
    }
    for (uint32_t i = t->by_due.n - 1; i > 0 && in[i - 1].due > transfer->due; i--) {
        in[i] = in[i - 1];
        in[i - 1] = *transfer;
    }
    return true;
}

/* Adds an offload to a link that is idle from *idle on. */
static void add_offload(const weir_transfer *t, double *idle, double *late)
{
    *idle = fmax(*idle, t->ready) + t->out;
    *late = fmax(*late, *idle - t->from);
}

/* Adds a prefetch to a link that is idle until *idle. */
static void add_prefetch(const weir_transfer *t, double *idle, double *late)
{
    *idle = fmin(*idle, t->due) - t->in;
    *late = fmax(*late, t->to - *idle);
}

double weir_transfer_list_wait(const weir_transfer_list *t, const weir_transfer *more)
{
    double               out = 0, in = INFINITY, out_late = 0, in_late = 0;
    const weir_transfer *left = more;

    for (uint32_t i = 0; i < t->by_ready.n; i++) {
        if (left && left->ready < t->by_ready.at[i].ready) {
            add_offload(left, &out, &out_late);
            left = NULL;
        }
        add_offload(&t->by_ready.at[i], &out, &out_late);
    }
    if (left)
        add_offload(left, &out, &out_late);
    left = more;
    for (uint32_t i = t->by_due.n; i-- > 0;) {
        if (left && left->due >= t->by_due.at[i].due) {
            add_prefetch(left, &in, &in_late);
            left = NULL;
        }
        add_prefetch(&t->by_due.at[i], &in, &in_late);
    }
    if (left)
        add_prefetch(left, &in, &in_late);
    return out_late + in_late;
}
