/* tree.c - a binary tree-LSTM: tokens at the leaves, logits from the root.
 *
 * Tai et al., "Improved semantic representations from tree-structured long short-term memory
 * networks", 2015, section 3.2 with two children: the gates of a leaf see its token's vector, those
 * of an inner node the outputs of both children, and each child has a forget gate of its own. All
 * samples have the same tree. It is kept as a list of merges: of the subtrees side by side, the one
 * at `merge[i]` and its right neighbour become one. */
#include "model/nets/nets.h"

#define SEED WEIR_SPLITMIX64_STEP

/* Output and cell of a subtree, (n, width) each. */
typedef struct subtree {
    weir_tensor *h, *c;
} subtree;

typedef struct tree_lstm {
    weir_layer   base;
    int64_t      width;
    int          leaves;
    weir_layer  *token, *leaf, *node, *out;
    int          merge[];       /* [leaves - 1] */
} tree_lstm;

/* Returns c and h = sigmoid(o) tanh(c), moved to the caller's scope. x: the tensor with which the
 * unit was begun. */
static subtree unit_end(const weir_tensor *x, weir_tensor *c, weir_tensor *o)
{
    weir_tensor *h = weir_mul(weir_sigmoid(o), weir_tanh(c));

    if (h)
        (void)weir_escape(h);
    c = weir_unit_end(x, c);
    return (subtree){h, c};
}

/* x (n, width): i, o, u = W x + b; c = sigmoid(i) tanh(u), h = sigmoid(o) tanh(c) */
static subtree leaf(const tree_lstm *l, weir_tensor *x)
{
    weir_tensor *gate[3];

    if (!weir_unit_begin(x))
        return (subtree){NULL, NULL};
    (void)weir_split(weir_apply(l->leaf, x), 1, 3, NULL, gate);
    return unit_end(x, weir_mul(weir_sigmoid(gate[0]), weir_tanh(gate[2])), gate[1]);
}

/* i, o, u, f, g = U (h_a, h_b) + b; c = sigmoid(i) tanh(u) + sigmoid(f) c_a + sigmoid(g) c_b */
static subtree join(const tree_lstm *l, subtree a, subtree b)
{
    weir_tensor *gate[5];

    if (!weir_unit_begin(a.h))
        return (subtree){NULL, NULL};
    weir_tensor *const below = weir_concat(2, (weir_tensor *[]){a.h, b.h}, 1);
    (void)weir_split(weir_apply(l->node, below), 1, 5, NULL, gate);
    weir_tensor *c = weir_mul(weir_sigmoid(gate[0]), weir_tanh(gate[2]));
    c = weir_add(c, weir_mul(weir_sigmoid(gate[3]), a.c));
    c = weir_add(c, weir_mul(weir_sigmoid(gate[4]), b.c));
    return unit_end(a.h, c, gate[1]);
}

/* The root, from all leaves' vectors (leaves, n, width); row has room for the leaves. */
static subtree grow(const tree_lstm *l, weir_tensor *vectors, subtree *row)
{
    for (int i = 0; i < l->leaves; i++)
        row[i] = leaf(l, weir_reshape(weir_narrow(vectors, 0, i, 1), 2,
                                      (const int64_t[]){-1, l->width}));
    for (int i = 0, n = l->leaves - 1; i < l->leaves - 1; i++, n--) {
        const int at = l->merge[i];
        row[at] = join(l, row[at], row[at + 1]);
        for (int k = at + 1; k < n; k++)
            row[k] = row[k + 1];
    }
    return row[0];
}

static weir_tensor *tree_lstm_apply(const weir_layer *base, weir_tensor *x)
{
    const tree_lstm *l = (const tree_lstm *)base;
    const weir_desc  d = weir_tensor_desc(x);

    if (d.ndim != 2 || d.dim[1] != l->leaves) {
        weir_fail(WEIR_ERR_SHAPE, "tree_lstm: x must be tokens (n,%d), one for each leaf",
                  l->leaves);
        return NULL;
    }
    subtree *row = weir_host_alloc((size_t)l->leaves * sizeof *row);
    if (!row)
        return NULL;
    const subtree root = grow(l, weir_apply(l->token, weir_transpose(x, NULL)), row);
    weir_host_free(row);
    return root.h ? weir_apply(l->out, root.h) : NULL;
}

/* Neighbours pair by pair, then the pairs; or any two, from a fixed seed; or always the two
 * leftmost. */
static void build_tree(tree_lstm *l, weir_tree shape)
{
    uint64_t state = SEED;

    for (int i = 0, at = 0, n = l->leaves; n > 1; i++, n--) {
        const uint64_t z = weir_splitmix64(&state);
        at = at + 1 < n ? at : 0;
        l->merge[i] = shape == WEIR_TREE_BALANCED ? at
                    : shape == WEIR_TREE_RANDOM   ? (int)(z % (uint64_t)(n - 1))
                                                  : 0;
        at++;
    }
}

weir_layer *weir_tree_lstm_new(weir_model *m, int64_t vocab, int64_t width, int64_t classes,
                               int64_t leaves, weir_tree shape)
{
    static const char *const names[] = {"vocab", "width", "classes", "leaves"};
    enum { MOST_LEAVES = 1 << 20 };

    if (!m)
        return (void)weir_fail_null("tree_lstm", "model"), NULL;
    const weir_mark mark = weir_model_mark(m);
    if (weir_sizes_check("tree_lstm", NULL, 4, names,
                         (const int64_t[]){vocab, width, classes, leaves}))
        return NULL;
    if (leaves > MOST_LEAVES || shape > WEIR_TREE_CHAIN) {
        weir_fail(WEIR_ERR_INVALID,
                  "tree_lstm: %lld leaves must be %d at most, and shape %d 0 to %d",
                  (long long)leaves, MOST_LEAVES, (int)shape, (int)WEIR_TREE_CHAIN);
        return NULL;
    }
    tree_lstm *l = weir_layer_make(m, sizeof *l + (size_t)leaves * sizeof l->merge[0], "tree_lstm",
                                   NULL, tree_lstm_apply);
    if (!l)
        return NULL;
    l->width = width;
    l->leaves = (int)leaves;
    build_tree(l, shape);
    const bool made = (l->token = weir_embedding_new(m, "token", vocab, width, WEIR_F32, 0)) &&
                      (l->leaf = weir_linear_new(m, "leaf", width, 3 * width, true)) &&
                      (l->node = weir_linear_new(m, "node", 2 * width, 5 * width, true)) &&
                      (l->out = weir_linear_new(m, "out", width, classes, true));
    return weir_net_finish(m, mark, &l->base, made);
}
