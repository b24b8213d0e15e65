/* dnn_engines.h - the engines of the emulated cuDNN, by name. */
#ifndef WEIR_TEST_EMULATOR_DNN_ENGINES_H
#define WEIR_TEST_EMULATOR_DNN_ENGINES_H

/* In the order of the heuristics: sums that change from run to run, tensor cores, a transform, a
 * workspace that is too large, plans that cannot be made; and two good ones. */
enum {
    DNN_UNSTEADY,
    DNN_CORE,
    DNN_WINOGRAD,
    DNN_LARGE,
    DNN_FAILING,
    DNN_GOOD,
    DNN_PLAIN,
    DNN_ENGINES
};

#endif
