/* elements.h - a tensor's elements on their way to a file, a row after the other.
 * Defined in elements.c. */
#ifndef WEIR_MODEL_ONNX_ELEMENTS_H
#define WEIR_MODEL_ONNX_ELEMENTS_H

#include "model/file/replace.h"

/* Bytes of the buffer that t needs: a megabyte, or a row of the first axis if that is longer. */
size_t weir_elements_room(const weir_tensor *t);

/* Appends all elements of t, row-major, by a buffer of `room` bytes. */
weir_status weir_elements_add(weir_tensor *t, void *buffer, size_t room, weir_output *o);

#endif
