/* metrics.c - how good scores are. */
#include "weir.h"

/* Classes whose score comes before that of class y: higher, or equal and of a lower number. */
static int64_t rank_of(const float *score, int64_t classes, int64_t y)
{
    int64_t before = 0;

    for (int64_t c = 0; c < classes; c++)
        before += score[c] > score[y] || (score[c] == score[y] && c < y);
    return before;
}

weir_status weir_topk_accuracy(const float *scores, const int32_t *labels, int64_t n,
                               int64_t classes, int64_t k, double *share)
{
    int64_t right = 0;

    if (!scores || !labels || !share)
        return weir_fail_null("topk_accuracy", !scores ? "scores" : !labels ? "labels" : "share");
    if (n < 1 || k < 1 || k > classes)
        return weir_fail(WEIR_ERR_INVALID, "topk_accuracy: n is %lld, classes %lld and k %lld, but "
                                           "n must be 1 or more and k from 1 to the classes",
                         (long long)n, (long long)classes, (long long)k);
    for (int64_t i = 0; i < n; i++) {
        const float *const score = scores + i * classes;
        const int64_t      y = labels[i];
        if (y < 0 || y >= classes)
            return weir_fail(WEIR_ERR_INDEX, "topk_accuracy: label %lld is %lld but must be from 0 "
                                             "to %lld",
                             (long long)i, (long long)y, (long long)(classes - 1));
        right += score[y] == score[y] && rank_of(score, classes, y) < k;
    }
    *share = (double)right / (double)n;
    return WEIR_OK;
}
