/* summary.c - weir summary: the layers of a model, their results, parameters and costs. */
#include "tool/tool.h"

static char *text_of(const tool_options *o, const tool_bench_case *t, bool json)
{
    return weir_layer_summary(t->net, weir_tensor_desc(t->x),
                              &(weir_summary_options){.depth = (int)o->levels, .json = json});
}

/* Records the model's forward pass; computes nothing. */
int tool_summary(const tool_options *o)
{
    tool_bench_case t;
    int             code = TOOL_DONE;

    if (tool_bench_case_open(&t, o, true) != WEIR_OK)
        return tool_failed(o);
    for (int json = 0; json < 2 && code == TOOL_DONE; json++) {
        if (json ? !o->json : tool_quiet(o))
            continue;
        char *const text = text_of(o, &t, json);
        code = text ? tool_write(o, json ? o->json : NULL, text) : tool_failed(o);
        weir_text_free(text);
    }
    tool_bench_case_close(&t);
    return code;
}
