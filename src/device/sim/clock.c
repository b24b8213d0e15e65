/* clock.c - the streams of the simulated device: when each is free. */
#include "device/sim/sim.h"

static double later(double a, double b)
{
    return a > b ? a : b;
}

static double copy_of(weir_sim *sim, double *busy_until, double rate, size_t bytes, double after)
{
    const double begin = later(later(*busy_until, sim->compute), after);

    *busy_until = begin + sim->rates.copy + (double)bytes / rate;
    return *busy_until;
}

double weir_sim_copy_out(weir_device *d, size_t bytes, double after)
{
    weir_sim *sim = weir_sim_of(d);

    return copy_of(sim, &sim->out, sim->rates.link_out, bytes, after);
}

double weir_sim_copy_in(weir_device *d, size_t bytes, double after)
{
    weir_sim *sim = weir_sim_of(d);

    return copy_of(sim, &sim->in, sim->rates.link_in, bytes, after);
}

double weir_sim_use_wire(weir_device *d, double seconds)
{
    weir_sim *sim = weir_sim_of(d);

    sim->wire = later(sim->wire, sim->compute) + seconds;
    return sim->wire;
}

void weir_sim_wait(weir_device *d, double when)
{
    weir_sim *sim = weir_sim_of(d);

    if (when > sim->compute) {
        sim->stalled += when - sim->compute;
        sim->compute = when;
    }
}

double weir_sim_done(const weir_sim *sim)
{
    return later(later(sim->compute, sim->wire), later(sim->out, sim->in));
}
