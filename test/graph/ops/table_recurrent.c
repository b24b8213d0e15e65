/* table_recurrent.c - rows of LSTM and GRU. */
#include "graph/ops/table.h"

#define DEEP(n)   {.layers = n}
#define BOTH(n)   {.layers = n, .both = true}
#define KEPT(n)   {.layers = n, .keep = true}
#define MASKED    {.ndim = 2}
#define MASKED_IN {.ndim = 2, .layers = 2, .both = true}
#define LENGTHS   {.ndim = 1}
#define LENGTHS_IN {.ndim = 1, .layers = 2, .both = true}
#define LENGTHS_KEPT {.ndim = 1, .layers = 2, .keep = true}

/* G1, G2, G3: gates for 1, 2 and 3 hidden units. Inputs: x, w_ih, w_hh, b_ih, b_hh, and a mask or
 * first states. */
#define SETS(G1, G2, G3)                                                                           \
    {.in = "(3,2,4)(" G2 ",4)(" G2 ",2)(" G2 ")(" G2 ")(1,2,2)", "first states", KEPT(1)},         \
    {.in = "(3,2,4)(" G2 ",4)(" G2 ",2)(" G2 ")(" G2 ")", "plain"},                                \
    {.in = "(1,1,1)(" G1 ",1)(" G1 ",1)(" G1 ")(" G1 ")", "one of each"},                          \
    {.in = "(3,2,3)(" G3 ",3)(" G3 ",3)(" G3 ")(" G3 ")", "2 layers", DEEP(2)},                    \
    {.in = "(3,2,4)(" G2 ",4)(" G2 ",2)(" G2 ")(" G2 ")", "both directions", BOTH(1)},             \
    {.in = "(3,2,6)(" G3 ",6)(" G3 ",3)(" G3 ")(" G3 ")", "2 layers, both directions", BOTH(2)},   \
    {.in = "(4,2,3)(" G3 ",3)(" G3 ",3)(" G3 ")(" G3 ")", "last states", KEPT(2)},                 \
    {.in = "(3,0,4)(" G2 ",4)(" G2 ",2)(" G2 ")(" G2 ")", "no rows"},                              \
    {.in = "(3,2,4)t(" G2 ",4)l(" G2 ",2)(" G2 ")b(" G2 ")", "views"},                             \
    {.in = "(9,2,2)(" G1 ",2)(" G1 ",1)(" G1 ")(" G1 ")", "longer"},                               \
    {.in = "(2,2,3)(" G3 ",3)(" G3 ",3)(" G3 ")(" G3 ")(2,2,3)", "first states, 2 layers", DEEP(2)}

#define WRONG(G2)                                                                                  \
    {.in = "(3,2)(" G2 ",2)(" G2 ",2)(" G2 ")(" G2 ")", .status = WEIR_ERR_SHAPE,                  \
     .says = "(steps,n,columns)"},                                                                 \
    {.in = "(0,2,4)(" G2 ",4)(" G2 ",2)(" G2 ")(" G2 ")", .status = WEIR_ERR_SHAPE,                \
     .says = "1 step or more"},                                                                    \
    {.in = "(3,2,4)(" G2 ",5)(" G2 ",2)(" G2 ")(" G2 ")", .status = WEIR_ERR_SHAPE,                \
     .says = "4 columns but w takes 5"},                                                           \
    {.in = "(3,2,4)(" G2 ",4)(" G2 ",3)(" G2 ")(" G2 ")", .status = WEIR_ERR_SHAPE,                \
     .says = "w_hh must be"},                                                                      \
    {.in = "(3,2,4)(" G2 ",4)(" G2 ",2)(5)(" G2 ")", .status = WEIR_ERR_SHAPE, .says = "bias"}

#define MASK_SETS(G3)                                                                              \
    {.in = "(3,2,3)(" G3 ",3)(" G3 ",3)(" G3 ")(" G3 ")(3,2)", "mask", MASKED},                    \
    {.in = "(3,2,6)(" G3 ",6)(" G3 ",3)(" G3 ")(" G3 ")(3,2)", "mask, 2 layers, both directions",  \
     MASKED_IN}
#define MASK_WRONG(G2)                                                                             \
    {.in = "(3,2,4)(" G2 ",4)(" G2 ",2)(" G2 ")(" G2 ")(2,3)", NULL, MASKED,                       \
     .status = WEIR_ERR_SHAPE, .says = "mask"}

/* Lengths in place of the mask. */
#define LENGTH_SETS(G2, G3)                                                                        \
    {.in = "(4,3,3)(" G3 ",3)(" G3 ",3)(" G3 ")(" G3 ")(3)", "lengths", LENGTHS},                  \
    {.in = "(5,4,6)(" G3 ",6)(" G3 ",3)(" G3 ")(" G3 ")(4)", "2 layers, both directions",          \
     LENGTHS_IN},                                                                                  \
    {.in = "(4,3,3)(" G3 ",3)(" G3 ",3)(" G3 ")(" G3 ")(3)", "last states", LENGTHS_KEPT},         \
    {.in = "(3,0,4)(" G2 ",4)(" G2 ",2)(" G2 ")(" G2 ")(0)", "no rows", LENGTHS}
#define LENGTH_WRONG(G2)                                                                           \
    {.in = "(3,2,4)(" G2 ",4)(" G2 ",2)(" G2 ")(" G2 ")(3)", NULL, LENGTHS,                        \
     .status = WEIR_ERR_SHAPE, .says = "one for each sequence"},                                   \
    {.in = "(3,2,4)(" G2 ",4)(" G2 ",2)(" G2 ")(" G2 ")(3,2)", NULL, LENGTHS,                      \
     .status = WEIR_ERR_SHAPE, .says = "one for each sequence"}

static const op_set lstm_masks[] = {MASK_SETS("12"), {0}};
static const op_set gru_masks[] = {MASK_SETS("9"), {0}};
static const op_set lstm_masks_wrong[] = {MASK_WRONG("8"), {0}};
static const op_set gru_masks_wrong[] = {MASK_WRONG("6"), {0}};
static const op_set lstm_lengths[] = {LENGTH_SETS("8", "12"), {0}};
static const op_set gru_lengths[] = {LENGTH_SETS("6", "9"), {0}};
static const op_set lstm_lengths_wrong[] = {LENGTH_WRONG("8"), {0}};
static const op_set gru_lengths_wrong[] = {LENGTH_WRONG("6"), {0}};

static const op_set lstm_sets[] = {SETS("4", "8", "12"), {0}};
static const op_set gru_sets[] = {SETS("3", "6", "9"), {0}};
static const op_set lstm_wrong[] = {WRONG("8"), {0}};
static const op_set gru_wrong[] = {WRONG("6"), {0}};

/* The same weights for all layers and directions; `keep`: last states behind the outputs. */
static weir_tensor *recurrent(const op_call *c, bool lstm)
{
    const weir_rnn_weights one = {c->in[1], c->in[2], c->in[3], c->in[4]};
    const weir_rnn_weights w[] = {one, one, one, one};
    const bool             keep = c->o->keep;
    const weir_rnn_options o = {.layers = c->o->layers, .bidirectional = c->o->both,
                                .mask = c->o->ndim == 2 ? c->in[5] : NULL,
                                .lengths = c->o->ndim == 1 ? c->in[5] : NULL};
    weir_tensor *const     first = c->o->ndim > 0 ? NULL : c->in[5];
    weir_tensor           *last[] = {NULL, NULL, NULL};

    last[0] = lstm ? weir_lstm(c->in[0], w, first, first, &o, keep ? &last[1] : NULL,
                               keep ? &last[2] : NULL)
                   : weir_gru(c->in[0], w, first, &o, keep ? &last[1] : NULL);
    return keep && last[0] ? weir_concat(lstm ? 3 : 2, last, 0) : last[0];
}

static weir_tensor *lstm(const op_call *c)
{
    return recurrent(c, true);
}

static weir_tensor *gru(const op_call *c)
{
    return recurrent(c, false);
}

#define FIVE                                                                                       \
    {OP_PARAM, -1, 2}, {OP_PARAM, -1, 1}, {OP_PARAM, -1.5, 1}, {OP_PARAM, -1, 1},                  \
        {OP_PARAM, -0.5, 1}
#define INPUTS       {FIVE, {OP_PARAM, 0, 1}}
#define WITH(length) {FIVE, {length, 0, 1}}

const op_row op_recurrent[] = {
    {.name = "lstm", .build = lstm, .reference = ref_lstm, .types = OP_ANY_FLOAT, .in = INPUTS,
     .eps = 16, .half_eps = 8, .rms = true, .library = true, .optional = 7 << 3, .sets = lstm_sets,
     .wrong = lstm_wrong},
    {.name = "gru", .build = gru, .reference = ref_gru, .types = OP_ANY_FLOAT, .in = INPUTS,
     .eps = 16, .half_eps = 8, .rms = true, .library = true, .optional = 7 << 3, .sets = gru_sets,
     .wrong = gru_wrong},
    {.name = "lstm (mask)", .says = "lstm", .build = lstm, .reference = ref_lstm,
     .types = OP_ANY_FLOAT, .in = WITH(OP_MASK), .eps = 16, .half_eps = 8, .rms = true,
     .library = true, .optional = 7 << 3, .sets = lstm_masks, .wrong = lstm_masks_wrong},
    {.name = "gru (mask)", .says = "gru", .build = gru, .reference = ref_gru,
     .types = OP_ANY_FLOAT, .in = WITH(OP_MASK), .eps = 16, .half_eps = 8, .rms = true,
     .library = true, .optional = 7 << 3, .sets = gru_masks, .wrong = gru_masks_wrong},
    {.name = "lstm (lengths)", .says = "lstm", .build = lstm, .reference = ref_lstm,
     .types = OP_ANY_FLOAT, .in = WITH(OP_ROW_I32), .eps = 16, .half_eps = 8, .rms = true,
     .library = true, .optional = 7 << 3, .sets = lstm_lengths, .wrong = lstm_lengths_wrong},
    {.name = "gru (lengths)", .says = "gru", .build = gru, .reference = ref_gru,
     .types = OP_ANY_FLOAT, .in = WITH(OP_ROW_I64), .eps = 16, .half_eps = 8, .rms = true,
     .library = true, .optional = 7 << 3, .sets = gru_lengths, .wrong = gru_lengths_wrong},
    {0},
};
