/* peer.c - a device against the CPU: the same program on the same values, results, gradients and
 * states compared by normalised mean square error. */
#include "graph/ops/way.h"

#include <stdlib.h>

/* The most that sum (a - b)^2 / sum b^2 may be; 0: integers, and whatever a row calls exact. Halves
 * are a chain of a few calls, each of which rounds. */
static double allowed(weir_dtype type)
{
    return type == WEIR_F32  ? 1e-6
         : type == WEIR_F64  ? 1e-18
         : type == WEIR_F16  ? 1e-5
         : type == WEIR_BF16 ? 1e-3 : 0;
}

/* Terms of a sum that cancel leave their errors, so a mean square below this counts as this. */
static double least_square(weir_dtype type)
{
    return OP_HALVES >> type & 1 ? 1e-2 : 1e-4;
}

/* Infinite where only one of two is a number, or both are different infinities. */
static double nmse(const double *got, const double *want, int64_t n, weir_dtype type)
{
    double error = 0, size = 0;

    for (int64_t i = 0; i < n; i++) {
        if (got[i] == want[i] || (isnan(got[i]) && isnan(want[i])))
            error += 0;
        else if (isfinite(got[i]) && isfinite(want[i]))
            error += (got[i] - want[i]) * (got[i] - want[i]);
        else
            return HUGE_VAL;
        size += isfinite(want[i]) ? want[i] * want[i] : 0;
    }
    return error > 0 ? error / fmax(size, least_square(type) * (double)n) : 0;
}

/* Both may be NULL. */
static void same_values(const op_check *c, const char *what, const weir_tensor *here,
                        const weir_tensor *cpu, bool exact)
{
    if (!CHECK((here != NULL) == (cpu != NULL)) || !here)
        return;
    const weir_desc d = weir_tensor_desc(cpu), other = weir_tensor_desc(here);
    if (!CHECK(d.dtype == other.dtype && ref_count(&d) == ref_count(&other)))
        return;
    double *const got = op_read(here), *const want = op_read(cpu);
    if (got && want) {
        const double error = nmse(got, want, ref_count(&d), d.dtype);
        const double most = exact ? 0 : allowed(d.dtype);
        if (d.dtype == WEIR_F32)
            c->score->worst_peer = fmax(c->score->worst_peer, error);
        check_that(error <= most, __FILE__, __LINE__, "%s: NMSE %g against the CPU, allowed %g",
                   what, error, most);
    }
    free(got);
    free(want);
}

void op_way_peer(const op_check *c)
{
    const uint64_t seed = check_random;
    op_fixture     here, cpu;
    op_result      r, want;
    const bool     exact = c->row->eps <= 0 && !c->row->rms && !(OP_HALVES >> c->type & 1);

    const bool opened = op_open_at(&here, check_device(), c->row, c->set, c->type, 1);
    check_random = seed;                /* draws the same values again */
    if (op_open_at(&cpu, "cpu", c->row, c->set, c->type, 1) && opened &&
        CHECK_OK(op_record(&here, true, &r)) && CHECK_OK(op_record(&cpu, true, &want))) {
        same_values(c, "values", r.y, want.y, exact);
        same_values(c, "loss", r.loss, want.loss, false);
        for (int i = 0; i < here.nin; i++) {
            char what[32];
            snprintf(what, sizeof what, "gradient of input %d", i);
            same_values(c, what, r.grad[i], want.grad[i], false);
            snprintf(what, sizeof what, "state, input %d", i);
            if (op_is_state(&here, i))
                same_values(c, what, here.tensor[i], cpu.tensor[i], false);
        }
        c->score->peers++;
    }
    op_close(&here);
    op_close(&cpu);
}
