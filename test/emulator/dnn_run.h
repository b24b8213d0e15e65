/* dnn_run.h - the engines of the emulated cuDNN: their notes, and running one. */
#ifndef WEIR_TEST_EMULATOR_DNN_RUN_H
#define WEIR_TEST_EMULATOR_DNN_RUN_H

#include <cudnn_backend.h>

#include <stdint.h>

#include "dnn_engines.h"
#include "work.h"

struct dnn_engine {
    int64_t notes;
    int     note[2];
    bool    fails;              /* making its plans fails */
    int64_t work;
};

extern const dnn_engine dnn_engines[DNN_ENGINES];

struct dnn_geometry {
    int64_t n, c, h, w, o, cg, kh, kw, oh, ow, stride[2], before[2], dilation[2];
};

struct dnn_problem {
    dnn_geometry    g;
    cudnnDataType_t type;
    int             pass, engine;
    bool            bias;
    void           *at[4], *work;           /* x, w, y, bias */
    int64_t         id[4];
};

/* arguments: a dnn_problem. */
void dnn_run(const void *arguments);

#endif
