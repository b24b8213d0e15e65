/* fiber.cpp - runs the blocks of a launch: one fiber per thread, see emulate.h.
 *
 * A fiber is entered once by swapcontext, which saves signal masks by system calls; from then on it
 * changes by _setjmp and _longjmp, which do not. Threads that meet no barrier use one stack in
 * turn. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <vector>

#include "emulate.h"
#include "fiber.h"

emulate_place emulate_at;

namespace {

enum { STACK_BYTES = 256 << 10, MAX_THREADS = 1024 };
enum state { NEW, READY, AT_BLOCK, AT_WARP, DONE };

struct fiber {
    state      is;
    uint3      thread;
    ucontext_t begin;
    jmp_buf    at;
    char      *stack;
};

fiber                        fibers[MAX_THREADS];
int                          running, count;
ucontext_t                   outer_begin;
jmp_buf                      outer;
std::vector<char *>          stacks;
const std::function<void()> *body;
char                         slots[MAX_THREADS][8];

void enter(void)
{
    (*body)();
    fibers[running].is = DONE;
    _longjmp(outer, 1);
}

/* Runs the fiber until it waits or ends. */
void resume(int t)
{
    fiber *const f = &fibers[t];

    running = t;
    emulate_at.thread = f->thread;
    if (_setjmp(outer))
        return;
    if (f->is == READY)
        _longjmp(f->at, 1);
    if (stacks.empty())
        stacks.push_back((char *)mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    f->stack = stacks.back();
    stacks.pop_back();
    getcontext(&f->begin);
    f->begin.uc_stack.ss_sp = f->stack;
    f->begin.uc_stack.ss_size = STACK_BYTES;
    f->begin.uc_link = NULL;
    makecontext(&f->begin, enter, 0);
    f->is = READY;
    swapcontext(&outer_begin, &f->begin);
}

void wait(state where)
{
    fiber *const f = &fibers[running];

    f->is = where;
    if (!_setjmp(f->at))
        _longjmp(outer, 1);
}

/* Lets those from `first` to `last` go on if all of them that have not ended wait there. */
bool release(int first, int last, state where)
{
    bool any = false;

    for (int t = first; t < last; t++) {
        if (fibers[t].is != where && fibers[t].is != DONE)
            return false;
        any = any || fibers[t].is == where;
    }
    for (int t = first; t < last; t++)
        if (fibers[t].is == where)
            fibers[t].is = READY;
    return any;
}

void run_block(void)
{
    for (;;) {
        int left = 0;
        for (int t = 0; t < count; t++) {
            if (fibers[t].is == NEW || fibers[t].is == READY) {
                resume(t);
                if (fibers[t].is == DONE)
                    stacks.push_back(fibers[t].stack);
            }
            left += fibers[t].is != DONE;
        }
        if (left == 0)
            return;
        bool any = release(0, count, AT_BLOCK);
        for (int t = 0; t < count; t += 32)
            any = release(t, t + 32 < count ? t + 32 : count, AT_WARP) || any;
        if (!any) {
            fprintf(stderr, "emulated kernel: %d threads of block %u wait at barriers that the "
                    "others never reach\n", left, emulate_at.block.x);
            abort();
        }
    }
}

}

void emulate_run(dim3 grid, dim3 block, const std::function<void()> &thread)
{
    emulate_at.blocks = grid;
    emulate_at.threads = block;
    count = (int)(block.x * block.y * block.z);
    if (count > MAX_THREADS || count == 0) {
        fprintf(stderr, "emulated kernel: a block of %d threads\n", count);
        abort();
    }
    body = &thread;
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                emulate_at.block = uint3{x, y, z};
                for (unsigned t = 0; t < (unsigned)count; t++) {
                    fibers[t].is = NEW;
                    fibers[t].thread =
                        uint3{t % block.x, t / block.x % block.y, t / block.x / block.y};
                }
                run_block();
            }
}

void emulate_block_barrier(void)
{
    wait(AT_BLOCK);
}

void emulate_warp_barrier(void)
{
    wait(AT_WARP);
}

int emulate_lane(void)
{
    return running % 32;
}

char *emulate_warp_slot(int lane)
{
    return slots[running / 32 * 32 + lane];
}
