/* host_abi.c - the functions that the plugin calls in libweir instead of linking copies: failures,
 * host memory, the clock, the table of the environment, kernel selection, spill files. They have
 * their usual names here. */
#include "device/cuda/runtime/host_abi.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/status.h"
#include "core/trace.h"
#include "device/kernel.h"

static const weir_plugin_host *host;

bool weir_cuda_bind_host(const weir_plugin_host *h)
{
    if (strcmp(h->version, WEIR_VERSION_STRING) != 0 || h->host != sizeof *h ||
        h->device != sizeof(weir_device) || h->kargs != sizeof(weir_kargs) ||
        h->ops != sizeof(weir_device_ops) || h->env != sizeof(weir_env)) {
        h->fail(WEIR_ERR_DEVICE, "weir_device_open: libweir has version %s, libweir_cuda has %s "
                "or comes from another build", h->version, WEIR_VERSION_STRING);
        return false;
    }
    host = h;
    return true;
}

weir_status weir_fail(weir_status s, const char *format, ...)
{
    char    sentence[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    return host->fail(s, "%s", sentence);
}

weir_status weir_error_status(void)
{
    return host->error_status();
}

const char *weir_error(void)
{
    return host->error();
}

void *weir_mem_alloc(size_t bytes)
{
    return host->alloc(bytes);
}

void *weir_mem_zalloc(size_t count, size_t size)
{
    size_t bytes;

    if (!weir_size_mul(count, size, &bytes)) {
        weir_fail(WEIR_ERR_NOMEM, "out of memory: %zu objects of %zu bytes", count, size);
        return NULL;
    }
    void *const p = host->alloc(bytes);
    return p ? memset(p, 0, bytes) : NULL;
}

void *weir_mem_realloc(void *p, size_t old_bytes, size_t new_bytes)
{
    return host->realloc(p, old_bytes, new_bytes);
}

void weir_mem_free(void *p)
{
    host->free(p);
}

char *weir_mem_strdup(const char *s)
{
    const size_t n = strlen(s) + 1;
    char *const  copy = weir_mem_alloc(n);

    return copy ? memcpy(copy, s, n) : NULL;
}

double weir_now(void)
{
    return host->now();
}

const weir_env *weir_env_get(void)
{
    return host->env_get();
}

weir_status weir_kernel_of(weir_device *d, const weir_call *c, const weir_kernel **out)
{
    return host->kernel_of(d, c, out);
}

weir_status weir_spill_new(const weir_spill_options *o, weir_spill **s)
{
    return host->spill_new(o, s);
}

weir_status weir_spill_reserve(weir_spill *s, size_t bytes)
{
    return host->spill_reserve(s, bytes);
}

weir_status weir_spill_out(weir_spill *s, size_t slot, const void *p, size_t n, uint64_t *ticket)
{
    return host->spill_out(s, slot, p, n, ticket);
}

weir_status weir_spill_in(weir_spill *s, size_t slot, void *p, size_t n, uint64_t *ticket)
{
    return host->spill_in(s, slot, p, n, ticket);
}

weir_status weir_spill_wait(weir_spill *s, uint64_t ticket)
{
    return host->spill_wait(s, ticket);
}
