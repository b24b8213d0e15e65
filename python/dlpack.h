/* dlpack.h - the structures of DLPack 1.0, by which array libraries of one process share memory.
 *
 * The layout is the public specification's (dmlc.github.io/dlpack); the names are our own. A capsule
 * named "dltensor_versioned" holds a weir_dl_versioned, one named "dltensor" a weir_dl_old. Who takes
 * the tensor renames the capsule ("used_...") and calls the deleter when done. */
#ifndef WEIR_PYTHON_DLPACK_H
#define WEIR_PYTHON_DLPACK_H

#include <stdint.h>

#define WEIR_DL_NAME          "dltensor"
#define WEIR_DL_NAME_USED     "used_dltensor"
#define WEIR_DL_VERSIONED     "dltensor_versioned"
#define WEIR_DL_VERSIONED_USED "used_dltensor_versioned"

enum { WEIR_DL_CPU = 1, WEIR_DL_CUDA_HOST = 3 };                    /* device types */
enum { WEIR_DL_INT, WEIR_DL_UINT, WEIR_DL_FLOAT, WEIR_DL_BFLOAT = 4, WEIR_DL_BOOL = 6 };
enum { WEIR_DL_READ_ONLY = 1, WEIR_DL_COPIED = 2 };                 /* flags */

typedef struct weir_dl_tensor {
    void    *data;
    int32_t  device_type, device_id;
    int32_t  ndim;
    uint8_t  code, bits;
    uint16_t lanes;
    int64_t *shape;
    int64_t *strides;       /* in elements; NULL: row-major */
    uint64_t byte_offset;
} weir_dl_tensor;

typedef struct weir_dl_old {
    weir_dl_tensor tensor;
    void          *owner;
    void (*deleter)(struct weir_dl_old *self);
} weir_dl_old;

typedef struct weir_dl_versioned {
    uint32_t major, minor;
    void    *owner;
    void (*deleter)(struct weir_dl_versioned *self);
    uint64_t       flags;
    weir_dl_tensor tensor;
} weir_dl_versioned;

#endif
