/* transfer.c - see transfer.h.
 *
 * Copies pass through two pinned buffers in turn, so that one is filled while the other is copied,
 * whatever memory the caller has, and so that an upload need not be waited for. */
#include "device/cuda/runtime/transfer.h"

#include "device/cuda/runtime/stream.h"

enum { BUFFERS = 2, CANARY = 0xa5 };

#define BUFFER_BYTES ((size_t)4 << 20)

struct weir_cuda_transfers {
    struct {
        char       *at;
        cudaEvent_t done;           /* the last copy that reads the buffer */
    } buffer[BUFFERS];
    int next;
};

static weir_status open_buffers(struct weir_cuda_transfers *t)
{
    for (int i = 0; i < BUFFERS; i++) {
        WEIR_CUDA_TRY(NULL, cudaHostAlloc((void **)&t->buffer[i].at, BUFFER_BYTES,
                                          cudaHostAllocDefault));
        WEIR_CUDA_TRY(NULL, cudaEventCreateWithFlags(&t->buffer[i].done, cudaEventDisableTiming));
    }
    return WEIR_OK;
}

/* Opened whole or not at all. */
static weir_status open_transfers(const weir_device *d)
{
    weir_cuda_context *const u = weir_cuda_context_of(d);

    weir_cuda_here(d);
    if (u->transfers)
        return WEIR_OK;
    if (!(u->transfers = weir_mem_zalloc(1, sizeof *u->transfers)))
        return WEIR_ERR_NOMEM;
    const weir_status status = open_buffers(u->transfers);
    if (status != WEIR_OK)
        weir_cuda_transfers_close(u);
    return status;
}

void weir_cuda_transfers_close(weir_cuda_context *u)
{
    struct weir_cuda_transfers *const t = u->transfers;

    for (int i = 0; t && i < BUFFERS; i++) {
        (void)cudaFreeHost(t->buffer[i].at);
        if (t->buffer[i].done)
            (void)cudaEventDestroy(t->buffer[i].done);
    }
    weir_mem_free(t);
    u->transfers = NULL;
}

weir_status weir_cuda_fill_bytes(weir_device *d, void *p, int byte, size_t n)
{
    WEIR_CUDA_TRY(NULL, cudaMemsetAsync(p, byte, n, weir_cuda_compute(d)));
    return weir_cuda_queued(d, "fill");
}

static weir_status upload_some(weir_device *d, char *to, const char *from, size_t n)
{
    struct weir_cuda_transfers *const t = weir_cuda_context_of(d)->transfers;
    const int                         i = t->next;
    const cudaStream_t                stream = weir_cuda_compute(d);

    t->next = (i + 1) % BUFFERS;
    WEIR_CUDA_TRY(NULL, cudaEventSynchronize(t->buffer[i].done));
    memcpy(t->buffer[i].at, from, n);
    WEIR_CUDA_TRY(NULL, cudaMemcpyAsync(to, t->buffer[i].at, n, cudaMemcpyHostToDevice, stream));
    WEIR_CUDA_TRY(NULL, cudaEventRecord(t->buffer[i].done, stream));
    return WEIR_OK;
}

weir_status weir_cuda_upload(weir_device *d, void *to, const void *from, size_t n)
{
    WEIR_TRY(open_transfers(d));
    for (size_t at = 0; at < n; at += BUFFER_BYTES)
        WEIR_TRY(upload_some(d, (char *)to + at, (const char *)from + at,
                             n - at < BUFFER_BYTES ? n - at : BUFFER_BYTES));
    return weir_cuda_queued(d, "upload");
}

weir_status weir_cuda_download(weir_device *d, void *to, const void *from, size_t n)
{
    WEIR_TRY(open_transfers(d));
    struct weir_cuda_transfers *const t = weir_cuda_context_of(d)->transfers;
    const cudaStream_t                stream = weir_cuda_compute(d);
    char *const                       buffer = t->buffer[t->next].at;

    for (size_t at = 0; at < n; at += BUFFER_BYTES) {
        const size_t some = n - at < BUFFER_BYTES ? n - at : BUFFER_BYTES;
        WEIR_CUDA_TRY(NULL, cudaMemcpyAsync(buffer, (const char *)from + at, some,
                                            cudaMemcpyDeviceToHost, stream));
        WEIR_CUDA_TRY(NULL, cudaStreamSynchronize(stream));
        memcpy((char *)to + at, buffer, some);
    }
    return d->ops->sync(d);
}

weir_status weir_cuda_paint(weir_device *d, void *p, size_t n)
{
    return weir_cuda_fill_bytes(d, p, CANARY, n);
}

/* Searches from the end, a buffer at a time, because most of an arena is used. */
weir_status weir_cuda_painted(weir_device *d, const void *p, size_t n, size_t *end)
{
    unsigned char *const host = weir_mem_alloc(BUFFER_BYTES);
    bool                 found = false;
    weir_status          s = host ? WEIR_OK : WEIR_ERR_NOMEM;

    while (s == WEIR_OK && n > 0 && !found) {
        const size_t some = n < BUFFER_BYTES ? n : BUFFER_BYTES;
        size_t       left = some;
        s = weir_cuda_download(d, host, (const char *)p + (n - some), some);
        while (left > 0 && host[left - 1] == CANARY)
            left--;
        found = left > 0;
        n = n - some + left;
    }
    weir_mem_free(host);
    *end = n;
    return s;
}
