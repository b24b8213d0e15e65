/* training.h - shared by the training examples: options, the device, and a dump of the results. */
#ifndef EXAMPLES_TRAINING_H
#define EXAMPLES_TRAINING_H

#include "show.h"
#include "weir.h"

typedef struct training {
    const char *job;                /* what the example does, for --help */
    const char *quick_is;           /* what --quick is besides fewer steps, "a smaller model, " */
    int         most, fewest;       /* steps without --steps; those of --quick */
    int         steps, threads;     /* threads 0: one per core */
    int         graph;              /* 1: plan the step once; 0: compute call by call */
    bool        quick;
    const char *dump;               /* NULL: none */
} training;

/* Reads argv: the options of every training and n, at most 8, of the example's own. As
 * show_options. */
bool training_options(training *t, int argc, char **argv, const show_option *own, size_t n,
                      int *status);

/* The CPU, with the same seed in every run; NULL flows into what is made on it. */
weir_device *training_device(const training *t);

/* How the steps are computed. */
weir_step_options training_steps(const training *t);

/* After the last step, which ended with s: writes the dump that was asked for, or says on stderr
 * what went wrong. */
weir_status training_end(const training *t, weir_status s, const weir_model *m,
                         const weir_optim *o, const weir_tensor *loss);

#endif
