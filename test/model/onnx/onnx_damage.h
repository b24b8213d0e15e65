/* onnx_damage.h - sound models with operators of every kind, and what damages their bytes. */
#ifndef WEIR_TEST_ONNX_DAMAGE_H
#define WEIR_TEST_ONNX_DAMAGE_H

#include "model/onnx/onnx_bytes.h"

enum { ONNX_CORPUS = 10 };

/* How often something is tried: with WEIR_TEST_FULL=1, and without. */
static inline int onnx_rounds(int full, int quick)
{
    return check_full() ? full : quick;
}

/* Changes some bytes, doubles or cuts out a part. Returns the new size. */
static inline size_t onnx_damage(unsigned char *at, size_t n)
{
    static const unsigned char special[] = "\0\1\2\3\4\5\7\x8\x0a\x12\x22\x2a\x3a\x7f\x80\xff";
    const int64_t              changes = check_int(0, 4), kind = check_int(0, 5);

    for (int64_t i = 0; i < changes; i++) {
        const size_t where = (size_t)check_int(0, (int64_t)n - 1);
        at[where] = check_int(0, 1) ? special[check_int(0, (int64_t)sizeof special - 2)]
                                    : (unsigned char)check_int(0, 255);
    }
    const size_t from = (size_t)check_int(0, (int64_t)n - 1);
    const size_t part = (size_t)check_int(1, 40) % (n - from + 1);
    if (kind == 0 && part) {
        memmove(at + from, at + from + part, n - from - part);
        return n - part;
    }
    if (kind == 1 && n + part <= PB_BYTES) {
        memmove(at + from + part, at + from, n - from);
        return n + part;
    }
    return n;
}

/* Integers of several sizes, elements that must be known, attributes of every kind. */
static inline weir_desc onnx_integers(pb *m)
{
    pb g = {0}, axis = {0}, how = {0}, wrap = {0}, col = {0}, text = {0};

    net_input(&g, "x", PB_F32, 2, (int64_t[]){2, 4});
    net_init(&g, "scale", PB_F32, 1, (int64_t[]){2}, (float[]){0.5f, 2}, 8);
    net_init(&g, "zero", PB_I8, 1, (int64_t[]){2}, (int8_t[]){1, -3}, 2);
    net_init(&g, "on", 9, 1, (int64_t[]){6}, (uint8_t[]){1, 0, 1, 1, 0, 1}, 6);
    net_ints(&g, "index", 2, (int64_t[]){1, 0});
    net_ints(&g, "pads", 4, (int64_t[]){0, 1, 0, 1});
    net_ints(&g, "shape", 3, (int64_t[]){1, 2, 4});
    net_ints(&g, "image", 1, (int64_t[]){5});
    net_ints(&g, "block", 1, (int64_t[]){2});
    attr_int(&axis, "axis", 0);
    net_node(&g, "QuantizeLinear", "x,scale,zero", "q", &axis);
    net_node(&g, "DequantizeLinear", "q,scale,zero", "r", &axis);
    attr_text(&wrap, "mode", "wrap");
    net_node(&g, "Pad", "r,pads", "p", &wrap);
    attr_int(&how, "axis", 1);
    net_node(&g, "Compress", "p,on", "c", &how);
    net_node(&g, "Reshape", "c,shape", "s", NULL);
    attr_ints(&col, "strides", 1, (int64_t[]){1}, true);
    net_node(&g, "Col2Im", "s,image,block", "i", &col);
    net_node(&g, "Unique", "index", "u", NULL);
    attr_text(&text, "mode", "TF");
    attr_ints(&text, "ngram_counts", 1, (int64_t[]){0}, true);
    attr_ints(&text, "ngram_indexes", 2, (int64_t[]){0, 1}, true);
    attr_ints(&text, "pool_int64s", 2, (int64_t[]){1, 0}, true);
    net_node(&g, "TfIdfVectorizer", "u", "t", &text);
    net_node(&g, "ReduceMax", "t", "most", NULL);
    net_node(&g, "Add", "i,most", "y", NULL);
    net_output(&g, "y");
    net_model(m, &g, 23);
    return weir_2d(WEIR_F32, 2, 4);
}

/* A branch, a scan over rows, a sequence: graphs inside attributes. */
static inline weir_desc onnx_subgraphs(pb *m)
{
    const uint8_t yes = 1;
    const float   zero = 0;
    const int64_t each = 2, at = 0;
    pb            g = {0}, a = {0}, b = {0}, then = {0}, otherwise = {0}, body = {0};

    net_input(&g, "x", PB_F32, 1, (int64_t[]){3});
    net_init(&g, "yes", 9, 0, NULL, &yes, 1);
    net_init(&g, "start", PB_F32, 0, NULL, &zero, sizeof zero);
    net_init(&g, "each", PB_I64, 0, NULL, &each, sizeof each);
    net_init(&g, "at", PB_I64, 0, NULL, &at, sizeof at);
    net_node(&then, "Add", "x,x", "twice", NULL);
    net_output(&then, "twice");
    net_weights(&otherwise, "w", 1, (int64_t[]){3}, 0);
    net_node(&otherwise, "Sub", "x,w", "less", NULL);
    net_output(&otherwise, "less");
    attr_graph(&a, "then_branch", &then);
    attr_graph(&a, "else_branch", &otherwise);
    net_node(&g, "If", "yes", "chosen", &a);
    for (int i = 0; i < 2; i++) {
        pb port = {0};
        pb_text(&port, 1, i ? "row" : "sum");
        pb_message(&body, 11, &port);
    }
    net_node(&body, "Add", "sum,row", "sum2", NULL);
    net_node(&body, "Identity", "sum2", "each2", NULL);
    net_output(&body, "sum2");
    net_output(&body, "each2");
    attr_graph(&b, "body", &body);
    attr_int(&b, "num_scan_inputs", 1);
    attr_ints(&b, "scan_input_directions", 1, (int64_t[]){1}, true);
    attr_ints(&b, "scan_output_directions", 1, (int64_t[]){1}, true);
    net_node(&g, "Scan", "start,chosen", "total,sums", &b);
    net_node(&g, "SplitToSequence", "sums,each", "parts", NULL);
    net_node(&g, "SequenceAt", "parts,at", "part", NULL);
    net_node(&g, "Mul", "part,total", "y", NULL);
    net_output(&g, "y");
    net_model(m, &g, 19);
    return weir_1d(WEIR_F32, 3);
}

/* Products and convolutions of bytes. */
static inline weir_desc onnx_quantised(pb *m)
{
    const float   fine = 0.25f;
    const uint8_t middle = 128;
    pb            g = {0}, pads = {0}, to = {0};

    net_input(&g, "x", PB_F32, 4, (int64_t[]){1, 2, 3, 3});
    net_init(&g, "w", PB_I8, 4, (int64_t[]){2, 2, 2, 2},
             (int8_t[]){1, -2, 3, 4, 5, -6, 7, 8, 9, 10, -11, 12, 13, 14, 15, -128}, 16);
    net_init(&g, "ws", PB_F32, 1, (int64_t[]){2}, (float[]){0.5f, 2}, 8);
    net_init(&g, "wz", PB_I8, 1, (int64_t[]){2}, (int8_t[]){0, 0}, 2);
    net_init(&g, "ys", PB_F32, 0, NULL, &fine, sizeof fine);
    net_init(&g, "yz", PB_U8, 0, NULL, &middle, 1);
    net_init(&g, "p", PB_U8, 2, (int64_t[]){2, 2}, (uint8_t[]){1, 0, 255, 7}, 4);
    net_node(&g, "DynamicQuantizeLinear", "x", "q,s,z", NULL);
    attr_ints(&pads, "pads", 4, (int64_t[]){0, 1, 1, 0}, true);
    net_node(&g, "QLinearConv", "q,s,z,w,ws,wz,ys,yz", "c", &pads);
    net_node(&g, "ConvInteger", "c,w,yz", "i", NULL);
    net_node(&g, "QLinearMatMul", "p,ys,yz,p,ys,yz,ys,yz", "r", NULL);
    net_node(&g, "MatMulInteger", "r,p,yz", "k", NULL);
    net_node(&g, "Add", "i,k", "sum", NULL);
    attr_int(&to, "to", PB_F32);
    net_node(&g, "Cast", "sum", "y", &to);
    net_output(&g, "y");
    net_model(m, &g, 23);
    return weir_4d(WEIR_F32, 1, 2, 3, 3);
}

/* Elements at places: sorted, gathered, scattered. */
static inline weir_desc onnx_places(pb *m)
{
    pb g = {0}, axis = {0}, add = {0}, time = {0}, product = {0};

    net_input(&g, "x", PB_F32, 2, (int64_t[]){2, 4});
    net_ints(&g, "two", 1, (int64_t[]){2});
    net_ints(&g, "lengths", 2, (int64_t[]){2, 1});
    net_init(&g, "axis", PB_I64, 0, NULL, (int64_t[]){1}, 8);
    net_init(&g, "rows", PB_I64, 2, (int64_t[]){2, 1}, (int64_t[]){1, -2}, 16);
    net_ints(&g, "size", 2, (int64_t[]){3, 3});
    net_node(&g, "TopK", "x,two", "v,i", NULL);
    attr_int(&axis, "axis", 1);
    net_node(&g, "GatherElements", "x,i", "e", &axis);
    net_node(&g, "ScatterElements", "x,i,e", "s", &axis);
    attr_text(&add, "reduction", "add");
    net_node(&g, "ScatterND", "s,rows,x", "n", &add);
    net_node(&g, "GatherND", "n,rows", "f", NULL);
    net_node(&g, "CumProd", "f,axis", "c", NULL);
    attr_int(&time, "time_axis", 1);
    attr_int(&time, "batch_axis", 0);
    net_node(&g, "ReverseSequence", "c,lengths", "b", &time);
    net_node(&g, "CenterCropPad", "b,size", "p", NULL);
    net_node(&g, "Trilu", "p", "t", NULL);
    attr_text(&product, "equation", "ij,jk->ik");
    net_node(&g, "Einsum", "t,p", "y", &product);
    net_output(&g, "y");
    net_model(m, &g, 26);
    return weir_2d(WEIR_F32, 2, 4);
}

/* Images: normalised, resized, read at computed places. */
static inline weir_desc onnx_images(pb *m)
{
    pb g = {0}, group = {0}, pool = {0}, linear = {0}, region = {0}, corners = {0};

    net_input(&g, "x", PB_F32, 4, (int64_t[]){1, 2, 4, 4});
    net_weights(&g, "scale", 1, (int64_t[]){2}, 1);
    net_weights(&g, "bias", 1, (int64_t[]){2}, 0);
    net_ints(&g, "sizes", 4, (int64_t[]){1, 2, 3, 5});
    net_weights(&g, "theta", 3, (int64_t[]){1, 2, 3}, 0);
    net_ints(&g, "grid", 4, (int64_t[]){1, 2, 2, 3});
    net_weights(&g, "boxes", 2, (int64_t[]){2, 4}, 1);
    net_ints(&g, "image", 2, (int64_t[]){0, 0});
    net_weights(&g, "w", 4, (int64_t[]){2, 2, 2, 2}, 0);
    net_weights(&g, "offset", 4, (int64_t[]){1, 8, 1, 1}, 0);
    attr_int(&group, "num_groups", 2);
    net_node(&g, "GroupNormalization", "x,scale,bias", "n", &group);
    attr_ints(&pool, "kernel_shape", 2, (int64_t[]){2, 2}, true);
    attr_ints(&pool, "strides", 2, (int64_t[]){2, 2}, true);
    net_node(&g, "MaxPool", "n", "p,i", &pool);
    net_node(&g, "MaxUnpool", "p,i", "u", &pool);
    attr_text(&linear, "mode", "cubic");
    net_node(&g, "Resize", "u,,,sizes", "r", &linear);
    attr_int(&corners, "align_corners", 1);
    net_node(&g, "AffineGrid", "theta,grid", "a", NULL);
    net_node(&g, "GridSample", "r,a", "s", &corners);
    attr_int(&region, "output_height", 2);
    attr_int(&region, "output_width", 2);
    net_node(&g, "RoiAlign", "s,boxes,image", "o", &region);
    net_node(&g, "DeformConv", "p,w,offset", "d", NULL);
    net_node(&g, "Mul", "o,d", "e", NULL);
    net_node(&g, "Det", "e", "y", NULL);
    net_output(&g, "y");
    net_model(m, &g, 23);
    return weir_4d(WEIR_F32, 1, 2, 4, 4);
}

/* Spectra, and what is computed from known numbers alone. */
static inline weir_desc onnx_signals(pb *m)
{
    const int64_t step = 2, window = 4;
    const float   half = 0.5f;
    pb            g = {0}, to = {0};

    net_input(&g, "x", PB_F32, 3, (int64_t[]){1, 8, 1});
    net_init(&g, "step", PB_I64, 0, NULL, &step, sizeof step);
    net_init(&g, "four", PB_I64, 0, NULL, &window, sizeof window);
    net_init(&g, "half", PB_F32, 0, NULL, &half, sizeof half);
    net_init(&g, "most", PB_F32, 0, NULL, (float[]){4}, 4);
    net_weights(&g, "boxes", 3, (int64_t[]){1, 3, 4}, 0.5);
    net_weights(&g, "scores", 3, (int64_t[]){1, 1, 3}, 1);
    net_node(&g, "HannWindow", "four", "h", NULL);
    net_node(&g, "STFT", "x,step,h,four", "s", NULL);
    net_node(&g, "MelWeightMatrix", "step,four,four,half,most", "mel", NULL);
    net_node(&g, "DFT", "x", "f", NULL);
    net_node(&g, "NonMaxSuppression", "boxes,scores,step,half", "kept", NULL);
    attr_int(&to, "to", PB_F32);
    net_node(&g, "Cast", "kept", "k", &to);
    net_node(&g, "ReduceSumSquare", "s", "a", NULL);
    net_node(&g, "ReduceMax", "mel", "b", NULL);
    net_node(&g, "ReduceL1", "f", "c", NULL);
    net_node(&g, "ReduceSum", "k", "d", NULL);
    net_node(&g, "Sum", "a,b,c,d", "y", NULL);
    net_output(&g, "y");
    net_model(m, &g, 20);
    return weir_3d(WEIR_F32, 1, 8, 1);
}

static inline weir_desc onnx_convolutional(pb *m)
{
    net_convolutional(m);
    return weir_4d(WEIR_F32, 2, 3, 8, 8);
}

static inline weir_desc onnx_text(pb *m)
{
    net_text(m);
    return weir_2d(WEIR_I64, 2, 4);
}

static inline weir_desc onnx_loop(pb *m)
{
    net_loop(m, 4, "all");
    return weir_1d(WEIR_F32, 3);
}

/* Shapes and places that are inputs. */
static inline weir_desc onnx_parts(pb *m)
{
    pb g = {0}, split = {0}, pad = {0};

    net_input(&g, "x", PB_F32, 2, (int64_t[]){4, 6});
    net_ints(&g, "sizes", 2, (int64_t[]){2, 4});
    net_ints(&g, "pads", 4, (int64_t[]){0, 1, 1, 2});
    net_ints(&g, "axes", 1, (int64_t[]){1});
    net_ints(&g, "from", 1, (int64_t[]){1});
    net_ints(&g, "to", 1, (int64_t[]){-1});
    net_ints(&g, "index", 2, (int64_t[]){-1, 0});
    net_ints(&g, "tiles", 2, (int64_t[]){2, 1});
    attr_int(&split, "axis", 1);
    net_node(&g, "Split", "x,sizes", "a,b", &split);
    net_node(&g, "Pad", "b,pads", "c", NULL);
    net_node(&g, "Slice", "c,from,to,axes", "d", NULL);
    attr_int(&pad, "axis", 1);
    net_node(&g, "Gather", "d,index", "e", &pad);
    net_node(&g, "Tile", "e,tiles", "f", NULL);
    net_node(&g, "ReduceMean", "f,axes", "g", NULL);
    net_node(&g, "Clip", "g,,", "y", NULL);
    net_output(&g, "y");
    net_model(m, &g, 18);
    return weir_2d(WEIR_F32, 4, 6);
}

/* A corpus of sound models. Returns the inputs' shape. */
static inline weir_desc onnx_sound(int which, pb *m)
{
    static weir_desc (*const corpus[ONNX_CORPUS])(pb *m) = {
        onnx_convolutional, onnx_text, onnx_loop, onnx_parts, onnx_integers, onnx_subgraphs,
        onnx_quantised, onnx_places, onnx_images, onnx_signals};

    return corpus[which](m);
}

#endif
