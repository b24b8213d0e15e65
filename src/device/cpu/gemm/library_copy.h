/* library_copy.h - a second instance of a shared library that the process has loaded already. */
#ifndef WEIR_DEVICE_CPU_GEMM_LIBRARY_COPY_H
#define WEIR_DEVICE_CPU_GEMM_LIBRARY_COPY_H

/* Loads a copy of the library that holds `function` as a library of its own, with its own variables
 * and threads; the libraries that it needs are shared with the process. It is never unloaded, and a
 * second call returns the same instance. NULL if its file cannot be copied or the system has no way
 * to do so. */
void *weir_library_copy(const void *function);

#endif
