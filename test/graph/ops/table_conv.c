/* table_conv.c - rows of convolution: of images, transposed, of lines. */
#include "graph/ops/table.h"

/* The geometry of a set; what is left out is its default. */
#define GEOMETRY(...) {.conv = {__VA_ARGS__}}
#define PAIR(a, b)    {a, b}
#define BOTH(a)       {a, a}

static const op_set conv_sets[] = {
    {.in = "(2,3,5,5)(4,3,3,3)(4)", "plain"},
    {.in = "(1,1,1,1)(1,1,1,1)(1)", "one of each"},
    {.in = "(2,3,7,7)(5,3,1,1)(5)", "1 x 1 kernel"},
    {.in = "(2,3,7,6)(4,3,3,3)(4)", "padded", GEOMETRY(.pad = BOTH(1))},
    {.in = "(1,2,4,4)(3,2,3,3)(3)", "padded beyond a window's half", GEOMETRY(.pad = BOTH(2))},
    {.in = "(2,3,7,7)(4,3,3,3)(4)", "stride 2", GEOMETRY(.stride = BOTH(2), .pad = BOTH(1))},
    {.in = "(2,3,8,7)(4,3,3,2)(4)", "stride 2 that leaves a rim", GEOMETRY(.stride = BOTH(2))},
    {.in = "(2,3,7,7)(4,3,1,1)(4)", "1 x 1 kernel, stride 2", GEOMETRY(.stride = BOTH(2))},
    {.in = "(1,2,9,8)(3,2,3,2)(3)", "dilation 2",
     GEOMETRY(.dilation = BOTH(2), .pad = PAIR(2, 1))},
    {.in = "(2,2,9,10)(3,2,3,3)(3)", "all different per axis",
     GEOMETRY(.stride = PAIR(2, 3), .pad = PAIR(1, 2), .dilation = PAIR(2, 1))},
    {.in = "(2,6,5,5)(4,3,3,3)(4)", "2 groups", GEOMETRY(.pad = BOTH(1), .groups = 2)},
    {.in = "(2,5,6,5)(5,1,3,3)(5)", "depthwise", GEOMETRY(.pad = BOTH(1), .groups = 5)},
    {.in = "(1,3,6,5)(6,1,3,3)(6)", "depthwise, 2 filters each, stride 2",
     GEOMETRY(.stride = BOTH(2), .pad = BOTH(1), .groups = 3)},
    {.in = "(2,3,5,7)(4,3,5,7)(4)", "kernel as large as the image"},
    {.in = "(1,2,3,3)(2,2,5,5)(2)", "kernel larger than the image", GEOMETRY(.pad = BOTH(1))},
    {.in = "(0,3,5,5)(4,3,3,3)(4)", "no images"},
    {.in = "(2,3,5,5)(0,3,3,3)(0)", "no filters"},
    {.in = "(2,0,5,5)(4,0,3,3)(4)", "no channels: the bias alone"},
    {.in = "(2,3,0,5)(4,3,2,2)(4)", "all padding", GEOMETRY(.pad = BOTH(1))},
    {.in = "(5,4,3,2)t(4,4,2,2)(4)b", "transposed x, repeated bias"},
    {.in = "(2,3,5,5)b(4,3,3,3)t(4)", "repeated x, transposed w", GEOMETRY(.pad = BOTH(1))},
    {.in = "(1,3,40,38)(7,3,3,3)(7)", "1500 places", GEOMETRY(.pad = BOTH(1))},
    {.in = "(1,90,6,6)(17,90,3,3)(17)", "long sum"},
    {.in = "(2,16,12,12)(32,16,3,3)(32)", "blocks of channels", GEOMETRY(.pad = BOTH(1))},
    {.in = "(2,16,9,13)(33,16,3,5)(33)", "blocks of channels, stride 2",
     GEOMETRY(.stride = BOTH(2), .pad = PAIR(1, 2))},
    {.in = "(1,16,7,9)(17,16,2,4)(17)", "blocks of channels, even kernel",
     GEOMETRY(.pad = BOTH(1))},
    {.in = "(2,3,7,6)(4,3,3,3)(4)", "padded at the end only",
     GEOMETRY(.asymmetric = true, .pad_end = PAIR(1, 2))},
    {.in = "(2,3,7,6)(4,3,1,1)(4)", "1 x 1 kernel, padded at the end only",
     GEOMETRY(.asymmetric = true, .pad_end = PAIR(1, 1))},
    {.in = "(2,3,8,8)(4,3,3,3)(4)", "as TensorFlow's \"same\", stride 2",
     GEOMETRY(.stride = BOTH(2), .asymmetric = true, .pad_end = BOTH(1))},
    {.in = "(2,8,9,7)(16,8,3,4)(16)", "padded at the start only",
     GEOMETRY(.stride = PAIR(2, 1), .pad = PAIR(2, 3), .asymmetric = true)},
    {.in = "(2,6,5,5)(4,3,3,3)(4)", "2 groups, padded unevenly",
     GEOMETRY(.pad = PAIR(0, 2), .asymmetric = true, .pad_end = PAIR(3, 1), .groups = 2)},
    {.in = "(1,3,14,14)(8,3,7,7)(8)", "stem", GEOMETRY(.stride = BOTH(2), .pad = BOTH(3))},
    {0},
};

static const op_set plain_sets[] = {
    {.in = "(2,3,5,5)(4,3,3,3)"},
    {.in = "(1,1,1,1)(1,1,1,1)", "one of each"},
    {.in = "(7,7,7,7)(7,7,1,1)", "1 x 1 kernel"},
    {.in = "(2,3,7,7)(4,3,3,3)", "stride 2", GEOMETRY(.stride = BOTH(2), .pad = BOTH(1))},
    {.in = "(1,2,9,8)(3,2,3,2)", "dilation 2", GEOMETRY(.dilation = BOTH(2))},
    {.in = "(0,3,5,5)(4,3,3,3)", "no images"},
    {.in = "(2,0,5,5)(4,0,3,3)", "no channels"},
    {.in = "(5,4,3,2)t(4,4,2,2)", "transposed x"},
    {.in = "(1,3,40,38)(7,3,3,3)", "1500 places", GEOMETRY(.pad = BOTH(1))},
    {0},
};

static const op_set wrong[] = {
    {.in = "(2,3,5,5)(4,2,3,3)(4)", .status = WEIR_ERR_SHAPE, .says = "w takes 2 channels"},
    {.in = "(2,3,5)(4,3,3,3)(4)", .status = WEIR_ERR_SHAPE, .says = "x must have 4 axes"},
    {.in = "(2,3,5,5)(4,3,3)(4)", .status = WEIR_ERR_SHAPE, .says = "w must have 4 axes"},
    {.in = "(2,3,5,5)(4,3,3,3)(3)", .status = WEIR_ERR_SHAPE, .says = "bias"},
    {.in = "(2,3,2,5)(4,3,3,3)(4)", .status = WEIR_ERR_SHAPE, .says = "height 3 does not fit"},
    {.in = "(2,3,5,5)(4,3,3,3)(4)", "dilation 3", GEOMETRY(.dilation = PAIR(1, 3)),
     .status = WEIR_ERR_SHAPE, .says = "width 7 does not fit"},
    {.in = "(2,3,5,5)(4,3,0,3)(4)", .status = WEIR_ERR_INVALID, .says = "kernel"},
    {.in = "(2,3,5,5)(4,3,3,3)(4)", "stride -1", GEOMETRY(.stride = PAIR(1, -1)),
     .status = WEIR_ERR_INVALID, .says = "stride"},
    {.in = "(2,3,5,5)(4,3,3,3)(4)", "pad -1", GEOMETRY(.pad = PAIR(-1, 0)),
     .status = WEIR_ERR_INVALID, .says = "pad"},
    {.in = "(2,3,5,5)(4,3,3,3)(4)", "pad_end -1",
     GEOMETRY(.asymmetric = true, .pad_end = PAIR(0, -1)), .status = WEIR_ERR_INVALID,
     .says = "pad_end"},
    {.in = "(2,3,5,5)(4,3,3,3)(4)", "huge pad", GEOMETRY(.pad = PAIR(INT64_MAX, 0)),
     .status = WEIR_ERR_INVALID, .says = "pad"},
    {.in = "(2,3,5,5)(4,3,3,3)(4)", "large pad", GEOMETRY(.pad = BOTH(INT32_MAX)),
     .status = WEIR_ERR_SHAPE},
    {.in = "(2,3,5,5)(4,3,3,3)(4)", "2 groups", GEOMETRY(.groups = 2), .status = WEIR_ERR_SHAPE,
     .says = "2 groups"},
    {.in = "(2,3,5,5)(4,3,3,3)(4)", "-1 groups", GEOMETRY(.groups = -1), .status = WEIR_ERR_INVALID,
     .says = "groups"},
    {0},
};

#define TURNED(...) {.conv_transpose = {__VA_ARGS__}}

static const op_set transpose_sets[] = {
    {.in = "(2,3,4,5)(3,4,3,3)(4)", "plain"},
    {.in = "(1,1,1,1)(1,1,1,1)(1)", "one of each"},
    {.in = "(2,3,4,5)(3,4,2,2)(4)", "doubles", TURNED(.stride = BOTH(2))},
    {.in = "(2,3,4,5)(3,4,3,3)(4)", "doubles, padded",
     TURNED(.stride = BOTH(2), .pad = BOTH(1), .output_pad = BOTH(1))},
    {.in = "(2,3,4,5)(3,2,3,4)(2)", "all different per axis",
     TURNED(.stride = PAIR(2, 3), .pad = PAIR(1, 2), .dilation = PAIR(2, 1),
            .output_pad = PAIR(0, 2))},
    {.in = "(2,6,4,5)(6,2,3,3)(4)", "2 groups", TURNED(.groups = 2)},
    {.in = "(2,5,4,5)(5,1,4,4)(5)", "depthwise", TURNED(.stride = BOTH(2), .pad = BOTH(1),
                                                        .groups = 5)},
    {.in = "(0,3,4,5)(3,4,3,3)(4)", "no images"},
    {.in = "(2,3,4,5)(3,0,3,3)(0)", "no channels made"},
    {.in = "(2,0,4,5)(0,4,3,3)(4)", "no channels: the bias alone"},
    {.in = "(5,4,3,2)t(4,4,2,2)b(4)", "transposed x, repeated w"},
    {.in = "(2,16,12,12)(16,32,4,4)(32)", "blocks of channels",
     TURNED(.stride = BOTH(2), .pad = BOTH(1))},
    {0},
};

static const op_set transpose_wrong[] = {
    {.in = "(2,3,4,5)(4,3,3,3)(3)", .status = WEIR_ERR_SHAPE, .says = "w takes 4 channels"},
    {.in = "(2,3,4)(3,4,3,3)(4)", .status = WEIR_ERR_SHAPE, .says = "x must have 4 axes"},
    {.in = "(2,3,4,5)(3,4,3,3)(3)", .status = WEIR_ERR_SHAPE, .says = "bias"},
    {.in = "(2,3,4,5)(3,4,3,3)(4)", "output_pad", TURNED(.output_pad = BOTH(1)),
     .status = WEIR_ERR_INVALID, .says = "output_pad"},
    {.in = "(2,3,4,5)(3,4,3,3)(4)", "output_pad -1", TURNED(.output_pad = BOTH(-1)),
     .status = WEIR_ERR_INVALID, .says = "output_pad"},
    {.in = "(2,3,4,5)(3,4,3,3)(4)", "pad 9", TURNED(.pad = BOTH(9)), .status = WEIR_ERR_SHAPE,
     .says = "padding"},
    {.in = "(2,3,4,5)(3,4,3,3)(4)", "huge pad", TURNED(.pad = BOTH(INT64_MAX)),
     .status = WEIR_ERR_INVALID, .says = "pad"},
    {.in = "(2,3,4,5)(3,4,3,3)(4)", "stride -1", TURNED(.stride = BOTH(-1)),
     .status = WEIR_ERR_INVALID, .says = "stride"},
    {.in = "(2,3,4,5)(3,4,3,3)(4)", "2 groups", TURNED(.groups = 2), .status = WEIR_ERR_SHAPE,
     .says = "2 groups"},
    {0},
};

#define LINE(...) {.conv1d = {__VA_ARGS__}}

static const op_set line_sets[] = {
    {.in = "(2,3,7)(4,3,3)(4)", "plain"},
    {.in = "(1,1,1)(1,1,1)(1)", "one of each"},
    {.in = "(2,3,7)(4,3,3)(4)", "padded", LINE(.pad = 1)},
    {.in = "(2,3,9)(4,3,3)(4)", "stride 2", LINE(.stride = 2, .pad = 2)},
    {.in = "(2,3,9)(4,3,3)(4)", "dilation 2", LINE(.dilation = 2)},
    {.in = "(2,6,7)(4,3,3)(4)", "2 groups", LINE(.groups = 2)},
    {.in = "(0,3,7)(4,3,3)(4)", "no lines"},
    {.in = "(2,0,7)(4,0,3)(4)", "no channels"},
    {.in = "(2,3,7)t(4,3,3)l(4)", "views"},
    {.in = "(2,20,60)(9,20,5)(9)", "longer", LINE(.pad = 2)},
    {0},
};

static const op_set line_wrong[] = {
    {.in = "(2,3,7)(4,2,3)(4)", .status = WEIR_ERR_SHAPE, .says = "w takes 2 channels"},
    {.in = "(2,3,7,1)(4,3,3)(4)", .status = WEIR_ERR_SHAPE, .says = "x must have 3 axes"},
    {.in = "(2,3,7)(4,3)(4)", .status = WEIR_ERR_SHAPE, .says = "w must have 3 axes"},
    {.in = "(2,3,2)(4,3,3)(4)", .status = WEIR_ERR_SHAPE, .says = "width 3 does not fit"},
    {0},
};

static weir_tensor *conv_transpose2d(const op_call *c)
{
    return weir_conv_transpose2d(c->in[0], c->in[1], c->in[2], &c->o->conv_transpose);
}

static weir_tensor *conv1d(const op_call *c)
{
    return weir_conv1d(c->in[0], c->in[1], c->in[2], &c->o->conv1d);
}

static weir_tensor *conv2d(const op_call *c)
{
    return weir_conv2d(c->in[0], c->in[1], c->in[2], &c->o->conv);
}

const op_row op_conv[] = {
    {.name = "conv2d", .build = conv2d, .reference = ref_conv2d, .types = OP_ANY_FLOAT,
     .in = {{OP_PARAM, -1, 1}, {OP_PARAM, -1, 1.5}, {OP_PARAM, -1, 1}}, .eps = 16, .rms = true,
     .library = true, .optional = 1 << 2, .sets = conv_sets, .wrong = wrong},
    {.name = "conv2d (no bias)", .says = "conv2d", .build = conv2d, .reference = ref_conv2d,
     .types = OP_ANY_FLOAT, .in = {{OP_PARAM, -1, 1}, {OP_PARAM, -1, 1.5}}, .eps = 16, .rms = true,
     .library = true, .sets = plain_sets},
    {.name = "conv_transpose2d", .build = conv_transpose2d, .reference = ref_conv_transpose2d,
     .types = OP_ANY_FLOAT, .in = {{OP_PARAM, -1, 1}, {OP_PARAM, -1, 1.5}, {OP_PARAM, -1, 1}},
     .eps = 16, .rms = true, .library = true, .optional = 1 << 2, .sets = transpose_sets,
     .wrong = transpose_wrong},
    {.name = "conv1d", .build = conv1d, .reference = ref_conv1d,
     .types = OP_ANY_FLOAT, .in = {{OP_PARAM, -1, 1}, {OP_PARAM, -1, 1.5}, {OP_PARAM, -1, 1}},
     .eps = 16, .rms = true, .library = true, .optional = 1 << 2, .sets = line_sets,
     .wrong = line_wrong},
    {0},
};
