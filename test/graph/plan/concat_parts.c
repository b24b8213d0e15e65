/* concat_parts.c - inputs of concatenations that are computed where these put them: which are, that
 * no plan grows, and that no bit changes. */
#include "core/hash.h"
#include "graph/fixture.h"

enum { ROWS = 8, WIDTH = 32, PART = ROWS * WIDTH * 4, MANY_PAIRS = 400 };

typedef weir_tensor *(*body_fn)(weir_tensor *x);

typedef struct outcome {
    uint64_t bits;
    size_t   arena;
    int      parts;             /* inputs of concatenations that lie in the result */
} outcome;

static int parts_of(const weir_graph *g)
{
    int n = 0;

    for (uint32_t i = 0; i < g->plan->n; i++) {
        const weir_instr *const ins = &g->plan->instr[i];
        for (int k = 0; k < ins->call.nin && ins->call.op == WEIR_OP_CONCAT; k++)
            n += !ins->in[k].external && !ins->out[0].external &&
                 g->plan->item_of[ins->in[k].storage] == g->plan->item_of[ins->out[0].storage];
    }
    return n;
}

static uint64_t bits_of(const weir_tensor *t)
{
    const size_t bytes = weir_tensor_bytes(t);
    void *const  at = weir_mem_alloc(bytes);

    CHECK_OK(weir_read(t, at, bytes));
    const uint64_t bits = weir_hash_bytes(WEIR_HASH_SEED, at, bytes);
    weir_mem_free(at);
    return bits;
}

static outcome run(body_fn body, const weir_plan_options *o)
{
    weir_device *const d = fixture_open_unguarded();
    weir_tensor *const x = weir_input(d, weir_2d(WEIR_F32, ROWS, WIDTH));
    outcome            got = {0};

    d->seed = 3;
    CHECK_OK(weir_write_uniform(x, -1, 1));
    weir_graph *const  g = weir_graph_begin(d);
    weir_tensor *const y = weir_keep(body(x));
    if (fixture_finish(g, o))
        got = (outcome){bits_of(y), g->plan->arena, parts_of(g)};
    weir_graph_free(g);
    weir_release(x);
    weir_device_close(d);
    return got;
}

/* The numbers of parts with and without; the same bits in no more memory. Returns what is saved. */
static size_t compare(body_fn body, int parts)
{
    const outcome with = run(body, OPTIONS_WITHOUT("fuse,cse"));
    const outcome without = run(body, OPTIONS_WITHOUT("fuse,cse,concat_parts"));

    CHECK(with.bits == without.bits);
    CHECK(with.arena <= without.arena && without.parts == 0);
    if (check_on_cpu() && !CHECK(with.parts == parts))
        printf("    %d parts\n", with.parts);
    return without.arena - with.arena;
}

static weir_tensor *rows_of_two(weir_tensor *x)
{
    weir_tensor *const both[] = {weir_exp(x), weir_tanh(x)};

    return weir_matmul_t(weir_concat(2, both, 0), x, false, true);
}

CASE(both_inputs_are_parts)
{
    const size_t saved = compare(rows_of_two, 2);

    CHECK(saved >= PART || !check_on_cpu());
}

/* A bucket of a bucket, of reshaped values that were computed in place. */
static weir_tensor *nested(weir_tensor *x)
{
    weir_tensor *const a[] = {weir_relu(weir_exp(x)), weir_reshape(weir_tanh(x), 2,
                              (int64_t[]){ROWS / 2, WIDTH * 2})};
    weir_tensor *const inner[] = {weir_reshape(a[0], 1, (int64_t[]){-1}),
                                  weir_reshape(a[1], 1, (int64_t[]){-1})};
    weir_tensor *const outer[] = {weir_concat(2, inner, 0),
                                  weir_reshape(weir_sqrt(weir_abs(x)), 1, (int64_t[]){-1})};

    return weir_sum(weir_affine(weir_concat(2, outer, 0), 0.5, 1), 0, false);
}

CASE(parts_of_parts)
{
    compare(nested, 4);
}

/* More than 1,500 items: one strategy alone places the plan with parts. */
static weir_tensor *pair_after_pair(weir_tensor *x)
{
    for (int i = 0; i < MANY_PAIRS; i++) {
        weir_tensor *const two[] = {weir_exp(x), weir_tanh(x)};
        weir_tensor *const pair = weir_concat(2, two, 0);
        x = weir_affine(weir_sum(weir_reshape(pair, 3, (int64_t[]){2, ROWS, WIDTH}), 1, false),
                        0.1, 0);
    }
    return x;
}

CASE(parts_among_many_items)
{
    compare(pair_after_pair, 2 * MANY_PAIRS);
}

/* Read again later; a view; the same twice, whose second copy is read from the first; not at a
 * multiple of the alignment; columns. */
static weir_tensor *read_again(weir_tensor *x)
{
    weir_tensor *const a = weir_exp(x), *const two[] = {a, weir_tanh(x)};

    return weir_add(weir_sum(weir_concat(2, two, 0), 1, true), a);
}

static weir_tensor *transposed(weir_tensor *x)
{
    weir_tensor *const a = weir_transpose(weir_exp(x), NULL);
    weir_tensor *const two[] = {a, a, weir_tanh(weir_transpose(x, NULL))};

    return weir_sum(weir_concat(3, two, 0), 0, false);
}

static weir_tensor *twice(weir_tensor *x)
{
    weir_tensor *const a = weir_exp(x), *const two[] = {a, a};

    return weir_sum(weir_concat(2, two, 0), 0, false);
}

static weir_tensor *odd_rows(weir_tensor *x)
{
    weir_tensor *const a = weir_sum(x, 2, false);       /* 32 bytes */
    weir_tensor *const b = weir_reshape(weir_exp(x), 1, (int64_t[]){-1});
    weir_tensor *const two[] = {a, b};

    return weir_sum(weir_concat(2, two, 0), 0, false);
}

static weir_tensor *columns(weir_tensor *x)
{
    weir_tensor *const two[] = {weir_exp(x), weir_tanh(x)};

    return weir_sum(weir_concat(2, two, 1), 0, false);
}

CASE(what_is_no_part_is_copied)
{
    compare(read_again, 1);
    compare(transposed, 1);
    compare(twice, 2);
    compare(odd_rows, 1);
    compare(columns, 0);
}

/* The first part is computed long before the second: the result would have to wait beside the
 * products in between. */
static weir_tensor *far_apart(weir_tensor *x)
{
    weir_tensor *const early = weir_sum(weir_exp(x), 1, true);
    weir_tensor       *wide = weir_matmul_t(x, x, true, false), *late = NULL;

    for (int i = 0; i < 3; i++)
        wide = weir_matmul(wide, wide);
    late = weir_matmul(early, wide);
    return weir_sum(weir_concat(2, (weir_tensor *[]){early, late}, 0), 0, false);
}

CASE(no_plan_grows)
{
    const outcome with = run(far_apart, NULL);
    const outcome without = run(far_apart, OPTIONS_WITHOUT("concat_parts"));

    CHECK(with.bits == without.bits && with.arena <= without.arena);
}

/* ---- random programs ---- */

enum { CALLS = 16, PROGRAMS = 60 };

static weir_tensor *random_body(weir_tensor *x)
{
    weir_tensor *pool[CALLS + 1] = {x};

    for (int i = 0; i < CALLS; i++) {
        weir_tensor *const a = pool[i], *const b = pool[check_int(0, i)];
        weir_tensor *const rows = weir_concat(2, (weir_tensor *[]){weir_tanh(a), weir_exp(b)}, 0);
        switch (check_int(0, 5)) {
        case 0: pool[i + 1] = weir_sin(a); break;
        case 1: pool[i + 1] = weir_narrow(rows, 0, check_int(0, ROWS), ROWS); break;
        case 2: pool[i + 1] = weir_narrow(weir_affine(rows, 0.5, 0), 0, 3, ROWS); break;
        case 3: pool[i + 1] = weir_add(weir_narrow(rows, 0, 0, ROWS), weir_tanh(a)); break;
        case 4:
            pool[i + 1] = weir_narrow(weir_concat(2, (weir_tensor *[]){rows, weir_abs(a)}, 0), 0,
                                      ROWS, ROWS);
            break;
        default: pool[i + 1] = weir_mul(a, b); break;
        }
    }
    return pool[CALLS];
}

CASE(random_programs)
{
    int parts = 0;

    for (uint64_t seed = 1; seed <= PROGRAMS; seed++) {
        check_random = seed;
        const outcome with = run(random_body, NULL);
        check_random = seed;
        const outcome without = run(random_body, OPTIONS_WITHOUT("concat_parts"));
        if (!CHECK(with.bits == without.bits && with.arena <= without.arena))
            printf("    program %d\n", (int)seed);
        parts += with.parts;
    }
    if (!CHECK(parts > PROGRAMS / 4 || !check_on_cpu()))
        printf("    %d parts\n", parts);
}

CASE(within_a_budget)
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        check_random = seed;
        const outcome without = run(random_body, OPTIONS_WITHOUT("concat_parts"));
        check_random = seed;
        const outcome with = run(random_body, &(weir_plan_options){.budget = "95%"});
        CHECK(with.bits == without.bits && with.arena <= without.arena);
    }
}
