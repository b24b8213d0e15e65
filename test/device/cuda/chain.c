/* chain.c - tests of fused programs on the emulated card against the CPU's, bit for bit: chains of
 * random rows, and the chains that graphs make. */
#include "device/cuda/rows.h"
#include "weir.h"

static const int64_t dim[] = {9, 5, 32};

/* A random row that computes floats. */
static const rows_row *draw_row(int rows)
{
    const rows_row *r;

    do
        r = &rows_table[check_u64() % (uint64_t)rows];
    while (!rows_takes(r, WEIR_F32));
    return r;
}

/* Draws a program of random rows over inputs of all kinds; a step may read all earlier ones. */
static void draw_program(weir_ew_program *p, int nin, int nstep, int nout)
{
    int rows = 0;

    while (rows_table[rows].name)
        rows++;
    *p = (weir_ew_program){.nin = nin, .nstep = nstep, .nout = nout};
    for (int j = 0; j < nstep; j++) {
        const rows_row *const r = draw_row(rows);
        p->step[j] = (weir_ew_step){.op = r->op, .s = 0.25, .t = 1.5 + j, .rng = (uint64_t)j * 500};
        for (int i = 0; i < r->nin; i++)
            p->step[j].src[i] = (int64_t)(check_u64() % (uint64_t)(nin + j));
    }
    for (int o = 0; o < nout; o++)
        p->out[o] = nstep - nout + o;
}

/* mixed: some operands are halves while the steps are f32; the first input and output agree. */
static void check_program(weir_device *cpu, weir_device *card, weir_dtype t, int nin, int nstep,
                          int nout, bool mixed)
{
    static const weir_dtype stored[] = {WEIR_BF16, WEIR_F32, WEIR_F16};
    static const int64_t stride[][3] = {{160, 32, 1}, {0, 0, 1}, {0, 0, 0}, {5, 1, 0},
                                        {640, 64, 1}, {1, 9, 45}};
    weir_ew_program      p;
    rows_call            c = {.call = {.op = WEIR_OP_FUSED, .nin = nin, .nout = nout, .attr = &p,
                                       .attr_bytes = sizeof p, .alias = -1}};

    draw_program(&p, nin, nstep, nout);
    p.type = t;
    for (int i = 0; i < nin; i++)
        c.in[i] = rows_strided(mixed ? stored[(i + nstep) % 3] : t, 3, dim, stride[i % 6]);
    for (int o = 0; o < nout; o++)
        c.out[o] = rows_dense(mixed ? stored[(o + nstep) % 3] : t, 3, dim);
    rows_compare(cpu, card, &c, "chain");
    c.in_place = true;      /* input 0 is dense */
    rows_compare(cpu, card, &c, "chain in place");
}

CASE(chains_are_the_cpu_s)
{
    static const weir_dtype types[] = {WEIR_F32, WEIR_F64, WEIR_F16, WEIR_BF16};
    weir_device            *cpu, *card;

    CHECK_OR_RETURN(rows_open(&cpu, &card));
    for (int i = 0; i < 12; i++)
        check_program(cpu, card, types[i % 4], 1 + i, 2 + 2 * i, 1 + i % 4, false);
    check_program(cpu, card, WEIR_F32, WEIR_EW_MAX_IN, WEIR_EW_MAX_STEPS, WEIR_EW_MAX_OUT, false);
    weir_device_close(cpu);
    weir_device_close(card);
}

CASE(chains_between_halves_are_the_cpu_s)
{
    weir_device *cpu, *card;

    CHECK_OR_RETURN(rows_open(&cpu, &card));
    for (int i = 0; i < 9; i++)
        check_program(cpu, card, WEIR_F32, 1 + i, 2 + 2 * i, 1 + i % 2, true);
    check_program(cpu, card, WEIR_F32, WEIR_EW_MAX_IN, WEIR_EW_MAX_STEPS, WEIR_EW_MAX_OUT, true);
    weir_device_close(cpu);
    weir_device_close(card);
}

/* ---- through a graph ---- */

enum { ROWS = 33, COLUMNS = 20 };

/* Three steps of: y = dropout(gelu(x * scale + bias) + noise) */
static void run_graph(const char *name, float *y, char **text)
{
    weir_device *const d = weir_device_open(name, &(weir_device_options){.seed = 5});
    float              x[ROWS * COLUMNS], scale[COLUMNS], bias[COLUMNS];

    CHECK_OR_RETURN(d);
    check_floats(x, ROWS * COLUMNS, -2, 2);
    check_floats(scale, COLUMNS, 0, 2);
    check_floats(bias, COLUMNS, -1, 1);
    weir_tensor *const tx = weir_input(d, weir_2d(WEIR_F32, ROWS, COLUMNS));
    weir_tensor *const ts = weir_input(d, weir_1d(WEIR_F32, COLUMNS));
    weir_tensor *const tb = weir_input(d, weir_1d(WEIR_F32, COLUMNS));
    CHECK_OK(weir_write(tx, x, sizeof x));
    CHECK_OK(weir_write(ts, scale, sizeof scale));
    CHECK_OK(weir_write(tb, bias, sizeof bias));
    weir_graph *const  g = weir_graph_begin(d);
    weir_tensor *const noise = weir_normal(d, weir_2d(WEIR_F32, ROWS, COLUMNS), 0, 1);
    weir_tensor *const ty =
        weir_keep(weir_dropout(weir_add(weir_gelu(weir_add(weir_mul(tx, ts), tb)), noise), 0.5));
    CHECK_OK(weir_graph_end(g, NULL));
    for (int step = 0; step < 3; step++) {
        CHECK_OK(weir_graph_run(g));
        CHECK_OK(weir_read(ty, y + (size_t)step * ROWS * COLUMNS, sizeof x));
    }
    *text = weir_graph_text(g, WEIR_TEXT_PLAN);
    weir_graph_free(g);
    weir_release(tx);
    weir_release(ts);
    weir_release(tb);
    weir_device_close(d);
}

CASE(graphs_fuse_and_draw_as_on_the_cpu)
{
    float cpu[3 * ROWS * COLUMNS], card[3 * ROWS * COLUMNS];
    char *text = NULL;

    setenv("WEIR_PLUGINS", WEIR_TEST_PLUGINS, 1);
    const uint64_t seed = check_random;
    run_graph("cpu", cpu, &text);
    weir_text_free(text);
    check_random = seed;
    text = NULL;
    run_graph("cuda", card, &text);
    CHECK_TEXT(text, "normal+mul+add+gelu+add+dropout");
    weir_text_free(text);
    CHECK_BITS(cpu, card, sizeof cpu);
}
