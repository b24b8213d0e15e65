/* ranks.h - runs a function on some ranks of a communicator, each in a thread with its device. */
#ifndef WEIR_TEST_RANKS_H
#define WEIR_TEST_RANKS_H

#include <pthread.h>
#include <unistd.h>

#include "check.h"
#include "weir.h"

enum { RANKS_MOST = 8 };

typedef struct rank {
    int           rank, world;
    weir_device  *d;
    weir_comm    *c;            /* NULL: it could not be opened; error says why */
    void         *job;
    weir_status   status;       /* for the body */
    char          error[512];
    /* How it is opened: */
    const char   *spec_more, *name;
    bool          card;         /* on the card of its number, over NCCL */
    weir_comm_options options;
    void        (*body)(struct rank *r);
    pthread_t     thread;
} rank;

typedef struct ranks_options {
    weir_comm_options comm;
    const char       *faults[RANKS_MOST];       /* appended to the spec of each rank, or NULL */
    uint32_t          absent;                   /* bit r: rank r is not started */
    const char       *name;                     /* NULL: a new one */
    bool              cards;                    /* each rank on a card, over NCCL */
} ranks_options;

/* Notes a failure and its sentence. */
static inline void rank_note(rank *r, weir_status status)
{
    r->status = status;
    snprintf(r->error, sizeof r->error, "%s", status == WEIR_OK ? "" : weir_error());
}

static inline void *rank_thread(void *arg)
{
    rank *const r = arg;
    char        spec[256], device[16] = "cpu";

    if (r->card)
        snprintf(device, sizeof device, "cuda:%d", r->rank);
    r->d = weir_device_open(device, &(weir_device_options){.threads = 1, .seed = 5});
    snprintf(spec, sizeof spec, "%slocal:%s,rank=%d,world=%d%s", r->card ? "nccl:" : "", r->name,
             r->rank, r->world, r->spec_more ? r->spec_more : "");
    r->c = weir_comm_open(spec, r->d, &r->options);
    if (!r->c)
        rank_note(r, weir_error_status());
    r->body(r);
    weir_comm_close(r->c);
    weir_device_close(r->d);
    return NULL;
}

/* Runs body on all ranks and returns when all are done; what they noted is in all[]. */
static inline void ranks_run(rank all[RANKS_MOST], int world, const ranks_options *options,
                             void (*body)(rank *r), void *job)
{
    static int          runs;
    const ranks_options o = options ? *options : (ranks_options){0};
    char                name[64];

    snprintf(name, sizeof name, "test-%ld-%d", (long)getpid(), runs++);
    memset(all, 0, RANKS_MOST * sizeof *all);
    for (int i = 0; i < world; i++) {
        all[i] = (rank){.rank = i, .world = world, .job = job, .spec_more = o.faults[i],
                        .name = o.name ? o.name : name, .options = o.comm, .body = body,
                        .card = o.cards};
        if (!(o.absent >> i & 1))
            CHECK(pthread_create(&all[i].thread, NULL, rank_thread, &all[i]) == 0);
    }
    for (int i = 0; i < world; i++)
        if (!(o.absent >> i & 1))
            pthread_join(all[i].thread, NULL);
}

#endif
