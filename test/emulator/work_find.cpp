/* work_find.cpp - an emulated library's side of work.h. */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "work.h"

typedef cudaError_t (*queue_fn)(cudaStream_t, void (*)(const void *), const void *, size_t);

/* Searches the loaded objects, among which the plugin for real cards may be too. */
static int find_queue(struct dl_phdr_info *info, size_t, void *queue)
{
    const char *const slash = strrchr(info->dlpi_name, '/');

    if (!slash || strcmp(slash, "/libweir_cuda.so") != 0)
        return 0;
    void *const plugin = dlopen(info->dlpi_name, RTLD_NOLOAD | RTLD_LAZY);
    *(void **)queue = plugin ? dlsym(plugin, "emulate_work") : NULL;
    return *(void **)queue != NULL;
}

cudaError_t emulate_work_in_plugin(cudaStream_t stream, void (*fn)(const void *),
                                   const void *arguments, size_t n)
{
    static queue_fn queue;

    if (!queue && !dl_iterate_phdr(find_queue, &queue)) {
        fprintf(stderr, "emulated library: no emulated plugin is open\n");
        abort();
    }
    return queue(stream, fn, arguments, n);
}
