/* staging.c - reorders elements on the host and transfers them in one copy. See staging.h. */
#include "device/common/staging.h"

#include <string.h>

#include "core/dtype.h"
#include "core/mem.h"
#include "device/common/div.h"
#include "device/common/memory_order.h"

/* Elements in the device's order and in the host's; inwards: from the host's to the device's. */
typedef struct reorder {
    char   *device, *host;
    size_t  size;
    bool    inwards;
    int     naxis;
    int64_t dim[WEIR_MAX_DIMS], at[WEIR_MAX_DIMS], there[WEIR_MAX_DIMS];    /* strides of both */
    int64_t rows, task;         /* rows along the last axis; rows of a task */
} reorder;

static void move(char *to, const char *from, size_t size, int64_t n, int64_t to_step,
                 int64_t from_step)
{
    for (int64_t i = 0; i < n; i++)
        memcpy(to + (size_t)(i * to_step) * size, from + (size_t)(i * from_step) * size, size);
}

static void row(const reorder *r, int64_t index)
{
    const int last = r->naxis - 1;
    int64_t   at = 0, there = 0;

    for (int k = last - 1; k >= 0; k--) {
        const int64_t i = index % r->dim[k];
        at += i * r->at[k];
        there += i * r->there[k];
        index /= r->dim[k];
    }
    char *const device = r->device + at * (int64_t)r->size;
    char *const host = r->host + there * (int64_t)r->size;
    if (r->inwards)
        move(device, host, r->size, r->dim[last], r->at[last], r->there[last]);
    else
        move(host, device, r->size, r->dim[last], r->there[last], r->at[last]);
}

static void rows(void *ctx, int64_t task)
{
    const reorder *const r = ctx;

    for (int64_t i = task * r->task; i < min64(r->rows, (task + 1) * r->task); i++)
        row(r, i);
}

/* device: address of element 0 within the buffer. */
static void run(weir_device *d, const weir_layout *l, char *device, char *host, bool inwards)
{
    reorder r = {.device = device, .host = host, .inwards = inwards, .rows = 1,
                 .size = weir_dtype_size(l->desc.dtype)};
    int64_t dense[WEIR_MAX_DIMS];
    int     order[WEIR_MAX_DIMS];

    weir_shape_row_major(&l->desc, dense);
    r.naxis = axes_in_memory_order(l, order);
    for (int k = 0; k < r.naxis; k++) {
        r.dim[k] = l->desc.dim[order[k]];
        r.at[k] = l->stride[order[k]];
        r.there[k] = dense[order[k]];
        r.rows *= k < r.naxis - 1 ? r.dim[k] : 1;
    }
    if (r.naxis == 0)           /* one element */
        r.dim[r.naxis++] = 1;
    r.task = rows_per_task(r.dim[r.naxis - 1]);
    weir_parallel(d->threads, ceil_div(r.rows, r.task), rows, &r);
}

/* Elements from the first in memory to the last; *before: of those, the ones before element 0. */
static int64_t span(const weir_layout *l, int64_t *before)
{
    int64_t low = 0, high = 0;

    for (int i = 0; i < l->desc.ndim; i++) {
        const int64_t reach = (l->desc.dim[i] - 1) * l->stride[i];
        low += reach < 0 ? reach : 0;
        high += reach > 0 ? reach : 0;
    }
    *before = -low;
    return high - low + 1;
}

void weir_staging_free(weir_device *d)
{
    weir_mem_pages_free(d->staging.at, d->staging.bytes);
    d->staging.at = NULL;
    d->staging.bytes = 0;
}

/* The buffer is kept: new pages would cost a step that writes its inputs more than the copy. */
static char *buffer_of(weir_device *d, size_t bytes)
{
    if (d->staging.bytes >= bytes)
        return d->staging.at;
    weir_staging_free(d);
    d->staging.at = weir_mem_pages(bytes, false);
    d->staging.bytes = d->staging.at ? bytes : 0;
    return d->staging.at;
}

static weir_status staging(weir_device *d, const weir_layout *l, char *at, char *host, bool inwards)
{
    const int64_t n = weir_shape_count(&l->desc);
    const size_t  size = weir_dtype_size(l->desc.dtype);
    int64_t       before;

    if (n == 0)
        return WEIR_OK;
    const int64_t reach = span(l, &before);
    const size_t  bytes = (size_t)reach * size;
    char *const   buffer = buffer_of(d, bytes);
    char *const   first = at - before * (int64_t)size;
    if (!buffer)
        return WEIR_ERR_NOMEM;
    weir_status status = WEIR_OK;
    if (!inwards || reach != n)
        status = d->ops->download(d, buffer, first, bytes);
    if (status == WEIR_OK)
        run(d, l, buffer + (size_t)before * size, host, inwards);
    if (status == WEIR_OK && inwards)
        status = d->ops->upload(d, first, buffer, bytes);
    return status;
}

/* Removes const; `inwards` decides which of the two buffers is written. */
static char *plain(const void *p)
{
    char *q;

    memcpy(&q, &p, sizeof q);
    return q;
}

weir_status weir_staging_to(weir_device *d, const weir_layout *l, void *at, const void *host)
{
    return staging(d, l, at, plain(host), true);
}

weir_status weir_staging_from(weir_device *d, const weir_layout *l, const void *at, void *host)
{
    return staging(d, l, plain(at), host, false);
}
