/* model.c - the fit of times to sizes. */
#include "device/comm/model.h"

#include "check.h"

enum { SIZES = 8 };

static const double bytes[SIZES] = {256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304};

CASE(a_line_is_found)
{
    double seconds[SIZES], constant, per_byte;

    for (int i = 0; i < SIZES; i++)
        seconds[i] = 70e-6 + bytes[i] / 110e6;
    weir_fit_sums(bytes, seconds, SIZES, &constant, &per_byte);
    CHECK_NEAR(constant, 70e-6, 1e-9);
    CHECK_NEAR(per_byte, 1 / 110e6, 1e-15);
}

/* A link of 100 Mbit/s behind a buffer that takes 128 KiB at once: large sums decide, since those
 * of a step follow each other. */
CASE(buffers_on_the_way_do_not_count)
{
    double seconds[SIZES], constant, per_byte;

    for (int i = 0; i < SIZES; i++)
        seconds[i] = 70e-6 + bytes[i] / 1e9 + (i > 4 ? (bytes[i] - 131072) / 11.8e6 : 0);
    weir_fit_sums(bytes, seconds, SIZES, &constant, &per_byte);
    CHECK_NEAR(per_byte, 1 / 11.8e6 + 1e-9, 1e-12);
    CHECK_NEAR(constant, 70e-6, 30e-6);
}

CASE(noise_leaves_both_numbers_above_zero)
{
    const double seconds[SIZES] = {1e-6, 1e-6, 1e-6, 1e-6, 1e-6, 1e-6, 2e-3, 1e-3};
    double       constant, per_byte;

    weir_fit_sums(bytes, seconds, SIZES, &constant, &per_byte);
    CHECK(per_byte > 0);
    CHECK(constant >= 0);
}
