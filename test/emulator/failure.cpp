/* failure.cpp - errors: names, each thread's last one, lost contexts, and injected ones.
 *
 * emulate_fail("cudaMalloc", 3, cudaErrorMemoryAllocation) or WEIR_EMULATED_FAIL=cudaMalloc:3:2
 * makes the third call from now on fail; emulate_fail_from, or "3+" in the variable, that and all
 * later ones. "kernel" stands for the execution of kernels, whose errors are reported by whatever
 * waits for them, as on a card. Functions of the emulated libraries and of the driver fail by their
 * names too, with statuses of their own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inject.h"
#include "runtime.h"
#include "work.h"

bool emulate_in_host_function(void);

namespace {

struct injected {
    char        function[64];
    long        nth;            /* counted from now on; below 1: due */
    cudaError_t error;          /* or a library's status */
    bool        lasts;          /* every later call fails too */
};

pthread_mutex_t          lock = PTHREAD_MUTEX_INITIALIZER;
emulate_point           *points;
std::vector<injected>     injections;
long                     injected_hits;
long                     objects;       /* of libraries */
cudaError_t              lost;
thread_local cudaError_t last;

#define ERRORS(ROW)                                                                                \
    ROW(cudaSuccess, "no error")                                                                   \
    ROW(cudaErrorInvalidValue, "invalid argument")                                                 \
    ROW(cudaErrorMemoryAllocation, "out of memory")                                                \
    ROW(cudaErrorInitializationError, "initialization error")                                      \
    ROW(cudaErrorCudartUnloading, "driver shutting down")                                          \
    ROW(cudaErrorInvalidConfiguration, "invalid configuration argument")                           \
    ROW(cudaErrorInvalidPitchValue, "invalid pitch argument")                                      \
    ROW(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy")                      \
    ROW(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime "       \
                                     "version")                                                    \
    ROW(cudaErrorDevicesUnavailable, "CUDA-capable device(s) is/are busy or unavailable")          \
    ROW(cudaErrorNoDevice, "no CUDA-capable device is detected")                                   \
    ROW(cudaErrorInvalidDevice, "invalid device ordinal")                                          \
    ROW(cudaErrorNoKernelImageForDevice, "no kernel image is available for execution on the "      \
                                         "device")                                                 \
    ROW(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered")                          \
    ROW(cudaErrorUnsupportedPtxVersion, "the provided PTX was compiled with an unsupported "       \
                                        "toolchain.")                                              \
    ROW(cudaErrorOperatingSystem, "OS call failed or operation not supported on this OS")          \
    ROW(cudaErrorInvalidResourceHandle, "invalid resource handle")                                 \
    ROW(cudaErrorIllegalState, "the operation cannot be performed in the present state")           \
    ROW(cudaErrorSymbolNotFound, "named symbol not found")                                         \
    ROW(cudaErrorNotReady, "device not ready")                                                     \
    ROW(cudaErrorIllegalAddress, "an illegal memory access was encountered")                       \
    ROW(cudaErrorLaunchOutOfResources, "too many resources requested for launch")                  \
    ROW(cudaErrorLaunchTimeout, "the launch timed out and was terminated")                         \
    ROW(cudaErrorContextIsDestroyed, "context is destroyed")                                       \
    ROW(cudaErrorAssert, "device-side assert triggered")                                           \
    ROW(cudaErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is "      \
                                              "already mapped")                                    \
    ROW(cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory "    \
                                          "region")                                                \
    ROW(cudaErrorHardwareStackError, "hardware stack error")                                       \
    ROW(cudaErrorIllegalInstruction, "an illegal instruction was encountered")                     \
    ROW(cudaErrorMisalignedAddress, "misaligned address")                                          \
    ROW(cudaErrorInvalidAddressSpace, "operation not supported on global/shared address space")    \
    ROW(cudaErrorInvalidPc, "invalid program counter")                                             \
    ROW(cudaErrorLaunchFailure, "unspecified launch failure")                                      \
    ROW(cudaErrorNotPermitted, "operation not permitted")                                          \
    ROW(cudaErrorNotSupported, "operation not supported")                                          \
    ROW(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing")     \
    ROW(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during "      \
                                           "capture")                                              \
    ROW(cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture "      \
                                     "sequences")                                                  \
    ROW(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began")   \
    ROW(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work")                      \
    ROW(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another "       \
                                         "stream")                                                 \
    ROW(cudaErrorStreamCaptureImplicit, "operation would make the legacy stream depend on a "      \
                                        "capturing blocking stream")                               \
    ROW(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a "          \
                                "capturing stream")                                                \
    ROW(cudaErrorStreamCaptureWrongThread, "attempt to terminate a thread-local capture "          \
                                           "sequence from another thread")                         \
    ROW(cudaErrorUnknown, "unknown error")

const struct {
    cudaError_t error;
    const char *name, *text;
} known[] = {
#define ROW(id, text) {id, #id, text},
    ERRORS(ROW)
#undef ROW
};

/* True for errors after which a card's context is unusable. */
bool is_lasting(cudaError_t e)
{
    return e == cudaErrorECCUncorrectable || e == cudaErrorIllegalAddress ||
           e == cudaErrorLaunchTimeout || e == cudaErrorAssert ||
           (e >= cudaErrorHardwareStackError && e <= cudaErrorLaunchFailure);
}

void inject(const char *function, long nth, cudaError_t error, bool lasts)
{
    injected p = {{}, nth, error, lasts};
    snprintf(p.function, sizeof p.function, "%s", function);
    injections.push_back(p);
}

/* Reads $WEIR_EMULATED_FAIL once: function:nth:error[,...]; nth+ for all calls from there on. */
void inject_from_env(void)
{
    static bool       done;
    const char *const asked = getenv("WEIR_EMULATED_FAIL");
    char              function[64];
    long              nth;
    int               error, n;

    if (done)
        return;
    done = true;
    const char *at = asked;
    while (at && sscanf(at, "%63[^:]:%ld%n", function, &nth, &n) == 2) {
        const bool lasts = at[n] == '+';
        at += n + lasts;
        if (sscanf(at, ":%d%n", &error, &n) != 1)
            return;
        inject(function, nth, (cudaError_t)error, lasts);
        at += n + (at[n] == ',');
    }
}

/* Counts the call; returns the injected error if it is due. every: "*" means this function too. */
cudaError_t count(emulate_point *p, bool every = true)
{
    if (p->calls++ == 0) {
        p->next = points;
        points = p;
    }
    for (size_t i = 0; i < injections.size(); i++) {
        if (strcmp(injections[i].function, p->name) != 0 &&
            !(every && strcmp(injections[i].function, "*") == 0))
            continue;
        if (--injections[i].nth > 0)
            continue;
        const cudaError_t e = injections[i].error;
        if (!injections[i].lasts)
            injections.erase(injections.begin() + (long)i);
        injected_hits++;
        return e;
    }
    return cudaSuccess;
}

emulate_point *point_of(const char *function)
{
    for (emulate_point *p = points; p; p = p->next)
        if (strcmp(p->name, function) == 0)
            return p;
    return new emulate_point{function, 0, NULL};
}

/* Replaces the injections into the function. */
void replace(const char *function, long nth, cudaError_t error, bool lasts)
{
    emulate_lock();
    for (size_t i = injections.size(); i-- > 0;)
        if (strcmp(injections[i].function, function) == 0)
            injections.erase(injections.begin() + (long)i);
    if (nth > 0)
        inject(function, nth, error, lasts);
    emulate_unlock();
}

}

void emulate_lock(void)
{
    pthread_mutex_lock(&lock);
}

void emulate_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

emulate_entry::emulate_entry(emulate_point *p, bool always)
{
    emulate_lock();
    inject_from_env();
    error = count(p);
    if (error != cudaSuccess && is_lasting(error))
        lost = error;
    else if (error == cudaSuccess && !always)
        error = emulate_in_host_function() ? cudaErrorNotPermitted : lost;
}

emulate_entry::~emulate_entry()
{
    emulate_unlock();
}

cudaError_t emulate_entry::say(cudaError_t e) const
{
    if (e != cudaSuccess)
        last = e;
    return e;
}

void emulate_lose(cudaError_t e)
{
    if (lost == cudaSuccess)
        lost = e;
}

cudaError_t emulate_lost(void)
{
    return lost;
}

size_t emulate_held(void)
{
    return (size_t)objects;
}

cudaError_t emulate_kernel_failure(void)
{
    static emulate_point point = {"kernel", 0, NULL};
    return count(&point);
}

extern "C" {

void emulate_fail(const char *function, long nth, cudaError_t error)
{
    replace(function, nth, error, false);
}

void emulate_fail_from(const char *function, long nth, cudaError_t error)
{
    replace(function, nth, error, true);
}

int emulate_call(const char *function)
{
    emulate_lock();
    inject_from_env();
    const int status = (int)count(point_of(function), false);
    emulate_unlock();
    return status;
}

void emulate_hold(int by)
{
    emulate_lock();
    objects += by;
    emulate_unlock();
}

long emulate_failed(void)
{
    return injected_hits;
}

long emulate_calls(const char *function)
{
    long n = 0;

    emulate_lock();
    for (const emulate_point *p = points; p; p = p->next)
        if (strcmp(p->name, function) == 0)
            n += p->calls;
    emulate_unlock();
    return n;
}

const char *emulate_function(int i)
{
    emulate_lock();
    const emulate_point *p = points;
    while (p && i-- > 0)
        p = p->next;
    emulate_unlock();
    return p ? p->name : NULL;
}

size_t emulate_queued(void)
{
    emulate_lock();
    const size_t n = emulate_unfinished();
    emulate_unlock();
    return n;
}

void emulate_recover(void)
{
    emulate_lock();
    injections.clear();
    injected_hits = 0;
    lost = last = cudaSuccess;
    emulate_unlock();
}

cudaError_t cudaGetLastError(void)
{
    const cudaError_t e = lost != cudaSuccess ? lost : last;
    last = cudaSuccess;
    return e;
}

cudaError_t cudaPeekAtLastError(void)
{
    return lost != cudaSuccess ? lost : last;
}

const char *cudaGetErrorName(cudaError_t e)
{
    for (const auto &k : known)
        if (k.error == e)
            return k.name;
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t e)
{
    for (const auto &k : known)
        if (k.error == e)
            return k.text;
    return "unrecognized error code";
}

}
