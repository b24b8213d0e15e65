/* openblas.c - OpenBLAS where the process has loaded it before Weir, with kernels for an old
 * processor, as NumPy does on a processor that OpenBLAS does not know.
 *
 * The process is this program again, with the library's line of weir_info_text to be had there. */
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "weir.h"

#define WANTED "WEIR_TEST_OPENBLAS"

/* Writes the line about OpenBLAS, without line end, to line. */
static void line_of(char *line, size_t capacity)
{
    weir_device *const d = weir_device_open("cpu", NULL);
    char *const        text = weir_info_text(d);
    const char *const  at = text ? strstr(text, "OpenBLAS: ") : NULL;

    snprintf(line, capacity, "%.*s", at ? (int)strcspn(at, "\n") : 0, at ? at : "");
    weir_text_free(text);
    weir_device_close(d);
}

/* Does nothing except in a child. */
CASE(in_a_process_that_loaded_it_first)
{
    static float      a[96 * 96], product[2][96 * 96];
    const char *const wanted = getenv(WANTED);
    char              line[512];

    if (!wanted)
        return;
    void *const first = dlopen("/usr/lib/x86_64-linux-gnu/openblas-openmp/libopenblas.so.0",
                               RTLD_NOW | RTLD_LOCAL);
    char *(*corename)(void) = NULL;
    void *const entry = first ? dlsym(first, "openblas_get_corename") : NULL;
    memcpy(&corename, &entry, sizeof entry);
    unsetenv("OPENBLAS_CORETYPE");
    if (!corename)
        return;
    CHECK(strcasecmp(corename(), "Prescott") == 0);
    line_of(line, sizeof line);
    if (!CHECK(strcmp(line, wanted) == 0))
        printf("    %s\n", line);

    for (int i = 0; i < 96 * 96; i++)
        a[i] = (float)(i * 37 % 101) / 101;
    for (int k = 0; k < 2; k++) {       /* the second device finds the copy that the first loaded */
        setenv("WEIR_GEMM", "openblas", 1);
        weir_device *const d = weir_device_open("cpu", &(weir_device_options){.threads = 2});
        weir_tensor *const m = weir_input(d, weir_2d(WEIR_F32, 96, 96));
        CHECK_OK(weir_write(m, a, sizeof a));
        CHECK_OK(weir_read(weir_matmul(m, m), product[k], sizeof product[k]));
        weir_release(m);
        weir_device_close(d);
    }
    CHECK(memcmp(product[0], product[1], sizeof product[0]) == 0);
    CHECK(strcasecmp(corename(), "Prescott") == 0);
}

CASE(the_process_loaded_it_with_unfit_kernels)
{
#if defined(WEIR_SANITIZED) || defined(WEIR_PORTABLE)
    return;                             /* no copy is loaded there */
#endif
    char line[512];

    line_of(line, sizeof line);
    if (!check_on_cpu() || getenv(WANTED) || getenv("OPENBLAS_CORETYPE") ||
        strncmp(line, "OpenBLAS: kernels ", 18) != 0 || !strstr(line, ", OpenMP threads"))
        return;                         /* the child loads that one; Weir would choose another */
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        setenv(WANTED, line, 1);
        setenv("OPENBLAS_CORETYPE", "Prescott", 1);
        unsetenv("WEIR_TEST_PART");     /* the case named below is not in every part */
        execl("/proc/self/exe", "test_device", "openblas/in_a_process", (char *)NULL);
        _exit(3);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Opens devices and compares their lines about OpenBLAS with ctx. Returns ctx if all agree. */
static void *open_often(void *ctx)
{
    char line[512];

    for (int i = 0; i < 20; i++) {
        line_of(line, sizeof line);
        if (strcmp(line, ctx) != 0)
            return NULL;
    }
    return ctx;
}

/* The library describes itself in one buffer, which threads would mix. */
CASE(threads_that_open_devices_read_one_description)
{
    enum { THREADS = 4 };
    char      line[512];
    pthread_t thread[THREADS];
    void     *same;

    line_of(line, sizeof line);
    for (int i = 0; i < THREADS; i++)
        CHECK_OR_RETURN(pthread_create(&thread[i], NULL, open_often, line) == 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], &same);
        CHECK(same == line);
    }
}
