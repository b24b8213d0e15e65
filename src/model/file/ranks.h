/* ranks.h - runs that the ranks of a communicator save together: see sources.h for the files. */
#ifndef WEIR_MODEL_FILE_RANKS_H
#define WEIR_MODEL_FILE_RANKS_H

#include "weir.h"

/* Fails on all ranks if s is a failure on one of them; its sentence is that of all. */
weir_status weir_ranks_verdict(weir_comm *c, const char *what, weir_status s);

#endif
