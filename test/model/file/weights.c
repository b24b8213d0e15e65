/* weights.c - models in files: what is saved is loaded, what does not fit changes nothing. */
#include <dirent.h>
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/mem.h"
#include "temp_folder.h"

static weir_device *open_cpu(void)
{
    return weir_device_open(check_device(), &(weir_device_options){.threads = 1});
}

/* A model with parameters, states, and a table in bf16. */
static weir_model *model_new(weir_device *d, int64_t hidden)
{
    weir_model *m = weir_model_new(d);

    CHECK(weir_linear_new(m, "fc1", 3, hidden, true) != NULL);
    CHECK(weir_batch_norm_new(m, "bn", hidden) != NULL);
    CHECK(weir_embedding_new(m, "table", 3, 5, WEIR_BF16, 0) != NULL);
    return m;
}

static weir_tensor *tensor(const weir_model *m, size_t i)
{
    const size_t params = weir_model_param_count(m);
    return i < params ? weir_model_param(m, i) : weir_model_state(m, i - params);
}

static size_t tensors(const weir_model *m)
{
    return weir_model_param_count(m) + weir_model_state_count(m);
}

enum { MOST = 4096 };

static bool equal(const weir_model *a, const weir_model *b)
{
    static char x[MOST], y[MOST];

    for (size_t i = 0; i < tensors(a); i++) {
        const size_t bytes = weir_tensor_bytes(tensor(a, i));
        if (bytes > MOST || weir_read(tensor(a, i), x, bytes) != WEIR_OK ||
            weir_read(tensor(b, i), y, bytes) != WEIR_OK || memcmp(x, y, bytes) != 0)
            return false;
    }
    return true;
}

static void fill(weir_model *m, double value)
{
    for (size_t i = 0; i < tensors(m); i++)
        CHECK_OK(weir_write_fill(tensor(m, i), value));
}

/* The number of files in the folder. */
static int files_in(const char *path)
{
    DIR *const at = opendir(path);
    int        n = 0;

    for (const struct dirent *e; at && (e = readdir(at));)
        n += e->d_name[0] != '.';
    if (at)
        closedir(at);
    return n;
}

static void remove_all(const folder *f)
{
    DIR *const at = opendir(f->path);
    char       path[400];

    for (const struct dirent *e; at && (e = readdir(at));)
        if (e->d_name[0] != '.') {
            snprintf(path, sizeof path, "%s/%s", f->path, e->d_name);
            unlink(path);
        }
    if (at)
        closedir(at);
    folder_remove(f);
}

CASE(what_is_saved_is_loaded)
{
    weir_device *d = open_cpu();
    weir_model  *a = model_new(d, 4), *b = model_new(d, 4);
    folder       f;
    CHECK_OR_RETURN(folder_make(&f));
    struct stat st;

    umask(022);
    CHECK(!equal(a, b));
    CHECK_OK(weir_model_save(a, f.file[0], NULL));
    CHECK(stat(f.file[0], &st) == 0 && (st.st_mode & 0777) == 0644);
    weir_load_counts counts;
    CHECK_OK(weir_model_load(b, f.file[0], &(weir_load_options){.counts = &counts}));
    CHECK(equal(a, b) && counts.loaded == 7 && counts.missing + counts.unexpected == 0);
    CHECK(files_in(f.path) == 1);
    weir_model_free(a);
    weir_model_free(b);
    weir_device_close(d);
    remove_all(&f);
}

/* The previous file under .bak, a link that stays a link, no file left over. */
CASE(the_previous_file_is_kept_if_asked)
{
    weir_device *d = open_cpu();
    weir_model  *a = model_new(d, 4), *b = model_new(d, 4), *c = model_new(d, 4);
    folder       f;
    char         bak[100];
    struct stat  st;
    CHECK_OR_RETURN(folder_make(&f));

    CHECK_OK(weir_model_save(a, f.file[0], &(weir_save_options){.keep_previous = true}));
    CHECK(files_in(f.path) == 1);
    CHECK(symlink("0", f.file[1]) == 0);
    for (int i = 0; i < 2; i++)
        CHECK_OK(weir_model_save(i ? b : a, f.file[1], &(weir_save_options){true}));
    CHECK(files_in(f.path) == 3 && lstat(f.file[1], &st) == 0 && S_ISLNK(st.st_mode));
    snprintf(bak, sizeof bak, "%s.bak", f.file[0]);
    CHECK_OK(weir_model_load(c, bak, NULL));
    CHECK(equal(a, c));
    CHECK_OK(weir_model_load(c, f.file[0], NULL));
    CHECK(equal(b, c));
    weir_model_free(a);
    weir_model_free(b);
    weir_model_free(c);
    weir_device_close(d);
    remove_all(&f);
}

/* One error lists all that does not fit; nothing has changed. `partial` takes the rest. */
CASE(what_does_not_fit_changes_nothing)
{
    weir_device     *d = open_cpu();
    weir_model      *a = model_new(d, 4), *b = model_new(d, 5), *before = model_new(d, 5);
    weir_load_counts counts;
    folder           f;
    CHECK_OR_RETURN(folder_make(&f));

    CHECK(weir_linear_new(a, "old", 2, 2, false) && weir_linear_new(b, "new", 2, 2, false) &&
          weir_linear_new(before, "new", 2, 2, false));
    CHECK_OK(weir_model_save(b, f.file[1], NULL));
    CHECK_OK(weir_model_load(before, f.file[1], NULL));
    CHECK_OK(weir_model_save(a, f.file[0], NULL));
    CHECK_STATUS(weir_model_load(b, f.file[0], &(weir_load_options){.counts = &counts}),
                 WEIR_ERR_IO);
    CHECK(counts.missing == 1 && counts.unexpected == 1 && counts.different == 6 &&
          counts.loaded == 1);
    CHECK_TEXT(weir_error(), f.file[0]);
    CHECK_TEXT(weir_error(), "1 missing, 1 unexpected and 6 different");
    CHECK_TEXT(weir_error(), "'fc1.weight' is F32 (5, 3) here and F32 (4, 3) in the file");
    CHECK_TEXT(weir_error(), "missing in the file: 'new.weight'");
    CHECK_TEXT(weir_error(), "not expected: 'old.weight'");
    CHECK(equal(b, before));
    CHECK_OK(weir_model_load(b, f.file[0], &(weir_load_options){true, &counts}));
    CHECK(counts.loaded == 1 && !equal(b, before));
    weir_model_free(a);
    weir_model_free(b);
    weir_model_free(before);
    weir_device_close(d);
    remove_all(&f);
}

CASE(mistakes_are_named)
{
    weir_device *d = open_cpu();
    weir_model  *m = model_new(d, 4);
    folder       f;
    CHECK_OR_RETURN(folder_make(&f));

    CHECK_STATUS(weir_model_save(m, "/nowhere/at/all", NULL), WEIR_ERR_IO);
    CHECK_TEXT(weir_error(), "/nowhere/at/all");
    CHECK_STATUS(weir_model_save(m, f.path, NULL), WEIR_ERR_IO);
    CHECK_TEXT(weir_error(), "is not a regular file");
    CHECK_STATUS(weir_model_save(m, "", NULL), WEIR_ERR_IO);
    weir_error_clear();
    CHECK_STATUS(weir_model_save(m, NULL, NULL), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_model_save(NULL, f.file[0], NULL), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_model_load(NULL, f.file[0], NULL), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_model_load(m, f.file[0], NULL), WEIR_ERR_IO);
    CHECK(weir_linear_new(m, "fc1", 3, 4, true) != NULL);
    CHECK_STATUS(weir_model_save(m, f.file[0], NULL), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "two tensors are called 'fc1.");
    CHECK(files_in(f.path) == 0);
    weir_model_free(m);
    weir_device_close(d);
    remove_all(&f);
}

/* Every allocation of saving and loading fails in turn: the old file, the old weights. */
CASE(failing_memory_changes_nothing)
{
    weir_device *d = open_cpu();
    weir_model  *a = model_new(d, 4), *b = model_new(d, 4), *c = model_new(d, 4);
    bool         good = false;
    int          refused = 0;
    folder       f;
    CHECK_OR_RETURN(folder_make(&f));

    CHECK_OK(weir_model_save(a, f.file[0], NULL));
    for (int64_t n = 0; !good && n < 200; n++) {
        weir_mem_fail_nth(n, false);
        const weir_status s = weir_model_save(b, f.file[0], NULL);
        good = !weir_mem_failed();
        weir_mem_fail_nth(-1, false);
        CHECK_STATUS(s, good ? WEIR_OK : WEIR_ERR_NOMEM);
        refused += !good;
        CHECK_OK(weir_model_load(c, f.file[0], NULL));
        CHECK(equal(c, good ? b : a) && files_in(f.path) == 1);
    }
    CHECK(good && refused > 8);
    good = false;
    for (int64_t n = 0; !good && n < 200; n++) {
        fill(c, 0.5);
        fill(a, 0.5);
        weir_mem_fail_nth(n, false);
        const weir_status s = weir_model_load(c, f.file[0], NULL);
        good = !weir_mem_failed();
        weir_mem_fail_nth(-1, false);
        CHECK_STATUS(s, good ? WEIR_OK : WEIR_ERR_NOMEM);
        CHECK(equal(c, good ? b : a));
    }
    CHECK(good);
    weir_model_free(a);
    weir_model_free(b);
    weir_model_free(c);
    weir_device_close(d);
    remove_all(&f);
}

/* ---- killed while it saves ---- */

/* Saves one value everywhere, then the next, `times` times or until the process is killed; after
 * the first save it writes a byte to the file `ready`. */
static weir_status save_values(const char *path, int ready, int times)
{
    weir_device *d = open_cpu();
    weir_model  *m = model_new(d, 40);
    weir_status  s = WEIR_OK;

    for (int i = 0; i < times && s == WEIR_OK; i++) {
        fill(m, i % 200);
        s = weir_model_save(m, path, &(weir_save_options){.keep_previous = i % 2 != 0});
        if (s == WEIR_OK && i == 0 && write(ready, "", 1) != 1)
            s = WEIR_ERR_IO;
    }
    weir_model_free(m);
    weir_device_close(d);
    return s;
}

/* Whether all elements of the model in the file are the same. */
static bool is_one_save(weir_model *m, const char *path)
{
    static float x[MOST];
    float        first = -1;

    if (!CHECK_OK(weir_model_load(m, path, NULL)))
        return false;
    for (size_t i = 0; i < tensors(m); i++) {
        const size_t bytes = weir_tensor_bytes(tensor(m, i));
        if (weir_tensor_desc(tensor(m, i)).dtype != WEIR_F32)
            continue;
        CHECK_OK(weir_read(tensor(m, i), x, bytes));
        first = i == 0 ? x[0] : first;
        for (size_t k = 0; k < bytes / sizeof *x; k++)
            if (x[k] < first || x[k] > first)
                return false;
    }
    return true;
}

/* What the case after this one runs in a process of its own, because a forked child may not call
 * Weir: there WEIR_TEST_SAVES is the number of an open file and a path. */
CASE(saves_follow_each_other)
{
    const char *const asked = getenv("WEIR_TEST_SAVES");
    char             *path = NULL;
    const long        ready = asked ? strtol(asked, &path, 10) : 0;
    folder            f;
    int               pipes[2];

    if (asked) {
        CHECK_OK(save_values(path + 1, (int)ready, INT_MAX));
        return;
    }
    CHECK_OR_RETURN(folder_make(&f) && pipe(pipes) == 0);
    CHECK_OK(save_values(f.file[0], pipes[1], 3));
    weir_device *d = open_cpu();
    weir_model  *m = model_new(d, 40);
    CHECK(is_one_save(m, f.file[0]));
    weir_model_free(m);
    weir_device_close(d);
    close(pipes[0]);
    close(pipes[1]);
    remove_all(&f);
}

/* Starts this program again, to save to the path until it is killed. Returns when it has saved
 * once; 0 if it did not. */
static pid_t start_saving(const char *path)
{
    int         pipes[2];
    char        saves[4200], byte;
    const pid_t child = pipe(pipes) == 0 ? fork() : -1;

    if (child == 0) {
        snprintf(saves, sizeof saves, "%d %s", pipes[1], path);
        setenv("WEIR_TEST_SAVES", saves, 1);
        unsetenv("WEIR_TEST_PART");     /* the case named below is not in every part */
        execl("/proc/self/exe", "test_model", "weights/saves_follow", (char *)NULL);
        _exit(127);
    }
    if (child < 0)
        return 0;
    close(pipes[1]);
    const bool saved = read(pipes[0], &byte, 1) == 1;
    close(pipes[0]);
    return saved ? child : 0;
}

/* WEIR_TEST_KILLS: how often. */
CASE(a_kill_leaves_the_old_file_or_the_new_one)
{
    const char *const asked = getenv("WEIR_TEST_KILLS");
    const int         kills = asked ? atoi(asked) : 50;
    int               whole = 0;
    folder            f;
    CHECK_OR_RETURN(folder_make(&f));

    for (int i = 0; i < kills; i++) {
        int         status = 0;
        const pid_t child = start_saving(f.file[0]);
        CHECK_OR_RETURN(child > 0);
        usleep((useconds_t)check_int(0, 3000));
        kill(child, SIGKILL);
        CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
        weir_device *d = open_cpu();
        weir_model  *m = model_new(d, 40);
        whole += CHECK(is_one_save(m, f.file[0]));
        weir_model_free(m);
        weir_device_close(d);
    }
    CHECK(kills > 0 && whole == kills);
    if (asked)
        printf("%d kills, %d files whole\n", kills, whole);
    remove_all(&f);
}
