/* plugin.c - opens libraries of back ends. See plugin.h. */
#include "device/plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/status.h"
#include "device/kernel.h"

enum { NAME_MAX_BYTES = 32, PATH_BYTES = 4096 };

static const weir_plugin_host host = {
    .version = WEIR_VERSION_STRING,
    .host = sizeof(weir_plugin_host),
    .device = sizeof(weir_device),
    .kargs = sizeof(weir_kargs),
    .ops = sizeof(weir_device_ops),
    .env = sizeof(weir_env),
    .fail = weir_fail,
    .error_status = weir_error_status,
    .error = weir_error,
    .alloc = weir_mem_alloc,
    .realloc = weir_mem_realloc,
    .free = weir_mem_free,
    .now = weir_now,
    .env_get = weir_env_get,
    .kernel_of = weir_kernel_of,
    .spill_new = weir_spill_new,
    .spill_reserve = weir_spill_reserve,
    .spill_out = weir_spill_out,
    .spill_in = weir_spill_in,
    .spill_wait = weir_spill_wait,
};

void weir_plugin_folder(char *to, size_t capacity)
{
    to[0] = '\0';
#ifndef WEIR_PORTABLE
    Dl_info     info;
    const char *slash;

    if (!dladdr((const void *)&host, &info) || !info.dli_fname ||
        !(slash = strrchr(info.dli_fname, '/')))
        return;
    const size_t n = (size_t)(slash - info.dli_fname) + 1;
    if (n < capacity) {
        memcpy(to, info.dli_fname, n);
        to[n] = '\0';
    }
#else
    (void)capacity;
#endif
}

/* Opens the library; on failure *why says whether it is missing or could not be loaded. */
static void *open_at(const char *folder, const char *file, char *why, size_t capacity)
{
    char path[PATH_BYTES];

    snprintf(path, sizeof path, "%s%s%s", folder, *folder && folder[strlen(folder) - 1] != '/'
                                                      ? "/" : "", file);
    void *const lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        snprintf(why, capacity, "%s", dlerror());
    return lib;
}

/* Opens a plugin by the name of its file: in $WEIR_PLUGINS if that is set. */
static void *open_plugin(const char *file, char *why, size_t capacity)
{
    char        folder[PATH_BYTES];
    const char *asked = getenv("WEIR_PLUGINS");

    if (asked && *asked)
        return open_at(asked, file, why, capacity);
    weir_plugin_folder(folder, sizeof folder);
    void *const lib = open_at(folder, file, why, capacity);
    return lib ? lib : open_at("", file, why, capacity);
}

const weir_device_ops *weir_plugin_find(const char *name, size_t n)
{
    char file[NAME_MAX_BYTES + 32], why[1024] = "";

    if (n == 0 || n > NAME_MAX_BYTES ||
        strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") < n)
        return WEIR_FAIL_NULL(WEIR_ERR_DEVICE, "weir_device_open: unknown device '%s' (expected "
                                               "cpu, sim or the name of a plugin)", name);
    snprintf(file, sizeof file, "libweir_%.*s.so", (int)n, name);
    void *const lib = open_plugin(file, why, sizeof why);
    if (!lib)
        return WEIR_FAIL_NULL(WEIR_ERR_DEVICE, "weir_device_open: unknown device '%s' (expected "
                              "cpu, sim or the name of a plugin; this one could not be opened: "
                              "%s)", name,
                              why);
    weir_plugin_fn enter;
    *(void **)&enter = dlsym(lib, "weir_plugin");
    return enter ? enter(&host)
                 : WEIR_FAIL_NULL(WEIR_ERR_DEVICE, "weir_device_open: %s does not export "
                                                   "weir_plugin", file);
}

const struct weir_comm_ops *weir_plugin_mpi(const char *mpi)
{
    char file[NAME_MAX_BYTES + 32], why[1024] = "";

    snprintf(file, sizeof file, "libweir_mpi_%.*s.so", NAME_MAX_BYTES, mpi);
    void *const lib = open_plugin(file, why, sizeof why);
    if (!lib)
        return WEIR_FAIL_NULL(WEIR_ERR_COMM, "weir_comm_open: the plugin for %s could not be "
                              "opened: %s", mpi, why);
    weir_plugin_comm_fn enter;
    *(void **)&enter = dlsym(lib, "weir_plugin_comm");
    return enter ? enter(&host)
                 : WEIR_FAIL_NULL(WEIR_ERR_COMM, "weir_comm_open: %s does not export "
                                                 "weir_plugin_comm", file);
}
