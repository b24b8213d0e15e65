/* process.c - tests of a device in a forked process: calls fail, and nothing waits for threads that
 * exist in the parent alone. */
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
