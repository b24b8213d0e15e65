/* stepfile_write.c - writes a plan as JSON, with the numbers of the file its step came from. */
#include "core/text.h"
#include "graph/memory/stepfile/stepfile.h"

typedef struct weir_writing {
    const weir_stepfile *o;
    const weir_mem_plan *a;
    weir_string          text;
} weir_writing;

static long long name_of(const weir_writing *w, uint32_t tensor)
{
    return (long long)w->o->tensor_id.at[tensor];
}

/* Writes "out" of a run, the outputs that live on, or with `scratch` "scratch", all others. */
static void add_results(weir_writing *w, const weir_mem_step *x, bool scratch)
{
    const weir_mem_op *t = &w->a->p->ops.at[x->what];
    const char        *separator = scratch ? ",\"scratch\":{" : ",\"out\":{";
    bool               any = false;

    for (uint32_t i = 0; i < t->out.n; i++) {
        const weir_output_slot *slot = &w->a->slots.at[x->slots + i];
        if (slot->scratch != scratch)
            continue;
        weir_string_add(&w->text, "%s\"%lld\":%zu", any ? "," : separator,
                        name_of(w, weir_refs(w->a->p, t->out)[i]), slot->offset);
        any = true;
    }
    weir_string_add(&w->text, any ? "}" : "");
}

static void add_pairs(weir_writing *w, const weir_mem_step *x)
{
    const weir_mem_op *t = &w->a->p->ops.at[x->what];
    bool               any = false;

    for (uint32_t i = 0; i < t->out.n; i++) {
        const uint32_t over = w->a->slots.at[x->slots + i].over;
        if (over == WEIR_NO_TENSOR)
            continue;
        weir_string_add(&w->text, "%s[%lld,%lld]", any ? "," : ",\"inplace\":[", name_of(w, over),
                        name_of(w, weir_refs(w->a->p, t->out)[i]));
        any = true;
    }
    weir_string_add(&w->text, any ? "]" : "");
    for (uint32_t i = 0; i < x->masks.n; i++)
        weir_string_add(&w->text, "%s%lld", i ? "," : ",\"use_mask\":[",
                        name_of(w, w->a->masks.at[x->masks.first + i]));
    weir_string_add(&w->text, x->masks.n ? "]" : "");
}

static void add_run(weir_writing *w, const weir_mem_step *x)
{
    weir_string_add(&w->text, "{\"a\":\"compute\",\"op\":%lld",
                    (long long)w->o->op_id.at[x->what]);
    add_results(w, x, false);
    add_results(w, x, true);
    if (w->a->p->ops.at[x->what].work)
        weir_string_add(&w->text, ",\"ws\":%zu", x->offset);
    add_pairs(w, x);
    weir_string_add(&w->text, "}");
}

static void add_other(weir_writing *w, const weir_mem_step *x)
{
    static const char *const name[] = {
        [WEIR_EVENT_OFFLOAD] = "swap_out",   [WEIR_EVENT_PREFETCH] = "swap_in",
        [WEIR_EVENT_COMPRESS] = "encode",    [WEIR_EVENT_MASK] = "encode",
        [WEIR_EVENT_DECOMPRESS] = "decode",  [WEIR_EVENT_FREE] = "free",
        [WEIR_EVENT_FREE_HOST] = "host_free"};
    static const char *const suffix[WEIR_FORM_COUNT] = {
        [WEIR_FORM_COMPRESSED] = "#pack", [WEIR_FORM_MASK] = "#mask"};
    const bool coded = x->kind == WEIR_EVENT_COMPRESS || x->kind == WEIR_EVENT_MASK ||
                       x->kind == WEIR_EVENT_DECOMPRESS;
    const char *form = coded ? NULL : suffix[x->form], *quote = form ? "\"" : "";

    weir_string_add(&w->text, "{\"a\":\"%s\",\"t\":%s%lld%s%s", name[x->kind], quote,
                    name_of(w, x->what), form ? form : "", quote);
    if (coded)
        weir_string_add(&w->text, ",\"kind\":\"%s\"", x->kind == WEIR_EVENT_MASK ? "mask" : "pack");
    if (x->kind == WEIR_EVENT_PREFETCH)
        weir_string_add(&w->text, ",\"drop_host\":%s", x->forget ? "true" : "false");
    if (coded || x->kind == WEIR_EVENT_PREFETCH)
        weir_string_add(&w->text, ",\"off\":%zu", x->offset);
    weir_string_add(&w->text, "}");
}

static void add_residents(weir_writing *w)
{
    const weir_mem_problem *p = w->a->p;
    const char             *separator = "";
    size_t                  at = 0;

    weir_string_add(&w->text, "\"resident\":{");
    for (uint32_t k = 0; k < p->tensors.n; k++)
        if (weir_mem_tensor_is_resident(p, k) && !w->a->offloaded[k]) {
            weir_string_add(&w->text, "%s\"%lld\":%zu", separator, name_of(w, k), w->a->start[k]);
            separator = ",";
        }
    /* Without offloading, the plan does not contain resident tensors: they lie at the bottom. */
    for (uint32_t k = p->tensors.n; k < w->o->problem.tensors.n; k++) {
        weir_string_add(&w->text, "%s\"%lld\":%zu", separator, name_of(w, k), at);
        at += (w->o->problem.tensors.at[k].bytes + w->a->align - 1) & ~(w->a->align - 1);
        separator = ",";
    }
    weir_string_add(&w->text, "},\"host_resident\":[");
    separator = "";
    for (uint32_t k = 0; k < p->tensors.n; k++)
        if (w->a->offloaded[k]) {
            weir_string_add(&w->text, "%s%lld", separator, name_of(w, k));
            separator = ",";
        }
    weir_string_add(&w->text, "]");
}

char *weir_stepfile_write(const weir_stepfile *o, const weir_mem_plan *a, size_t budget)
{
    weir_writing w = {.o = o, .a = a};

    weir_string_add(&w.text, "{\"graph\":\"");
    weir_string_add_json(&w.text, o->name);
    weir_string_add(&w.text, "\",\"budget_bytes\":%zu,\"alignment\":%zu,", budget, a->align);
    add_residents(&w);
    weir_string_add(&w.text, ",\"actions\":[");
    for (uint32_t i = 0; i < a->list.n; i++) {
        weir_string_add(&w.text, i ? ",\n" : "\n");
        if (a->list.at[i].kind == WEIR_EVENT_RUN)
            add_run(&w, &a->list.at[i]);
        else
            add_other(&w, &a->list.at[i]);
    }
    weir_string_add(&w.text, "\n]}\n");
    return weir_string_take(&w.text);
}
