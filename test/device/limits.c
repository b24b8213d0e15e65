/* limits.c - tests with little address space: a device in a separate process works or says why not;
 * it never hangs, crashes or exits.
 *
 * The process is this program again, with a limit (RLIMIT_AS) and one case to run. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "weir.h"

#define LIMIT "WEIR_TEST_LIMIT_MB"

enum { SIDE = 160, CHANNELS = 24, PATIENCE = 60 };     /* PATIENCE: seconds until a child hangs */

/* ---- in the child ---- */

/* A product and a convolution, by the kernels that the environment allows. */
static weir_status compute(float *product, float *image)
{
    static float a[SIDE * SIDE], x[CHANNELS * SIDE];
    weir_device *const d = weir_device_open("cpu", &(weir_device_options){.threads = 2});
    weir_status        status = d ? WEIR_OK : weir_error_status();

    for (int i = 0; i < SIDE * SIDE; i++)
        a[i] = (float)(i * 37 % 101) / 101;
    for (int i = 0; i < CHANNELS * SIDE; i++)
        x[i] = (float)(i * 53 % 97) / 97;
    weir_tensor *const m = d ? weir_input(d, weir_2d(WEIR_F32, SIDE, SIDE)) : NULL;
    weir_tensor *const v = m ? weir_input(d, weir_4d(WEIR_F32, 1, CHANNELS, 10, 16)) : NULL;
    weir_tensor *const w = v ? weir_input(d, weir_4d(WEIR_F32, 8, CHANNELS, 3, 3)) : NULL;
    if (w && weir_write(m, a, sizeof a) == WEIR_OK && weir_write(v, x, sizeof x) == WEIR_OK &&
        weir_write(w, a, 8 * CHANNELS * 9 * sizeof *a) == WEIR_OK) {
        weir_tensor *const y = weir_matmul(m, m);
        status = y ? weir_read(y, product, SIDE * SIDE * sizeof *product) : weir_error_status();
        weir_tensor *const z = status == WEIR_OK ? weir_conv2d(v, w, NULL, NULL) : NULL;
        if (status == WEIR_OK)
            status = z ? weir_read(z, image, 8 * 8 * 14 * sizeof *image) : weir_error_status();
    } else if (d) {
        status = weir_error_status();
    }
    weir_release(m);
    weir_release(v);
    weir_release(w);
    weir_device_close(d);
    return status;
}

/* Does nothing except in a child. */
CASE(in_a_process_with_little_room)
{
    static float product[2][SIDE * SIDE], image[2][8 * 8 * 14];

    if (!getenv(LIMIT))
        return;
    if (compute(product[0], image[0]) != WEIR_OK) {
        CHECK(strlen(weir_error()) > 10);
        return;
    }
    setenv("WEIR_GEMM", "own", 1);
    setenv("WEIR_CONV", "own", 1);
    if (compute(product[1], image[1]) != WEIR_OK)
        return;
    for (int i = 0; i < SIDE * SIDE; i++)
        CHECK_NEAR(product[0][i], product[1][i], 1e-5);
    for (int i = 0; i < 8 * 8 * 14; i++)
        CHECK_NEAR(image[0][i], image[1][i], 1e-5);
}

/* ---- in the parent ---- */

static void become_child(int megabytes, const char *kernels)
{
    const struct rlimit limit = {(rlim_t)megabytes << 20, (rlim_t)megabytes << 20};
    char                text[16];

    snprintf(text, sizeof text, "%d", megabytes);
    setenv(LIMIT, text, 1);
    unsetenv("WEIR_TEST_PART");         /* the case named below is not in every part */
    if (kernels) {
        setenv("WEIR_GEMM", kernels, 1);
        setenv("WEIR_CONV", kernels, 1);
    }
    if (setrlimit(RLIMIT_AS, &limit) == 0)
        execl("/proc/self/exe", "test_device", "limits/in_a_process", (char *)NULL);
    _exit(3);
}

/* The child's exit status; -1 if it hung and was killed. */
static int await(pid_t child)
{
    int status = 0;

    for (int i = 0; i < PATIENCE * 100; i++) {
        if (waitpid(child, &status, WNOHANG) == child)
            return status;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return -1;
}

CASE(little_address_space)
{
    static const char *const kernels[] = {NULL, "openblas", "onednn"};

#ifdef WEIR_SANITIZED
    return;                     /* sanitizers need terabytes of address space */
#endif
    if (!check_on_cpu() || getenv(LIMIT))
        return;
    for (int megabytes = 250; megabytes <= 600; megabytes += 50)
        for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++) {
            fflush(stdout);
            const pid_t child = fork();
            if (child == 0)
                become_child(megabytes, kernels[k]);
            const int status = await(child);
            if (!CHECK(status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0))
                printf("    %d MB, kernels %s: %s %d\n", megabytes, kernels[k] ? kernels[k] : "any",
                       status < 0 ? "hung," : WIFEXITED(status) ? "exit" : "signal",
                       status < 0 ? -1 : WIFEXITED(status) ? WEXITSTATUS(status)
                                                           : WTERMSIG(status));
        }
}
