/* stepfile_order.c - a step whose updates come late needs less memory in another order. */
#include "core/mem.h"

#ifdef WEIR_JANSSON
#include "core/text.h"
#include "temp_folder.h"

enum { LAYERS = 8, BYTES = 1000 };

/* A chain whose gradients all wait for the updates at its end. */
static char *late_updates(void)
{
    weir_string s = {0};

    weir_string_add(&s, "{\"tensors\": [");
    for (int i = 0; i < LAYERS; i++)
        weir_string_add(&s, "{\"id\": %d, \"bytes\": %d, \"kind\": \"param\"},"
                        "{\"id\": %d, \"bytes\": %d, \"kind\": \"gradient\"},"
                        "{\"id\": %d, \"bytes\": 8, \"kind\": \"gradient\"},", i, BYTES, 100 + i,
                        BYTES, 200 + i);
    weir_string_add(&s, "{\"id\": 300, \"bytes\": 8, \"kind\": \"input\"}], \"ops\": [");
    for (int i = 0; i < LAYERS; i++)
        weir_string_add(&s, "{\"id\": %d, \"time_us\": 1, \"inputs\": [%d, %d], \"outputs\": "
                        "[%d, %d]},", i, i, i ? 199 + i : 300, 100 + i, 200 + i);
    for (int i = 0; i < LAYERS; i++)
        weir_string_add(&s, "%s{\"id\": %d, \"time_us\": 1, \"inputs\": [%d, %d], "
                        "\"outputs\": [], \"mutates\": [%d]}", i ? "," : "", LAYERS + i, i,
                        100 + i, i);
    weir_string_add(&s, "]}");
    return weir_string_take(&s);
}

/* Plans within the budget by the policy and checks the plan. */
static bool plans(const folder *f, const weir_stepfile *o, const char *policy, const char *budget)
{
    const weir_stepfile_options how = {.budget = budget, .policy = policy};
    weir_stepfile_plan_stats    s;
    weir_stepfile_check_stats   v;
    char *const                text = weir_stepfile_plan(o, &how, &s);

    if (!text)
        return false;
    CHECK_OK(weir_stepfile_check(o, file_write(f, 1, text, strlen(text)), &how, &v));
    CHECK(v.peak_bytes <= s.budget_bytes && s.extra_ms == 0);
    weir_text_free(text);
    return true;
}

CASE(updates_need_not_wait)
{
    folder      f;
    char *const text = late_updates();

    CHECK_OR_RETURN(text && folder_make(&f));
    weir_stepfile *const o = weir_stepfile_read(file_write(&f, 0, text, strlen(text)));
    CHECK_OR_RETURN(o != NULL);
    CHECK(plans(&f, o, "auto", "60%"));             /* all parameters and one gradient: 9 of 16 */
    CHECK(plans(&f, o, "auto:order", "60%"));
    CHECK(!plans(&f, o, "auto:recompute", "60%"));  /* in the given order all gradients wait: */
    CHECK(!plans(&f, o, "recycle", "60%"));         /* recomputing one needs another gradient */
    weir_stepfile_free(o);
    weir_mem_free(text);
    folder_remove(&f);
}
#endif
