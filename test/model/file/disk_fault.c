/* disk_fault.c - every call to the disk of a save fails in turn: a status and a sentence that names
 * the path, the old file whole or the new one, no other file left. Short writes and interruptions
 * change nothing. */
#include <dirent.h>
#include <errno.h>

#include "model/file/replace.h"
#include "temp_folder.h"

/* Calls are counted; call number `at` fails with `error`. */
static struct {
    int         at, calls, error;
    bool        every;          /* each call is interrupted once before it works */
    size_t      most;           /* bytes that a write takes; 0: all */
    const char *name;           /* the call that failed */
} fault;

/* True if the call must fail now; errno is set. */
static bool fails(const char *name)
{
    const int n = fault.calls++;

    if (fault.every ? n % 2 == 0 : n == fault.at) {
        errno = fault.error;
        fault.name = name;
        return true;
    }
    return false;
}

static int faulty_create(const char *path)
{
    return fails("create") ? -1 : weir_disk_system.create(path);
}

static int faulty_open_folder(const char *path)
{
    return fails("open_folder") ? -1 : weir_disk_system.open_folder(path);
}

static ssize_t faulty_write(int fd, const void *from, size_t n)
{
    const size_t most = fault.most && fault.most < n ? fault.most : n;

    return fails("write") ? -1 : weir_disk_system.write(fd, from, most);
}

/* Nothing here outlives the machine, so nothing is synced in fact: it would take seconds. */
static int faulty_fsync(int fd)
{
    (void)fd;
    return fails("fsync") ? -1 : 0;
}

/* A close that fails closes the file all the same, as on Linux. */
static int faulty_close(int fd)
{
    const int done = weir_disk_system.close(fd);

    return fails("close") ? -1 : done;
}

static int faulty_link(const char *from, const char *to)
{
    return !fault.every && fails("link") ? -1 : weir_disk_system.link(from, to);
}

static int faulty_rename(const char *from, const char *to)
{
    return !fault.every && fails("rename") ? -1 : weir_disk_system.rename(from, to);
}

static const weir_disk faulty = {
    .create = faulty_create,
    .open_folder = faulty_open_folder,
    .write = faulty_write,
    .fsync = faulty_fsync,
    .close = faulty_close,
    .link = faulty_link,
    .rename = faulty_rename,
    .unlink = unlink,           /* cleaning up works, or nobody could keep the promise */
};

enum { MODEL, RUN, GRAPH, KINDS, NEVER = -1 };

typedef struct saver {
    weir_device *d;
    weir_model  *m;
    weir_optim  *o;
    weir_graph  *g;
    weir_tensor *x;
    weir_run     run;
} saver;

static bool saver_open(saver *s)
{
    *s = (saver){.d = weir_device_open("cpu", &(weir_device_options){.threads = 1})};
    s->m = weir_model_new(s->d);
    s->o = weir_sgd_new(s->d, 0.1, NULL);
    weir_layer *const l = weir_linear_new(s->m, "fc", 3, 2, true);
    s->x = weir_input(s->d, weir_2d(WEIR_F32, 2, 3));
    s->g = weir_graph_begin(s->d);
    weir_tensor *const y = weir_keep(weir_apply(l, s->x));
    s->run = (weir_run){.model = s->m, .optim = s->o, .step = 3};
    return CHECK_OK(weir_graph_end(s->g, NULL)) &&
           CHECK_OK(weir_graph_bind(s->g, s->x, WEIR_ROLE_INPUT, "x")) &&
           CHECK_OK(weir_graph_bind(s->g, y, WEIR_ROLE_OUTPUT, "y"));
}

static void saver_close(const saver *s)
{
    weir_graph_free(s->g);
    weir_release(s->x);
    weir_optim_free(s->o);
    weir_model_free(s->m);
    weir_device_close(s->d);
}

static weir_status save(const saver *s, int kind, const char *path, bool keep)
{
    const weir_save_options how = {.keep_previous = keep};

    weir_disk_in_use = &faulty;
    const weir_status status = kind == MODEL ? weir_model_save(s->m, path, &how) :
                               kind == RUN   ? weir_run_save(&s->run, path, &how)
                                             : weir_graph_save(s->g, path, &how);
    weir_disk_in_use = &weir_disk_system;
    return status;
}

static weir_status save_well(const saver *s, int kind, const char *path)
{
    const int at = fault.at;

    fault.at = NEVER;
    const weir_status status = save(s, kind, path, false);
    fault.at = at;
    return status;
}

enum { MOST = 1 << 16 };

typedef struct content {
    size_t n;
    char   at[MOST];
} content;

static void read_whole(const char *path, content *c)
{
    FILE *const from = fopen(path, "rb");

    c->n = from ? fread(c->at, 1, sizeof c->at, from) : 0;
    if (from)
        fclose(from);
}

static bool same(const content *a, const content *b)
{
    return a->n == b->n && memcmp(a->at, b->at, a->n) == 0;
}

/* Files in the folder other than the path and PATH.bak. */
static int strangers(const char *path)
{
    DIR *const at = opendir(path);
    int        n = 0;

    for (const struct dirent *e; at && (e = readdir(at));)
        n += e->d_name[0] != '.' && strcmp(e->d_name, "0") != 0 && strcmp(e->d_name, "0.bak") != 0;
    if (at)
        closedir(at);
    return n;
}

static weir_status save_on_faulty(const saver *s, int kind, const char *path, bool keep)
{
    fault.calls = 0;
    fault.name = NULL;
    return save(s, kind, path, keep);
}

/* One failure; false if the save made fewer calls than that. */
static bool fail_once(const saver *s, int kind, const folder *f, bool keep, const char *bak)
{
    static content old, now, new;
    const char    *path = f->file[0];

    unlink(path);
    unlink(bak);
    CHECK_OK(weir_write_fill(weir_model_param(s->m, 0), 1));
    CHECK_OK(save_well(s, kind, path));
    read_whole(path, &old);
    CHECK_OK(weir_write_fill(weir_model_param(s->m, 0), 2));
    const weir_status status = save_on_faulty(s, kind, path, keep);
    const bool        renamed = status == WEIR_OK || strstr(weir_error(), "its folder cannot");
    CHECK(status == WEIR_OK || strstr(weir_error(), path) != NULL);
    read_whole(path, &now);
    CHECK(strangers(f->path) == 0);
    if (!fault.name)
        return CHECK_OK(status) && false;
    CHECK_OK(save_well(s, kind, path));
    read_whole(path, &new);
    /* The last close, of the synced folder, can lose nothing. */
    CHECK(status == WEIR_ERR_IO || (status == WEIR_OK && strcmp(fault.name, "close") == 0));
    CHECK(old.n > 0 && !same(&old, &new));
    CHECK(same(&now, renamed ? &new : &old));
    return true;
}

static void fail_each(int kind, bool keep, int error)
{
    char   bak[100];
    saver  s;
    folder f;

    CHECK_OR_RETURN(folder_make(&f));
    snprintf(bak, sizeof bak, "%s.bak", f.file[0]);
    fault.every = false;
    fault.most = 100;
    fault.error = error;
    if (saver_open(&s)) {
        for (fault.at = 0; fail_once(&s, kind, &f, keep, bak); fault.at++)
            ;
        CHECK(fault.at >= 8 + 2 * keep);        /* every kind of call has failed */
    }
    saver_close(&s);
    unlink(bak);
    folder_remove(&f);
}

CASE(every_call_of_a_save_fails)
{
    for (int kind = 0; kind < KINDS; kind++)
        for (int keep = 0; keep < 2; keep++) {
            fail_each(kind, keep, ENOSPC);
            fail_each(kind, keep, EIO);
        }
}

CASE(a_failed_save_says_why_and_where)
{
    saver  s;
    folder f;

    CHECK_OR_RETURN(folder_make(&f));
    fault.every = false;
    fault.most = 0;
    if (saver_open(&s)) {
        static const char *const name[] = {"model_save: ", "run_save: ", "graph_save: "};
        for (int kind = 0; kind < KINDS; kind++) {
            fault.at = 1;                   /* create, then the first write */
            fault.error = ENOSPC;
            CHECK_STATUS(save_on_faulty(&s, kind, f.file[0], false), WEIR_ERR_IO);
            CHECK_TEXT(weir_error(), name[kind]);
            CHECK_TEXT(weir_error(), f.file[0]);
            CHECK_TEXT(weir_error(), "cannot be written (No space left on device)");
        }
        fault.at = 0;
        fault.error = EIO;
        CHECK_STATUS(save_on_faulty(&s, MODEL, f.file[0], false), WEIR_ERR_IO);
        CHECK_TEXT(weir_error(), "a file beside it cannot be created (Input/output error)");
    }
    saver_close(&s);
    folder_remove(&f);
}

/* A signal before every call, and a disk that takes 7 bytes at a time. */
CASE(interruptions_and_short_writes_change_nothing)
{
    static content plain, parts;
    saver          s;
    folder         f;

    CHECK_OR_RETURN(folder_make(&f));
    fault.every = true;
    fault.most = 7;
    fault.error = EINTR;
    if (saver_open(&s))
        for (int kind = 0; kind < KINDS; kind++) {
            fault.every = false;
            CHECK_OK(save_well(&s, kind, f.file[0]));
            fault.every = true;
            CHECK_OK(save_on_faulty(&s, kind, f.file[1], false));
            read_whole(f.file[0], &plain);
            read_whole(f.file[1], &parts);
            CHECK(plain.n > 100 && same(&plain, &parts));
            CHECK(fault.calls > (int)(plain.n / 7));
        }
    saver_close(&s);
    folder_remove(&f);
}
