/* stepfile_write.c - a list of actions as JSON, with the numbers of the file its step came from. */
#include "core/text.h"
#include "graph/memory/stepfile/stepfile.h"

typedef struct weir_writing {
    const weir_outline *o;
    const weir_actions *a;
    weir_string         text;
} weir_writing;

static long long name_of(const weir_writing *w, uint32_t piece)
{
    return (long long)w->o->piece_id.at[piece];
}

/* "out" (scratch = false) or "scratch" of a run: its results that live on, or not. */
static void add_results(weir_writing *w, const weir_action *x, bool scratch)
{
    const weir_task *t = &w->a->p->tasks.at[x->what];
    const char      *gap = scratch ? ",\"scratch\":{" : ",\"out\":{";
    bool             any = false;

    for (uint32_t i = 0; i < t->out.n; i++) {
        const weir_spot *spot = &w->a->spots.at[x->spots + i];
        if (spot->scratch != scratch)
            continue;
        weir_string_add(&w->text, "%s\"%lld\":%zu", any ? "," : gap,
                        name_of(w, weir_refs(w->a->p, t->out)[i]), spot->offset);
        any = true;
    }
    weir_string_add(&w->text, any ? "}" : "");
}

static void add_pairs(weir_writing *w, const weir_action *x)
{
    const weir_task *t = &w->a->p->tasks.at[x->what];
    bool             any = false;

    for (uint32_t i = 0; i < t->out.n; i++) {
        const uint32_t over = w->a->spots.at[x->spots + i].over;
        if (over == WEIR_NO_PIECE)
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

static void add_run(weir_writing *w, const weir_action *x)
{
    weir_string_add(&w->text, "{\"a\":\"compute\",\"op\":%lld",
                    (long long)w->o->task_id.at[x->what]);
    add_results(w, x, false);
    add_results(w, x, true);
    if (w->a->p->tasks.at[x->what].work)
        weir_string_add(&w->text, ",\"ws\":%zu", x->offset);
    add_pairs(w, x);
    weir_string_add(&w->text, "}");
}

static void add_other(weir_writing *w, const weir_action *x)
{
    static const char *const name[] = {
        [WEIR_OUT] = "swap_out", [WEIR_IN] = "swap_in", [WEIR_PACK] = "encode",
        [WEIR_MARK] = "encode", [WEIR_UNPACK] = "decode", [WEIR_FREE] = "free",
        [WEIR_FORGET] = "host_free"};
    static const char *const suffix[WEIR_FORMS] = {[WEIR_PACKED] = "#pack",
                                                   [WEIR_MASK] = "#mask"};
    const bool  codec = x->act == WEIR_PACK || x->act == WEIR_MARK || x->act == WEIR_UNPACK;
    const char *form = codec ? NULL : suffix[x->form], *quote = form ? "\"" : "";

    weir_string_add(&w->text, "{\"a\":\"%s\",\"t\":%s%lld%s%s", name[x->act], quote,
                    name_of(w, x->what), form ? form : "", quote);
    if (codec)
        weir_string_add(&w->text, ",\"kind\":\"%s\"", x->act == WEIR_MARK ? "mask" : "pack");
    if (x->act == WEIR_IN)
        weir_string_add(&w->text, ",\"drop_host\":%s", x->forget ? "true" : "false");
    if (codec || x->act == WEIR_IN)
        weir_string_add(&w->text, ",\"off\":%zu", x->offset);
    weir_string_add(&w->text, "}");
}

static void add_residents(weir_writing *w)
{
    const weir_problem *p = w->a->p;
    const char         *gap = "";
    size_t              at = 0;

    weir_string_add(&w->text, "\"resident\":{");
    for (uint32_t k = 0; k < p->pieces.n; k++)
        if (weir_piece_resident(p, k) && !w->a->home[k]) {
            weir_string_add(&w->text, "%s\"%lld\":%zu", gap, name_of(w, k), w->a->start[k]);
            gap = ",";
        }
    /* Without swapping resident tensors are no pieces of the plan: they lie at the bottom. */
    for (uint32_t k = p->pieces.n; k < w->o->problem.pieces.n; k++) {
        weir_string_add(&w->text, "%s\"%lld\":%zu", gap, name_of(w, k), at);
        at += (w->o->problem.pieces.at[k].bytes + w->a->align - 1) & ~(w->a->align - 1);
        gap = ",";
    }
    weir_string_add(&w->text, "},\"host_resident\":[");
    gap = "";
    for (uint32_t k = 0; k < p->pieces.n; k++)
        if (w->a->home[k]) {
            weir_string_add(&w->text, "%s%lld", gap, name_of(w, k));
            gap = ",";
        }
    weir_string_add(&w->text, "]");
}

char *weir_outline_write(const weir_outline *o, const weir_actions *a, size_t budget)
{
    weir_writing w = {.o = o, .a = a};

    weir_string_add(&w.text, "{\"graph\":\"");
    weir_string_add_json(&w.text, o->name);
    weir_string_add(&w.text, "\",\"budget_bytes\":%zu,\"alignment\":%zu,", budget, a->align);
    add_residents(&w);
    weir_string_add(&w.text, ",\"actions\":[");
    for (uint32_t i = 0; i < a->list.n; i++) {
        weir_string_add(&w.text, i ? ",\n" : "\n");
        if (a->list.at[i].act == WEIR_RUN)
            add_run(&w, &a->list.at[i]);
        else
            add_other(&w, &a->list.at[i]);
    }
    weir_string_add(&w.text, "\n]}\n");
    return weir_string_take(&w.text);
}
