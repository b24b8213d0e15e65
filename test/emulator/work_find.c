/* work_find.c - an emulated library's side of work.h. */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "promise.h"
#include "work.h"

typedef cudaError_t (*queue_fn)(cudaStream_t, void (*)(const void *), const void *, size_t);

static struct {
    queue_fn queue;
    int    (*call)(const char *);
    void   (*hold)(int);
    int    (*current)(void);
    const emulate_promises *(*promises)(void);
} plugin;

/* Searches the loaded objects, among which the plugin for real cards may be too. */
static int find(struct dl_phdr_info *info, size_t bytes, void *found)
{
    const char *const slash = strrchr(info->dlpi_name, '/');

    (void)bytes;
    if (!slash || strcmp(slash, "/libweir_cuda.so") != 0)
        return 0;
    void *const lib = dlopen(info->dlpi_name, RTLD_NOLOAD | RTLD_LAZY);
    if (!lib || !dlsym(lib, "emulate_work"))
        return 0;
    *(void **)&plugin.call = dlsym(lib, "emulate_call");
    *(void **)&plugin.hold = dlsym(lib, "emulate_hold");
    *(void **)&plugin.current = dlsym(lib, "emulate_current");
    *(void **)&plugin.promises = dlsym(lib, "emulate_promises_of");
    *(void **)&plugin.queue = dlsym(lib, "emulate_work");
    *(int *)found = 1;
    return 1;
}

static int plugin_is_open(void)
{
    int found = plugin.queue != NULL;

    if (!found)
        dl_iterate_phdr(find, &found);
    return found;
}

cudaError_t emulate_work_in_plugin(cudaStream_t stream, void (*fn)(const void *),
                                   const void *arguments, size_t n)
{
    if (!plugin_is_open()) {
        fprintf(stderr, "emulated library: no emulated plugin is open\n");
        abort();
    }
    return plugin.queue(stream, fn, arguments, n);
}

const emulate_promises *emulate_promises_in_plugin(void)
{
    return plugin_is_open() ? plugin.promises() : NULL;
}

int emulate_call_in_plugin(const char *function)
{
    return plugin_is_open() ? plugin.call(function) : 0;
}

int emulate_current_in_plugin(void)
{
    return plugin_is_open() ? plugin.current() : 0;
}

void emulate_hold_in_plugin(int by)
{
    if (plugin_is_open())
        plugin.hold(by);
}
