/* plugin.h - back ends in separate libraries, loaded when a device of their name is first opened.
 *
 * libweir_<name>.so exports one symbol, weir_plugin. It receives the library's functions that it
 * needs (linking copies of them would create separate failures, counters and hooks) and returns its
 * table. It is never unloaded: kernels and threads of the libraries below it may outlive the last
 * device. */
#ifndef WEIR_DEVICE_PLUGIN_H
#define WEIR_DEVICE_PLUGIN_H

#include "core/env.h"
#include "device/device.h"

typedef struct weir_plugin_host {
    const char              *version;   /* of the library; the plugin's must be the same */
    size_t                   host, device, kargs, ops, env; /* sizes of structs that both access */
    weir_status (*fail)(weir_status s, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
    weir_status (*error_status)(void);
    const char *(*error)(void);
    void       *(*alloc)(size_t bytes);
    void       *(*realloc)(void *p, size_t old_bytes, size_t new_bytes);
    void        (*free)(void *p);
    double      (*now)(void);
    const weir_env *(*env_get)(void);
    weir_status (*kernel_of)(weir_device *d, const weir_call *c, const weir_kernel **out);
    weir_status (*spill_new)(const weir_spill_options *o, weir_spill **s);
    weir_status (*spill_reserve)(weir_spill *s, size_t bytes);
    weir_status (*spill_out)(weir_spill *s, size_t slot, const void *p, size_t n, uint64_t *ticket);
    weir_status (*spill_in)(weir_spill *s, size_t slot, void *p, size_t n, uint64_t *ticket);
    weir_status (*spill_wait)(weir_spill *s, uint64_t ticket);
} weir_plugin_host;

/* The type of weir_plugin. Returns NULL, with the failure remembered, if version or sizes
 * differ. */
typedef const weir_device_ops *(*weir_plugin_fn)(const weir_plugin_host *host);

/* Loads back end `name` (n characters) from its library: from $WEIR_PLUGINS, then the folder of
 * libweir or of the program, then the system's library path. Otherwise NULL with ERR_DEVICE and a
 * sentence that lists the places searched. */
const weir_device_ops *weir_plugin_find(const char *name, size_t n);

struct weir_comm_ops;

/* The type of weir_plugin_comm, the symbol of plugins for communicators. As weir_plugin_fn. */
typedef const struct weir_comm_ops *(*weir_plugin_comm_fn)(const weir_plugin_host *host);

/* Loads the transport of an MPI ("openmpi") from libweir_mpi_<mpi>.so in the same places.
 * Otherwise NULL with ERR_COMM. */
const struct weir_comm_ops *weir_plugin_mpi(const char *mpi);

/* The folder that libweir, or the program that contains it, was loaded from, with a trailing '/';
 * "" if it is unknown. */
void weir_plugin_folder(char *to, size_t capacity);

#endif
