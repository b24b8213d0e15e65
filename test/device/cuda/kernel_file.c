/* kernel_file.c - tests of compiled kernels on disk: found again, never trusted, shared by
 * processes. */
#include "device/cuda/codegen/kernel_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/env.h"
#include "core/mem.h"
#include "device/cuda/rows.h"
#include "weir.h"

static char folder[64];

static void folder_new(void)
{
    strcpy(folder, "/tmp/weir-kernels-XXXXXX");
    CHECK(mkdtemp(folder) != NULL);
    setenv("WEIR_CACHE_DIR", folder, 1);
}

/* The n-th file, in any order; false if there are fewer. */
static bool file_at(int n, char path[512])
{
    DIR *const           d = opendir(folder);
    const struct dirent *e;
    bool                 found = false;

    while (d && !found && (e = readdir(d)))
        if (e->d_name[0] != '.' && n-- == 0) {
            snprintf(path, 512, "%s/%s", folder, e->d_name);
            found = true;
        }
    if (d)
        closedir(d);
    return found;
}

static int files(void)
{
    char path[512];
    int  n = 0;

    while (file_at(n, path))
        n++;
    return n;
}

static void folder_free(void)
{
    char path[512];

    while (file_at(0, path))
        remove(path);
    rmdir(folder);
    unsetenv("WEIR_CACHE_DIR");
}

/* True if the image is stored and is this one. */
static bool reads(const weir_kernel_key *k, const char *image)
{
    char  *got = NULL;
    size_t n = 0;

    CHECK_OK(weir_kernel_file_read(k, &got, &n));
    const bool same = got && n == strlen(image) && memcmp(got, image, n) == 0;
    weir_mem_free(got);
    return same;
}

static bool is_there(const weir_kernel_key *k)
{
    char  *got = NULL;
    size_t n = 0;

    CHECK_OK(weir_kernel_file_read(k, &got, &n));
    weir_mem_free(got);
    return got != NULL;
}

CASE(kernel_file_is_found_again)
{
    const weir_kernel_key a = {"one", "about"}, b = {"two", "about"}, c = {"one", "about more"};

    folder_new();
    CHECK(!reads(&a, "image"));
    CHECK_OK(weir_kernel_file_write(&a, "image", 5));
    CHECK(reads(&a, "image") && !reads(&b, "image") && !reads(&c, "image"));
    CHECK_OK(weir_kernel_file_write(&a, "later", 5));
    CHECK(reads(&a, "later"));
    folder_free();
}

/* The least recently used kernels are deleted, and no other files. */
CASE(kernel_folder_is_kept_small)
{
    enum { FILES = 8, BYTES = 1000 };
    static const char     image[BYTES];
    char                  name[FILES][8], other[128];
    const weir_kernel_key key[FILES] = {{name[0], ""}, {name[1], ""}, {name[2], ""}, {name[3], ""},
                                        {name[4], ""}, {name[5], ""}, {name[6], ""}, {name[7], ""}};

    folder_new();
    for (int i = 0; i < FILES; i++) {
        snprintf(name[i], sizeof name[i], "k%d", i);
        CHECK_OK(weir_kernel_file_write(&key[i], image, sizeof image));
        const weir_kernel_hash h = weir_kernel_hash_of(&key[i]);
        snprintf(other, sizeof other, "%s/%016llx%016llx.kernel", folder,
                 (unsigned long long)h.half[0], (unsigned long long)h.half[1]);
        CHECK(utimensat(AT_FDCWD, other, (struct timespec[2]){{i + 2, 0}, {i + 2, 0}}, 0) == 0);
    }
    snprintf(other, sizeof other, "%s/notes", folder);
    FILE *const notes = fopen(other, "w");
    CHECK(notes != NULL && fputs("keep", notes) >= 0 && fclose(notes) == 0);
    const struct timespec before[2] = {{1, 0}, {1, 0}};
    CHECK(utimensat(AT_FDCWD, other, before, 0) == 0);
    CHECK(is_there(&key[0]));                               /* used just now */
    weir_kernel_folder_trim(folder, FILES * (BYTES + 200));
    CHECK(files() == FILES + 1);
    weir_kernel_folder_trim(folder, FILES * BYTES);         /* above the limit: down to half */
    CHECK(files() == 1 + 3);
    CHECK(is_there(&key[0]) && is_there(&key[FILES - 1]) && is_there(&key[FILES - 2]));
    CHECK(!is_there(&key[1]) && access(other, F_OK) == 0);
    weir_kernel_folder_trim("/nowhere/at/all", 1);
    folder_free();
}

/* Each byte changed, and every length: never an image, never a crash. */
CASE(kernel_file_is_not_believed)
{
    const weir_kernel_key k = {"text", "about"};
    char                  path[512], file[1024];

    folder_new();
    CHECK_OK(weir_kernel_file_write(&k, "image", 5));
    CHECK_OR_RETURN(file_at(0, path));
    FILE *f = fopen(path, "rb");
    const size_t n = fread(file, 1, sizeof file, f);
    fclose(f);
    for (size_t i = 0; i < 2 * n; i++) {
        f = fopen(path, "wb");
        if (i < n)
            file[i] ^= 0x40;
        fwrite(file, 1, i < n ? n : i - n, f);
        if (i < n)
            file[i] ^= 0x40;
        fclose(f);
        char  *got = NULL;
        size_t bytes;
        CHECK_OK(weir_kernel_file_read(&k, &got, &bytes));
        CHECK(got == NULL);
        weir_mem_free(got);
    }
    remove(path);
    CHECK(mkdir(path, 0700) == 0 && !reads(&k, "image"));   /* a directory */
    CHECK_OK(weir_kernel_file_write(&k, "image", 5));
    rmdir(path);
    folder_free();
}

static ssize_t full_disk(int fd, const void *from, size_t n)
{
    (void)fd, (void)from, (void)n;
    errno = ENOSPC;
    return -1;
}

/* Kernels that cannot be stored are compiled again; no partial file stays. */
CASE(kernel_file_goes_without_room)
{
    const weir_kernel_key k = {"text", "about"};
    weir_env              e = weir_env_system;

    folder_new();
    e.write = full_disk;
    weir_env_set(&e);
    CHECK_OK(weir_kernel_file_write(&k, "image", 5));
    weir_env_set(NULL);
    CHECK(files() == 0 && !is_there(&k));
    folder_free();
}

CASE(kernel_file_goes_without_a_folder)
{
    const weir_kernel_key k = {"text", "about"};

    setenv("WEIR_CACHE_DIR", "/proc/no/such/place", 1);
    CHECK_OK(weir_kernel_file_write(&k, "image", 5));
    CHECK(!reads(&k, "image"));
    unsetenv("WEIR_CACHE_DIR");
    char *const home = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
    setenv("HOME", "/home/user", 1);
    unsetenv("XDG_CACHE_HOME");
    char *at = weir_kernel_folder();
    CHECK(at && strcmp(at, "/home/user/.cache/weir") == 0);
    weir_mem_free(at);
    setenv("XDG_CACHE_HOME", "/x", 1);
    at = weir_kernel_folder();
    CHECK(at && strcmp(at, "/x/weir") == 0);
    weir_mem_free(at);
    unsetenv("XDG_CACHE_HOME");
    if (home)
        setenv("HOME", home, 1);
    free(home);
}

/* Writers and readers of one key at once: a reader gets a whole image or none. */
CASE(kernel_file_is_shared_by_processes)
{
    const weir_kernel_key k = {"text", "about"};
    char                  image[40000];
    pid_t                 child[3];
    int                   status = 0;

    folder_new();
    for (int i = 0; i < 3; i++)
        if ((child[i] = fork()) == 0) {
            memset(image, 'a' + i, sizeof image);
            bool good = true;
            for (int round = 0; round < 60; round++) {
                char  *got = NULL;
                size_t n = 0;
                good = good && weir_kernel_file_write(&k, image, sizeof image) == WEIR_OK &&
                       weir_kernel_file_read(&k, &got, &n) == WEIR_OK && got &&
                       n == sizeof image && got[0] == got[n - 1];
                weir_mem_free(got);
            }
            _exit(good ? 0 : 1);
        }
    for (int i = 0; i < 3; i++)
        CHECK(waitpid(child[i], &status, 0) == child[i] && WIFEXITED(status) &&
              WEXITSTATUS(status) == 0);
    char path[512];
    CHECK(file_at(0, path) && !file_at(1, path));       /* no other file is left */
    folder_free();
}

/* ---- through a device ---- */

/* Runs relu and tanh on a new device and checks how many kernels were compiled and found. */
static void run_two(const char *want)
{
    weir_device *const d = weir_device_open("cuda", NULL);
    float              x[4] = {-1, 2, -3, 4}, y[4];

    CHECK_OR_RETURN(d);
    weir_tensor *const t = weir_input(d, weir_1d(WEIR_F32, 4));
    CHECK_OK(weir_write(t, x, sizeof x));
    CHECK_OK(weir_read(weir_relu(t), y, sizeof y));
    CHECK(y[0] == 0 && y[1] == 2 && y[2] == 0 && y[3] == 4);
    CHECK_OK(weir_read(weir_neg(t), y, sizeof y));
    CHECK(y[0] == 1 && y[3] == -4);
    CHECK_OK(weir_read(weir_relu(t), y, sizeof y));
    char *const text = weir_info_text(d);
    CHECK_TEXT(text, want);
    weir_text_free(text);
    weir_release(t);
    weir_device_close(d);
}

/* relu on a new device whose n-th allocation from then on fails. Returns true if it was reached. */
static bool relu_short(int n)
{
    weir_device *const d = weir_device_open("cuda", NULL);
    float              x[4] = {-1, 2, -3, 4}, y[4] = {0};

    if (!CHECK(d))
        return false;
    weir_tensor *const t = weir_input(d, weir_1d(WEIR_F32, 4));
    CHECK_OK(weir_write(t, x, sizeof x));
    weir_mem_fail_nth(n, false);
    weir_tensor *const r = weir_relu(t);
    const bool         failed = weir_mem_failed();
    weir_mem_fail_nth(-1, false);
    if (r) {
        CHECK_OK(weir_read(r, y, sizeof y));
        CHECK(y[0] == 0 && y[1] == 2 && y[2] == 0 && y[3] == 4);
    } else {
        CHECK_STATUS(weir_error_status(), WEIR_ERR_NOMEM);
    }
    weir_release(t);
    weir_device_close(d);
    return failed;
}

/* Every allocation of selecting, compiling and storing a kernel fails once: the result is a status,
 * or a kernel that is not stored. */
CASE(kernels_short_of_memory)
{
    char path[512];
    int  n = 0;

    setenv("WEIR_PLUGINS", WEIR_TEST_PLUGINS, 1);
    folder_new();
    while (n < 200 && relu_short(n)) {
        if (n++ % 4 == 0 && file_at(0, path))       /* both compiled and found kernels */
            remove(path);
    }
    CHECK(n > 10 && n < 200);
    folder_free();
}

CASE(kernels_are_compiled_once)
{
    char path[512];

    setenv("WEIR_PLUGINS", WEIR_TEST_PLUGINS, 1);
    folder_new();
    run_two("2 loaded, 2 of them compiled, 0 from files");
    run_two("2 loaded, 0 of them compiled, 2 from files");
    CHECK_OR_RETURN(file_at(0, path));
    CHECK(truncate(path, 1000) == 0);
    run_two("2 loaded, 1 of them compiled, 1 from files");
    run_two("2 loaded, 0 of them compiled, 2 from files");
    folder_free();
}
