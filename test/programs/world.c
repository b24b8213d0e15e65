/* world.c - a program's device, leaves, layers and optimisers, and how one operation is played. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "programs/ops.h"

int64_t elements(const weir_desc *d)
{
    int64_t n = 1;
    for (int i = 0; i < d->ndim; i++)
        n *= d->dim[i];
    return n;
}

/* ---- operations by number ---- */

static const struct {
    const op_def *at;
    const int    *n;
} tables[] = {{ops_plain, &ops_plain_n}, {ops_shape, &ops_shape_n}, {ops_net, &ops_net_n},
              {ops_state, &ops_state_n}, {ops_train, &ops_train_n}};
enum { TABLES = sizeof tables / sizeof *tables };

const op_def *op_of(int kind)
{
    int t = 0;
    while (t < TABLES - 1 && kind >= *tables[t].n)
        kind -= *tables[t++].n;
    return &tables[t].at[kind];
}

int op_count(void)
{
    int n = 0;
    for (int t = 0; t < TABLES; t++)
        n += *tables[t].n;
    return n;
}

int op_named(const char *name)
{
    for (int k = 0; k < op_count(); k++)
        if (strcmp(op_of(k)->name, name) == 0)
            return k;
    return -1;
}

int *op_in(op *o, int ref)
{
    o->in[o->nin] = ref;
    return &o->in[o->nin++];
}

weir_status play_op(stage *s, const op *o)
{
    weir_tensor *in[MAX_IN], *out[MAX_OUT] = {NULL};
    for (int i = 0; i < o->nin; i++)
        in[i] = o->in[i] < 0 ? s->w->leaf[-1 - o->in[i]] : s->value[o->in[i]];
    WEIR_TRY(op_of(o->kind)->play(s, o, in, out));
    for (int i = 0; i < o->nout; i++)
        s->value[o->out + i] = out[i];
    return WEIR_OK;
}

static weir_status close_scopes(stage *s)
{
    weir_status status = WEIR_OK;
    for (; s->casts > 0; s->casts--)
        status = status ? status : weir_autocast_end(s->w->d);
    for (; s->regions > 0; s->regions--)
        status = status ? status : weir_region_end(s->w->d);
    for (; s->quiet > 0; s->quiet--)
        status = status ? status : weir_no_grad_end(s->w->d);
    return status;
}

weir_status play_graph(void *stage_)
{
    stage *const       s = stage_;
    const graph *const g = &s->w->p->graph[s->g];
    weir_status        status = WEIR_OK;

    s->nkept = s->casts = s->quiet = s->regions = 0;
    weir_model_train(s->w->model, !g->eval);
    for (int i = 0; i < g->nop && status == WEIR_OK; i++)
        status = play_op(s, &g->op[i]);
    const weir_status closed = close_scopes(s);
    return status ? status : closed;
}

/* ---- data ---- */

/* Element i of an array of type t; reals in [lo, hi), halves of random bits below 1. */
static void put_drawn(void *at, int64_t i, weir_dtype t, bool whole, dice *r, double lo, double hi)
{
    const double v = whole ? (double)dice_int(r, (int64_t)lo, (int64_t)hi) : dice_real(r, lo, hi);
    const int64_t bits = dice_int(r, 0, 1) << 15;
    switch (t) {
    case WEIR_F32:  ((float *)at)[i] = (float)v; break;
    case WEIR_F64:  ((double *)at)[i] = v; break;
    case WEIR_I32:  ((int32_t *)at)[i] = (int32_t)v; break;
    case WEIR_I64:  ((int64_t *)at)[i] = (int64_t)v; break;
    case WEIR_U8:   ((uint8_t *)at)[i] = (uint8_t)v; break;
    case WEIR_BOOL: ((uint8_t *)at)[i] = v != 0; break;
    case WEIR_F16:
        ((uint16_t *)at)[i] = (uint16_t)(bits | dice_int(r, 9 << 10, (15 << 10) - 1));
        break;
    default: ((uint16_t *)at)[i] = (uint16_t)(bits | dice_int(r, 120 << 7, (127 << 7) - 1));
    }
}

weir_status write_leaf(world *w, int i, uint64_t seed)
{
    const leaf *const l = &w->p->leaf[i];
    const size_t      bytes = weir_tensor_bytes(w->leaf[i]);
    void *const       data = malloc(bytes + 1);
    dice              r = {seed};

    if (!data)
        return weir_fail(WEIR_ERR_NOMEM, "no memory for %zu bytes of data", bytes);
    for (int64_t k = 0; k < elements(&l->desc); k++)
        put_drawn(data, k, l->desc.dtype, l->data == DATA_WHOLE, &r, l->lo, l->hi);
    const weir_status status = weir_write(w->leaf[i], data, bytes);
    free(data);
    return status;
}

weir_status world_add_leaf(world *w, int i)
{
    const leaf *const l = &w->p->leaf[i];
    char              name[16] = {'l', (char)('0' + i / 10), (char)('0' + i % 10)};
    w->leaf[i] = l->kind == LEAF_PARAM   ? weir_param(w->d, l->desc, name)
                 : l->kind == LEAF_STATE ? weir_state(w->d, l->desc, name)
                                         : weir_input(w->d, l->desc);
    if (!w->leaf[i])
        return weir_error_status();
    if (l->data == DATA_FILL)
        return weir_write_fill(w->leaf[i], l->lo);
    if (l->data == DATA_DRAWN)
        return weir_write_uniform(w->leaf[i], l->lo, l->hi);
    return write_leaf(w, i, l->seed);
}

weir_status world_add_layer(world *w, int i)
{
    const layer *const l = &w->p->layer[i];
    const int64_t      a = l->a[0], b = l->a[1];
    weir_model *const  m = w->model;
    weir_layer        *made = NULL;
    char               name[8] = {'n', (char)('0' + i)};
    switch (l->kind) {
    case LAYER_LINEAR: made = weir_linear_new(m, name, a, b, l->a[2] > 1); break;
    case LAYER_MLP:    made = weir_mlp_new(m, 3, (int64_t[]){a, b + 2, 4}); break;
    case LAYER_CONV:
        made = weir_conv2d_new(m, name, a, b, 1 + 2 * (l->a[2] > 1),
                               &(weir_conv2d_options){.pad = {1, 1}}, true);
        break;
    case LAYER_BATCH_NORM: made = weir_batch_norm_new(m, name, a); break;
    case LAYER_LAYER_NORM: made = weir_layer_norm_new(m, name, a); break;
    case LAYER_EMBEDDING:  made = weir_embedding_new(m, name, a, b, WEIR_F32, 0.5); break;
    case LAYER_LSTM:       made = weir_lstm_new(m, name, a, b, (int)l->a[2], b > 4); break;
    case LAYER_GRU:        made = weir_gru_new(m, name, a, b, (int)l->a[2], b > 4); break;
    default:               made = weir_dropout_new(m, 0.3);
    }
    w->layer[i] = made;
    return made ? WEIR_OK : weir_error_status();
}

weir_status world_add_optim(world *w, int i)
{
    const optim *const        o = &w->p->optim[i];
    const int                 v = o->variant;
    const weir_sgd_options    sgd = {.momentum = v % 2 ? 0.9 : 0, .weight_decay = v > 1 ? 1e-2 : 0,
                                     .nesterov = v == 3};
    const weir_adam_options   adam = {.beta1 = v % 2 ? 0.8 : 0, .weight_decay = v > 1 ? 1e-2 : 0};
    const weir_adagrad_options ada = {.lr_decay = v % 2 ? 0.1 : 0, .eps_inside = v > 1,
                                      .initial_accumulator = 0.1};
    const weir_rmsprop_options rms = {.momentum = v % 2 ? 0.9 : 0, .centered = v > 1};
    switch (o->kind) {
    case OPTIM_SGD:     w->optim[i] = weir_sgd_new(w->d, o->lr, &sgd); break;
    case OPTIM_ADAM:    w->optim[i] = weir_adam_new(w->d, o->lr, &adam); break;
    case OPTIM_ADAMW:   w->optim[i] = weir_adamw_new(w->d, o->lr, &adam); break;
    case OPTIM_ADAGRAD: w->optim[i] = weir_adagrad_new(w->d, o->lr, &ada); break;
    default:            w->optim[i] = weir_rmsprop_new(w->d, o->lr, &rms);
    }
    if (!w->optim[i])
        return weir_error_status();
    if (o->scaled) {
        w->scaler[i] = weir_scaler_new(w->d, &(weir_scaler_options){.scale = 256, .interval = 2});
        if (!w->scaler[i])
            return weir_error_status();
        WEIR_TRY(weir_optim_set_scaler(w->optim[i], w->scaler[i]));
    }
    WEIR_TRY(weir_optim_set_clip_norm(w->optim[i], o->clip_norm));
    return weir_optim_set_clip_value(w->optim[i], o->clip_value);
}

weir_status world_open(world *w, const program *p, const mode *m)
{
    *w = (world){.p = p, .m = m};
    for (int g = 0; g < MAX_GRAPHS; g++)
        w->stage[g] = (stage){.w = w, .g = g};
    w->d = weir_device_open("cpu", &(weir_device_options){.threads = m->threads, .seed = 11});
    w->model = weir_model_new(w->d);
    if (!w->model)
        return weir_error_status();
    WEIR_TRY(weir_model_set_precision(w->model, p->precision));
    for (int i = 0; i < p->nleaf; i++)
        WEIR_TRY(world_add_leaf(w, i));
    for (int i = 0; i < p->nlayer; i++)
        WEIR_TRY(world_add_layer(w, i));
    for (int i = 0; i < p->noptim; i++)
        WEIR_TRY(world_add_optim(w, i));
    return WEIR_OK;
}

void world_close(world *w)
{
    for (int i = 0; i < MAX_OPTIMS; i++) {
        weir_optim_free(w->optim[i]);
        weir_scaler_free(w->scaler[i]);
    }
    for (int i = 0; i < MAX_LEAVES; i++)
        weir_release(w->leaf[i]);
    weir_model_free(w->model);
    weir_device_close(w->d);
}
