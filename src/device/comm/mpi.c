/* mpi.c - ranks that an MPI launcher has started; compiled once for each MPI, as a plugin. See
 * comm.h.
 *
 * Point-to-point messages on communicators of its own carry everything: an MPI's reductions add in
 * an order that depends on ranks and sizes, and move nothing while nobody calls MPI. Only the wire
 * thread calls MPI, so MPI_THREAD_FUNNELED is enough where it starts MPI itself.
 *
 * Messages are sent in fragments of at most FRAGMENT bytes, DEPTH of each under way. Before a long
 * message an MPI asks the receiver, and over TCP the answer waits behind what is being sent the
 * other way: of two ranks that exchange whole messages of MiB, the one that begins a moment later
 * sends when the other is done, at half of the link's rate. Fragments go without asking, and the
 * queue in front of an acknowledgement stays short. On a test link of 1 Gbit/s more than 128 KiB
 * under way took up to 1.5 times as long. */
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "device/comm/comm.h"
#include "device/plugin.h"

enum { NOTES = 64, TAG = 1, FRAGMENT = 32 << 10, DEPTH = 4 };

#ifndef WEIR_MPI_NAME
#error "WEIR_MPI_NAME is the name of the MPI"
#endif

static const weir_plugin_host *host;    /* set when the plugin is entered */

/* A note that is being sent. */
typedef struct note {
    uint64_t    word[WEIR_NOTE_WORDS];
    MPI_Request request;
} note;

/* A message of the exchange at hand. Fragment k has request k % DEPTH. */
typedef struct message {
    weir_move  *move;
    bool        sent;           /* else received */
    size_t      begun, done;    /* fragments */
    MPI_Request request[DEPTH];
} message;

typedef struct mpi {
    MPI_Comm data, notes;
    bool     mine;              /* MPI was started here, and is finished here */
    message *message;           /* [4 world], n of them in use */
    int      n;
    MPI_Request reduction;      /* that is under way */
    note     note[NOTES];
} mpi;

static mpi *mpi_of(const weir_comm_link *l)
{
    return l->impl;
}

static weir_status fail_mpi(const char *what, int code)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int  n;

    (void)MPI_Error_string(code, text, &n);
    return host->fail(WEIR_ERR_COMM, "MPI (%s): %s failed: %s", WEIR_MPI_NAME, what, text);
}

#define TRY_MPI(what, call)                                                                        \
    do {                                                                                           \
        const int code_ = (call);                                                                  \
        if (code_ != MPI_SUCCESS)                                                                  \
            return fail_mpi(what, code_);                                                          \
    } while (0)

/* ---- opening ---- */

/* Starts MPI unless the program has. */
static weir_status start(mpi *m)
{
    int on = 0, off = 0, level = 0;

    (void)MPI_Initialized(&on);
    (void)MPI_Finalized(&off);
    if (off)
        return host->fail(WEIR_ERR_COMM, "weir_comm_open: MPI (%s) has been finished in this "
                          "process and cannot be started again", WEIR_MPI_NAME);
    if (!on) {
        TRY_MPI("MPI_Init_thread", MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level));
        m->mine = true;
        return WEIR_OK;
    }
    TRY_MPI("MPI_Query_thread", MPI_Query_thread(&level));
    if (level < MPI_THREAD_SERIALIZED)
        return host->fail(WEIR_ERR_COMM, "weir_comm_open: MPI (%s) was started at another place of "
                          "the program, with less than MPI_THREAD_SERIALIZED", WEIR_MPI_NAME);
    return WEIR_OK;
}

static weir_status join(weir_comm_link *l, mpi *m)
{
    WEIR_TRY(start(m));
    TRY_MPI("MPI_Comm_dup", MPI_Comm_dup(MPI_COMM_WORLD, &m->data));
    TRY_MPI("MPI_Comm_dup", MPI_Comm_dup(MPI_COMM_WORLD, &m->notes));
    TRY_MPI("MPI_Comm_set_errhandler", MPI_Comm_set_errhandler(m->data, MPI_ERRORS_RETURN));
    TRY_MPI("MPI_Comm_set_errhandler", MPI_Comm_set_errhandler(m->notes, MPI_ERRORS_RETURN));
    TRY_MPI("MPI_Comm_rank", MPI_Comm_rank(m->data, &l->rank));
    TRY_MPI("MPI_Comm_size", MPI_Comm_size(m->data, &l->world));
    m->message = host->alloc(4 * (size_t)l->world * sizeof *m->message);
    return m->message ? WEIR_OK : WEIR_ERR_NOMEM;
}

static weir_status mpi_open(weir_comm_link *l, const char *spec)
{
    mpi *const m = host->alloc(sizeof *m);

    (void)spec;
    if (!m)
        return WEIR_ERR_NOMEM;
    memset(m, 0, sizeof *m);
    for (int i = 0; i < NOTES; i++)
        m->note[i].request = MPI_REQUEST_NULL;
    m->reduction = MPI_REQUEST_NULL;
    l->impl = m;
    const weir_status status = join(l, m);
    if (status != WEIR_OK)
        host->free(m);
    return status;
}

/* Without order MPI stays as it is: finishing it would wait for ranks that are gone. */
static void mpi_close(weir_comm_link *l, bool orderly)
{
    mpi *const m = mpi_of(l);

    for (int i = 0; i < NOTES && orderly; i++)
        (void)MPI_Wait(&m->note[i].request, MPI_STATUS_IGNORE);
    if (orderly) {
        (void)MPI_Comm_free(&m->data);
        (void)MPI_Comm_free(&m->notes);
    }
    if (orderly && m->mine)
        (void)MPI_Finalize();
    if (!orderly)
        return;                 /* requests that are under way still use the memory */
    host->free(m->message);
    host->free(m);
}

/* ---- messages ---- */

static size_t fragments_of(const message *one)
{
    return (one->move->bytes + FRAGMENT - 1) / FRAGMENT;
}

static size_t bytes_of(const message *one, size_t k)
{
    const size_t left = one->move->bytes - k * FRAGMENT;

    return left < FRAGMENT ? left : FRAGMENT;
}

/* Posts the next fragments, as many as may be under way. */
static weir_status post_fragments(const mpi *m, message *one)
{
    for (; one->begun < fragments_of(one) && one->begun < one->done + DEPTH; one->begun++) {
        char *const        at = (char *)one->move->at + one->begun * FRAGMENT;
        const int          bytes = (int)bytes_of(one, one->begun), peer = one->move->peer;
        MPI_Request *const request = &one->request[one->begun % DEPTH];
        if (one->sent)
            TRY_MPI("MPI_Isend", MPI_Isend(at, bytes, MPI_BYTE, peer, TAG, m->data, request));
        else
            TRY_MPI("MPI_Irecv", MPI_Irecv(at, bytes, MPI_BYTE, peer, TAG, m->data, request));
    }
    return WEIR_OK;
}

static weir_status mpi_exchange(weir_comm_link *l, weir_move *send, int ns, weir_move *recv, int nr)
{
    mpi *const m = mpi_of(l);

    m->n = 0;
    for (int i = 0; i < nr; i++)
        m->message[m->n++] = (message){.move = &recv[i]};
    for (int i = 0; i < ns; i++)
        m->message[m->n++] = (message){.move = &send[i], .sent = true};
    for (int i = 0; i < m->n; i++)
        WEIR_TRY(post_fragments(m, &m->message[i]));
    return WEIR_OK;
}

/* Tests the fragments of a message, in their order; a received one must have the expected size. */
static weir_status test_one(weir_comm_link *l, message *one)
{
    const mpi *const m = mpi_of(l);

    while (one->done < one->begun) {
        MPI_Status status;
        int        done = 0, got = 0;
        const int  code = MPI_Test(&one->request[one->done % DEPTH], &done, &status);
        if (code != MPI_SUCCESS)
            return fail_mpi(one->sent ? "a send" : "a receive", code);
        if (!done)
            break;
        const size_t bytes = bytes_of(one, one->done++);
        l->moved++;
        if (one->sent)
            continue;
        (void)MPI_Get_count(&status, MPI_BYTE, &got);
        if ((size_t)got != bytes)
            return host->fail(WEIR_ERR_COMM, "rank %d has sent %d bytes where %zu are expected",
                              one->move->peer, got, bytes);
    }
    one->move->done = one->done == fragments_of(one);
    return post_fragments(m, one);
}

static weir_status mpi_test(weir_comm_link *l, bool *done, int *peer)
{
    mpi *const m = mpi_of(l);

    *done = true;
    if (m->reduction != MPI_REQUEST_NULL) {
        int here = 0;
        TRY_MPI("MPI_Iallreduce", MPI_Test(&m->reduction, &here, MPI_STATUS_IGNORE));
        *done = here != 0;
        *peer = l->rank == 0 ? 1 : 0;   /* which one is late MPI does not tell */
    }
    for (int i = 0; i < m->n; i++) {
        weir_move *const move = m->message[i].move;
        if (!move->done)
            WEIR_TRY(test_one(l, &m->message[i]));
        *done &= move->done;
        *peer = move->done ? *peer : move->peer;
    }
    return WEIR_OK;
}

/* ---- MPI's own sums ---- */

/* The datatype of elements that MPI sums; MPI_DATATYPE_NULL: it does not. */
static MPI_Datatype datatype_of(weir_dtype type)
{
    switch (type) {
    case WEIR_F32: return MPI_FLOAT;
    case WEIR_F64: return MPI_DOUBLE;
    case WEIR_I32: return MPI_INT32_T;
    case WEIR_I64: return MPI_INT64_T;
    case WEIR_U8:  return MPI_UINT8_T;
    default:       return MPI_DATATYPE_NULL;
    }
}

static weir_status mpi_reduce(weir_comm_link *l, const weir_collective *job, bool *has)
{
    mpi *const         m = mpi_of(l);
    const MPI_Datatype type = datatype_of(job->dtype);
    const void *const  from = job->src == job->dst ? MPI_IN_PLACE : job->src;

    *has = type != MPI_DATATYPE_NULL && job->count <= INT_MAX;
    if (!*has)
        return WEIR_OK;
    m->n = 0;
    TRY_MPI("MPI_Iallreduce", MPI_Iallreduce(from, job->dst, (int)job->count, type, MPI_SUM,
                                             m->data, &m->reduction));
    return WEIR_OK;
}

/* ---- notes ---- */

static void mpi_note(weir_comm_link *l, int to, const uint64_t word[WEIR_NOTE_WORDS])
{
    mpi *const m = mpi_of(l);

    for (int i = 0; i < NOTES; i++) {
        int done = 0;
        if (MPI_Test(&m->note[i].request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || !done)
            continue;
        memcpy(m->note[i].word, word, sizeof m->note[i].word);
        if (MPI_Isend(m->note[i].word, sizeof m->note[i].word, MPI_BYTE, to, TAG, m->notes,
                      &m->note[i].request) != MPI_SUCCESS)
            m->note[i].request = MPI_REQUEST_NULL;
        return;
    }
}

static bool mpi_noted(weir_comm_link *l, int *from, uint64_t word[WEIR_NOTE_WORDS])
{
    mpi *const m = mpi_of(l);
    MPI_Status status;
    int        here = 0;

    if (MPI_Iprobe(MPI_ANY_SOURCE, TAG, m->notes, &here, &status) != MPI_SUCCESS || !here)
        return false;
    *from = status.MPI_SOURCE;
    return MPI_Recv(word, WEIR_NOTE_WORDS * sizeof *word, MPI_BYTE, *from, TAG, m->notes,
                    MPI_STATUS_IGNORE) == MPI_SUCCESS;
}

/* What MPI itself holds is not known. */
static size_t mpi_overhead(const weir_comm_link *l)
{
    return sizeof(mpi) + 4 * (size_t)l->world * sizeof(message);
}

static const weir_comm_ops table = {
    .name = WEIR_MPI_NAME,
    .open = mpi_open,
    .close = mpi_close,
    .exchange = mpi_exchange,
    .test = mpi_test,
    .reduce = mpi_reduce,
    .note = mpi_note,
    .noted = mpi_noted,
    .overhead = mpi_overhead,
    .bytes = sizeof(weir_comm_ops),
    .waits = true,
};

/* The plugin's only symbol. */
const weir_comm_ops *weir_plugin_comm(const weir_plugin_host *h);

__attribute__((visibility("default")))
const weir_comm_ops *weir_plugin_comm(const weir_plugin_host *h)
{
    if (strcmp(h->version, WEIR_VERSION_STRING) != 0 || h->host != sizeof *h) {
        h->fail(WEIR_ERR_COMM, "weir_comm_open: libweir has version %s, the plugin for %s has %s "
                "or comes from another build", h->version, WEIR_MPI_NAME, WEIR_VERSION_STRING);
        return NULL;
    }
    host = h;
    return &table;
}
