/* local.c - ranks on one machine: threads or processes over a file in /dev/shm. See comm.h.
 *
 * For each ordered pair of ranks the file holds a ring of bytes, through which messages flow behind
 * their lengths, and a box of notes. Each has one writer and one reader: Lamport, "Proving the
 * correctness of multiprocess programs", 1977. Rank 0 makes the file, and removes its name once all
 * ranks have mapped it, so nothing stays behind. What a killed run left behind is replaced. */
#include "device/comm/local.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/env.h"
#include "core/mem.h"
#include "core/status.h"
#include "core/trace.h"
#include "device/comm/pace.h"

enum {
    RING_BYTES = 256 << 10, BOX_NOTES = 64, LINE = 64, NAME_BYTES = 64, MAX_WORLD = 64,
    HEAD_BYTES = 4096, FRAME = sizeof(uint64_t), NAP_NS = 200000
};

/* Counters of bytes, or notes, written and read since the beginning, on lines of their own. */
typedef struct counters {
    _Alignas(LINE) uint64_t written;
    _Alignas(LINE) uint64_t read;
} counters;

typedef struct lane {
    counters bytes, notes;
    uint64_t note[BOX_NOTES][WEIR_NOTE_WORDS];
    char     ring[RING_BYTES];
} lane;

typedef struct segment {
    uint64_t magic;             /* set once the file has its size */
    uint32_t world, ready;      /* ready: all ranks are seated */
    uint32_t seat[MAX_WORLD];   /* 1: taken */
} segment;

_Static_assert(sizeof(segment) <= HEAD_BYTES, "the lanes begin after a page");

enum { MAGIC = 0x77656972 };

typedef struct local {
    char      path[NAME_BYTES + 32];
    segment  *shared;
    size_t    bytes;
    int       fd;
    uint64_t  delay_at, drop_at, die_at;        /* collectives; 0: none */
    int       delay_ms;
    bool      dropping;
    weir_move *send, *recv;     /* of the exchange at hand */
    int        ns, nr;
    size_t     sent[2 * MAX_WORLD], got[2 * MAX_WORLD]; /* bytes of each message, frame included */
} local;

static local *local_of(const weir_comm_link *l)
{
    return l->impl;
}

static lane *lane_of(const weir_comm_link *l, int from, int to)
{
    char *const lanes = (char *)local_of(l)->shared + HEAD_BYTES;

    return (lane *)(void *)lanes + (size_t)from * (size_t)l->world + (size_t)to;
}

static uint64_t load(const uint64_t *p)
{
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static void store(uint64_t *p, uint64_t v)
{
    __atomic_store_n(p, v, __ATOMIC_RELEASE);
}

/* ---- rings ---- */

static size_t room_of(const lane *n)
{
    return RING_BYTES - (size_t)(n->bytes.written - load(&n->bytes.read));
}

static size_t waiting_in(const lane *n)
{
    return (size_t)(load(&n->bytes.written) - n->bytes.read);
}

/* Both copy n bytes, which must fit. */
static void ring_put(lane *n, const void *from, size_t bytes)
{
    const size_t at = (size_t)(n->bytes.written % RING_BYTES);
    const size_t first = bytes < RING_BYTES - at ? bytes : RING_BYTES - at;

    memcpy(n->ring + at, from, first);
    memcpy(n->ring, (const char *)from + first, bytes - first);
    store(&n->bytes.written, n->bytes.written + bytes);
}

static void ring_get(lane *n, void *to, size_t bytes)
{
    const size_t at = (size_t)(n->bytes.read % RING_BYTES);
    const size_t first = bytes < RING_BYTES - at ? bytes : RING_BYTES - at;

    memcpy(to, n->ring + at, first);
    memcpy((char *)to + first, n->ring, bytes - first);
    store(&n->bytes.read, n->bytes.read + bytes);
}

/* Moves one message on; its length goes first. */
static void push(weir_comm_link *l, weir_move *m, size_t *sent)
{
    lane *const n = lane_of(l, l->rank, m->peer);

    if (local_of(l)->dropping) {
        m->done = true;
        return;
    }
    if (*sent == 0 && room_of(n) >= FRAME) {
        ring_put(n, &(uint64_t){m->bytes}, FRAME);
        *sent = FRAME;
    }
    if (*sent == 0)
        return;
    const size_t left = m->bytes + FRAME - *sent, room = room_of(n);
    const size_t now = left < room ? left : room;
    ring_put(n, (const char *)m->at + (*sent - FRAME), now);
    l->moved += now > 0;
    *sent += now;
    m->done = *sent == m->bytes + FRAME;
}

static weir_status pull(weir_comm_link *l, weir_move *m, size_t *got)
{
    lane *const n = lane_of(l, m->peer, l->rank);
    uint64_t    bytes;

    if (*got == 0 && waiting_in(n) >= FRAME) {
        ring_get(n, &bytes, FRAME);
        *got = FRAME;
        if (bytes != m->bytes)
            return weir_fail(WEIR_ERR_COMM, "rank %d has sent %llu bytes where rank %d expects "
                             "%zu", m->peer, (unsigned long long)bytes, l->rank, m->bytes);
    }
    if (*got == 0)
        return WEIR_OK;
    const size_t left = m->bytes + FRAME - *got, here = waiting_in(n);
    const size_t now = left < here ? left : here;
    ring_get(n, (char *)m->at + (*got - FRAME), now);
    l->moved += now > 0;
    *got += now;
    m->done = *got == m->bytes + FRAME;
    return WEIR_OK;
}

static weir_status local_exchange(weir_comm_link *l, weir_move *send, int ns, weir_move *recv,
                                  int nr)
{
    local *const c = local_of(l);

    c->send = send;
    c->recv = recv;
    c->ns = ns;
    c->nr = nr;
    memset(c->sent, 0, sizeof c->sent);
    memset(c->got, 0, sizeof c->got);
    return WEIR_OK;
}

/* Is there an earlier message of the list with the same peer that is not done? */
static bool is_behind(const weir_move *list, int i)
{
    for (int k = 0; k < i; k++)
        if (list[k].peer == list[i].peer && !list[k].done)
            return true;
    return false;
}

static weir_status local_test(weir_comm_link *l, bool *done, int *peer)
{
    local *const c = local_of(l);

    *done = true;
    for (int i = 0; i < c->ns; i++) {
        if (!c->send[i].done && !is_behind(c->send, i))
            push(l, &c->send[i], &c->sent[i]);
        *done &= c->send[i].done;
        *peer = c->send[i].done ? *peer : c->send[i].peer;
    }
    for (int i = 0; i < c->nr; i++) {
        if (!c->recv[i].done && !is_behind(c->recv, i))
            WEIR_TRY(pull(l, &c->recv[i], &c->got[i]));
        *done &= c->recv[i].done;
        *peer = c->recv[i].done ? *peer : c->recv[i].peer;
    }
    return WEIR_OK;
}

/* ---- notes ---- */

static void local_note(weir_comm_link *l, int to, const uint64_t word[WEIR_NOTE_WORDS])
{
    lane *const    n = lane_of(l, l->rank, to);
    const uint64_t at = n->notes.written;

    if (at - load(&n->notes.read) >= BOX_NOTES)
        return;                 /* its rank has not read for long: notes may be lost */
    memcpy(n->note[at % BOX_NOTES], word, sizeof n->note[0]);
    store(&n->notes.written, at + 1);
}

static bool local_noted(weir_comm_link *l, int *from, uint64_t word[WEIR_NOTE_WORDS])
{
    for (int r = 0; r < l->world; r++) {
        lane *const    n = lane_of(l, r, l->rank);
        const uint64_t at = n->notes.read;
        if (r == l->rank || load(&n->notes.written) == at)
            continue;
        memcpy(word, n->note[at % BOX_NOTES], sizeof n->note[0]);
        store(&n->notes.read, at + 1);
        *from = r;
        return true;
    }
    return false;
}

/* ---- faults ---- */

static bool local_begin(weir_comm_link *l, uint64_t n)
{
    local *const c = local_of(l);

    if (n == c->delay_at)
        weir_nap(c->delay_ms * INT64_C(1000000));
    c->dropping = n == c->drop_at;
    return n != c->die_at;
}

/* ---- opening ---- */

static weir_status fail_spec(const char *spec)
{
    return weir_fail(WEIR_ERR_INVALID, "weir_comm_open: 'local:%s' is not "
                     "local:NAME,rank=R,world=W with 0 <= R < W <= %d and a NAME of at most %d "
                     "letters, digits, - and _", spec, MAX_WORLD, NAME_BYTES - 1);
}

/* "key=" at the beginning of an item: its number, or -1. */
static long number_of(const char *item, const char *key, const char **end)
{
    const size_t n = strlen(key);
    char        *after;

    if (strncmp(item, key, n) != 0 || item[n] != '=' || item[n + 1] < '0' || item[n + 1] > '9')
        return -1;
    const long value = strtol(item + n + 1, &after, 10);
    *end = after;
    return value;
}

static bool read_item(weir_comm_link *l, const char *item, const char **end)
{
    local *const c = local_of(l);
    long         n;

    if ((n = number_of(item, "rank", end)) >= 0 && n < MAX_WORLD) {
        l->rank = (int)n;
    } else if ((n = number_of(item, "world", end)) > 0 && n <= MAX_WORLD) {
        l->world = (int)n;
    } else if ((n = number_of(item, "drop", end)) > 0) {
        c->drop_at = (uint64_t)n;
    } else if ((n = number_of(item, "die", end)) > 0) {
        c->die_at = (uint64_t)n;
    } else if ((n = number_of(item, "wait", end)) > 0) {
        l->deadline = weir_now() + 1e-3 * (double)n;
    } else if ((n = number_of(item, "delay", end)) > 0 && **end == ':') {
        char *after;
        c->delay_at = (uint64_t)n;
        c->delay_ms = (int)strtol(*end + 1, &after, 10);
        *end = after;
    } else {
        return false;
    }
    return **end == '\0' || **end == ',';
}

static weir_status read_spec(weir_comm_link *l, const char *spec)
{
    local *const c = local_of(l);
    const size_t n = strspn(spec, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789-_");
    const char  *at = spec + n;

    if (n == 0 || n >= NAME_BYTES)
        return fail_spec(spec);
    snprintf(c->path, sizeof c->path, "/dev/shm/weir-%.*s", (int)n, spec);
    l->rank = -1;
    l->world = 0;
    while (*at == ',')
        if (!read_item(l, at + 1, &at))
            return fail_spec(spec);
    return *at == '\0' && l->rank >= 0 && l->rank < l->world ? WEIR_OK : fail_spec(spec);
}

static weir_status fail_file(const local *c, const char *did)
{
    return weir_fail(WEIR_ERR_IO, "weir_comm_open: %s cannot be %s: %s", c->path, did,
                     strerror(errno));
}

static void unmap(local *c)
{
    if (c->shared)
        (void)weir_env_get()->munmap(c->shared, c->bytes);
    if (c->fd >= 0)
        (void)weir_env_get()->close(c->fd);
    c->shared = NULL;
    c->fd = -1;
}

static weir_status map(local *c)
{
    void *const p = weir_env_get()->mmap(NULL, c->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd,
                                         0);
    if (p == MAP_FAILED)
        return fail_file(c, "mapped");
    c->shared = p;
    return WEIR_OK;
}

static bool is_seated(const segment *s, int rank)
{
    return __atomic_load_n(&s->seat[rank], __ATOMIC_ACQUIRE) != 0;
}

/* Rank 0: makes the file and waits for the others. */
static weir_status host(weir_comm_link *l)
{
    local *const          c = local_of(l);
    const weir_env *const e = weir_env_get();
    const int             flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;

    c->fd = e->open(c->path, flags, 0600);
    if (c->fd < 0 && errno == EEXIST && e->unlink(c->path) == 0)
        c->fd = e->open(c->path, flags, 0600);
    if (c->fd < 0)
        return fail_file(c, "made");
    weir_status status = e->ftruncate(c->fd, (off_t)c->bytes) == 0 ? map(c)
                                                                   : fail_file(c, "enlarged");
    int missing = status == WEIR_OK ? 1 : l->world;
    if (status == WEIR_OK) {
        c->shared->world = (uint32_t)l->world;
        c->shared->seat[0] = 1;
        store(&c->shared->magic, MAGIC);
    }
    while (missing < l->world && weir_now() < l->deadline) {
        if (is_seated(c->shared, missing))
            missing++;
        else
            weir_nap(NAP_NS);
    }
    if (missing < l->world)
        status = weir_fail(WEIR_ERR_COMM, "weir_comm_open: rank %d of %d has not come to %s in "
                           "time", missing, l->world, c->path);
    if (status == WEIR_OK)
        __atomic_store_n(&c->shared->ready, 1, __ATOMIC_RELEASE);
    (void)e->unlink(c->path);
    return status;
}

/* Maps the file if it is there and whole, and takes the seat. False: not yet. */
static bool take_seat(weir_comm_link *l, weir_status *status)
{
    local *const          c = local_of(l);
    const weir_env *const e = weir_env_get();
    struct stat           st;
    uint32_t              none = 0;

    c->fd = e->open(c->path, O_RDWR | O_CLOEXEC, 0);
    if (c->fd < 0 || e->fstat(c->fd, &st) != 0 || (size_t)st.st_size != c->bytes)
        return false;           /* a killed run's may have another size */
    *status = map(c);
    return *status == WEIR_OK && load(&c->shared->magic) == MAGIC &&
           __atomic_compare_exchange_n(&c->shared->seat[l->rank], &none, 1, false,
                                       __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* Waits for rank 0's word. False if the file has lost its name before: a killed run's. */
static bool is_ready(weir_comm_link *l)
{
    local *const          c = local_of(l);
    const weir_env *const e = weir_env_get();
    struct stat           st = {.st_nlink = 1};

    while (weir_now() < l->deadline) {
        const bool named = e->fstat(c->fd, &st) != 0 || st.st_nlink > 0;
        if (__atomic_load_n(&c->shared->ready, __ATOMIC_ACQUIRE))
            return true;
        if (!named)
            return false;
        weir_nap(NAP_NS);
    }
    return false;
}

static weir_status join(weir_comm_link *l)
{
    local *const c = local_of(l);
    weir_status  status = WEIR_OK;

    while (weir_now() < l->deadline) {
        if (take_seat(l, &status) && is_ready(l))
            return WEIR_OK;
        unmap(c);
        if (status != WEIR_OK)
            return status;
        weir_nap(NAP_NS);
    }
    return weir_fail(WEIR_ERR_COMM, "weir_comm_open: rank 0 or another of %d has not come to %s in "
                     "time, was told of another world, or rank %d is taken", l->world, c->path,
                     l->rank);
}

static void local_close(weir_comm_link *l, bool orderly)
{
    (void)orderly;
    unmap(local_of(l));
    weir_mem_free(l->impl);
}

static weir_status local_open(weir_comm_link *l, const char *spec)
{
    local *const c = weir_mem_zalloc(1, sizeof *c);

    if (!c)
        return WEIR_ERR_NOMEM;
    c->fd = -1;
    l->impl = c;
    weir_status status = read_spec(l, spec);
    if (status == WEIR_OK) {
        c->bytes = HEAD_BYTES + (size_t)l->world * (size_t)l->world * sizeof(lane);
        status = l->rank == 0 ? host(l) : join(l);
    }
    if (status != WEIR_OK)
        local_close(l, false);
    return status;
}

static size_t local_overhead(const weir_comm_link *l)
{
    return local_of(l)->bytes;
}

const weir_comm_ops weir_comm_local = {
    .name = "local",
    .open = local_open,
    .close = local_close,
    .exchange = local_exchange,
    .test = local_test,
    .note = local_note,
    .noted = local_noted,
    .begin = local_begin,
    .overhead = local_overhead,
    .bytes = sizeof(weir_comm_ops),
};
