/* memory.cpp - the emulated card's memory, pinned host memory, copies and fills.
 *
 * New and freed memory is filled with 0xff, which is NaN in every float type. After each allocation
 * there are bytes that must still be 0xff when it is freed. With WEIR_EMULATED_GUARD=1 each
 * allocation ends at an inaccessible page, and the host cannot access any: a stray access then
 * crashes where it happens. Ranges of copies and fills must lie inside one allocation. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>

#include "inject.h"
#include "runtime.h"

namespace {

enum { ALIGN = 256, TAIL = 256 };

struct block {
    int    card;
    size_t bytes, charged; /* requested; charged, a multiple of ALIGN */
    char  *mapped;         /* guarded memory; NULL: from the heap */
    size_t mapped_bytes;
};

std::map<const char *, block>  blocks;
std::map<const char *, size_t> pinned;      /* host ranges */
std::map<const char *, size_t> registered;  /* those that the program allocated */
size_t                         used[EMULATE_MOST_CARDS];
int                            opened;      /* depth of emulate_access */

bool guarded(void)
{
    static const char *const asked = getenv("WEIR_EMULATED_GUARD");
    return asked && strcmp(asked, "1") == 0;
}

size_t page(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

size_t round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

char *guarded_new(block *b)
{
    b->mapped_bytes = round_up(b->charged, page()) + page();
    b->mapped = (char *)mmap(NULL, b->mapped_bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (b->mapped == MAP_FAILED)
        return NULL;
    char *const end = b->mapped + b->mapped_bytes - page();
    mprotect(end, page(), PROT_NONE);
    return end - b->charged;
}

cudaError_t block_new(void **out, size_t bytes)
{
    block        b = {emulate_card(), bytes, round_up(bytes, ALIGN), NULL, 0};
    const size_t capacity = emulate_bytes();

    *out = NULL;
    if (bytes == 0)
        return cudaSuccess;
    if (bytes > capacity || b.charged > capacity || used[b.card] > capacity - b.charged)
        return cudaErrorMemoryAllocation;
    char *const p = guarded() ? guarded_new(&b) : (char *)aligned_alloc(ALIGN, b.charged + TAIL);
    if (!p)
        return cudaErrorMemoryAllocation;
    memset(p, 0xff, b.charged + (b.mapped ? 0 : TAIL));
    blocks[p] = b;
    used[b.card] += b.charged;
    *out = p;
    if (b.mapped && !opened)
        mprotect(b.mapped, b.mapped_bytes - page(), PROT_NONE);
    return cudaSuccess;
}

void check_tail(const char *p, const block *b)
{
    for (size_t i = b->bytes; i < b->charged + (b->mapped ? 0 : TAIL); i++)
        if ((unsigned char)p[i] != 0xff) {
            fprintf(stderr, "emulated card: byte %zu behind an allocation of %zu bytes was "
                    "written\n", i - b->bytes, b->bytes);
            abort();
        }
}

void block_free(char *p, const block *b)
{
    if (b->mapped)
        mprotect(b->mapped, b->mapped_bytes - page(), PROT_READ | PROT_WRITE);
    check_tail(p, b);
    used[b->card] -= b->charged;
    if (b->mapped) {
        munmap(b->mapped, b->mapped_bytes);
        return;
    }
    memset(p, 0xff, b->charged);
    free(p);
}

/* The range that contains p, or end(). */
template <class T>
typename std::map<const char *, T>::iterator range_of(std::map<const char *, T> &in, const char *p)
{
    auto at = in.upper_bound(p);
    return at == in.begin() ? in.end() : --at;
}

/* Bytes from the beginning of the first row to the end of the last. */
size_t extent(size_t pitch, size_t width, size_t height)
{
    return (height - 1) * pitch + width;
}

bool is_host(const void *p, size_t bytes)
{
    return !emulate_touches_card(p) && !emulate_touches_card((const char *)p + bytes - 1);
}

/* Is p in memory of this card? Cards do not reach each other's memory here: no work that a stream
 * is given needs that. */
bool is_of(const void *p, int card)
{
    const auto at = range_of(blocks, (const char *)p);
    return at != blocks.end() && at->second.card == card;
}

/* Determines which ends are on the card, and checks that this agrees with the kind. */
cudaError_t place(emulate_copy *c, cudaMemcpyKind kind)
{
    if (c->to_pitch < c->width || c->from_pitch < c->width)
        return cudaErrorInvalidPitchValue;
    const size_t to = extent(c->to_pitch, c->width, c->height);
    const size_t from = extent(c->from_pitch, c->width, c->height);
    if (kind == cudaMemcpyDefault) {
        c->to_card = emulate_touches_card(c->to);
        c->from_card = emulate_touches_card(c->from);
    } else if (kind == cudaMemcpyHostToHost || kind == cudaMemcpyHostToDevice ||
               kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice) {
        c->to_card = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
        c->from_card = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    } else {
        return cudaErrorInvalidMemcpyDirection;
    }
    const bool sound = (c->to_card ? emulate_on_card(c->to, to) : is_host(c->to, to)) &&
                       (c->from_card ? emulate_on_card(c->from, from) : is_host(c->from, from));
    return sound ? cudaSuccess : cudaErrorInvalidValue;
}

/* A copy that contains the host's bytes, which may change from now on. */
emulate_work *staging_copy(const emulate_copy *c)
{
    emulate_work *const w = emulate_work_new(COPY, c->width * c->height);

    w->copy = *c;
    w->copy.from = w->more;
    w->copy.from_pitch = c->width;
    for (size_t row = 0; row < c->height; row++)
        memcpy(w->more + row * c->width, c->from + row * c->from_pitch, c->width);
    return w;
}

/* Pageable memory is read at once, and written before the call returns. */
cudaError_t copy(emulate_copy c, cudaMemcpyKind kind, emulate_stream *s, bool async)
{
    if (!s)
        return cudaErrorInvalidResourceHandle;
    if (c.width == 0 || c.height == 0)
        return cudaSuccess;
    cudaError_t e = place(&c, kind);
    if (e == cudaSuccess && ((c.to_card && !is_of(c.to, s->card)) ||
                             (c.from_card && !is_of(c.from, s->card))))
        e = cudaErrorInvalidValue;
    if (e == cudaSuccess)
        e = emulate_implicit(s);
    if (e == cudaSuccess && !async)
        e = emulate_unsafe_on(s);
    if (e != cudaSuccess)
        return e;
    const bool from_pinned = emulate_pinned(c.from, extent(c.from_pitch, c.width, c.height));
    const bool to_pinned = emulate_pinned(c.to, extent(c.to_pitch, c.width, c.height));
    const bool pageable_upload = !c.from_card && !from_pinned && c.to_card && !s->capture;
    emulate_work *const w = pageable_upload ? staging_copy(&c) : emulate_work_new(COPY, 0);
    if (!pageable_upload)
        w->copy = c;
    const emulate_mark end = emulate_push(s, w);
    if (s->capture || pageable_upload || (c.from_card && c.to_card))
        return cudaSuccess;
    if (async && (c.to_card || to_pinned) && (c.from_card || from_pinned))
        return cudaSuccess;
    return emulate_wait(end);
}

cudaError_t fill(void *to, size_t pitch, int byte, size_t width, size_t height, emulate_stream *s,
                 bool async)
{
    if (!s)
        return cudaErrorInvalidResourceHandle;
    if (width == 0 || height == 0)
        return cudaSuccess;
    const size_t bytes = extent(pitch, width, height);
    if (!emulate_on_card(to, bytes) && !emulate_pinned(to, bytes))
        return cudaErrorInvalidValue;
    if (emulate_touches_card(to) && !is_of(to, s->card))
        return cudaErrorInvalidValue;
    cudaError_t e = emulate_implicit(s);
    if (e == cudaSuccess && !async)
        e = emulate_unsafe_on(s);
    if (e != cudaSuccess)
        return e;
    emulate_work *const w = emulate_work_new(FILL, 0);
    w->copy = {(char *)to, NULL, pitch, 0, width, height, emulate_touches_card(to), false};
    w->byte = byte;
    emulate_push(s, w);
    return cudaSuccess;
}

/* A copy of one row, or of several. */
emulate_copy rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                  size_t height)
{
    return {(char *)to, (const char *)from, to_pitch, from_pitch, width, height, false, false};
}

cudaError_t host_new(void **p, size_t bytes)
{
    *p = NULL;
    if (emulate_cards() == 0)
        return cudaErrorNoDevice;
    const cudaError_t e = emulate_unsafe();
    if (e != cudaSuccess)
        return e;
    if (bytes == 0)
        return cudaSuccess;
    *p = bytes < SIZE_MAX / 2 ? aligned_alloc(page(), round_up(bytes, page())) : NULL;
    if (!*p)
        return cudaErrorMemoryAllocation;
    memset(*p, 0xff, bytes);
    pinned[(char *)*p] = bytes;
    return cudaSuccess;
}

}

bool emulate_touches_card(const void *p)
{
    const auto at = range_of(blocks, (const char *)p);
    return at != blocks.end() && (const char *)p < at->first + at->second.charged;
}

bool emulate_on_card(const void *p, size_t bytes)
{
    const auto at = range_of(blocks, (const char *)p);
    return at != blocks.end() && (const char *)p + bytes <= at->first + at->second.bytes;
}

bool emulate_pinned(const void *p, size_t bytes)
{
    const auto at = range_of(pinned, (const char *)p);
    return at != pinned.end() && (const char *)p + bytes <= at->first + at->second;
}

size_t emulate_pinned_ranges(void)
{
    return pinned.size();
}

void emulate_access(bool open)
{
    opened += open ? 1 : -1;
    if (!guarded() || opened != (open ? 1 : 0))
        return;
    for (const auto &at : blocks)
        mprotect(at.second.mapped, at.second.mapped_bytes - page(),
                 open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

extern "C" {

size_t emulate_allocated(void)
{
    size_t all = 0;
    for (const size_t bytes : used)
        all += bytes;
    return all;
}

cudaError_t cudaMalloc(void **p, size_t bytes)
{
    EMULATE_ENTER;
    if (emulate_cards() == 0)
        return entry.say(cudaErrorNoDevice);
    const cudaError_t e = emulate_unsafe();
    return entry.say(e != cudaSuccess ? e : block_new(p, bytes));
}

/* Waits for all work first, as on a card. */
cudaError_t cudaFree(void *p)
{
    EMULATE_ENTER;
    cudaError_t e = emulate_unsafe();
    if (e == cudaSuccess)
        e = emulate_wait_all();
    const auto at = blocks.find((char *)p);
    if (e != cudaSuccess || !p)
        return entry.say(e);
    if (at == blocks.end())
        return entry.say(cudaErrorInvalidValue);
    block_free((char *)p, &at->second);
    blocks.erase(at);
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *unused, size_t *total)
{
    EMULATE_ENTER;
    if (emulate_cards() == 0)
        return entry.say(cudaErrorNoDevice);
    *total = emulate_bytes();
    const size_t taken = used[emulate_card()];
    *unused = taken < *total ? *total - taken : 0;
    return cudaSuccess;
}

/* ---- pinned host memory ---- */

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned)
{
    EMULATE_ENTER;
    return entry.say(host_new(p, bytes));
}

cudaError_t cudaMallocHost(void **p, size_t bytes)
{
    EMULATE_ENTER;
    return entry.say(host_new(p, bytes));
}

cudaError_t cudaFreeHost(void *p)
{
    EMULATE_ENTER;
    cudaError_t e = emulate_unsafe();
    if (e == cudaSuccess)
        e = emulate_wait_all();
    const auto at = pinned.find((char *)p);
    if (e != cudaSuccess || !p)
        return entry.say(e);
    if (at == pinned.end() || registered.count((char *)p))
        return entry.say(cudaErrorInvalidValue);
    memset(p, 0xff, at->second);
    pinned.erase(at);
    free(p);
    return cudaSuccess;
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned)
{
    EMULATE_ENTER;
    cudaError_t e = emulate_unsafe();
    if (!p || bytes == 0)
        e = cudaErrorInvalidValue;
    const auto next = pinned.lower_bound((char *)p);
    const auto before = range_of(pinned, (char *)p);
    if (e == cudaSuccess &&
        ((next != pinned.end() && next->first < (char *)p + bytes) ||
         (before != pinned.end() && (char *)p < before->first + before->second)))
        e = cudaErrorHostMemoryAlreadyRegistered;
    if (e == cudaSuccess)
        pinned[(char *)p] = registered[(char *)p] = bytes;
    return entry.say(e);
}

cudaError_t cudaHostUnregister(void *p)
{
    EMULATE_ENTER;
    cudaError_t e = emulate_unsafe();
    if (e == cudaSuccess)
        e = emulate_wait_all();
    if (e != cudaSuccess)
        return entry.say(e);
    if (registered.erase((char *)p) == 0)
        return entry.say(cudaErrorHostMemoryNotRegistered);
    pinned.erase((char *)p);
    return cudaSuccess;
}

cudaError_t cudaHostGetDevicePointer(void **card, void *host, unsigned)
{
    EMULATE_ENTER;
    if (!emulate_pinned(host, 1))
        return entry.say(cudaErrorInvalidValue);
    *card = host;
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *a, const void *p)
{
    EMULATE_ENTER;
    memset(a, 0, sizeof *a);
    const bool card = emulate_touches_card(p), host = emulate_pinned(p, 1);
    a->type = card ? cudaMemoryTypeDevice : host ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
    if (card || host)
        a->devicePointer = const_cast<void *>(p);
    if (host)
        a->hostPointer = const_cast<void *>(p);
    return cudaSuccess;
}

/* ---- copies and fills ---- */

cudaError_t cudaMemcpy(void *to, const void *from, size_t n, cudaMemcpyKind kind)
{
    EMULATE_ENTER;
    return entry.say(copy(rows(to, n, from, n, n, 1), kind, emulate_stream_of(NULL), false));
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    EMULATE_ENTER;
    return entry.say(copy(rows(to, n, from, n, n, 1), kind, emulate_stream_of(stream), true));
}

cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                         size_t width, size_t height, cudaMemcpyKind kind)
{
    EMULATE_ENTER;
    return entry.say(copy(rows(to, to_pitch, from, from_pitch, width, height), kind,
                          emulate_stream_of(NULL), false));
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream)
{
    EMULATE_ENTER;
    return entry.say(copy(rows(to, to_pitch, from, from_pitch, width, height), kind,
                          emulate_stream_of(stream), true));
}

cudaError_t cudaMemset(void *p, int byte, size_t n)
{
    EMULATE_ENTER;
    return entry.say(fill(p, n, byte, n, 1, emulate_stream_of(NULL), false));
}

cudaError_t cudaMemsetAsync(void *p, int byte, size_t n, cudaStream_t stream)
{
    EMULATE_ENTER;
    return entry.say(fill(p, n, byte, n, 1, emulate_stream_of(stream), true));
}

cudaError_t cudaMemset2DAsync(void *p, size_t pitch, int byte, size_t width, size_t height,
                              cudaStream_t stream)
{
    EMULATE_ENTER;
    return entry.say(fill(p, pitch, byte, width, height, emulate_stream_of(stream), true));
}

}
