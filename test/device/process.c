/* process.c - tests of a device in a forked process (calls fail, and nothing waits for threads that
 * exist in the parent alone) and in two threads at once. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "weir.h"

enum { SIDE = 256, PATIENCE = 30 };     /* PATIENCE: seconds until a child counts as hung */

static struct {
    weir_device *dev;
    weir_tensor *x;
    weir_graph  *graph;
} parent;

static bool refused(weir_status s)
{
    return s == WEIR_ERR_STATE && strstr(weir_error(), "this process was forked after Weir");
}

static bool calls_nothing(void)
{
    return true;
}

static bool uses_the_device(void)
{
    float value = 0;

    return !weir_tanh(parent.x) && refused(weir_error_status()) &&
           refused(weir_graph_run(parent.graph)) &&
           refused(weir_read(parent.x, &value, sizeof value)) &&
           refused(weir_write_fill(parent.x, 1)) && refused(weir_device_sync(parent.dev));
}

static bool opens_a_device(void)
{
    return !weir_device_open("cpu", NULL) && refused(weir_error_status());
}

static bool tidies_up(void)
{
    weir_graph_free(parent.graph);
    weir_release(parent.x);
    weir_device_close(parent.dev);
    return true;
}

CASE(forked)
{
    static bool (*const child[])(void) = {calls_nothing, uses_the_device, opens_a_device,
                                          tidies_up};

    parent.dev = weir_device_open("cpu", &(weir_device_options){.threads = 2});
    CHECK_OR_RETURN(parent.dev != NULL);
    parent.x = weir_input(parent.dev, weir_2d(WEIR_F32, SIDE, SIDE));
    CHECK_OK(weir_write_fill(parent.x, 0.5));
    parent.graph = weir_graph_begin(parent.dev);
    CHECK_OR_RETURN(parent.x != NULL && parent.graph != NULL);
    CHECK(weir_keep(weir_matmul(weir_tanh(parent.x), parent.x)) != NULL);
    CHECK_OK(weir_graph_end(parent.graph, NULL));
    CHECK_OK(weir_graph_run(parent.graph));
    for (size_t i = 0; i < sizeof child / sizeof *child; i++) {
        int status = -1;
        fflush(stdout);
        const pid_t pid = fork();
        if (pid == 0) {
            alarm(PATIENCE);
            _exit(child[i]() ? 0 : 1);
        }
        CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
        if (!CHECK(status == 0))
            printf("    child %zu: %s %d\n", i, WIFEXITED(status) ? "exit" : "signal",
                   WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    }
    CHECK_OK(weir_graph_run(parent.graph));
    weir_graph_free(parent.graph);
    weir_release(parent.x);
    weir_device_close(parent.dev);
}

/* ---- two threads ---- */

static struct {
    weir_device *dev;
    weir_tensor *x;
    int          wrong;
} shared;

static bool busy(weir_status s)
{
    return s == WEIR_ERR_STATE && strstr(weir_error(), "another thread is inside a call");
}

/* Calls of a second thread while the first is inside weir_graph_run. */
static void *intrude(void *unused)
{
    float value[4] = {0};

    (void)unused;
    shared.wrong = !(!weir_tanh(shared.x) && busy(weir_error_status())) +
                   !busy(weir_write(shared.x, value, sizeof value)) +
                   !busy(weir_read(shared.x, value, sizeof value)) +
                   !busy(weir_scope_begin(shared.dev)) + !busy(weir_device_sync(shared.dev)) +
                   !(!weir_graph_begin(shared.dev) && busy(weir_error_status()));
    shared.wrong += !(!weir_retain(shared.x) && busy(weir_error_status())) +
                    !busy(weir_tensor_set_needs_grad(shared.x, true)) +
                    !busy(weir_device_set_random(shared.dev, (weir_random){1, 0}));
    weir_device_close(shared.dev);
    shared.wrong += !busy(weir_error_status());
    return NULL;
}

/* Computes y = x while the second thread tries the device. */
static weir_status gate(void *ctx, const weir_host_in *x, const weir_host_out *y)
{
    pthread_t second;

    (void)ctx;
    memcpy(y->data, x->data, 4 * sizeof(float));
    if (pthread_create(&second, NULL, intrude, NULL) != 0)
        return weir_fail(WEIR_ERR_NOMEM, "no thread");
    pthread_join(second, NULL);
    return WEIR_OK;
}

static void *fill(void *status)
{
    *(weir_status *)status = weir_write_fill(shared.x, 3);
    return NULL;
}

enum { CALLS = 20000 };

/* A release that is refused leaves the reference, so it is tried again. */
static weir_status retain_and_release(void)
{
    if (!weir_retain(shared.x))
        return weir_error_status();
    for (weir_error_clear(), weir_release(shared.x); weir_error_status() != WEIR_OK;
         weir_error_clear(), weir_release(shared.x))
        sched_yield();
    return WEIR_OK;
}

static weir_status one_call(int k)
{
    float value[4];

    switch (k % 4) {
    case 0:
        return weir_add(shared.x, shared.x) ? WEIR_OK : weir_error_status();
    case 1:
        WEIR_TRY(weir_read(shared.x, value, sizeof value));
        return value[3] == 2 ? WEIR_OK : weir_fail(WEIR_ERR_INVALID, "%g read", (double)value[3]);
    case 2:
        return weir_scope_clear(shared.dev);
    default:
        return retain_and_release();
    }
}

/* Calls until all have succeeded, while another thread does the same; ok, or NULL. */
static void *hammer(void *ok)
{
    for (int done = 0; done < CALLS;) {
        const weir_status s = one_call(done);
        if (s == WEIR_OK)
            done++;
        else if (busy(s))
            sched_yield();
        else
            return NULL;
    }
    return ok;
}

/* Each call is done whole or refused, and the device is sound afterwards. */
CASE(two_threads_in_a_hurry)
{
    int       ok = 0;
    pthread_t second;
    void     *done = NULL;
    float     value[4];

    shared.dev = weir_device_open("cpu", &(weir_device_options){.threads = 1});
    CHECK_OR_RETURN(shared.dev != NULL);
    shared.x = weir_input(shared.dev, weir_1d(WEIR_F32, 4));
    CHECK_OK(weir_write_fill(shared.x, 2));
    CHECK_OR_RETURN(pthread_create(&second, NULL, hammer, &ok) == 0);
    CHECK(hammer(&ok) == &ok);
    pthread_join(second, &done);
    CHECK(done == &ok);
    CHECK_OK(weir_read(weir_add(shared.x, shared.x), value, sizeof value));
    CHECK(value[0] == 4 && value[3] == 4);
    weir_release(shared.x);
    weir_device_close(shared.dev);
}

CASE(two_threads)
{
    static const weir_callback_def def = {.name = "gate", .forward = gate};
    const weir_desc four = {.dtype = WEIR_F32, .ndim = 1, .dim = {4}};
    weir_status     status = WEIR_ERR_STATE;
    weir_tensor    *y = NULL;
    float           value[4];
    pthread_t       second;

    shared.dev = weir_device_open("cpu", &(weir_device_options){.threads = 2});
    CHECK_OR_RETURN(shared.dev != NULL);
    shared.x = weir_input(shared.dev, four);
    CHECK_OK(weir_write_fill(shared.x, 2));
    CHECK_OK(weir_callback(&def, NULL, 1, &shared.x, 1, &four, &y));    /* graph off */
    CHECK(shared.wrong == 0);
    weir_graph *const g = weir_graph_begin(shared.dev);
    CHECK_OK(weir_callback(&def, NULL, 1, &shared.x, 1, &four, &y));
    y = weir_keep(y);
    CHECK_OK(weir_graph_end(g, NULL));
    shared.wrong = -1;
    CHECK_OK(weir_graph_run(g));
    CHECK(shared.wrong == 0);
    /* The device is handed over, and comes back. */
    CHECK_OR_RETURN(pthread_create(&second, NULL, fill, &status) == 0);
    pthread_join(second, NULL);
    CHECK_OK(status);
    CHECK_OK(weir_graph_run(g));
    CHECK_OK(weir_read(y, value, sizeof value));
    CHECK(value[0] == 3 && value[3] == 3);
    weir_release(shared.x);
    weir_graph_free(g);
    weir_device_close(shared.dev);
}
