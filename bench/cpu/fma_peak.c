/* fma_peak.c - prints the highest rate of multiply-adds of the processor.
 *
 * `fma_peak [THREADS [ROUNDS [TYPE]]]` prints one line: operations per second, a multiply-add as
 * two, the most of ROUNDS (5) runs of THREADS (2) threads; 0 where there is no loop for the
 * processor. TYPE is f32 (the default), or bf16: of the processor's vector units for bf16, where it
 * has them.
 * Build: `cmake --build build --target fma_peak`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peak.h"

int main(int argc, char **argv)
{
    const int threads = argc > 1 ? atoi(argv[1]) : 2, rounds = argc > 2 ? atoi(argv[2]) : 5;
    const char *const type = argc > 3 ? argv[3] : "f32";
    const bool        bf16 = strcmp(type, "bf16") == 0;
    double            most = 0;

    if (threads < 1 || threads > PEAK_THREADS || rounds < 1 ||
        (!bf16 && strcmp(type, "f32") != 0)) {
        fprintf(stderr, "usage: fma_peak [THREADS [ROUNDS [f32 | bf16]]], 1 to %d threads\n",
                PEAK_THREADS);
        return 2;
    }
    for (int r = 0; r < rounds; r++) {
        const double rate = peak_rate(threads, bf16);
        most = rate > most ? rate : most;
    }
    printf("%.6g\n", most);
    return 0;
}
