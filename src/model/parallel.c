/* parallel.c - data parallelism: gradients summed over the ranks of a communicator.
 *
 * Gradients may share messages (weir_all_reduce_coalesced). Sums go element by element in the order
 * of ranks, so how they do changes no bit. */
#include <string.h>

#include "model/digest.h"
#include "model/optim.h"
#include "model/statistics.h"

/* ---- beginning ---- */

/* What ranks must agree on, as bytes. */
typedef struct agreement {
    int64_t micro_batches;
    uint64_t bucket, params, states, wire;
} agreement;

static weir_status agree(weir_comm *c, const weir_optim *o, const weir_model *m)
{
    const agreement mine = {o->micro_batches, o->bucket, m ? weir_model_param_count(m) : 0,
                            m ? weir_model_state_count(m) : 0, (uint64_t)o->wire};
    bool            equal;

    WEIR_TRY(weir_comm_equal(c, &mine, sizeof mine, &equal));
    return equal ? WEIR_OK
                 : weir_fail(WEIR_ERR_COMM, "data_parallel: ranks differ in micro_batches, bucket, "
                             "wire or the number of the model's parameters or states; this one has "
                             "%lld, %zu, %s, %zu and %zu", (long long)mine.micro_batches, o->bucket,
                             weir_dtype_name(o->wire), (size_t)mine.params, (size_t)mine.states);
}

static weir_status share_model(weir_comm *c, const weir_model *m)
{
    for (size_t i = 0; i < weir_model_param_count(m); i++)
        WEIR_TRY(weir_comm_share(c, weir_model_param(m, i), 0));
    for (size_t i = 0; i < weir_model_state_count(m); i++)
        WEIR_TRY(weir_comm_share(c, weir_model_state(m, i), 0));
    return WEIR_OK;
}

/* Goes on with rank 0's random stream, at the beginning of a step. */
static weir_status share_random(const weir_optim *o)
{
    const uint64_t    m = (uint64_t)weir_optim_micro_batches(o);
    weir_random       mine = weir_device_random(o->dev);
    weir_random *const all = weir_host_alloc((size_t)weir_comm_world(o->comm) * sizeof *all);

    if (!all)
        return weir_error_status();
    weir_status s = weir_comm_gather(o->comm, &mine, sizeof mine, all);
    if (s == WEIR_OK) {
        all[0].position = ((all[0].position >> 32) / m + 1) * m << 32;
        s = weir_device_set_random(o->dev, weir_optim_random(o, all[0]));
    }
    weir_host_free(all);
    return s;
}

/* Rows of partial sums that the tree over n micro-batches needs: 2^rows >= n. The tree over up to
 * three adds them one after another. */
static int levels_of(int64_t n)
{
    int levels = 0;

    while (n > 3 && levels < 62 && (int64_t)1 << levels < n)
        levels++;
    return levels;
}

/* Chooses how micro-batches of this rank are added. */
static weir_status choose_sums(weir_optim *o, const weir_comm *c)
{
    o->levels = strcmp(weir_comm_order(c), "tree") == 0 ? levels_of(o->micro_batches) : 0;
    if (o->levels > 0 && !o->summed)
        o->summed = weir_optim_state_new(o, weir_scalar(WEIR_F64), o->method->name, "summed", 0);
    return o->levels == 0 || o->summed ? WEIR_OK : weir_error_status();
}

weir_status weir_data_parallel(weir_optim *o, weir_comm *c, const weir_parallel_options *options)
{
    const weir_parallel_options p = options ? *options : (weir_parallel_options){0};

    if (!o || !c)
        return weir_fail_null("data_parallel", o ? "communicator" : "optimiser");
    if (p.micro_batches < 0)
        return weir_fail(WEIR_ERR_INVALID, "data_parallel: %lld micro-batches",
                         (long long)p.micro_batches);
    if (p.wire != WEIR_F32 && p.wire != WEIR_F16 && p.wire != WEIR_BF16)
        return weir_fail(WEIR_ERR_DTYPE, "data_parallel: wire is %s (expected f32, f16 or bf16)",
                         weir_dtype_name(p.wire));
    if (o->slots.n > 0)
        return weir_fail(WEIR_ERR_STATE, "data_parallel: the optimiser has updated %zu parameters "
                         "already", o->slots.n);
    o->micro_batches = p.micro_batches > 0 ? p.micro_batches : 1;
    o->bucket = p.bucket;
    o->wire = p.wire;
    WEIR_TRY(agree(c, o, p.model));
    WEIR_TRY(choose_sums(o, c));
    if (p.model)
        WEIR_TRY(share_model(c, p.model));
    o->model = weir_comm_world(c) > 1 ? p.model : NULL;
    if (o->model)
        WEIR_TRY(weir_statistics_begin(o->model, o->micro_batches));
    o->comm = c;
    o->reduce = weir_comm_world(c) > 1 || o->micro_batches > 1 ? weir_optim_reduce : NULL;
    return o->reduce ? share_random(o) : WEIR_OK;
}

/* ---- parameters ---- */

/* Ranks that begin with other parameters would never meet. */
static weir_status check_equal(weir_optim *o, weir_tensor *param)
{
    weir_slot *const s = weir_optim_slot(o, param);
    const size_t     bytes = weir_tensor_bytes(param);
    bool             equal = true;
    uint64_t         digest = 0;

    if (!s || s->equal || weir_comm_world(o->comm) == 1)
        return s ? WEIR_OK : weir_error_status();
    void *const data = weir_host_alloc(bytes + 1);
    if (!data)
        return weir_error_status();
    const weir_status status = weir_read(param, data, bytes);
    if (status == WEIR_OK)
        digest = weir_digest(data, bytes);
    weir_host_free(data);
    WEIR_TRY(status);
    WEIR_TRY(weir_comm_equal(o->comm, &digest, sizeof digest, &equal));
    if (!equal)
        return weir_fail(WEIR_ERR_STATE, "data_parallel: parameter '%s' differs between ranks: "
                         "name the model in the options, or call weir_comm_share",
                         weir_tensor_name(param));
    s->equal = true;
    return WEIR_OK;
}

/* ---- sums ---- */

/* Casts each gradient to the type that is sent, or a sum back to its own. */
static weir_status cast_all(const weir_optim *o, const weir_pair *pairs, size_t n, bool back,
                            weir_tensor **t)
{
    for (size_t i = 0; i < n; i++) {
        const weir_dtype own = weir_tensor_desc(pairs[i].grad).dtype;
        t[i] = back ? t[i] : pairs[i].grad;
        if (o->wire != WEIR_F32 && (own == WEIR_F32 || own == WEIR_F64))
            t[i] = weir_cast(t[i], back ? own : o->wire);
        if (!t[i])
            return weir_error_status();
    }
    return WEIR_OK;
}

/* The gradients' sums over all ranks, sent as halves where the options ask for it. */
static weir_status sum_all(const weir_optim *o, const weir_pair *pairs, size_t n, weir_tensor **t)
{
    for (size_t i = 0; i < n; i++)
        t[i] = pairs[i].grad;
    if (weir_comm_world(o->comm) == 1)      /* nothing is sent */
        return WEIR_OK;
    WEIR_TRY(cast_all(o, pairs, n, false, t));
    WEIR_TRY(weir_all_reduce_coalesced(o->comm, (int)n, t, o->bucket, t));
    return cast_all(o, pairs, n, true, t);
}

static weir_status sum_and_scale(const weir_optim *o, const weir_pair *pairs, size_t n,
                                 weir_tensor **t, weir_pair *out)
{
    const double ranks = weir_comm_world(o->comm);
    const double m = ranks * (double)o->micro_batches;

    WEIR_TRY(sum_all(o, pairs, n, t));
    for (size_t i = 0; i < n; i++) {
        out[i] = (weir_pair){pairs[i].param, weir_affine(t[i], 1 / m, 0)};
        if (!out[i].grad)
            return weir_error_status();
    }
    return WEIR_OK;
}

weir_status weir_optim_reduce(weir_optim *o, const weir_pair *pairs, size_t n, weir_pair *out)
{
    if (!o || !pairs || !out)
        return weir_poison(weir_fail_null("optim_reduce", !o      ? "optimiser"
                                                          : pairs ? "out"
                                                                  : "pairs"));
    for (size_t i = 0; i < n; i++)
        if (!pairs[i].param || !pairs[i].grad)
            return weir_poison(weir_fail_null("optim_reduce", "a tensor of pairs"));
    if (!o->reduce) {
        memmove(out, pairs, n * sizeof *out);
        return WEIR_OK;
    }
    for (size_t i = 0; i < n; i++)
        WEIR_TRY(check_equal(o, pairs[i].param));
    weir_tensor **const sum = weir_host_alloc((n + 1) * sizeof(weir_tensor *));
    if (!sum)
        return weir_poison(weir_error_status());
    const weir_status status = sum_and_scale(o, pairs, n, sum, out);
    weir_host_free(sum);
    return status != WEIR_OK ? weir_poison(status) : WEIR_OK;
}
