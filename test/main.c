/* main.c - runs the registered cases of one test program and counts them. */
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "core/mem.h"

check_case *check_first, **check_last = &check_first;
const check_case *check_current;
int         check_failures;
uint64_t    check_random;
const char *volatile check_doing;

static const char *volatile running = "";

/* "test/core/shape.c", "views" -> "shape/views". */
static void label_of(const check_case *c, char *buf, size_t capacity)
{
    const char *slash = strrchr(c->file, '/');
    const char *base = slash ? slash + 1 : c->file;
    const char *dot = strrchr(base, '.');
    const int   n = dot ? (int)(dot - base) : (int)strlen(base);
    snprintf(buf, capacity, "%.*s/%s", n, base, c->name);
}

#ifdef WEIR_SANITIZED
/* Sanitizers report crashes themselves. */
static void catch_crashes(void)
{
}
#else
static void say(const char *text)
{
    const ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
    (void)ignored;
}

/* Names the case, then dies as the signal wants. Only functions that are safe in a handler. */
static void on_crash(int number)
{
    say("crashed in case ");
    say(running);
    if (check_doing) {
        say(", in ");
        say(check_doing);
    }
    say("\n");
    signal(number, SIG_DFL);
    raise(number);
}

static void catch_crashes(void)
{
    signal(SIGSEGV, on_crash);
    signal(SIGBUS, on_crash);
    signal(SIGFPE, on_crash);
    signal(SIGABRT, on_crash);
}
#endif

static bool run_case(const check_case *c, const char *label, uint64_t seed)
{
    running = label;
    check_current = c;
    check_failures = 0;
    check_random = seed;
    check_doing = NULL;
    const int64_t before = weir_mem_alive();
    c->run();
    weir_mem_fail_nth(-1, false);
    const int64_t left = weir_mem_alive() - before;
    if (check_failures == 0)
        check_that(left == 0, c->file, 0, "%lld allocations are still alive", (long long)left);
    if (check_failures > 0)
        printf("FAILED %s\n", label);
    fflush(stdout);
    return check_failures == 0;
}

static double now(void)
{
    struct timespec t = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Runs a case, and prints its seconds if it takes at least `slow`. */
static bool timed_case(const check_case *c, const char *label, uint64_t seed, double slow)
{
    const double began = now();
    const bool   good = run_case(c, label, seed);
    const double took = now() - began;
    if (took >= slow)
        printf("%.1f s: %s\n", took, label);
    return good;
}

/* "^text": labels that begin with it; else those that hold the text. */
static bool wanted(const char *label, const char *filter)
{
    return filter[0] == '^' ? strncmp(label, filter + 1, strlen(filter + 1)) == 0
                            : strstr(label, filter) != NULL;
}

int main(int argc, char **argv)
{
    const bool     list = argc > 1 && strcmp(argv[1], "--list") == 0;
    const char    *filter = list ? "" : argc > 1 ? argv[1] : "";
    const char    *seed_text = getenv("WEIR_TEST_SEED");
    const char    *slow_text = getenv("WEIR_TEST_SLOW");
    const double   slow = slow_text ? strtod(slow_text, NULL) : 1e9;
    const uint64_t seed = seed_text ? strtoull(seed_text, NULL, 0) : 1;
    const char    *slash = strrchr(argv[0], '/');
    int            passed = 0, failed = 0;
    unsigned       shard = 1, shards = 1, number = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    catch_crashes();
    const char *const share = getenv("WEIR_TEST_PART");
    if (share && (sscanf(share, "%u/%u", &shard, &shards) != 2 || shard < 1 || shard > shards)) {
        fprintf(stderr, "WEIR_TEST_PART is '%s', not such as 2/4\n", share);
        return 2;
    }
    for (const check_case *c = check_first; c; c = c->next) {
        char label[256];
        label_of(c, label, sizeof label);
        if (!wanted(label, filter) || number++ % shards != shard - 1)
            continue;
        if (list) {
            puts(label);
            continue;
        }
        if (timed_case(c, label, seed, slow))
            passed++;
        else
            failed++;
    }
    if (!list && number == 0 && filter[0] != '^') {
        fprintf(stderr, "%s: no case has '%s' in its name (--list prints the names)\n", argv[0],
                filter);
        return 1;
    }
    if (!list)
        printf("%s: %d passed, %d failed\n", slash ? slash + 1 : argv[0], passed, failed);
    return failed > 0;
}
