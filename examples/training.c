/* training.c - the common options, device and dump of a training. */
#include "training.h"

#include <stdio.h>

#include "snapshot.h"

enum { COMMON = 5, OWN = 8 };

bool training_options(training *t, int argc, char **argv, const show_option *own, size_t n,
                      int *status)
{
    char              steps[64], quick[96];
    const show_option dump = {"dump", SHOW_TEXT, &t->dump,
                              "write all parameters, states and the loss to this file"};
    show_option       table[COMMON + OWN] = {
        {"graph", SHOW_SWITCH, &t->graph, "plan the step once, or compute call by call (on)"},
        {"steps", SHOW_NUMBER, &t->steps, steps},
        {"quick", SHOW_FLAG, &t->quick, quick},
        {"threads", SHOW_NUMBER, &t->threads, "worker threads; 0: one per core (0)"},
    };

    n = n < OWN ? n : OWN;
    t->graph = 1;
    snprintf(steps, sizeof steps, "steps of training (%d)", t->most);
    snprintf(quick, sizeof quick, "%s%d steps", t->quick_is ? t->quick_is : "", t->fewest);
    for (size_t i = 0; i < n; i++)
        table[COMMON - 1 + i] = own[i];
    table[COMMON - 1 + n] = dump;
    if (!show_options(argc, argv, t->job, table, COMMON + n, status))
        return false;
    if (t->steps == 0)
        t->steps = t->quick ? t->fewest : t->most;
    return true;
}

weir_device *training_device(const training *t)
{
    return weir_device_open("cpu", &(weir_device_options){.threads = t->threads, .seed = 1});
}

weir_step_options training_steps(const training *t)
{
    return (weir_step_options){.graph = t->graph != 0};
}

weir_status training_end(const training *t, weir_status s, const weir_model *m,
                         const weir_optim *o, const weir_tensor *loss)
{
    snapshot end = {0};

    if (s == WEIR_OK && t->dump)
        s = snapshot_take(&end, m, o, loss);
    if (s != WEIR_OK)
        fprintf(stderr, "%s\n", weir_error());
    else if (t->dump && !snapshot_write(&end, t->dump))
        s = WEIR_ERR_IO;
    snapshot_free(&end);
    return s;
}
