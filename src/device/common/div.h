/* div.h - arithmetic for dividing work into tasks by shape. */
#ifndef WEIR_DEVICE_COMMON_DIV_H
#define WEIR_DEVICE_COMMON_DIV_H

#include <stdint.h>

#define WEIR_TASK_ELEMENTS (32 * 1024)  /* fewer are not worth waking a worker for */
#define WEIR_TASKS         64           /* most tasks, and so partial results, of a reduction */

static inline int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static inline int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Number of rows of n elements in a task. */
static inline int64_t rows_per_task(int64_t n)
{
    return max64(1, WEIR_TASK_ELEMENTS / max64(1, n));
}

#endif
