/* collective.c - definitions of collectives, and their gradients: all_reduce is its own,
 * reduce_scatter and all_gather are one another's, broadcast_from's is reduce_to, and what was sent
 * comes back.
 *
 * None is pure: a call that one rank drops or repeats is missing on the others, so calls are never
 * merged, dropped or repeated and keep their order, as those of the caller's functions do. */
#include <stdint.h>

#include "device/collective.h"
#include "graph/ir/session.h"
#include "graph/ops/define.h"
#include "weir/graph.h"

static weir_collective_attr attr_of(weir_comm *c, int peer)
{
    return (weir_collective_attr){.comm = (uintptr_t)c, .rank = c->rank, .world = c->world,
                                  .peer = peer};
}

static weir_comm *comm_of(const weir_collective_attr *a)
{
    return (weir_comm *)(uintptr_t)a->comm;
}

static weir_tensor *record_one(weir_op op, weir_comm *c, weir_tensor *x, int peer)
{
    const weir_collective_attr a = attr_of(c, peer);

    return weir_record1(op, 1, &x, &a, sizeof a);
}

/* ---- shapes ---- */

static weir_status sum_infer(weir_call *c)
{
    WEIR_TRY(weir_check_types(c, WEIR_TYPES_NUMBER));
    weir_out_like(c, 0, 0);
    return WEIR_OK;
}

/* Output 0 is input 0 with axis 0 multiplied or divided by the number of ranks. */
static weir_status parts_infer(weir_call *c, bool divide)
{
    const weir_collective_attr *const a = c->attr;
    weir_desc                         d = c->in[0].desc;

    if (d.ndim == 0)
        return weir_call_fail(WEIR_ERR_SHAPE, c, "a scalar has no axis 0, which is divided among "
                              "%lld ranks", (long long)a->world);
    if (divide && d.dim[0] % a->world != 0)
        return weir_call_fail(WEIR_ERR_SHAPE, c, "axis 0 of %lld elements is not divisible by %lld "
                              "ranks", (long long)d.dim[0], (long long)a->world);
    if (divide)
        d.dim[0] /= a->world;
    else if (__builtin_mul_overflow(d.dim[0], a->world, &d.dim[0]))
        return weir_call_fail(WEIR_ERR_SHAPE, c, "the parts of %lld ranks are too large",
                              (long long)a->world);
    return weir_out_checked(c, 0, &d);
}

static weir_status scatter_infer(weir_call *c)
{
    WEIR_TRY(weir_check_types(c, WEIR_TYPES_NUMBER));
    return parts_infer(c, true);
}

static weir_status gather_infer(weir_call *c)
{
    return parts_infer(c, false);
}

/* The token. */
static weir_status send_infer(weir_call *c)
{
    const weir_desc token = weir_scalar(WEIR_F32);

    return weir_out_checked(c, 0, &token);
}

static weir_status recv_infer(weir_call *c)
{
    const weir_collective_attr *const a = c->attr;
    const weir_desc                   d = weir_desc_unpack(&a->desc);

    if (c->nin > 0 && (c->in[0].desc.ndim != 0 || c->in[0].desc.dtype != WEIR_F32))
        return weir_call_fail(WEIR_ERR_SHAPE, c, "`through` must be a scalar f32");
    return weir_out_checked(c, 0, &d);
}

/* ---- gradients ---- */

static weir_status all_reduce_grad(weir_grad *g)
{
    return weir_grad_set(g, 0, weir_all_reduce(comm_of(g->attr), g->dy[0]));
}

static weir_status scatter_grad(weir_grad *g)
{
    return weir_grad_set(g, 0, weir_all_gather(comm_of(g->attr), g->dy[0]));
}

static weir_status gather_grad(weir_grad *g)
{
    return weir_grad_set(g, 0, weir_reduce_scatter(comm_of(g->attr), g->dy[0]));
}

static weir_status broadcast_grad(weir_grad *g)
{
    const weir_collective_attr *const a = g->attr;

    return weir_grad_set(g, 0, record_one(WEIR_OP_REDUCE_TO, comm_of(a), g->dy[0], (int)a->peer));
}

static weir_status reduce_grad(weir_grad *g)
{
    const weir_collective_attr *const a = g->attr;

    return weir_grad_set(g, 0, weir_broadcast_from(comm_of(a), g->dy[0], (int)a->peer));
}

static weir_status send_grad(weir_grad *g)
{
    const weir_collective_attr *const a = g->attr;

    return weir_grad_set(g, 0, weir_recv_from(comm_of(a), g->x[0]->layout.desc, (int)a->peer,
                                              NULL));
}

static weir_status recv_grad(weir_grad *g)
{
    const weir_collective_attr *const a = g->attr;

    return weir_grad_set(g, 0, weir_send_to(comm_of(a), g->dy[0], (int)a->peer));
}

/* ---- definitions ---- */

#define COLLECTIVE(id, least, in_place, infer_fn, grad_fn)                                         \
    const weir_opdef weir_op_##id = {                                                              \
        .name = #id,                                                                               \
        .flags = WEIR_CALLER | WEIR_COLLECTIVE,                                                    \
        .nin_min = least,                                                                          \
        .nin_max = 1,                                                                              \
        .nout = 1,                                                                                 \
        .inplace = in_place,                                                                       \
        .differentiable = 1,                                                                       \
        .infer = infer_fn,                                                                         \
        .grad = grad_fn,                                                                           \
        .flops = weir_flops_none,                                                                  \
    }

COLLECTIVE(all_reduce, 1, 1, sum_infer, all_reduce_grad);

/* An all_reduce in two calls (graph/plan/collectives.c): the first returns while the wire may still
 * read its input and write its output; the second, of the output, waits until it does not. */
COLLECTIVE(all_reduce_start, 1, 1, weir_infer_planner_only, all_reduce_grad);

const weir_opdef weir_op_all_reduce_wait = {
    .name = "all_reduce_wait",
    .flags = WEIR_CALLER | WEIR_COLLECTIVE,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 0,
    .infer = weir_infer_planner_only,
    .flops = weir_flops_none,
};

COLLECTIVE(reduce_scatter, 1, 0, scatter_infer, scatter_grad);
COLLECTIVE(all_gather, 1, 0, gather_infer, gather_grad);
COLLECTIVE(broadcast_from, 1, 1, weir_infer_like, broadcast_grad);
COLLECTIVE(reduce_to, 1, 1, sum_infer, reduce_grad);
COLLECTIVE(send_to, 1, 0, send_infer, send_grad);
COLLECTIVE(recv_from, 0, 0, recv_infer, recv_grad);

/* ---- public functions ---- */

/* Fails unless c and x are there and on one device. */
static weir_status check(const char *who, const weir_comm *c, const weir_tensor *x)
{
    if (!c || !x)
        return weir_fail_null(who, c ? "x" : "communicator");
    if (x->dev != c->dev)
        return weir_fail(WEIR_ERR_DEVICE, "%s: the tensor is not on the communicator's device",
                         who);
    return WEIR_OK;
}

static weir_status check_root(const char *who, const weir_comm *c, int root)
{
    if (root >= 0 && root < c->world)
        return WEIR_OK;
    return weir_fail(WEIR_ERR_INVALID, "%s: %d is no rank in a world of %d", who, root, c->world);
}

static weir_status check_other(const char *who, const weir_comm *c, int peer)
{
    WEIR_TRY(check_root(who, c, peer));
    if (peer != c->rank)
        return WEIR_OK;
    return weir_fail(WEIR_ERR_INVALID, "%s: rank %d is this one", who, peer);
}

weir_tensor *weir_all_reduce(weir_comm *c, weir_tensor *x)
{
    if (check("weir_all_reduce", c, x) != WEIR_OK)
        return NULL;
    return c->world == 1 ? x : record_one(WEIR_OP_ALL_REDUCE, c, x, -1);
}

/* ---- sums that share messages ---- */

/* Sums n tensors of one type in one message. */
static weir_status sum_joined(weir_comm *c, int n, weir_tensor *const *x, weir_tensor **row,
                              weir_tensor **sum)
{
    int64_t at = 0;

    for (int i = 0; i < n; i++)
        row[i] = weir_reshape(x[i], 1, (int64_t[]){-1});
    weir_tensor *const all = weir_all_reduce(c, weir_concat(n, row, 0));
    for (int i = 0; i < n; i++) {
        const weir_desc    d = x[i]->layout.desc;
        const int64_t      end = at + weir_shape_count(&d);
        weir_tensor *const one =
            weir_slice(all, (int64_t[]){at}, (int64_t[]){end}, (int64_t[]){1});
        sum[i] = weir_reshape(one, d.ndim, d.dim);
        WEIR_TRY(weir_made(sum[i]));
        at = end;
    }
    return WEIR_OK;
}

/* The number of tensors from the first on that share a message of at most `most` bytes. */
static int group_of(int n, weir_tensor *const *x, size_t most)
{
    size_t bytes = weir_tensor_bytes(x[0]);
    int    k = 1;

    while (k < n && x[k]->layout.desc.dtype == x[0]->layout.desc.dtype && bytes <= most &&
           weir_tensor_bytes(x[k]) <= most - bytes)
        bytes += weir_tensor_bytes(x[k++]);
    return k;
}

/* At once, with the graph off. */
static weir_status sum_groups(weir_comm *c, int n, weir_tensor *const *x, size_t most,
                              weir_tensor **sum)
{
    weir_tensor **const row = weir_mem_alloc((size_t)n * sizeof(weir_tensor *));
    weir_status         status = row ? WEIR_OK : WEIR_ERR_NOMEM;

    for (int i = 0, k; i < n && status == WEIR_OK; i += k) {
        k = group_of(n - i, x + i, most);
        if (k == 1)
            status = weir_made(sum[i] = weir_all_reduce(c, x[i]));
        else
            status = sum_joined(c, k, x + i, row, sum + i);
    }
    weir_mem_free(row);
    return status;
}

weir_status weir_all_reduce_coalesced(weir_comm *c, int n, weir_tensor *const *x, size_t most,
                                      weir_tensor **sum)
{
    if (n < 0 || (n > 0 && (!x || !sum)))
        return weir_fail(WEIR_ERR_INVALID, "weir_all_reduce_coalesced: %d tensors, x or sum is "
                         "NULL", n);
    for (int i = 0; i < n; i++)
        WEIR_TRY(check("weir_all_reduce_coalesced", c, x[i]));
    weir_session *const s = n > 0 ? weir_session_of(c->dev) : NULL;
    if (n > 0 && !s)
        return WEIR_ERR_NOMEM;
    if (n > 0 && c->world > 1 && !s->recording)
        return sum_groups(c, n, x, most > 0 ? most : WEIR_BUCKET_BYTES, sum);
    weir_collective_attr a = n > 0 ? attr_of(c, -1) : (weir_collective_attr){0};
    a.bucket = most == 0 ? WEIR_BUCKET_PLANNED : most < INT64_MAX ? (int64_t)most : INT64_MAX;
    for (int i = 0; i < n; i++) {
        sum[i] = c->world == 1 ? x[i]
                               : weir_record1(WEIR_OP_ALL_REDUCE, 1, &x[i], &a, sizeof a);
        WEIR_TRY(weir_made(sum[i]));
    }
    return WEIR_OK;
}

weir_tensor *weir_reduce_scatter(weir_comm *c, weir_tensor *x)
{
    if (check("weir_reduce_scatter", c, x) != WEIR_OK)
        return NULL;
    return c->world == 1 ? x : record_one(WEIR_OP_REDUCE_SCATTER, c, x, -1);
}

weir_tensor *weir_all_gather(weir_comm *c, weir_tensor *x)
{
    if (check("weir_all_gather", c, x) != WEIR_OK)
        return NULL;
    return c->world == 1 ? x : record_one(WEIR_OP_ALL_GATHER, c, x, -1);
}

weir_tensor *weir_broadcast_from(weir_comm *c, weir_tensor *x, int root)
{
    if (check("weir_broadcast_from", c, x) != WEIR_OK ||
        check_root("weir_broadcast_from", c, root) != WEIR_OK)
        return NULL;
    return c->world == 1 ? x : record_one(WEIR_OP_BROADCAST_FROM, c, x, root);
}

weir_tensor *weir_send_to(weir_comm *c, weir_tensor *x, int to)
{
    if (check("weir_send_to", c, x) != WEIR_OK || check_other("weir_send_to", c, to) != WEIR_OK)
        return NULL;
    return record_one(WEIR_OP_SEND_TO, c, x, to);
}

weir_tensor *weir_recv_from(weir_comm *c, weir_desc desc, int from, weir_tensor *through)
{
    const char *const who = "weir_recv_from";
    weir_tensor      *y = NULL;

    if (!c)
        return weir_null(who, "communicator");
    weir_collective_attr a = attr_of(c, from);
    if (check_other(who, c, from) != WEIR_OK || weir_desc_pack(who, &desc, &a.desc) != WEIR_OK ||
        (through && check(who, c, through) != WEIR_OK))
        return NULL;
    if (weir_record_on(c->dev, WEIR_OP_RECV_FROM, through ? 1 : 0, &through, &a, sizeof a, &y) !=
        WEIR_OK)
        return NULL;
    return y;
}
