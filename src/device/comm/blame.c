/* blame.c - describes where ranks are, and which one is to blame. See blame.h. */
#include "device/comm/blame.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/dtype.h"
#include "core/status.h"
#include "device/comm/kinds.h"

enum { PLACE_TEXT = 160 };

/* ---- describing collectives ---- */

/* The bit 1 << 24 says that it is a collective. */
uint64_t weir_rank_what(const weir_collective *job, weir_sum_order order)
{
    const weir_collective_kind kind = job->kind == WEIR_RECV ? WEIR_SEND : job->kind;
    const bool rooted = kind == WEIR_BROADCAST || kind == WEIR_REDUCE;

    return (uint64_t)kind | (uint64_t)job->dtype << 8 | (uint64_t)job->purpose << 16 |
           (uint64_t)order << 20 | (uint64_t)1 << 24 |
           (rooted ? (uint64_t)job->peer : 0) << 32;
}

/* Appends to a text of `room` bytes, of which n are in use; returns how many are then. */
__attribute__((format(printf, 4, 5)))
static size_t say(char *text, size_t room, size_t n, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    const int more = vsnprintf(text + n, room - n, format, args);
    va_end(args);
    return more > 0 && n + (size_t)more < room ? n + (size_t)more : room - 1;
}

/* Of a number that another rank has sent. */
static const char *order_name(uint64_t order)
{
    return order < WEIR_SUM_ORDERS ? weir_sum_order_name((weir_sum_order)order) : "unknown";
}

/* "all_reduce 118 (4096 f32) in run 3 of graph 1". full: with order and root, in which the same
 * collective of two ranks may differ. */
static void place_text(const weir_rank_place *p, bool full, char text[PLACE_TEXT])
{
    const weir_collective_kind kind = (weir_collective_kind)(p->what & 0xff);
    const weir_purpose         purpose = (weir_purpose)(p->what >> 16 & 0xf);
    size_t                     n = 0;

    text[0] = '\0';
    if (purpose != WEIR_FOR_PROGRAM)
        n = say(text, PLACE_TEXT, n, "%s (", weir_purpose_name(purpose));
    n = say(text, PLACE_TEXT, n, "%s ", weir_collective_name(kind));
    if (kind != WEIR_SEND)      /* whose ranks have sent different numbers of messages */
        n = say(text, PLACE_TEXT, n, "%llu ", (unsigned long long)p->number);
    n = say(text, PLACE_TEXT, n, "(%lld %s", (long long)p->count,
            weir_dtype_name((weir_dtype)(p->what >> 8 & 0xff)));
    if (full && (kind == WEIR_BROADCAST || kind == WEIR_REDUCE))
        n = say(text, PLACE_TEXT, n, ", root %llu", (unsigned long long)(p->what >> 32));
    else if (full)
        n = say(text, PLACE_TEXT, n, ", order %s", order_name(p->what >> 20 & 0xf));
    n = say(text, PLACE_TEXT, n, ")%s", purpose != WEIR_FOR_PROGRAM ? ")" : "");
    if (p->graph)
        say(text, PLACE_TEXT, n, " in run %llu of graph %llu", (unsigned long long)p->run,
            (unsigned long long)p->graph);
    else if (full && kind != WEIR_SEND && purpose == WEIR_FOR_PROGRAM)
        say(text, PLACE_TEXT, n, " outside of graphs");
}

/* ---- failures ---- */

/* A rank that answers and is missing. */
static weir_status fail_behind(const weir_blame *b, double timeout, const char *what)
{
    char at[PLACE_TEXT];

    if (b->its.what) {
        place_text(&b->its, false, at);
        return weir_fail(WEIR_ERR_COMM, "rank %d has not reached %s within %g s: it answers, and "
                         "is at %s", b->culprit, what, timeout, at);
    }
    if (b->its.graph)
        snprintf(at, sizeof at, "in run %llu of graph %llu", (unsigned long long)b->its.run,
                 (unsigned long long)b->its.graph);
    return weir_fail(WEIR_ERR_COMM, "rank %d has not reached %s within %g s: it answers, %s, after "
                     "%llu collectives", b->culprit, what, timeout,
                     b->its.graph ? at : "and runs no graph",
                     (unsigned long long)b->its.number);
}

static weir_status fail_differs(const weir_blame *b)
{
    char mine[PLACE_TEXT], its[PLACE_TEXT];

    place_text(&b->mine, true, mine);
    place_text(&b->its, true, its);
    return weir_fail(WEIR_ERR_COMM, "rank %d calls %s where rank %d calls %s: all ranks must call "
                     "the same collectives in the same runs of the same graphs", b->teller, mine,
                     b->culprit, its);
}

void weir_blame_write(const weir_blame *b, uint64_t kind, uint64_t word[WEIR_NOTE_WORDS])
{
    word[0] = kind | (uint64_t)b->why << 8 | (uint64_t)b->culprit << 16 | (uint64_t)b->teller << 32;
    memcpy(word + 1, &b->mine, sizeof b->mine);
    memcpy(word + 1 + WEIR_RANK_WORDS, &b->its, sizeof b->its);
}

weir_status weir_fail_blame(const weir_blame *b, double timeout)
{
    char what[PLACE_TEXT];

    place_text(&b->mine, false, what);
    switch (b->why) {
    case WEIR_SILENT:
        return weir_fail(WEIR_ERR_COMM, "rank %d has not reached %s within %g s: it does not "
                         "answer", b->culprit, what, timeout);
    case WEIR_BEHIND:
        return fail_behind(b, timeout, what);
    case WEIR_LEFT:
        return weir_fail(WEIR_ERR_COMM, "rank %d has closed its communicator, and is missing in %s "
                         "of rank %d", b->culprit, what, b->teller);
    case WEIR_DIFFERS:
        return fail_differs(b);
    default:
        return weir_fail(WEIR_ERR_COMM, "messages of rank %d for %s have not arrived at rank %d "
                         "within %g s", b->culprit, what, b->teller, timeout);
    }
}

weir_status weir_fail_told(const uint64_t word[WEIR_NOTE_WORDS], double timeout)
{
    weir_blame b = {.why = (weir_blame_reason)(word[0] >> 8 & 0xff),
                    .culprit = (int)(word[0] >> 16 & 0xffff),
                    .teller = (int)(word[0] >> 32 & 0xffff)};

    memcpy(&b.mine, word + 1, sizeof b.mine);
    memcpy(&b.its, word + 1 + WEIR_RANK_WORDS, sizeof b.its);
    return weir_fail_blame(&b, timeout);
}
