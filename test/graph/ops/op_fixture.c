/* op_fixture.c - tensors, values, views and expected answers of one row and shape set. */
#include "graph/ops/op_fixture.h"

#include <stdlib.h>

#include "check.h"
#include "half.h"

/* ---- shapes ---- */

int op_parse(const char *text, weir_dtype type, op_shape shape[OP_MAX_IN])
{
    int n = 0;
    while (*text == '(' && n < OP_MAX_IN) {
        op_shape s = {.desc = {.dtype = type}};
        for (text++; *text != ')' && s.desc.ndim < WEIR_MAX_DIMS; text += *text == ',') {
            char *end;
            s.desc.dim[s.desc.ndim++] = strtoll(text, &end, 10);
            if (end == text)
                return -1;
            text = end;
        }
        text++;
        if (*text && *text != '(')
            s.view = *text++;
        shape[n++] = s;
    }
    return *text ? -1 : n;
}

/* The tensor below a view. */
static weir_desc below(const op_shape *s)
{
    weir_desc d = s->desc;
    if (s->view == 't')
        for (int k = 0; k < d.ndim; k++)
            d.dim[k] = s->desc.dim[d.ndim - 1 - k];
    else if (s->view)
        d.dim[s->view == 'b' ? 0 : d.ndim - 1] = 1;
    return d;
}

static weir_tensor *through_view(const op_shape *s, weir_tensor *leaf)
{
    if (s->view == 't')
        return weir_transpose(leaf, NULL);
    if (!s->view)
        return leaf;
    weir_desc d = s->desc;
    d.dtype = weir_tensor_desc(leaf).dtype;
    return weir_broadcast_to(leaf, d);
}

/* What the reference sees of a leaf; *own tells whether it must be freed. */
static ref_array seen_through(const op_shape *s, ref_array *leaf, bool *own)
{
    ref_options o = {.ndim = 0};
    ref_call    c = {.o = &o, .type = leaf->desc.dtype, .nin = 1, .in = leaf};

    *own = s->view != 0;
    if (s->view == 't') {
        ref_transpose(&c);
    } else if (s->view) {
        o.ndim = s->desc.ndim;
        memcpy(o.to, s->desc.dim, sizeof o.to);
        ref_broadcast_to(&c);
    } else {
        return *leaf;
    }
    return c.out;
}

/* ---- values ---- */

static weir_dtype type_of(op_kind kind, weir_dtype type)
{
    return kind == OP_COUNTER ? WEIR_F64
         : kind == OP_CLASS_I32 || kind == OP_ROW_I32 ? WEIR_I32
         : kind == OP_CLASS_I64 || kind == OP_ROW_I64 ? WEIR_I64
         : kind == OP_MASK ? WEIR_BOOL : type;
}

/* As the element type holds it. */
static double rounded(double v, weir_dtype type, double middle)
{
    switch (type) {
    case WEIR_F64:
        return v;
    case WEIR_F32:
        return (double)(float)v;
    case WEIR_F16:
    case WEIR_BF16:
        return half_round(v, type);
    case WEIR_U8:
        return fmod(floor(fabs(v)), 256);
    case WEIR_I8:
        return fmod(floor(v), 128);
    case WEIR_U16:
    case WEIR_U32:
    case WEIR_U64:
        return floor(fabs(v));
    case WEIR_BOOL:
        return v > middle;
    default:
        return floor(v);
    }
}

/* A permutation of n equally spaced values. Each input has its own place within the spacing, so
 * that inputs do not meet either, and none is at 0: no kink of the operations is hit. */
static void spread(ref_array *a, const op_in *in, double place)
{
    const int64_t n = ref_count(&a->desc);

    for (int64_t i = 0; i < n; i++)
        a->at[i] = rounded(in->lo + (in->hi - in->lo) * ((double)i + place) / (double)n,
                           a->desc.dtype, 0.5 * (in->lo + in->hi));
    for (int64_t i = n - 1; i > 0; i--) {
        const int64_t k = check_int(0, i);
        const double  v = a->at[i];
        a->at[i] = a->at[k];
        a->at[k] = v;
    }
}

static void draw_leaf(op_fixture *t, int i)
{
    const op_in *const in = &t->row->in[i];
    ref_array *const   a = &t->leaf[i];
    const weir_desc   *logits = &t->shape[0].desc;

    const bool row = in->kind == OP_ROW_I32 || in->kind == OP_ROW_I64;

    if (row || in->kind == OP_CLASS_I32 || in->kind == OP_CLASS_I64) {
        const int64_t classes = logits->ndim > 0 ? logits->dim[row ? 0 : logits->ndim - 1] : 1;
        for (int64_t k = 0; k < ref_count(&a->desc); k++)
            a->at[k] = (double)check_int(0, classes > 0 ? classes - 1 : 0);
    } else {
        spread(a, in, (i + 0.37) / t->nin);
    }
}

static void encode(const double *from, int64_t n, weir_dtype type, void *to)
{
    for (int64_t i = 0; i < n; i++)
        element_set(type, to, i, from[i]);
}

static bool write_values(weir_tensor *t, const ref_array *a)
{
    const size_t bytes = weir_tensor_bytes(t);
    void *const  raw = calloc(bytes + 8, 1);

    encode(a->at, ref_count(&a->desc), a->desc.dtype, raw);
    const bool ok = CHECK_OK(weir_write(t, raw, bytes));
    free(raw);
    return ok;
}

bool op_write(op_fixture *t, int i)
{
    return write_values(t->tensor[i], &t->leaf[i]);
}

bool op_write_like(op_fixture *t, const op_fixture *like)
{
    for (int i = 0; i < t->nin; i++) {
        memcpy(t->leaf[i].at, like->leaf[i].at,
               (size_t)ref_count(&t->leaf[i].desc) * sizeof(double));
        if (!op_write(t, i))
            return false;
    }
    memcpy(t->weight.at, like->weight.at, (size_t)ref_count(&t->weight.desc) * sizeof(double));
    return write_values(t->weights, &t->weight);
}

double *op_read(const weir_tensor *t)
{
    const weir_desc d = weir_tensor_desc(t);
    const size_t    bytes = weir_tensor_bytes(t);
    void *const     raw = calloc(bytes + 8, 1);
    double         *v = calloc((size_t)ref_count(&d) + 1, sizeof *v);

    if (!CHECK_OK(weir_read(t, raw, bytes))) {
        free(v);
        v = NULL;
    }
    for (int64_t i = 0; v && i < ref_count(&d); i++)
        v[i] = element_get(d.dtype, raw, i);
    free(raw);
    return v;
}

bool op_draw(op_fixture *t, bool states)
{
    for (int i = 0; i < t->nin && !t->given; i++)
        if (states || !op_is_state(t, i)) {
            draw_leaf(t, i);
            if (!op_write(t, i))
                return false;
        }
    return true;
}

/* ---- open and close ---- */

static weir_tensor *make_leaf(const op_fixture *t, int i, weir_desc d)
{
    const bool is_float = (OP_ANY_FLOAT >> d.dtype & 1) != 0;

    if (op_is_state(t, i))
        return weir_state(t->dev, d, "state");
    return t->row->in[i].kind == OP_PARAM && is_float ? weir_param(t->dev, d, "param")
                                                      : weir_input(t->dev, d);
}

bool op_open_on(op_fixture *t, weir_device *d, const op_row *row, const op_set *set,
                weir_dtype type, const int *types)
{
    *t = (op_fixture){.row = row, .set = set, .type = type, .dev = d,
                    .given = row->in[0].kind == OP_NONE};
    t->nin = op_parse(set->in, type, t->shape);
    if (!CHECK(d) || !CHECK(t->nin > 0))
        return false;
    for (int i = 0; i < t->nin && !t->given; i++) {
        weir_desc below_view = below(&t->shape[i]);
        below_view.dtype = types && types[i] >= 0 ? (weir_dtype)types[i]
                                                  : type_of(row->in[i].kind, type);
        t->leaf[i] = ref_new(below_view);
        t->tensor[i] = make_leaf(t, i, below_view);
        if (!CHECK(t->tensor[i]))
            return false;
    }
    return op_draw(t, true);
}

static bool has_gradient(const op_fixture *t)
{
    for (int i = 0; i < t->nin; i++)
        if (op_is_wrt(t, i))
            return true;
    return false;
}

bool op_open_at(op_fixture *t, const char *device, const op_row *row, const op_set *set,
                weir_dtype type, int threads)
{
    static const op_in range = {OP_DATA, -1, 1};

    weir_device *const d =
        weir_device_open(device, &(weir_device_options){.threads = threads, .seed = 7});
    const bool ok = op_open_on(t, d, row, set, type, NULL);

    t->own = true;
    if (!ok)
        return false;
    if (!has_gradient(t))
        return true;
    t->weight = op_expect(t, NULL);         /* for its desc */
    spread(&t->weight, &range, 0.61);
    t->weights = weir_input(t->dev, t->weight.desc);
    return CHECK(t->weights) && write_values(t->weights, &t->weight) && op_draw(t, true);
}

bool op_open(op_fixture *t, const op_row *row, const op_set *set, weir_dtype type, int threads)
{
    return op_open_at(t, check_device(), row, set, type, threads);
}

void op_close(op_fixture *t)
{
    for (int i = 0; i < OP_MAX_IN; i++) {
        weir_release(t->tensor[i]);
        ref_free(&t->leaf[i]);
    }
    weir_release(t->weights);
    ref_free(&t->weight);
    if (t->own)
        weir_device_close(t->dev);
}

/* ---- answers ---- */

bool op_is_state(const op_fixture *t, int i)
{
    return t->row->in[i].kind == OP_STATE || t->row->in[i].kind == OP_COUNTER;
}

bool op_is_wrt(const op_fixture *t, int i)
{
    return t->row->in[i].kind == OP_PARAM && t->leaf[i].at && !t->set->flat &&
           (OP_ANY_FLOAT >> t->type & 1) != 0;
}

weir_tensor *op_apply(const op_fixture *t)
{
    op_call c = {.dev = t->dev, .o = &t->set->o, .desc = t->shape[0].desc};
    for (int i = 0; i < t->nin && !t->given; i++)
        c.in[i] = through_view(&t->shape[i], t->tensor[i]);
    return t->row->build(&c);
}

weir_status op_record(const op_fixture *t, bool keep_y, op_result *r)
{
    weir_tensor *wrt[OP_MAX_IN], *grad[OP_MAX_IN];
    size_t       n = 0;

    *r = (op_result){.y = op_apply(t)};
    if (!r->y)
        return weir_error_status();
    if (t->weights) {
        r->loss = weir_keep(weir_sum(weir_mul(r->y, t->weights), 0, false));
        for (int i = 0; i < t->nin; i++)
            if (op_is_wrt(t, i))
                wrt[n++] = t->tensor[i];
        WEIR_TRY(weir_gradients(r->loss, n, wrt, grad));
        n = 0;
        for (int i = 0; i < t->nin; i++)
            if (op_is_wrt(t, i))
                r->grad[i] = weir_keep(grad[n++]);
    }
    if (keep_y || !r->loss)
        weir_keep(r->y);
    else
        r->y = NULL;
    return WEIR_OK;
}

/* An exact answer as the element type stores it; f32 and f64 are left to the allowed error. No test
 * leaves i32 or i64. */
static double stored(double v, weir_dtype type)
{
    const double all = exp2(8.0 * (double)weir_dtype_size(type));
    const double least = type == WEIR_I8 || type == WEIR_I16 ? -all / 2 : 0;

    if (OP_HALVES >> type & 1)
        return half_round(v, type);
    if (!((OP_STORED | OP_U8) >> type & 1))
        return v;
    return v - all * floor((v - least) / all);
}

ref_array op_expect(op_fixture *t, const double *got)
{
    ref_array in[OP_MAX_IN];
    bool      own[OP_MAX_IN] = {false};
    ref_call  c = {.o = &t->set->o, .type = t->type, .nin = t->given ? 0 : t->nin, .in = in,
                   .desc = t->shape[0].desc, .got = got};

    for (int i = 0; i < c.nin; i++)
        in[i] = seen_through(&t->shape[i], &t->leaf[i], &own[i]);
    t->row->reference(&c);
    for (int i = 0; i < c.nin; i++)
        if (own[i])
            ref_free(&in[i]);
    for (int64_t i = 0; i < ref_count(&c.out.desc); i++)
        c.out.at[i] = stored(c.out.at[i], c.out.desc.dtype);
    return c.out;
}

static bool append(op_bytes *b, const weir_tensor *t)
{
    if (!t)
        return true;
    const size_t bytes = weir_tensor_bytes(t);
    b->at = realloc(b->at, b->n + bytes + 1);
    memset(b->at + b->n, 0xcd, bytes + 1);
    b->n += bytes;
    return CHECK_OK(weir_read(t, b->at + b->n - bytes, bytes));
}

bool op_read_all(const op_fixture *t, const op_result *r, op_bytes *out)
{
    bool ok = append(out, r->y) && append(out, r->loss);
    for (int i = 0; i < t->nin; i++)
        ok = ok && append(out, r->grad[i]) && (!op_is_state(t, i) || append(out, t->tensor[i]));
    return ok;
}

void op_bytes_free(op_bytes *b)
{
    free(b->at);
    *b = (op_bytes){NULL, 0};
}
