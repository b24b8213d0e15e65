/* micro_batches.c - what the micro-batches of a step under data parallelism have each for itself:
 * random numbers and batch statistics.
 *
 * Micro-batch n of all draws in part n of the random stream, of 2^32 blocks. A step has m of them,
 * and begins at a multiple of m; this rank's are A from rank A on. */
#include "model/optim.h"
#include "model/statistics.h"

int64_t weir_optim_micro_batches(const weir_optim *o)
{
    return weir_comm_world(o->comm) * o->micro_batches;
}

weir_random weir_optim_random(const weir_optim *o, weir_random random)
{
    if (!o || !o->reduce)
        return random;
    const uint64_t own = (uint64_t)o->micro_batches, m = (uint64_t)weir_optim_micro_batches(o);
    const uint64_t part = random.position >> 32, rank = (uint64_t)weir_comm_rank(o->comm);

    if (part % m / own != rank)
        random.position = (part - part % m + rank * own) << 32;
    return random;
}

weir_status weir_optim_end_part(const weir_optim *o, bool last)
{
    const int64_t others = o->reduce ? weir_optim_micro_batches(o) - o->micro_batches : 0;

    if (o->model && !last)
        weir_statistics_end_part(o->model->statistics);
    if (!o->reduce || (last && others == 0))
        return WEIR_OK;
    return weir_random_advance(o->dev, last ? others : 1);
}
