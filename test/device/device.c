/* device.c - tests of opening, closing, the arena, the random stream, memory figures, info,
 * trace. */
#include "device/device.h"

#include <stdlib.h>

#include "check.h"
#include "core/mem.h"
#include "core/rng.h"
#include "device/memory/arena.h"
#include "device/memory/pool.h"
#include "device/resources.h"

CASE(open_and_close)
{
    weir_device *d = weir_device_open("cpu", NULL);
    CHECK_OR_RETURN(d != NULL);
    CHECK(weir_device_threads(d) == weir_threads_default() && d->seed == 1);
    CHECK_OK(weir_device_check(d, "t"));
    weir_device_close(d);
    weir_device_close(NULL);
    d = weir_device_open("cpu", &(weir_device_options){.threads = 3, .seed = 9});
    CHECK_OR_RETURN(d != NULL);
    CHECK(weir_device_threads(d) == 3 && d->seed == 9);
    weir_device_close(d);
}

CASE(open_refuses)
{
    CHECK(weir_device_open("abacus", NULL) == NULL);
    CHECK_STATUS(weir_error_status(), WEIR_ERR_DEVICE);
    CHECK_TEXT(weir_error(), "abacus");
    CHECK(weir_device_open(NULL, NULL) == NULL);
    CHECK_STATUS(weir_error_status(), WEIR_ERR_INVALID);
    CHECK(weir_device_open("cpu", &(weir_device_options){.threads = -1}) == NULL);
    CHECK_TEXT(weir_error(), "-1 threads");
}

CASE(count)
{
    CHECK(weir_device_count("cpu") == 1 && weir_device_count("sim") == 1);
    CHECK(weir_device_count("sim:v100") == 1);
    CHECK(weir_device_count("abacus") == -1);
    CHECK_STATUS(weir_error_status(), WEIR_ERR_DEVICE);
    CHECK_TEXT(weir_error(), "libweir_abacus.so");
    CHECK(weir_device_count(NULL) == -1);
    CHECK_TEXT(weir_error(), "weir_device_count: name is NULL");
}

CASE(sync)
{
    weir_device *d = weir_device_open("sim:v100", NULL);
    CHECK_OR_RETURN(d != NULL);
    CHECK_OK(weir_device_sync(d));
    weir_device_close(d);
    CHECK_STATUS(weir_device_sync(NULL), WEIR_ERR_INVALID);
}

CASE(open_short_of_memory)
{
    weir_device *d = NULL;
    for (int n = 0; n < 50 && !d; n++) {
        const int64_t alive = weir_mem_alive();
        weir_mem_fail_nth(n, true);
        d = weir_device_open("cpu", &(weir_device_options){.threads = 2});
        weir_mem_fail_nth(-1, false);
        CHECK(d || (weir_error_status() == WEIR_ERR_NOMEM && weir_mem_alive() == alive));
    }
    CHECK(d != NULL);
    weir_device_close(d);
}

static int sessions_freed;

static void free_session(void *session)
{
    sessions_freed += *(int *)session;
}

CASE(close_frees_the_session_once)
{
    int          weight = 5;
    weir_device *d = weir_device_open("cpu", &(weir_device_options){.threads = 1});
    CHECK_OR_RETURN(d != NULL);
    sessions_freed = 0;
    d->session = &weight;
    d->session_free = free_session;
    weir_ref_take(d);
    weir_device_close(d);
    weir_device_close(d);
    CHECK(sessions_freed == 5);
    CHECK_STATUS(weir_device_check(d, "weir_relu"), WEIR_ERR_DEVICE);
    CHECK_TEXT(weir_error(), "weir_relu: the device is closed");
    CHECK_STATUS(weir_device_seed(d, 1), WEIR_ERR_DEVICE);
    CHECK(weir_info_text(d) == NULL);
    weir_ref_drop(d);
}

CASE(arena_grows_and_never_shrinks)
{
    const size_t mib = (size_t)1 << 20;
    weir_memory  m;
    weir_device *d = weir_device_open("cpu", &(weir_device_options){.threads = 2});
    CHECK_OR_RETURN(d != NULL);
    CHECK_OK(weir_device_arena(d, 0, false));
    CHECK(d->arena.at == NULL);
    CHECK_OK(weir_device_arena(d, 1000, false));
    CHECK(d->arena.at && d->arena.bytes == 2 * mib && (uintptr_t)d->arena.at % 64 == 0);
    char *const at = d->arena.at;
    CHECK_OK(weir_device_arena(d, 2 * mib, false));
    CHECK(d->arena.at == at);
    CHECK_OK(weir_device_arena(d, 5 * mib, false));
    CHECK(d->arena.bytes == 6 * mib && d->arena.at[6 * mib - 1] == 0);
    CHECK_OK(weir_device_arena(d, mib, false));
    weir_device_memory(d, &m);
    CHECK(m.arena == 5 * mib && d->arena.bytes == 6 * mib);
    weir_device_close(d);
}

CASE(arena_too_large)
{
    weir_device *d = weir_device_open("cpu", &(weir_device_options){.threads = 1});
    CHECK_OR_RETURN(d != NULL);
    CHECK_OK(weir_device_arena(d, 1000, false));
    CHECK_STATUS(weir_device_arena(d, (size_t)1 << 60, false), WEIR_ERR_NOMEM);
    CHECK_TEXT(weir_error(), "1152921504606846976 bytes");
    CHECK_TEXT(weir_error(), "the system has");
    CHECK(d->arena.at == NULL && d->arena.bytes == 0);
    CHECK_STATUS(weir_device_arena(d, SIZE_MAX, false), WEIR_ERR_NOMEM);
    weir_mem_fail_nth(0, true);
    CHECK_STATUS(weir_device_arena(d, 1000, false), WEIR_ERR_NOMEM);
    weir_mem_fail_nth(0, false);        /* a second attempt, after the pool was trimmed */
    CHECK_OK(weir_device_arena(d, 1000, false));
    weir_device_close(d);
}

CASE(random_stream)
{
    weir_device *d = weir_device_open("cpu", &(weir_device_options){.threads = 1});
    CHECK_OR_RETURN(d != NULL);
    CHECK(weir_device_draw(d, weir_rng_blocks(5)) == 0);
    CHECK(weir_device_draw(d, 3) == 2 && weir_device_draw(d, 0) == 5 && d->rng == 5);
    CHECK_OK(weir_device_seed(d, 42));
    CHECK(d->seed == 42 && weir_device_draw(d, 1) == 0);
    CHECK(weir_device_seed(NULL, 1) != WEIR_OK);
    CHECK_OK(weir_device_set_random(d, (weir_random){.seed = 7, .position = UINT64_MAX / 2}));
    CHECK(d->seed == 7 && weir_device_draw(d, 3) == UINT64_MAX / 2);
    CHECK(weir_device_random(d).seed == 7 &&
          weir_device_random(d).position == UINT64_MAX / 2 + 3);
    CHECK(weir_device_random(NULL).position == 0);
    CHECK(weir_device_set_random(NULL, (weir_random){0}) != WEIR_OK);
    weir_device_close(d);
}

CASE(memory_figures)
{
    weir_memory  m;
    weir_device *d = weir_device_open("cpu", &(weir_device_options){.threads = 1, .guard = -1});
    CHECK_OR_RETURN(d != NULL);
    void  *p, *q;
    size_t got_p, got_q;
    CHECK_OK(weir_pool_take_persistent(d, 100, &p, &got_p));
    CHECK_OK(weir_pool_take(d, 2000, &q, &got_q));
    weir_pool_give(d, q, got_q);
    weir_device_memory(d, &m);
    CHECK(m.persistent == 128 && m.live == 128 && m.live_peak == 128 + got_q);
    CHECK(m.pool == 128 + got_q && m.arena == 0 && m.total > (size_t)1 << 26);
    CHECK(m.core_allocations == weir_mem_calls());
    weir_device_reset_peak(d);
    weir_device_memory(d, &m);
    CHECK(m.live_peak == 128);
    weir_pool_give_persistent(d, p, got_p);
    weir_device_close(d);
    weir_device_memory(NULL, &m);
    CHECK(m.live == 0 && m.core_allocations > 0);
}

CASE(transfers)
{
    enum { N = (3 << 20) + 77 };
    weir_device *d = weir_device_open("cpu", &(weir_device_options){.threads = 2});
    char        *host = malloc(N);
    void        *p = NULL;
    CHECK_OR_RETURN(d && host && d->ops->alloc(d, N, false, &p) == WEIR_OK);
    for (int i = 0; i < N; i++)
        host[i] = (char)check_u64();
    CHECK_OK(d->ops->upload(d, p, host, N));
    CHECK_BITS(p, host, N);
    CHECK_OK(d->ops->fill(d, p, 0xa5, N));
    CHECK_OK(d->ops->download(d, host, p, N));
    CHECK(d->ops->sync(d) == WEIR_OK && (unsigned char)host[0] == 0xa5);
    CHECK((unsigned char)host[N - 1] == 0xa5);
    CHECK_OK(d->ops->fill(d, p, 0, 0));
    d->ops->free(d, p, N);
    free(host);
    weir_device_close(d);
}

CASE(info)
{
    weir_device *d = weir_device_open("cpu", &(weir_device_options){.threads = 2});
    CHECK_OR_RETURN(d != NULL);
    char *text = weir_info_text(d);
    CHECK_TEXT(text, weir_version());
    CHECK_TEXT(text, "device cpu, 2 threads");
    weir_text_free(text);
    weir_mem_fail_nth(0, true);
    CHECK(weir_info_text(d) == NULL);
    weir_mem_fail_nth(-1, false);
    weir_device_close(d);
}

CASE(trace)
{
    weir_device *d = weir_device_open("cpu", &(weir_device_options){.threads = 1});
    CHECK_OR_RETURN(d != NULL);
    CHECK(weir_device_trace_stop(d) == NULL);
    CHECK_STATUS(weir_error_status(), WEIR_ERR_STATE);
    CHECK_OK(weir_device_trace_start(d));
    CHECK_STATUS(weir_device_trace_start(d), WEIR_ERR_STATE);
    weir_trace_event(d->trace, "relu", "op", 0, weir_device_clock(d), weir_device_clock(d), 8);
    char *text = weir_device_trace_stop(d);
    CHECK_TEXT(text, "\"relu\"");
    weir_text_free(text);
    CHECK_OK(weir_device_trace_start(d));
    weir_device_close(d);       /* frees the trace */
}
