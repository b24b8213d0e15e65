/* memory.c - memory of the emulated card: limits, patterns, ranges, pinned memory, copies. */
#include "emulator/tests/fixture.h"

CASE(capacity)
{
    size_t unused = 0, total = 0, before = emulate_allocated();
    void  *p = NULL, *q = NULL;

    setenv("WEIR_EMULATED_BYTES", "1048576", 1);
    CHECK_CUDA(cudaMemGetInfo(&unused, &total));
    CHECK(total == 1 << 20 && unused == total - before);
    CHECK_CUDA(cudaMalloc(&p, unused - 256));
    CHECK((uintptr_t)p % 256 == 0);
    CHECK_ERROR(cudaMalloc(&q, 257), cudaErrorMemoryAllocation);
    CHECK(q == NULL);
    CHECK_CUDA(cudaMalloc(&q, 1));
    CHECK((uintptr_t)q % 256 == 0);
    CHECK_CUDA(cudaMemGetInfo(&unused, &total));
    CHECK(unused == 0);
    CHECK_CUDA(cudaFree(p));
    CHECK_CUDA(cudaFree(q));
    CHECK(emulate_allocated() == before);
    CHECK_ERROR(cudaMalloc(&p, SIZE_MAX - 5), cudaErrorMemoryAllocation);
    CHECK_CUDA(cudaMalloc(&p, 0));
    CHECK(p == NULL);
    CHECK_CUDA(cudaFree(NULL));
    CHECK_ERROR(cudaFree(&total), cudaErrorInvalidValue);
    unsetenv("WEIR_EMULATED_BYTES");
    CHECK_CUDA(cudaMemGetInfo(&unused, &total));
    CHECK(total == (size_t)2 << 30);
    (void)cudaGetLastError();
}

CASE(new_memory_is_not_a_number)
{
    float *const x = fixture_alloc(5 * sizeof *x), host[5];

    CHECK_CUDA(cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 5; i++)
        CHECK(isnan(host[i]));
    CHECK_CUDA(cudaFree(x));
}

CASE(ranges)
{
    cudaStream_t s = fixture_stream();
    char *const  x = fixture_alloc(100), *const y = fixture_alloc(100);
    char         host[300];

    CHECK_ERROR(cudaMemsetAsync(x, 0, 101, s), cudaErrorInvalidValue);
    CHECK_ERROR(cudaMemsetAsync(x - 1, 0, 1, s), cudaErrorInvalidValue);
    CHECK_ERROR(cudaMemsetAsync(host, 0, 1, s), cudaErrorInvalidValue);
    CHECK_CUDA(cudaMemsetAsync(x + 99, 0, 1, s));
    CHECK_ERROR(cudaMemcpyAsync(x + 1, host, 100, cudaMemcpyHostToDevice, s),
                cudaErrorInvalidValue);
    CHECK_ERROR(cudaMemcpyAsync(host, x, 101, cudaMemcpyDeviceToHost, s), cudaErrorInvalidValue);
    CHECK_ERROR(cudaMemcpyAsync(y, x, 101, cudaMemcpyDeviceToDevice, s), cudaErrorInvalidValue);
    CHECK_ERROR(cudaMemcpyAsync(host, y, 4, cudaMemcpyHostToDevice, s), cudaErrorInvalidValue);
    CHECK_ERROR(cudaMemcpyAsync(x, y, 4, cudaMemcpyDeviceToHost, s), cudaErrorInvalidValue);
    CHECK_ERROR(cudaMemcpyAsync(x, y, 4, (enum cudaMemcpyKind)77, s),
                cudaErrorInvalidMemcpyDirection);
    CHECK_ERROR(cudaMemcpy2DAsync(x, 9, host, 10, 10, 2, cudaMemcpyHostToDevice, s),
                cudaErrorInvalidPitchValue);
    CHECK_ERROR(cudaMemcpy2DAsync(x, 50, host, 10, 10, 3, cudaMemcpyHostToDevice, s),
                cudaErrorInvalidValue);
    CHECK_CUDA(cudaMemcpyAsync(x, host, 100, cudaMemcpyDefault, s));
    CHECK_CUDA(cudaMemcpyAsync(NULL, NULL, 0, cudaMemcpyDefault, s));
    CHECK_CUDA(cudaStreamSynchronize(s));
    CHECK_CUDA(cudaFree(x));
    CHECK_CUDA(cudaFree(y));
    CHECK_CUDA(cudaStreamDestroy(s));
    (void)cudaGetLastError();
}

CASE(rows)
{
    cudaStream_t s = fixture_stream();
    char *const  x = fixture_alloc(40);
    char         host[40], back[12];

    for (int i = 0; i < 40; i++)
        host[i] = (char)i;
    CHECK_CUDA(cudaMemsetAsync(x, 99, 40, s));
    CHECK_CUDA(cudaMemcpy2DAsync(x, 8, host, 10, 4, 3, cudaMemcpyHostToDevice, s));
    memset(host, -1, sizeof host);
    CHECK_CUDA(cudaMemset2DAsync(x + 1, 8, 50, 2, 2, s));
    CHECK_CUDA(cudaMemcpy2DAsync(back, 4, x, 8, 4, 3, cudaMemcpyDeviceToHost, s));
    CHECK_BITS(back, ((char[]){0, 50, 50, 3, 10, 50, 50, 13, 20, 21, 22, 23}), sizeof back);
    CHECK_CUDA(cudaMemcpyAsync(back, x + 4, 4, cudaMemcpyDeviceToHost, s));
    CHECK_BITS(back, ((char[]){99, 99, 99, 99}), 4);
    CHECK_CUDA(cudaFree(x));
    CHECK_CUDA(cudaStreamDestroy(s));
}

CASE(pinned_memory)
{
    struct cudaPointerAttributes a;
    char *own = malloc(100), *const p = fixture_pinned(100);
    void *q;

    CHECK_CUDA(cudaPointerGetAttributes(&a, p + 50));
    CHECK(a.type == cudaMemoryTypeHost);
    CHECK_CUDA(cudaPointerGetAttributes(&a, own));
    CHECK(a.type == cudaMemoryTypeUnregistered);
    CHECK_CUDA(cudaHostRegister(own, 100, cudaHostRegisterDefault));
    CHECK_CUDA(cudaPointerGetAttributes(&a, own + 99));
    CHECK(a.type == cudaMemoryTypeHost);
    CHECK_ERROR(cudaHostRegister(own + 50, 10, 0), cudaErrorHostMemoryAlreadyRegistered);
    CHECK_CUDA(cudaHostGetDevicePointer(&q, own, 0));
    CHECK(q == own);
    CHECK_ERROR(cudaFreeHost(own), cudaErrorInvalidValue);
    CHECK_CUDA(cudaHostUnregister(own));
    CHECK_ERROR(cudaHostUnregister(own), cudaErrorHostMemoryNotRegistered);
    CHECK_CUDA(cudaFreeHost(p));
    CHECK_ERROR(cudaFreeHost(p), cudaErrorInvalidValue);
    free(own);
    (void)cudaGetLastError();
}

static void overrun(void)
{
    char *const p = fixture_alloc(100);
    CHECK_CUDA(probe_poke(NULL, p, 100, 1));
    CHECK_CUDA(cudaFree(p));
}

CASE(a_write_behind_memory_is_reported)
{
    CHECK(fixture_aborts(overrun));
}

/* Runs this case in a separate process with guarded memory; true if it crashed. */
static bool crashes_guarded(const char *how)
{
    char command[600], self[400];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

    if (n <= 0)
        return false;
    self[n] = '\0';
    snprintf(command, sizeof command, "WEIR_EMULATED_GUARD=1 WEIR_TEST_STRAY=%s %s "
             "memory/guarded_memory >/dev/null 2>&1", how, self);
    const int code = system(command);
    return WIFSIGNALED(code) || (WIFEXITED(code) && WEXITSTATUS(code) > 128);
}

static void stray(const char *how)
{
    char *const p = fixture_alloc(8192);

    if (strcmp(how, "host") == 0)
        p[0] = 1;                       /* inaccessible to the host */
    CHECK_CUDA(probe_poke(NULL, p, strcmp(how, "end") == 0 ? 8192 : 8191, 1));
    CHECK_CUDA(cudaDeviceSynchronize());
    if (strcmp(how, "freed") == 0) {
        CHECK_CUDA(cudaFree(p));
        CHECK_CUDA(probe_poke(NULL, p, 0, 1));
        CHECK_CUDA(cudaDeviceSynchronize());
    }
}

CASE(guarded_memory)
{
    const char *const how = getenv("WEIR_TEST_STRAY");

    if (how) {
        stray(how);
        return;
    }
    CHECK(!crashes_guarded("none"));
    CHECK(crashes_guarded("end"));
    CHECK(crashes_guarded("host"));
    CHECK(crashes_guarded("freed"));
}
