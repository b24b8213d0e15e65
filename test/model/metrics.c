/* metrics.c - tests of the accuracy among the k highest scores. */
#include <math.h>

#include "check.h"
#include "weir.h"

CASE(topk_counts_labels_among_the_highest)
{
    static const float   score[4][3] = {{1, 3, 2}, {2, 2, 2}, {NAN, 0, 1}, {5, INFINITY, -1}};
    static const int32_t label[] = {2, 1, 0, 0};
    static const double  want[] = {0, 0.75, 0.75};      /* by k - 1 */
    double               share = -1;

    for (int k = 1; k <= 3; k++) {
        CHECK_OK(weir_topk_accuracy(score[0], label, 4, 3, k, &share));
        CHECK(share == want[k - 1]);
    }
    CHECK_OK(weir_topk_accuracy(score[0], (const int32_t[]){1, 0, 2, 1}, 4, 3, 1, &share));
    CHECK(share == 1);
}

CASE(topk_refuses)
{
    const float   score[] = {1, 2};
    const int32_t good = 1, bad = 2, negative = -1;
    double        share = 7;

    CHECK_STATUS(weir_topk_accuracy(score, &good, 1, 2, 0, &share), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_topk_accuracy(score, &good, 0, 2, 1, &share), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_topk_accuracy(score, &good, 1, 2, 3, &share), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "n is 1, classes 2 and k 3");
    CHECK_STATUS(weir_topk_accuracy(score, &bad, 1, 2, 1, &share), WEIR_ERR_INDEX);
    CHECK_TEXT(weir_error(), "label 0 is 2 but must be from 0 to 1");
    CHECK_STATUS(weir_topk_accuracy(score, &negative, 1, 2, 1, &share), WEIR_ERR_INDEX);
    weir_error_clear();
    CHECK_STATUS(weir_topk_accuracy(score, NULL, 1, 2, 1, &share), WEIR_ERR_INVALID);
    CHECK(share == 7);
}
