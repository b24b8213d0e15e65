/* stale.c - checks operands that change between a call and its gradient: the gradient is an error,
 * unless it does not read the changed elements. */
#include <stdlib.h>

#include "graph/ops/way.h"

typedef enum change { HOST, ASSIGN, UPDATE, ADDRESS, CHANGES } change;

static const char *const changed_by[CHANGES] = {"weir_write", "assign", "accumulate",
                                                "whose address was given away"};

/* Other elements, each as good as an index. */
static weir_tensor *other_of(const op_fixture *t, int i)
{
    const weir_desc desc = t->leaf[i].desc;
    weir_tensor    *other = weir_input(t->dev, desc);

    CHECK_OK(weir_write_fill(other, t->leaf[i].at && ref_count(&desc) > 0 ? t->leaf[i].at[0] : 0));
    return other;
}

static bool may_accumulate(const op_fixture *t, int i)
{
    return (OP_ANY_FLOAT >> t->leaf[i].desc.dtype & 1) != 0;
}

static void host_write(weir_tensor *to, const weir_tensor *from)
{
    const size_t bytes = weir_tensor_bytes(from);
    void *const  data = malloc(bytes + 1);

    CHECK_OK(weir_read(from, data, bytes));
    CHECK_OK(weir_write(to, data, bytes));
    free(data);
}

static void make_change(const op_fixture *t, int i, change how, weir_tensor *other, void *memory)
{
    weir_tensor *const x = t->tensor[i];

    if (how == HOST)
        host_write(x, other);
    else if (how == ASSIGN)
        CHECK_OK(weir_assign(x, other));
    else if (how == UPDATE)
        CHECK_OK(weir_accumulate(x, other));
    else
        memset(memory, 0, weir_tensor_bytes(x));
}

/* Result, then the change of leaf i (-1: none), then the gradients, which are kept. */
static weir_status step(const op_fixture *t, int i, change how, weir_tensor *other, void *memory,
                        op_result *r)
{
    weir_tensor *wrt[OP_MAX_IN], *grad[OP_MAX_IN];
    size_t       n = 0;

    *r = (op_result){.y = op_apply(t)};
    r->loss = weir_keep(weir_sum(weir_mul(r->y, t->weights), 0, false));
    if (!CHECK(r->loss))
        return weir_error_status();
    if (i >= 0)
        make_change(t, i, how, other, memory);
    for (int k = 0; k < t->nin; k++)
        if (op_is_wrt(t, k))
            wrt[n++] = t->tensor[k];
    WEIR_TRY(weir_gradients(r->loss, n, wrt, grad));
    n = 0;
    for (int k = 0; k < t->nin; k++)
        if (op_is_wrt(t, k))
            r->grad[k] = weir_keep(grad[n++]);
    r->y = NULL;
    return WEIR_OK;
}

/* The loss and the gradients. */
static bool read_gradients(const op_fixture *t, op_result *r, op_bytes *out)
{
    op_fixture gradients = *t;

    gradients.row = &(op_row){.name = "none"};      /* without the states */
    return op_read_all(&gradients, r, out);
}

static void check_refused(int i, change how)
{
    CHECK_TEXT(weir_error(), "take all gradients before the change");
    check_that(strstr(weir_error(), changed_by[how]) != NULL, __FILE__, __LINE__,
               "input %d changed by %s: %s", i, changed_by[how], weir_error());
}

static void check_same(const op_bytes *want, const op_bytes *got, int i, change how)
{
    check_that(want->n == got->n && memcmp(want->at, got->at, want->n) == 0, __FILE__, __LINE__,
               "input %d changed by %s: neither an error nor the gradient of before", i,
               changed_by[how]);
}

/* The status of the step, whose gradients are in *out if it is WEIR_OK. */
static weir_status at_once(op_fixture *t, int i, change how, weir_tensor *other, void *memory,
                           op_bytes *out)
{
    op_result r;

    CHECK_OK(weir_device_seed(t->dev, 5));
    CHECK_OK(weir_scope_begin(t->dev));
    const weir_status status = step(t, i, how, other, memory, &r);
    if (status == WEIR_OK)
        CHECK(read_gradients(t, &r, out));
    CHECK_OK(weir_scope_end(t->dev));
    return status;
}

static weir_status in_graph(op_fixture *t, int i, change how, weir_tensor *other, void *memory,
                            op_bytes *out)
{
    op_result         r;
    weir_graph *const g = weir_graph_begin(t->dev);

    CHECK_OK(weir_device_seed(t->dev, 5));
    const weir_status status = step(t, i, how, other, memory, &r);
    if (status == WEIR_OK && CHECK_OK(weir_graph_end(g, NULL)) && CHECK_OK(weir_graph_run(g)))
        CHECK(read_gradients(t, &r, out));
    weir_graph_free(g);
    return status;
}

typedef weir_status (*way_of)(op_fixture *t, int i, change how, weir_tensor *other, void *memory,
                              op_bytes *out);

static void change_one(op_fixture *t, way_of way, int i, change how, const op_bytes *before)
{
    weir_tensor *const other = other_of(t, i);
    op_bytes           after = {NULL, 0};
    void              *memory = NULL;
    int64_t            stride[WEIR_MAX_DIMS];

    if (how == ADDRESS)
        CHECK_OK(weir_tensor_memory(t->tensor[i], &memory, stride));
    const weir_status status = way(t, i, how, other, memory, &after);
    if (status == WEIR_OK)
        check_same(before, &after, i, how);
    else if (CHECK_STATUS(status, WEIR_ERR_STATE))
        check_refused(i, how);
    op_bytes_free(&after);
    CHECK(op_write(t, i));
    weir_release(other);
}

/* A recorded forward and gradient read what the host wrote before the run, both. */
static bool counts(way_of way, change how)
{
    return way == at_once ? how != ADDRESS || check_on_cpu() : how == ASSIGN || how == UPDATE;
}

static void change_each(op_fixture *t, way_of way)
{
    op_bytes before = {NULL, 0};

    if (CHECK_OK(way(t, -1, HOST, NULL, NULL, &before)))
        for (change how = 0; how < CHANGES; how++)
            for (int i = 0; i < t->nin && counts(way, how); i++)
                if (t->leaf[i].at && (how != UPDATE || may_accumulate(t, i)))
                    change_one(t, way, i, how, &before);
    op_bytes_free(&before);
}

void op_way_stale(const op_check *c)
{
    op_fixture t;

    if (op_open(&t, c->row, c->set, c->type, 1)) {
        change_each(&t, in_graph);
        change_each(&t, at_once);
    }
    op_close(&t);
}
