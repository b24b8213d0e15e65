/* allreduce.c - sums in the order of ranks beside MPI_Allreduce, in one process.
 *
 * `mpirun -n RANKS allreduce_openmpi [ROUNDS]`, or with mpirun.mpich allreduce_mpich: sums 4, 8, 16
 * and 32 MiB of f32 in turn, ROUNDS times (15), by a graph of one all_reduce and by the MPI
 * that has started the ranks. Rank 0 prints medians of the slowest rank's times and of the ratios.
 * Build: `cmake --build build --target allreduce_openmpi allreduce_mpich`. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "timing.h"
#include "weir.h"

enum { LEAST = 4 << 20, SIZES = 4, WARM = 3, MOST = 1000 };

static void check(bool ok)
{
    if (!ok) {
        fprintf(stderr, "allreduce: %s\n", weir_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* Milliseconds since `begin` on the slowest rank. */
static double since(double begin)
{
    double mine = 1e3 * (MPI_Wtime() - begin), slowest;

    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

static double time_graph(weir_graph *g)
{
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    check(weir_graph_run(g) == WEIR_OK);
    return since(begin);
}

static double time_mpi(const float *from, float *to, int n)
{
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    MPI_Allreduce(from, to, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return since(begin);
}

static void measure(weir_device *d, weir_comm *c, size_t bytes, int rounds)
{
    const int          n = (int)(bytes / sizeof(float));
    float *const       from = malloc(bytes), *const to = malloc(bytes);
    double             ours[MOST], theirs[MOST], ratio[MOST];
    weir_tensor *const x = weir_input(d, weir_1d(WEIR_F32, n));
    weir_graph *const  g = weir_graph_begin(d);
    weir_tensor *const sum = weir_keep(weir_all_reduce(c, x));

    check(from && to && sum && weir_graph_end(g, NULL) == WEIR_OK);
    for (int i = 0; i < n; i++)
        from[i] = (float)i;
    check(weir_write(x, from, bytes) == WEIR_OK);
    for (int i = -WARM; i < rounds; i++) {
        const int    at = i < 0 ? 0 : i;
        const double first = i % 2 ? time_graph(g) : time_mpi(from, to, n);
        const double second = i % 2 ? time_mpi(from, to, n) : time_graph(g);
        ours[at] = i % 2 ? first : second;
        theirs[at] = i % 2 ? second : first;
        ratio[at] = ours[at] / theirs[at];
    }
    const double paired = median(ratio, rounds);
    if (weir_comm_rank(c) == 0)
        printf("| %zu | %.2f | %.2f | %.2f |\n", bytes >> 20, median(ours, rounds),
               median(theirs, rounds), paired);
    weir_graph_free(g);
    weir_release(x);
    free(from);
    free(to);
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 15;
    int       level;

    if (rounds < 1 || rounds > MOST) {
        fprintf(stderr, "allreduce: %d rounds (at most %d)\n", rounds, MOST);
        return 2;
    }
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    weir_device *const d = weir_device_open("cpu", &(weir_device_options){.threads = 1});
    weir_comm *const   c = d ? weir_comm_open("auto", d, NULL) : NULL;
    check(c != NULL);
    if (weir_comm_rank(c) == 0)
        printf("| MiB | in the order of %d ranks, ms | MPI_Allreduce, ms | ratio |\n"
               "|---:|---:|---:|---:|\n", weir_comm_world(c));
    for (int i = 0; i < SIZES; i++)
        measure(d, c, (size_t)LEAST << i, rounds);
    weir_comm_close(c);
    weir_device_close(d);
    MPI_Finalize();
    return 0;
}
