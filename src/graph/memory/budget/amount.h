/* amount.h - reads amounts of memory. */
#ifndef WEIR_GRAPH_MEMORY_BUDGET_AMOUNT_H
#define WEIR_GRAPH_MEMORY_BUDGET_AMOUNT_H

#include "core/status.h"

/* Parses "512MB", "0.5GiB", "4096" or a percentage of `whole` ("75%") into *bytes. Returns
 * ERR_INVALID for anything else. */
weir_status weir_budget_parse(const char *text, size_t whole, size_t *bytes);

#endif
