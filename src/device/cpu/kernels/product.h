/* product.h - the kernel of one matrix product, by a library or by our own code. */
#ifndef WEIR_DEVICE_CPU_KERNELS_PRODUCT_H
#define WEIR_DEVICE_CPU_KERNELS_PRODUCT_H

#include "device/cpu/gemm/gemm_plan.h"
#include "device/cpu/gemm/onednn.h"
#include "device/device.h"

/* State of the kernel: a product by lib, or by gemm. */
typedef struct weir_cpu_product {
    weir_gemm    gemm;
    weir_onednn *lib;    /* owned, or NULL */
    bool         bias;   /* the call's third operand, added to each row last */
    bool         turned; /* the left operand is the call's second */
} weir_cpu_product;

/* Frees a product from weir_mem_alloc and its library's call. */
void weir_cpu_product_free(void *product);

/* The kernel that runs the product, and owns it. */
weir_kernel weir_cpu_product_kernel(weir_cpu_product *p);

#endif
