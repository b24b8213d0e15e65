/* launch.c - weir launch: starts the ranks of a program on this machine, and sees to their end.
 *
 * The ranks meet by the variable WEIR_COMM. One that fails ends the job: the others would wait for
 * it in their next collective. Signals are blocked and taken one by one by sigtimedwait, so none
 * is lost between a check and a wait, and no handler runs. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tool/tool.h"

/* Milliseconds that other ranks have after a failure, and after SIGTERM. */
static const double grace_ms = 10e3, term_ms = 5e3;

typedef struct launch {
    const tool_options *o;
    char     name[64];          /* of the communicator */
    pid_t    self;
    pid_t    pid[TOOL_MOST_RANKS]; /* 0: not running */
    int      ranks, living;
    int      code;              /* of the first rank that failed; 0: none has */
    double   due;               /* when the living get the next signal to end; 0: never */
    int      ending;            /* the last such signal; 0: none */
    sigset_t taken, inherited;  /* signals that this program takes; the mask of the ranks */
} launch;

/* ---- signals ---- */

/* A signal that the parent ignores, as nohup does with SIGHUP, stays ignored here and in ranks. */
static void take_signals(launch *l)
{
    static const int forwarded[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
    struct sigaction now;

    (void)signal(SIGCHLD, SIG_DFL);     /* if it is ignored, the kernel discards exit codes */
    sigemptyset(&l->taken);
    sigaddset(&l->taken, SIGCHLD);
    for (size_t i = 0; i < sizeof forwarded / sizeof *forwarded; i++)
        if (sigaction(forwarded[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(&l->taken, forwarded[i]);
    sigprocmask(SIG_BLOCK, &l->taken, &l->inherited);
}

static void signal_all(const launch *l, int signal)
{
    for (int r = 0; r < l->ranks; r++)
        if (l->pid[r])
            (void)kill(l->pid[r], signal);
}

/* The next signal within the time that is left; 0: none came. */
static int next_signal(const launch *l, siginfo_t *info)
{
    const double          left = l->due - tool_now_ms();
    const long            ms = left > 0 ? (long)left + 1 : 0;
    const struct timespec wait = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    const int             got = sigtimedwait(&l->taken, info, l->due > 0 ? &wait : NULL);

    return got > 0 ? got : 0;
}

/* ---- the end ---- */

static const char *plural_has(int n)
{
    return n == 1 ? " has" : "s have";
}

/* SIGTERM, which begins the time up to SIGKILL, or SIGKILL. */
static void end_living(launch *l, int signal)
{
    l->ending = signal;
    l->due = signal == SIGTERM ? tool_now_ms() + term_ms : 0;
    signal_all(l, signal);
}

/* The time of the living is up. */
static void time_is_up(launch *l)
{
    const bool last = l->ending == SIGTERM;
    char       since[32] = "";

    if (last)
        snprintf(since, sizeof since, " %g s after SIGTERM", term_ms / 1e3);
    (void)tool_say(l->o, 0, "%d rank%s not ended%s: %s", l->living, plural_has(l->living), since,
                   last ? "SIGKILL" : "SIGTERM");
    end_living(l, last ? SIGKILL : SIGTERM);
}

/* Says how the rank failed, if it is the first. */
static void note_failure(launch *l, int rank, int status)
{
    const bool killed = WIFSIGNALED(status);
    const int  number = killed ? WTERMSIG(status) : WEXITSTATUS(status);
    char       others[64] = "";

    if (l->code != 0)
        return;
    l->code = killed ? 128 + number : number;
    l->due = tool_now_ms() + grace_ms;
    if (l->living > 0)
        snprintf(others, sizeof others, "; %d other%s %g s to end", l->living,
                 plural_has(l->living), grace_ms / 1e3);
    if (killed)
        (void)tool_say(l->o, 0, "rank %d was killed by signal %d (%s)%s", rank, number,
                       strsignal(number), others);
    else
        (void)tool_say(l->o, 0, "rank %d ended with exit code %d%s", rank, number, others);
}

/* Takes the exit codes of all ranks that have ended. */
static void reap(launch *l)
{
    int   status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (int r = 0; r < l->ranks; r++) {
            if (l->pid[r] != pid)
                continue;
            l->pid[r] = 0;
            l->living--;
            if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
                note_failure(l, r, status);
        }
}

/* A terminal sends its signals to the ranks itself: what the kernel sent is not sent again. */
static void wait_for_all(launch *l)
{
    siginfo_t info;

    while (l->living > 0) {
        const int got = next_signal(l, &info);
        if (got == SIGCHLD)
            reap(l);
        else if (got > 0 && info.si_code <= 0)
            signal_all(l, got);
        if (l->living > 0 && l->due > 0 && tool_now_ms() >= l->due)
            time_is_up(l);
    }
}

/* ---- the beginning ---- */

/* The rank's process, up to its program. Writes errno to `report` if there is no such program. */
_Noreturn static void become(const launch *l, int rank, int report)
{
    const int none = rank > 0 ? open("/dev/null", O_RDONLY) : 0;

    if (none > 0 && dup2(none, STDIN_FILENO) == STDIN_FILENO)
        (void)close(none);
    /* If weir launch is killed, nobody else ends the rank. */
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != l->self)
        _exit(TOOL_FAILED);
    sigprocmask(SIG_SETMASK, &l->inherited, NULL);
    (void)execvp(l->o->program[0], l->o->program);
    const int error = errno;
    _exit(write(report, &error, sizeof error) == (ssize_t)sizeof error ? TOOL_NO_PROGRAM
                                                                        : TOOL_FAILED);
}

static int set_variables(const launch *l, int rank)
{
    char spec[128];

    snprintf(spec, sizeof spec, "local:%s,rank=%d,world=%d", l->name, rank, (int)l->o->ranks);
    return setenv("WEIR_COMM", spec, 1);
}

/* A pipe that programs do not inherit. 0, or -1 and errno. */
static int pipe_of_ours(int ends[2])
{
    if (pipe(ends) != 0)
        return -1;
    if (fcntl(ends[0], F_SETFD, FD_CLOEXEC) == 0 && fcntl(ends[1], F_SETFD, FD_CLOEXEC) == 0)
        return 0;
    const int failed = errno;
    (void)close(ends[0]);
    (void)close(ends[1]);
    errno = failed;
    return -1;
}

/* Starts a rank, and returns once it is its program. TOOL_DONE, or what failed after a message. */
static int start(launch *l, int rank)
{
    int report[2], error = 0;

    if (set_variables(l, rank) != 0 || pipe_of_ours(report) != 0)
        return tool_say(l->o, TOOL_FAILED, "cannot start rank %d: %s", rank, strerror(errno));
    const pid_t pid = fork();
    if (pid == 0)
        become(l, rank, report[1]);
    const int failed = errno;
    (void)close(report[1]);
    const bool no_program = pid > 0 && read(report[0], &error, sizeof error) > 0;
    (void)close(report[0]);
    if (pid < 0)
        return tool_say(l->o, TOOL_FAILED, "cannot start rank %d: %s", rank, strerror(failed));
    if (no_program) {
        (void)waitpid(pid, NULL, 0);
        return tool_say(l->o, TOOL_NO_PROGRAM, "cannot execute '%s': %s", l->o->program[0],
                        strerror(error));
    }
    l->pid[rank] = pid;
    l->ranks = rank + 1;
    l->living++;
    return TOOL_DONE;
}

/* Shares the cores among the ranks, where the user does not say. The threads of the device, if it
 * starts some, have blocked the signals that this program takes. */
static int share_cores(const launch *l)
{
    const char *const given = getenv("WEIR_THREADS");
    char              text[16];

    if (given && *given)
        return TOOL_DONE;
    weir_device *const d = weir_device_open("cpu", NULL);
    if (!d)
        return tool_failed(l->o);
    const int threads = weir_device_threads(d) / (int)l->o->ranks;
    weir_device_close(d);
    snprintf(text, sizeof text, "%d", threads > 0 ? threads : 1);
    return setenv("WEIR_THREADS", text, 1) == 0
               ? TOOL_DONE
               : tool_say(l->o, TOOL_FAILED, "cannot set WEIR_THREADS: %s", strerror(errno));
}

/* Nobody has the name of a communicator twice, not even in containers with equal process ids. */
static void make_name(launch *l)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_REALTIME, &now);
    snprintf(l->name, sizeof l->name, "launch-%ld-%lld", (long)l->self,
             (long long)now.tv_sec * 1000000000 + now.tv_nsec);
}

/* Ranks that are killed before all have met leave their shared memory (device/comm/local.c). */
static void remove_left(const launch *l)
{
    char path[128];

    snprintf(path, sizeof path, "/dev/shm/weir-%s", l->name);
    (void)unlink(path);
}

int tool_launch(const tool_options *o)
{
    launch l = {.o = o, .self = getpid()};

    if (!o->ranks || !o->program)
        return tool_say(o, TOOL_USAGE, "needs --ranks and a program: weir launch --ranks 2 PROGRAM "
                        "[ARGUMENT...]");
    make_name(&l);
    take_signals(&l);
    int code = share_cores(&l);
    for (int r = 0; r < o->ranks && code == TOOL_DONE; r++)
        code = start(&l, r);
    if (code != TOOL_DONE) {
        l.code = code;
        end_living(&l, SIGTERM);
    }
    wait_for_all(&l);
    remove_left(&l);
    return l.code;
}
