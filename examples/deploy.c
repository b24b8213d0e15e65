/* deploy.c - runs a network that examples/python/deploy.py trained and exported, without Python and
 * without the network's code. Usage: deploy FILE [BUDGET], from the root of the sources. */
#include <stdio.h>
#include <stdlib.h>

#include "digits.h"
#include "weir.h"

/* The labels of the batch whose score is the largest. */
static size_t count_correct(const float *scores, const int32_t *label, size_t n)
{
    size_t correct = 0;

    for (size_t i = 0; i < n; i++) {
        size_t best = 0;
        for (size_t c = 1; c < DIGITS_CLASSES; c++)
            if (scores[i * DIGITS_CLASSES + c] > scores[i * DIGITS_CLASSES + best])
                best = c;
        correct += (int32_t)best == label[i];
    }
    return correct;
}

/* Runs whole batches of the test set; the shape of the input "x" says what a batch is. */
static weir_status classify(weir_graph *g, const digits_set *test)
{
    weir_tensor *const x = weir_graph_tensor(g, "x"), *const y = weir_graph_tensor(g, "out0");

    if (!x || !y)
        return weir_error_status();
    const size_t batch = weir_tensor_bytes(x) / (DIGITS_PIXELS * sizeof(float));
    float *const scores = malloc(weir_tensor_bytes(y));
    size_t       correct = 0, n = 0;
    weir_status  status = scores ? WEIR_OK : WEIR_ERR_NOMEM;
    for (; status == WEIR_OK && batch > 0 && n + batch <= test->n; n += batch) {
        status = weir_write(x, test->image + n * DIGITS_PIXELS, weir_tensor_bytes(x));
        status = status == WEIR_OK ? weir_graph_run(g) : status;
        status = status == WEIR_OK ? weir_read(y, scores, weir_tensor_bytes(y)) : status;
        if (status == WEIR_OK)
            correct += count_correct(scores, test->label + n, batch);
    }
    free(scores);
    if (status == WEIR_OK)
        printf("correct: %zu of %zu\n", correct, n);
    return status;
}

int main(int argc, char **argv)
{
    digits d;

    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: deploy FILE [BUDGET]\n");
        return 2;
    }
    if (!digits_load("deploy", DIGITS_FILE, 1, &d))
        return 1;
    weir_device *const dev = weir_device_open("cpu", NULL);
    weir_graph *const  g =
        weir_graph_load(dev, argv[1], &(weir_plan_options){.budget = argc > 2 ? argv[2] : NULL});
    const weir_status status = g ? classify(g, &d.test) : weir_error_status();
    if (status != WEIR_OK)
        fprintf(stderr, "deploy: %s\n", weir_error());
    else if (*weir_graph_remark(g))
        printf("note: %s\n", weir_graph_remark(g));
    weir_graph_free(g);
    weir_device_close(dev);
    digits_free(&d);
    return status == WEIR_OK ? 0 : 1;
}
