/* spill.c - tests of the offload store: values return unchanged and in order, whatever is in
 * flight; its file, bandwidth limit and size. With io_uring and with threads, if the system has
 * both. */
#include "device/offload/spill.h"

#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "core/mem.h"
#include "device/offload/checksum.h"
#include "device/device.h"
#include "device/offload/spill_slots.h"
#include "stores.h"

static void fill(char *p, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (char)((seed * 0x9e3779b97f4a7c15u + i * 0xd6e8feb86659fd93u) >> 56);
}

static weir_status round_trip(weir_spill *s, size_t slot, const char *from, char *to, size_t n)
{
    uint64_t out, in;
    WEIR_TRY(weir_spill_out(s, slot, from, n, &out));
    WEIR_TRY(weir_spill_in(s, slot, to, n, &in));   /* waits for the write by itself */
    WEIR_TRY(weir_spill_wait(s, in));
    return weir_spill_wait(s, out);
}

static void sizes(weir_spill_options o, size_t seam)
{
    const size_t n[] = {0, 1, 2, 63, 64, 65, 4095, 4096, 4097, SLOT - 1, SLOT, SLOT + 1, seam - 1,
                        seam, seam + 1, 3 * seam - 5, 7 * seam, 8 * seam, 8 * seam + 1,
                        9 * seam + 12345, 20 * seam + 1};
    const size_t most = 21 * seam;
    char *const  from = malloc(most), *const to = malloc(most);

    o.bytes = 2 * most;
    weir_spill *s = open_with(o);
    for (size_t i = 0; s && i < sizeof n / sizeof *n; i++)
        for (size_t slot = 0; slot < 3 * SLOT; slot += SLOT) {
            fill(from, n[i], i + slot);
            memset(to, 0x55, most);
            CHECK_OK(round_trip(s, slot, from, to, n[i]));
            if (!CHECK_BITS(from, to, n[i]))
                printf("    %zu bytes, slot %zu, %s\n", n[i], slot, weir_spill_backend(s));
            CHECK(n[i] == most || to[n[i]] == 0x55);
        }
    weir_spill_free(s);
    free(from);
    free(to);
}

CASE(round_trips_of_many_sizes)
{
    for (int m = 0; m < MOVERS; m++)
        sizes((weir_spill_options){.mover = movers[m]}, 256 << 10);
}

/* The system transfers a limited number of bytes at a time. */
CASE(short_transfers_go_on)
{
    for (int m = 0; m < MOVERS; m++)
        for (size_t most = 4097; most < 100000; most *= 7)
            sizes((weir_spill_options){.mover = movers[m],
                                       .system = &(weir_spill_system){.most = most}}, 256 << 10);
}

/* ---- many in flight ---- */

enum { SLOTS = 40, ROUNDS = 1500 };

typedef struct cell {
    char    *memory, *back;
    size_t   n, slot;
    uint64_t out, in;
    uint64_t version;
} cell;

static bool settle_cell(weir_spill *s, cell *c)
{
    bool good = CHECK_OK(weir_spill_wait(s, c->out)) && CHECK_OK(weir_spill_wait(s, c->in));
    if (c->in)
        good = CHECK_BITS(c->back, c->memory, c->n) && good;
    c->out = c->in = 0;
    return good;
}

static void in_flight(weir_spill_mover mover)
{
    cell        cells[SLOTS];
    size_t      at = 0;
    weir_spill *s = open_with((weir_spill_options){.mover = mover});

    CHECK_OR_RETURN(s != NULL);
    for (int i = 0; i < SLOTS; i++) {
        const size_t n = (size_t)check_int(1, 700000);
        cells[i] = (cell){.memory = malloc(n), .back = malloc(n), .n = n, .slot = at};
        at += (n + SLOT - 1) / SLOT * SLOT;
    }
    CHECK_OK(weir_spill_reserve(s, at));
    for (int k = 0; k < ROUNDS; k++) {
        cell *const c = &cells[check_int(0, SLOTS - 1)];
        if (check_int(0, 3) == 0 || (c->version > 0 && c->in)) {
            if (!settle_cell(s, c))
                break;
        }
        if (c->version == 0 || (!c->out && check_int(0, 1))) {
            CHECK_OK(weir_spill_wait(s, c->out));
            fill(c->memory, c->n, ++c->version);
            CHECK_OK(weir_spill_out(s, c->slot, c->memory, c->n, &c->out));
        } else {
            memset(c->back, 0, c->n);
            CHECK_OK(weir_spill_in(s, c->slot, c->back, c->n, &c->in));
        }
    }
    for (int i = 0; i < SLOTS; i++) {
        settle_cell(s, &cells[i]);
        free(cells[i].memory);
        free(cells[i].back);
    }
    weir_spill_free(s);
}

CASE(many_in_flight_in_random_order)
{
    for (int m = 0; m < MOVERS; m++)
        in_flight(movers[m]);
}

/* More requests than the rings hold, without waiting; one slot, so every read sees the last
 * write. */
CASE(queues_longer_than_their_rings)
{
    enum { MANY = 3000, N = 3000 };
    char *const out = malloc((size_t)MANY * N), *const in = malloc((size_t)MANY * N);
    weir_spill *s = open_with((weir_spill_options){.bytes = N});
    uint64_t    ticket = 0, last = 0;

    fill(out, (size_t)MANY * N, 3);
    for (int i = 0; s && i < MANY; i++) {
        CHECK_OK(weir_spill_out(s, 0, out + (size_t)i * N, N, &ticket));
        CHECK_OK(weir_spill_in(s, 0, in + (size_t)i * N, N, &last));
    }
    CHECK(s && weir_spill_wait(s, last) == WEIR_OK && weir_spill_wait(s, 2) == WEIR_OK);
    CHECK_BITS(in, out, (size_t)MANY * N);
    CHECK(s && weir_spill_finished(s, false) == MANY && weir_spill_finished(s, true) == MANY);
    weir_spill_free(s);
    free(out);
    free(in);
}

/* ---- dependencies between copies; the test provides read and write ---- */

/* Writes wait at a gate until it is opened; calls are logged in order. */
typedef struct gate {
    pthread_mutex_t lock;
    pthread_cond_t  moved;
    int             open;           /* writes that may pass */
    char            log[64];        /* 'w' or 'r' with the slot's number */
    double          clock, paused[64];
    int             pauses;
} gate;

static void note(gate *g, char what, off_t at)
{
    const size_t n = strlen(g->log);
    if (n + 2 < sizeof g->log) {
        g->log[n] = what;
        g->log[n + 1] = (char)('0' + at / SLOT);
    }
}

static ssize_t gated_write(void *ctx, int fd, const void *p, size_t n, off_t at)
{
    gate *const g = ctx;
    pthread_mutex_lock(&g->lock);
    while (g->open == 0)
        pthread_cond_wait(&g->moved, &g->lock);
    g->open--;
    note(g, 'w', at);
    pthread_mutex_unlock(&g->lock);
    return pwrite(fd, p, n, at);
}

static ssize_t noted_read(void *ctx, int fd, void *p, size_t n, off_t at)
{
    gate *const g = ctx;
    pthread_mutex_lock(&g->lock);
    note(g, 'r', at);
    pthread_mutex_unlock(&g->lock);
    return pread(fd, p, n, at);
}

static void let_pass(gate *g, int writes)
{
    pthread_mutex_lock(&g->lock);
    g->open += writes;
    pthread_cond_broadcast(&g->moved);
    pthread_mutex_unlock(&g->lock);
}

static double gate_clock(void *ctx)
{
    gate *const g = ctx;
    pthread_mutex_lock(&g->lock);
    const double at = g->clock;
    pthread_mutex_unlock(&g->lock);
    return at;
}

static void gate_pause(void *ctx, double seconds)
{
    gate *const g = ctx;
    pthread_mutex_lock(&g->lock);
    if (g->pauses < 64)
        g->paused[g->pauses++] = seconds;
    g->clock += seconds;
    pthread_mutex_unlock(&g->lock);
}

#define GATE {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER}

/* A read may overtake a write of another slot, but not of its own; nor may a write overtake a
 * read. */
CASE(copies_of_one_slot_keep_their_order)
{
    gate                    g = GATE;
    const weir_spill_system y = {.ctx = &g, .write = gated_write, .read = noted_read};
    weir_spill *s = open_with((weir_spill_options){.bytes = 4 * SLOT, .system = &y});
    char        a[100], b[100], c[100], d[100], e[100];
    uint64_t    t[6];

    CHECK_OR_RETURN(s != NULL);
    CHECK(strcmp(weir_spill_backend(s), "threads") == 0);
    fill(a, sizeof a, 1);
    fill(b, sizeof b, 2);
    fill(e, sizeof e, 3);
    let_pass(&g, 1);
    CHECK_OK(weir_spill_out(s, 0, a, sizeof a, &t[0]));
    CHECK_OK(weir_spill_wait(s, t[0]));
    CHECK_OK(weir_spill_out(s, SLOT, b, sizeof b, &t[1]));      /* waits at the gate */
    CHECK_OK(weir_spill_in(s, 0, c, sizeof c, &t[2]));
    CHECK_OK(weir_spill_wait(s, t[2]));                         /* overtakes it */
    CHECK(weir_spill_finished(s, false) == 1 && weir_spill_finished(s, true) == 1);
    CHECK_OK(weir_spill_in(s, SLOT, d, sizeof d, &t[3]));       /* depends on that write */
    CHECK_OK(weir_spill_out(s, SLOT, e, sizeof e, &t[4]));      /* depends on that read */
    CHECK_OK(weir_spill_in(s, SLOT, a, sizeof a, &t[5]));
    CHECK(weir_spill_finished(s, true) == 1);
    let_pass(&g, 2);
    CHECK_OK(weir_spill_wait(s, t[5]));
    CHECK_OK(weir_spill_settle(s, WEIR_OK));
    CHECK_TEXT(g.log, "w0r0w1r1w1r1");
    CHECK_BITS(d, b, sizeof b);
    CHECK_BITS(a, e, sizeof e);
    weir_spill_free(s);
}

/* Freeing the store finishes all requests. */
CASE(freeing_finishes_what_is_under_way)
{
    gate                    g = GATE;
    const weir_spill_system y = {.ctx = &g, .write = gated_write, .read = noted_read};
    weir_spill *s = open_with((weir_spill_options){.bytes = 4 * SLOT, .system = &y});
    char        a[10] = "012345678", b[10] = "";
    uint64_t    t;

    CHECK_OR_RETURN(s != NULL);
    CHECK_OK(weir_spill_out(s, 0, a, sizeof a, &t));
    CHECK_OK(weir_spill_in(s, 0, b, sizeof b, &t));
    let_pass(&g, 1);
    weir_spill_free(s);
    CHECK_BITS(a, b, sizeof a);
}

/* With the test's clock: n bytes keep a link of `limit` busy for n / limit seconds; idle time is
 * not made up for. */
CASE(a_limit_is_a_link)
{
    gate                    g = GATE;
    const weir_spill_system y = {.ctx = &g, .now = gate_clock, .pause = gate_pause};
    weir_spill *s = open_with((weir_spill_options){.bytes = MIB, .system = &y, .out_limit = 1000,
                                                   .in_limit = 250, .mover = WEIR_SPILL_THREADS});
    char        a[1000] = "";
    uint64_t    t;

    CHECK_OR_RETURN(s != NULL);
    CHECK_OK(weir_spill_out(s, 0, a, 1000, &t));
    CHECK_OK(weir_spill_out(s, SLOT, a, 500, &t));
    CHECK_OK(weir_spill_wait(s, t));
    CHECK(g.pauses == 2 && g.paused[0] == 1 && g.paused[1] == 0.5 && g.clock == 1.5);
    CHECK_OK(weir_spill_in(s, 0, a, 1000, &t));
    CHECK_OK(weir_spill_wait(s, t));
    CHECK(g.pauses == 3 && g.paused[2] == 4 && g.clock == 5.5);
    CHECK_OK(weir_spill_out(s, 0, a, 250, &t));
    CHECK_OK(weir_spill_wait(s, t));
    CHECK(g.pauses == 4 && g.paused[3] == 0.25);
    weir_spill_free(s);
}

/* ---- the file ---- */

CASE(the_file_is_invisible)
{
    struct stat st;
    char        link[64], text[4096] = "";
    weir_spill *s = open_with((weir_spill_options){.bytes = 3 * MIB + 1});

    CHECK_OR_RETURN(s != NULL && fstat(weir_spill_file(s), &st) == 0);
    CHECK(st.st_nlink == 0 && (st.st_mode & 0777) == 0600 && S_ISREG(st.st_mode));
    CHECK((size_t)st.st_size == weir_spill_bytes(s) && st.st_size == 3 * MIB + SLOT);
    CHECK(st.st_blocks * 512 >= st.st_size);
    snprintf(link, sizeof link, "/proc/self/fd/%d", weir_spill_file(s));
    CHECK(readlink(link, text, sizeof text - 1) > 0);
    CHECK_TEXT(text, "(deleted)");
    weir_spill_free(s);
}

static int files_open(void)
{
    DIR *const dir = opendir("/proc/self/fd");
    int        n = 0;
    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n;
}

CASE(the_folder_is_the_one_asked_for)
{
    char        here[] = "/tmp/weir-test-XXXXXX", link[64], text[4096] = "";
    const int   before = files_open();
    char *const old = getenv("WEIR_SPILL_DIR") ? strdup(getenv("WEIR_SPILL_DIR")) : NULL;

    CHECK_OR_RETURN(mkdtemp(here) != NULL);
    for (int way = 0; way < 3; way++) {
        weir_spill *s = NULL;
        if (way == 0)
            s = open_with((weir_spill_options){.dir = here});
        setenv("WEIR_SPILL_DIR", way == 1 ? here : "/nowhere/at/all", 1);
        if (way == 1)
            s = open_with((weir_spill_options){.dir = ""});
        if (way == 2) {
            weir_device *d = weir_device_open("cpu", &(weir_device_options){.spill_dir = here});
            CHECK_OK(weir_device_spill(d, 1, 1));
            snprintf(link, sizeof link, "/proc/self/fd/%d", weir_spill_file(d->spill));
            CHECK(readlink(link, text, sizeof text - 1) > 0);
            weir_device_close(d);
        } else if (s) {
            snprintf(link, sizeof link, "/proc/self/fd/%d", weir_spill_file(s));
            CHECK(readlink(link, text, sizeof text - 1) > 0);
        }
        CHECK_TEXT(text, here);
        weir_spill_free(s);
    }
    weir_spill *s = NULL;
    CHECK_STATUS(weir_spill_new(NULL, &s), WEIR_ERR_IO);
    CHECK_TEXT(weir_error(), "/nowhere/at/all");
    CHECK(s == NULL && files_open() == before);
    CHECK(rmdir(here) == 0);            /* nothing was left in it */
    if (old)
        setenv("WEIR_SPILL_DIR", old, 1);
    else
        unsetenv("WEIR_SPILL_DIR");
    free(old);
}

/* Growing keeps what slots hold. */
CASE(growing_keeps_what_is_there)
{
    char        a[5000], b[5000];
    uint64_t    t;
    weir_spill *s = open_with((weir_spill_options){.bytes = sizeof a});

    CHECK_OR_RETURN(s != NULL);
    fill(a, sizeof a, 9);
    CHECK_OK(weir_spill_out(s, 0, a, sizeof a, &t));
    CHECK_OK(weir_spill_reserve(s, 10 * MIB));
    CHECK_OK(weir_spill_reserve(s, MIB));
    CHECK(weir_spill_bytes(s) == 10 * MIB);
    CHECK_OK(weir_spill_in(s, 0, b, sizeof b, &t));
    CHECK_OK(weir_spill_wait(s, t));
    CHECK_BITS(a, b, sizeof a);
    weir_spill_free(s);
}

/* ---- memory does not grow ---- */

static size_t resident_pages(void)
{
    size_t      total = 0, pages = 0;
    FILE *const f = fopen("/proc/self/statm", "r");
    if (f) {
        CHECK(fscanf(f, "%zu %zu", &total, &pages) == 2);
        fclose(f);
    }
    return pages;
}

/* Writes and reads eight slots at once. */
static bool round_trips(weir_spill *s, const char *a, char *b, size_t n)
{
    uint64_t out, in = 0;
    bool     good = true;

    for (size_t i = 0; i < 8; i++)
        good = good && weir_spill_out(s, i * SLOT, a + i * n, n, &out) == WEIR_OK &&
               weir_spill_in(s, i * SLOT, b + i * n, n, &in) == WEIR_OK;
    return good && weir_spill_wait(s, in) == WEIR_OK;
}

CASE(no_growth_over_100000_round_trips)
{
    enum { TRIPS = 100000, N = 300 };
    char        a[8][N], b[8][N];
    weir_spill *s = open_with((weir_spill_options){.bytes = 8 * SLOT});

    CHECK_OR_RETURN(s != NULL);
    fill(a[0], sizeof a, 4);
    CHECK(round_trips(s, a[0], b[0], N));
    const uint64_t calls = weir_mem_calls();
    const size_t   memory = weir_spill_memory(s), pages = resident_pages();
    const int      files = files_open();
    bool           good = true;
    for (size_t i = 0; i < TRIPS / 8 && good; i++) {
        a[i % 8][i % N]++;
        good = CHECK(round_trips(s, a[0], b[0], N)) && CHECK_BITS(a, b, sizeof a);
    }
    CHECK(weir_mem_calls() == calls && files_open() == files && weir_spill_memory(s) == memory);
#ifdef WEIR_SANITIZED                   /* sanitizers allocate memory themselves */
    (void)pages;
#else
    CHECK(resident_pages() <= pages + 64);
#endif
    weir_spill_free(s);
}

/* The stated bytes are those taken from weir_mem, plus the ring's pages. */
CASE(memory_is_stated)
{
    weir_spill *s = open_with((weir_spill_options){.bytes = SLOT, .mover = WEIR_SPILL_THREADS});

    CHECK_OR_RETURN(s != NULL);
    const size_t small = weir_spill_memory(s);
    CHECK(small < 256 << 10);
    CHECK_OK(weir_spill_reserve(s, 64 * MIB));
    CHECK(weir_spill_memory(s) - small == 16 * (64 * MIB / SLOT - 1));
    CHECK_OK(weir_spill_tickets(s, 1000));
    CHECK(weir_spill_memory(s) - small == 16 * (64 * MIB / SLOT - 1) + 8000);
    weir_spill_free(s);
}

CASE(bandwidth)
{
    double       out = 0, in = 0, second = 0;
    weir_device *d = weir_device_open("cpu", NULL);

    CHECK_OK(weir_device_spill_speed(d, &out, &in));
    CHECK(out > 1e6 && in > 1e6 && out < 1e13 && in < 1e13);
    CHECK_OK(weir_device_spill_speed(d, &second, &in));
    CHECK(second == out);                /* measured once */
    CHECK(d->spill == NULL);
    CHECK_OK(weir_spill_measure(&(weir_spill_options){.out_limit = 40e6, .in_limit = 80e6}, &out,
                                &in));
    CHECK(out <= 40.1e6 && in <= 80.1e6);
    weir_device_close(d);
}

CASE(checksums_see_every_bit)
{
    unsigned char p[200];

    fill((char *)p, sizeof p, 5);
    for (size_t n = 1; n < sizeof p; n += 7) {
        const uint64_t sum = weir_checksum(p, n);
        CHECK(sum == weir_checksum(p, n) && sum != weir_checksum(p, n + 1));
        for (size_t bit = 0; bit < 8 * n; bit++) {
            p[bit / 8] ^= (unsigned char)(1 << bit % 8);
            CHECK(weir_checksum(p, n) != sum);
            p[bit / 8] ^= (unsigned char)(1 << bit % 8);
        }
    }
    memset(p, 0, sizeof p);             /* zeros of different lengths have different sums */
    for (size_t n = 0; n + 1 < sizeof p; n++)
        CHECK(weir_checksum(p, n) != weir_checksum(p, n + 1));
}

CASE(lz4_when_it_pays)
{
    enum { N = 3 * MIB + 777 };
    weir_spill             *s;
    const weir_spill_options o = {.bytes = 2 * N, .lz4 = true};

#ifdef WEIR_LZ4
    char *const a = malloc(N), *const b = malloc(N), *const file = malloc(N);
    s = open_with(o);
    for (int kind = 0; s && kind < 3; kind++) {
        for (size_t i = 0; i < N; i++)  /* incompressible; compressible; partly compressible */
            a[i] = (char)(kind == 0 || (kind == 2 && i < N / 3) ? check_u64() : i / 100);
        CHECK_OK(round_trip(s, 0, a, b, N));
        CHECK_BITS(a, b, N);
        CHECK(pread(weir_spill_file(s), file, N, 0) == N);
        CHECK((memcmp(a, file, N) == 0) == (kind == 0));
    }
    CHECK(s && weir_spill_staging(s) == 4 * MIB && weir_spill_memory(s) > 4 * MIB);
    a[0] = (char)(a[0] + 1);            /* the file now begins differently */
    CHECK(s && pwrite(weir_spill_file(s), a, 1, 0) == 1);
    uint64_t t;
    CHECK_OK(weir_spill_in(s, 0, b, N, &t));
    CHECK_STATUS(weir_spill_wait(s, t), WEIR_ERR_IO);
    CHECK_TEXT(weir_error(), "the block at 0 is not what was written");
    weir_spill_free(s);
    free(a);
    free(b);
    free(file);
#else
    CHECK_STATUS(weir_spill_new(&o, &s), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "LZ4");
#endif
}
