/* share.c - one rank's parameters, states and inputs become those of all ranks. */
#include "core/mem.h"
#include "core/status.h"
#include "core/tensor.h"
#include "device/collective.h"

/* Root's elements, then a byte that says that root could read them: without it the others would
 * wait until the timeout. */
static weir_status share(weir_comm *c, weir_tensor *t, int root, char *host, size_t bytes)
{
    const weir_collective job = {.kind = WEIR_BROADCAST, .dtype = WEIR_U8, .peer = root,
                                 .count = (int64_t)bytes + 1, .src = host, .dst = host};
    weir_status           read = WEIR_OK;

    if (c->rank == root) {
        weir_failure why;
        read = weir_read(t, host, bytes);
        host[bytes] = read == WEIR_OK;
        weir_failure_get(&why);
        WEIR_TRY(c->run(c, &job));
        if (read != WEIR_OK)
            weir_failure_set(&why);
        return read;
    }
    WEIR_TRY(c->run(c, &job));
    if (!host[bytes])
        return weir_fail(WEIR_ERR_COMM, "weir_comm_share: rank %d could not read '%s'", root,
                         weir_tensor_name(t));
    return weir_write(t, host, bytes);
}

weir_status weir_comm_share(weir_comm *c, weir_tensor *t, int root)
{
    if (!c || !t)
        return weir_fail_null("weir_comm_share", c ? "tensor" : "communicator");
    if (root < 0 || root >= c->world)
        return weir_fail(WEIR_ERR_INVALID, "weir_comm_share: %d is no rank in a world of %d", root,
                         c->world);
    if (c->world == 1)
        return WEIR_OK;
    const size_t bytes = weir_tensor_bytes(t);
    char *const  host = weir_mem_alloc(bytes + 1);
    if (!host)
        return WEIR_ERR_NOMEM;
    const weir_status status = share(c, t, root, host, bytes);
    weir_mem_free(host);
    return status;
}
