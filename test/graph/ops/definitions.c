/* definitions.c - a test of the table of definitions. */
#include "check.h"
#include "graph/ops/op.h"

/* Messages take an op's name from the list in core, reports from its definition. */
CASE(definitions_have_the_names_of_the_list)
{
    for (int op = 0; op < WEIR_OP_COUNT; op++) {
        const weir_opdef *const def = weir_opdef_of((weir_op)op);
        const char *const       name = weir_op_name((weir_op)op);

        check_that(def && def->name && strcmp(def->name, name) == 0, __FILE__, __LINE__,
                   "%s is defined as %s", name, def && def->name ? def->name : "nothing");
    }
}
