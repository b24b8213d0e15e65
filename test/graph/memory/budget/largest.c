/* largest.c - tests of the search for the largest batch, with steps that only pretend. */
#include "graph/fixture.h"

typedef struct pretence {
    int64_t     most;       /* the largest batch that fits */
    weir_status refusal;
    int         calls;
    bool        seen[2];    /* the answer and the one above it were tried */
} pretence;

static weir_status fits(void *ctx, int64_t batch)
{
    pretence *const p = ctx;

    p->calls++;
    if (batch == p->most || batch == p->most + 1)
        p->seen[batch - p->most] = true;
    return batch <= p->most ? WEIR_OK
                            : weir_fail(p->refusal, "%lld does not fit", (long long)batch);
}

CASE(every_answer_is_found)
{
    enum { MOST = 70 };

    for (int64_t answer = 1; answer <= MOST; answer++)
        for (int64_t first = 1; first <= MOST; first++) {
            pretence p = {.most = answer, .refusal = first & 1 ? WEIR_ERR_BUDGET : WEIR_ERR_NOMEM};
            int64_t  batch = 0;
            CHECK_OR_RETURN(weir_largest_batch(fits, &p, first, MOST, &batch) == WEIR_OK);
            CHECK(batch == answer && p.seen[0] && (p.seen[1] || answer == MOST));
            CHECK(p.calls <= 14);
        }
}

CASE(failures_are_told)
{
    pretence none = {.most = 0, .refusal = WEIR_ERR_BUDGET},
             broken = {.most = 5, .refusal = WEIR_ERR_SHAPE};
    int64_t  batch = 7;

    CHECK_STATUS(weir_largest_batch(fits, &none, 16, 64, &batch), WEIR_ERR_BUDGET);
    CHECK_TEXT(weir_error(), "1 does not fit");
    CHECK(batch == 0);
    CHECK_STATUS(weir_largest_batch(fits, &broken, 1, 64, &batch), WEIR_ERR_SHAPE);
    CHECK(broken.calls == 4);
    CHECK_STATUS(weir_largest_batch(fits, &none, 0, 64, &batch), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_largest_batch(fits, &none, 65, 64, &batch), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_largest_batch(NULL, &none, 1, 64, &batch), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_largest_batch(fits, &none, 1, 64, NULL), WEIR_ERR_INVALID);
}
