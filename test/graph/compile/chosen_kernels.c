/* chosen_kernels.c - kernels chosen by time change no bit: a clock that draws its times makes other
 * choices each time, and trainings with the graph off, on and within a budget agree with one that
 * times nothing. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/env.h"
#include "graph/train.h"
#include "temp_folder.h"

enum { CHOICES = 3, BATCH = 64, STEPS = 2 };

static uint64_t drawn;

/* Advances by up to a second. */
static int drawing_clock(clockid_t clock, struct timespec *t)
{
    static double now = 1;

    (void)clock;
    drawn = drawn * 6364136223846793005u + 1442695040888963407u;
    now += (double)(drawn >> 40) * 0x1p-24;
    *t = (struct timespec){(time_t)now, (long)((now - (double)(time_t)now) * 1e9)};
    return 0;
}

/* Hashes the folder's file of choices and removes it; 0 without one. *several: whether a call
 * has several kernels with equal bits (the last word of a record). */
static uint64_t take_choices(const folder *f, bool *several)
{
    enum { HEAD = 32, RECORD = 24, SUM = 8 };
    static unsigned char data[1 << 16];
    uint64_t             h = 0;
    char                 path[400];
    DIR *const           all = opendir(f->path);
    struct dirent       *e = NULL;

    while (all && (e = readdir(all)))
        if (e->d_name[0] != '.') {
            snprintf(path, sizeof path, "%s/%s", f->path, e->d_name);
            FILE *const file = fopen(path, "rb");
            if (CHECK(file != NULL)) {
                const size_t n = fread(data, 1, sizeof data, file);
                h = weir_hash_bytes(1, data, n);
                fclose(file);
                for (size_t at = HEAD; at + RECORD + SUM <= n; at += RECORD)
                    *several = *several || data[at + RECORD - 4] != 1;
            }
            CHECK(unlink(path) == 0);
        }
    if (all)
        closedir(all);
    return h;
}

CASE(trainings_with_other_choices_have_the_same_bits)
{
    static const weir_step_options ways[] = {
        {.graph = false}, {.graph = true}, {.graph = true, .plan = {.budget = "80%"}}};
    weir_env env = *weir_env_get();
    uint64_t choices[CHOICES];
    bool     differ = false, several = false;
    folder   f;

    if (!check_on_cpu() || !folder_make(&f))
        return;
    const uint64_t want = train_run(TRAIN_LENET, BATCH, 0, STEPS, NULL);
    env.clock_gettime = drawing_clock;
    for (int i = 0; i < CHOICES; i++) {
        drawn = (uint64_t)i;
        weir_env_set(&env);
        setenv("WEIR_KERNELS", f.path, 1);
        for (size_t k = 0; k < ARRAY_LENGTH(ways); k++)
            CHECK(train_run(TRAIN_LENET, BATCH, 0, STEPS, &ways[k]) == want);
        unsetenv("WEIR_KERNELS");
        weir_env_set(NULL);
        choices[i] = take_choices(&f, &several);
        differ = differ || choices[i] != choices[0];
    }
    CHECK(differ == several);
    folder_remove(&f);
}
