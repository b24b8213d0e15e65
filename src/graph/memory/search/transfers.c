/* transfers.c - one copy after another in each direction: offloads as early as possible, prefetches
 * as late as possible. The step waits for as long as the latest offload is late, plus for as long
 * as the earliest prefetch would have to begin before its memory is free. Takes linear time. */
#include "graph/memory/search/transfers.h"

#include <math.h>

void weir_transfer_list_free(weir_transfer_list *t)
{
    weir_vec_free(&t->leave);
    weir_vec_free(&t->come);
}

bool weir_transfer_list_add(weir_transfer_list *t, const weir_transfer *transfer)
{
    if (!weir_vec_push(&t->leave, *transfer) || !weir_vec_push(&t->come, *transfer))
        return false;
    for (uint32_t i = t->leave.n - 1; i > 0 && t->leave.at[i - 1].ready > transfer->ready; i--) {
        t->leave.at[i] = t->leave.at[i - 1];
        t->leave.at[i - 1] = *transfer;
    }
    for (uint32_t i = t->come.n - 1; i > 0 && t->come.at[i - 1].due > transfer->due; i--) {
        t->come.at[i] = t->come.at[i - 1];
        t->come.at[i - 1] = *transfer;
    }
    return true;
}

/* Adds an offload to a link that is idle from *idle on. */
static void leave(const weir_transfer *t, double *idle, double *late)
{
    *idle = fmax(*idle, t->ready) + t->out;
    *late = fmax(*late, *idle - t->from);
}

/* Adds a prefetch to a link that is idle until *idle. */
static void come(const weir_transfer *t, double *idle, double *late)
{
    *idle = fmin(*idle, t->due) - t->in;
    *late = fmax(*late, t->to - *idle);
}

double weir_transfer_list_wait(const weir_transfer_list *t, const weir_transfer *more)
{
    double               out = 0, in = INFINITY, out_late = 0, in_late = 0;
    const weir_transfer *left = more;

    for (uint32_t i = 0; i < t->leave.n; i++) {
        if (left && left->ready < t->leave.at[i].ready) {
            leave(left, &out, &out_late);
            left = NULL;
        }
        leave(&t->leave.at[i], &out, &out_late);
    }
    if (left)
        leave(left, &out, &out_late);
    left = more;
    for (uint32_t i = t->come.n; i-- > 0;) {
        if (left && left->due >= t->come.at[i].due) {
            come(left, &in, &in_late);
            left = NULL;
        }
        come(&t->come.at[i], &in, &in_late);
    }
    if (left)
        come(left, &in, &in_late);
    return out_late + in_late;
}
