/* fiber.cpp - runs the blocks of a kernel; threads are fibers, see emulate.h.
 *
 * A fiber runs threads one after another. When a thread has to wait, the next runnable one
 * continues on its own stack, or begins in a new fiber: threads that meet no barrier switch no
 * stacks, and fibers are reused. `draw` determines the order: threads ascending or descending,
 * beginning with any of them, blocks forwards or backwards. A missing barrier gives a wrong result
 * in one of these orders. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#ifndef __x86_64__
#include <ucontext.h>
#endif

#include <vector>

#include "emulate.h"
#include "fiber.h"

emulate_place emulate_at;

#ifdef __x86_64__
/* Saves the callee-saved registers, switches stacks, and continues where the other one was
 * saved. */
extern "C" void emulate_switch(void **save, void *to);
__asm__(".text\n"
        ".p2align 4\n"
        ".type emulate_switch, @function\n"
        "emulate_switch:\n"
        "    endbr64\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size emulate_switch, .-emulate_switch\n");
#endif

namespace {

enum { STACK_BYTES = 256 << 10, SPREAD_BYTES = 64 << 10 };
enum { MAX_THREADS = 1024, WARP = 32, MAX_WARPS = MAX_THREADS / WARP };
enum state : unsigned char { NEW, READY, AT_BLOCK, AT_WARP, DONE };

struct warp {
    unsigned alive, waiting;        /* masks of lanes */
    unsigned mask[WARP];            /* the lanes that each waiting lane waits for */
    char     given[WARP][8], taken[WARP][8];
};

state               is[MAX_THREADS];
void               *stopped[MAX_THREADS];       /* saved stacks of waiting threads */
warp                warps[MAX_WARPS];
int                 running, count, alive, at_barrier, step_by;
unsigned            predicates, holding;        /* of __syncthreads_count and similar */
void               *outer;
std::vector<void *> idle;                       /* fibers without a thread */
const void         *arguments;
void (*body)(const void *);

void next_thread(bool ended);

/* A fiber's main loop: runs the thread that it was entered for, then further ones. */
void work(void)
{
    for (;;) {
        body(arguments);
        next_thread(true);
    }
}

#ifdef __x86_64__
void *fiber_new(void)
{
    char *const stack = (char *)mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED || mprotect(stack, 4096, PROT_NONE) != 0)
        abort();
    /* Stacks whose tops have equal page offsets would share one set of the cache. */
    static size_t made;
    char *const   begin = stack + STACK_BYTES - made++ * 320 % SPREAD_BYTES;
    void **const  top = (void **)begin - 1;     /* 8 below a multiple of 16, as after a call */
    top[-1] = (void *)work;
    memset(top - 7, 0, 6 * sizeof *top);
    return top - 7;
}

void change(void **save, void *to)
{
    emulate_switch(save, to);
}
#else
void *fiber_new(void)
{
    ucontext_t *const c = (ucontext_t *)calloc(1, sizeof *c);
    if (!c || getcontext(c) != 0 || !(c->uc_stack.ss_sp = malloc(STACK_BYTES)))
        abort();
    c->uc_stack.ss_size = STACK_BYTES;
    makecontext(c, work, 0);
    return c;
}

void change(void **save, void *to)
{
    ucontext_t here;
    *save = &here;
    swapcontext(&here, (ucontext_t *)to);
}
#endif

void become(int t)
{
    running = t;
    const unsigned x = emulate_at.threads.x, y = emulate_at.threads.y, n = (unsigned)t;
    emulate_at.thread = y == 1 && emulate_at.threads.z == 1 ? uint3{n, 0, 0}
                                                            : uint3{n % x, n / x % y, n / x / y};
}

void report(void)
{
    fprintf(stderr, "emulated kernel: %d of %d threads of block %u wait at barriers that the "
            "others never reach\n", alive, count, emulate_at.block.x);
    abort();
}

/* Releases the threads at the block's barrier if all threads alive have arrived. */
void release_block(void)
{
    if (at_barrier < alive || alive == 0)
        return;
    for (int t = 0; t < count; t++)
        is[t] = is[t] == AT_BLOCK ? READY : is[t];
    at_barrier = 0;
    holding = predicates;
    predicates = 0;
}
/* The same for the lanes of the mask, which may then read what they have provided. */
/* The same for the lanes that the mask names; what they gave is then theirs to take. */
void release_warp(int w, unsigned mask)
{
    warp *const    p = &warps[w];
    const unsigned wanted = mask & p->alive;

    if ((p->waiting & wanted) != wanted || wanted == 0)
        return;
    for (int lane = 0; lane < WARP; lane++) {
        if (mask >> lane & 1)
            memset(p->taken[lane], 0, sizeof p->taken[lane]);
        if (!(wanted >> lane & 1))
            continue;
        if (p->mask[lane] != mask) {
            fprintf(stderr, "emulated kernel: lanes %#x wait, one of them for %#x\n", mask,
                    p->mask[lane]);
            abort();
        }
        memcpy(p->taken[lane], p->given[lane], sizeof p->taken[lane]);
        is[w * WARP + lane] = READY;
    }
    p->waiting &= ~wanted;
}

int follower(int t)
{
    t += step_by;
    return t == count ? 0 : t < 0 ? count - 1 : t;
}

/* Continues with the next runnable thread. Returns in the thread that called it or, in a fiber
 * whose thread has ended, to begin a new one. */
void next_thread(bool ended)
{
    const int self = running;

    if (ended) {
        is[self] = DONE;
        alive--;
        warp *const p = &warps[self / WARP];
        p->alive &= ~(1u << self % WARP);
        release_block();
        for (unsigned w = p->waiting; w; w = p->waiting & (w - 1) & w)
            release_warp(self / WARP, p->mask[__builtin_ctz(w)]);
    }
    if (!ended && is[self] == READY)
        return;                         /* the last to arrive */
    void  *here;
    void **save = ended ? &here : &stopped[self];
    int    t = follower(self);
    while (is[t] != NEW && is[t] != READY && t != self)
        t = follower(t);
    if (t == self && is[t] != READY) {
        if (alive > 0)
            report();
        idle.push_back(NULL);
        change(&idle.back(), outer);    /* comes back for a thread of another block */
        return;
    }
    const bool fresh = is[t] == NEW;
    void      *to = fresh ? NULL : stopped[t];
    is[t] = READY;
    become(t);
    if (fresh && ended)
        return;
    if (fresh) {
        if (idle.empty())
            idle.push_back(fiber_new());
        to = idle.back();
        idle.pop_back();
    } else if (ended) {
        idle.push_back(NULL);
        save = &idle.back();
    }
    change(save, to);
}

void run_block(int first)
{
    memset(is, NEW, sizeof is[0] * (size_t)count);
    alive = count;
    at_barrier = 0;
    predicates = 0;
    for (int w = 0; w * WARP < count; w++) {
        const int lanes = count - w * WARP < WARP ? count - w * WARP : WARP;
        warps[w].alive = lanes == WARP ? ~0u : (1u << lanes) - 1;
        warps[w].waiting = 0;
    }
    if (idle.empty())
        idle.push_back(fiber_new());
    void *const to = idle.back();
    idle.pop_back();
    is[first] = READY;
    become(first);
    change(&outer, to);
}

}

void emulate_run_kernel(uint3 grid, uint3 block, void (*thread)(const void *), const void *given,
                        uint64_t draw)
{
    const uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;

    emulate_at.blocks = dim3(grid);
    emulate_at.threads = dim3(block);
    count = (int)(block.x * block.y * block.z);
    body = thread;
    arguments = given;
    step_by = draw & 1 ? -1 : 1;
    const bool backwards = draw & 2;
    const int  first = draw & 4 ? (int)(draw >> 3) % count : step_by > 0 ? 0 : count - 1;
    for (uint64_t i = 0; i < blocks; i++) {
        const uint64_t b = backwards ? blocks - 1 - i : i;
        emulate_at.block = uint3{(unsigned)(b % grid.x), (unsigned)(b / grid.x % grid.y),
                                 (unsigned)(b / grid.x / grid.y)};
        run_block(first);
    }
}

unsigned emulate_block_barrier(unsigned predicate)
{
    predicates += predicate;
    is[running] = AT_BLOCK;
    at_barrier++;
    release_block();
    next_thread(false);
    return holding;
}

void emulate_warp_barrier(unsigned mask)
{
    const int   lane = running % WARP, w = running / WARP;
    warp *const p = &warps[w];

    if (!(mask >> lane & 1)) {
        fprintf(stderr, "emulated kernel: lane %d is not in its own mask %#x\n", lane, mask);
        abort();
    }
    is[running] = AT_WARP;
    p->waiting |= 1u << lane;
    p->mask[lane] = mask;
    release_warp(w, mask);
    next_thread(false);
}

int emulate_lane(void)
{
    return running % WARP;
}

char *emulate_warp_given(void)
{
    return warps[running / WARP].given[running % WARP];
}

const char *emulate_warp_taken(int lane)
{
    return warps[running / WARP].taken[lane];
}
