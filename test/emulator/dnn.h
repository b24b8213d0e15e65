/* dnn.h - what tests may ask of the emulated cuDNN; found by dlsym. */
#ifndef WEIR_TEST_EMULATOR_DNN_H
#define WEIR_TEST_EMULATOR_DNN_H

#include "dnn_engines.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The nth call that may fail from now on has no memory, once; 0: none will. */
__attribute__((visibility("default"))) void emulate_dnn_fail(long nth);

__attribute__((visibility("default"))) long emulate_dnn_live(void);     /* descriptors */
/* How often engine i has been executed. */
__attribute__((visibility("default"))) long emulate_dnn_ran(int i);

#ifdef __cplusplus
}
#endif

#endif
