/* onnx_control.c - subgraphs: branches, loops and scans; what depends on data is refused; loops
 * inside loops end. */
#include "model/onnx/onnx_bytes.h"

static void small(pb *g, const char *op, const char *in, const char *out)
{
    net_node(g, op, in, out, NULL);
}

/* Applies a model to x (3) = {1, 2, 3}; returns the number of elements of the output. */
static size_t values(const pb *m, weir_device *d, float *y, size_t room, const char *says)
{
    const float      v[] = {1, 2, 3};
    weir_tensor     *x = weir_input(d, weir_1d(WEIR_F32, 3)), *out = NULL;
    weir_onnx *const net = weir_onnx_open_bytes(d, m->at, m->n, NULL);
    size_t           bytes = 0;

    CHECK_OK(weir_write(x, v, sizeof v));
    if (check_that(net != NULL, __FILE__, __LINE__, "refused: %s", weir_error())) {
        CHECK_OK(weir_scope_begin(d));
        const weir_status s = weir_onnx_apply(net, 1, &x, 1, &out);
        bytes = s == WEIR_OK ? weir_tensor_bytes(out) : 0;
        if (says) {
            CHECK(s != WEIR_OK);
            CHECK_TEXT(weir_error(), says);
        } else if (check_that(s == WEIR_OK, __FILE__, __LINE__, "%s", weir_error()) &&
                   CHECK(bytes <= room * sizeof *y)) {
            CHECK_OK(weir_read(out, y, bytes));
        }
        CHECK_OK(weir_scope_end(d));
    }
    weir_onnx_free(net);
    weir_release(x);
    return bytes / sizeof *y;
}

static weir_device *device(void)
{
    return weir_device_open(check_device(), &(weir_device_options){.threads = 1});
}

/* Branches read x of the graph around them. */
static void branches(pb *m, const char *condition)
{
    const uint8_t yes = 1, no = 0;
    pb            g = {0}, a = {0}, then = {0}, otherwise = {0};

    net_input(&g, "x", PB_F32, 1, (int64_t[]){3});
    net_init(&g, "yes", 9, 0, NULL, &yes, 1);
    net_init(&g, "no", 9, 0, NULL, &no, 1);
    net_node(&g, "ReduceMax", "x", "most", NULL);
    net_node(&g, "IsNaN", "most", "data", NULL);
    small(&then, "Add", "x,x", "twice");
    net_output(&then, "twice");
    net_weights(&otherwise, "w", 1, (int64_t[]){3}, 0);
    small(&otherwise, "Sub", "x,w", "less");
    net_output(&otherwise, "less");
    attr_graph(&a, "then_branch", &then);
    attr_graph(&a, "else_branch", &otherwise);
    net_node(&g, "If", condition, "y", &a);
    net_output(&g, "y");
    net_model(m, &g, 19);
}

CASE(a_known_condition_takes_one_branch)
{
    static pb    m;
    float        y[3];
    weir_device *d = device();

    branches(&m, "yes");
    CHECK(values(&m, d, y, 3, NULL) == 3 && y[0] == 2 && y[2] == 6);
    branches(&m, "no");
    CHECK(values(&m, d, y, 3, NULL) == 3);
    CHECK_NEAR(y[0], 1.5, 1e-6);        /* the weight of the branch is -0.5 */
    branches(&m, "data");
    values(&m, d, y, 3, "must be one number that is known");
    weir_device_close(d);
}

CASE(a_loop_is_its_turns)
{
    static pb    m;
    float        y[12];
    weir_device *d = device();

    net_loop(&m, 4, "last");
    CHECK(values(&m, d, y, 12, NULL) == 3 && y[0] == 16 && y[2] == 48);
    net_loop(&m, 4, "all");
    CHECK(values(&m, d, y, 12, NULL) == 12 && y[0] == 2 && y[3] == 4 && y[11] == 48);
    net_loop(&m, 0, "last");
    CHECK(values(&m, d, y, 12, NULL) == 3 && y[1] == 2);
    net_loop(&m, -7, "last");
    CHECK(values(&m, d, y, 12, NULL) == 3 && y[1] == 2);
    net_loop(&m, 0, "all");
    values(&m, d, y, 12, "no turn");
    net_loop(&m, INT64_MAX, "last");
    values(&m, d, y, 12, "up to 20000 are recorded");
    weir_device_close(d);
}

/* Running sums, forwards or backwards. */
static void sums(pb *m, bool back)
{
    const float zero = 0;
    pb          g = {0}, a = {0}, body = {0};

    net_input(&g, "x", PB_F32, 1, (int64_t[]){3});
    net_init(&g, "start", PB_F32, 0, NULL, &zero, sizeof zero);
    for (int i = 0; i < 2; i++) {
        pb port = {0};
        pb_text(&port, 1, i ? "row" : "sum");
        pb_message(&body, 11, &port);
    }
    small(&body, "Add", "sum,row", "sum2");
    small(&body, "Identity", "sum2", "each");
    net_output(&body, "sum2");
    net_output(&body, "each");
    attr_graph(&a, "body", &body);
    attr_int(&a, "num_scan_inputs", 1);
    if (back) {
        attr_ints(&a, "scan_input_directions", 1, (int64_t[]){1}, true);
        attr_ints(&a, "scan_output_directions", 1, (int64_t[]){1}, true);
    }
    net_node(&g, "Scan", "start,x", "total,y", &a);
    net_output(&g, "y");
    net_model(m, &g, 19);
}

CASE(a_scan_goes_over_rows)
{
    static pb    m;
    float        y[3];
    weir_device *d = device();

    sums(&m, false);
    CHECK(values(&m, d, y, 3, NULL) == 3 && y[0] == 1 && y[1] == 3 && y[2] == 6);
    sums(&m, true);
    CHECK(values(&m, d, y, 3, NULL) == 3 && y[0] == 6 && y[1] == 5 && y[2] == 3);
    weir_device_close(d);
}

/* 1,000 turns of 1,000 turns: refused after the most that one call may record. */
CASE(loops_inside_loops_end)
{
    static pb     m;
    const uint8_t yes = 1;
    const int64_t turns = 1000;
    float         y[3];
    pb            g = {0}, a = {0}, outer = {0}, b = {0}, inner = {0};
    weir_device  *d = device();

    net_input(&g, "x", PB_F32, 1, (int64_t[]){3});
    net_init(&g, "count", PB_I64, 0, NULL, &turns, sizeof turns);
    net_init(&g, "yes", 9, 0, NULL, &yes, 1);
    static const char *const names[] = {"i1", "on1", "h1", "i3", "on3"};
    for (int i = 0; i < 5; i++) {
        pb port = {0};
        pb_text(&port, 1, names[i]);
        pb_message(i < 3 ? &outer : &inner, 11, &port);
    }
    small(&inner, "Identity", "on3", "on4");
    net_output(&inner, "on4");
    attr_graph(&b, "body", &inner);
    net_node(&outer, "Loop", "count,yes", "", &b);
    small(&outer, "Identity", "on1", "on2");
    small(&outer, "Identity", "h1", "h2");
    net_output(&outer, "on2");
    net_output(&outer, "h2");
    attr_graph(&a, "body", &outer);
    net_node(&g, "Loop", "count,yes,x", "y", &a);
    net_output(&g, "y");
    net_model(&m, &g, 19);
    values(&m, d, y, 3, "more than 20000 turns of all subgraphs");
    weir_device_close(d);
}

/* y = part `at` of x (3) in parts of 2; or the sequence itself. */
static void parts(pb *m, int64_t at, const char *out)
{
    const int64_t each = 2;
    pb            g = {0};

    net_input(&g, "x", PB_F32, 1, (int64_t[]){3});
    net_init(&g, "each", PB_I64, 0, NULL, &each, sizeof each);
    net_init(&g, "at", PB_I64, 0, NULL, &at, sizeof at);
    net_node(&g, "SplitToSequence", "x,each", "s", NULL);
    net_node(&g, "SequenceAt", "s,at", "y", NULL);
    net_output(&g, out);
    net_model(m, &g, 19);
}

CASE(parts_of_a_sequence)
{
    static pb    m;
    float        y[3];
    weir_device *d = device();

    parts(&m, 0, "y");
    CHECK(values(&m, d, y, 3, NULL) == 2 && y[0] == 1 && y[1] == 2);
    parts(&m, -1, "y");
    CHECK(values(&m, d, y, 3, NULL) == 1 && y[0] == 3);
    parts(&m, 2, "y");
    values(&m, d, y, 3, "part 2 of 2");
    parts(&m, 0, "s");
    values(&m, d, y, 3, "a sequence that is not taken apart");
    weir_device_close(d);
}

/* Nodes of every operator without inputs or outputs, and with inputs that are left out. */
CASE(nodes_without_inputs_or_outputs)
{
    static pb                m;
    static const char *const in[] = {"", "x,,,,,,", ",,,,,,"}, *const out[] = {"", "y", ",y"};
    weir_device             *d = device();
    int                      refused = 0;

    for (size_t i = 0; weir_onnx_operator(i); i++)
        for (int k = 0; k < 9; k++) {
            pb g = {0};
            net_input(&g, "x", PB_F32, 1, (int64_t[]){3});
            net_node(&g, weir_onnx_operator(i), in[k % 3], out[k / 3], NULL);
            net_node(&g, "Identity", "x", "z", NULL);
            net_output(&g, k / 3 ? "y" : "z");
            net_model(&m, &g, 23);
            weir_onnx *net = weir_onnx_open_bytes(d, m.at, m.n, NULL);
            weir_tensor *x = weir_input(d, weir_1d(WEIR_F32, 3)), *got[1];
            CHECK_OK(weir_write_fill(x, 1));
            CHECK_OK(weir_scope_begin(d));
            refused += !net || weir_onnx_apply(net, 1, &x, 1, got) != WEIR_OK;
            CHECK_OK(weir_scope_end(d));
            weir_release(x);
            weir_onnx_free(net);
        }
    CHECK(refused > 100);
    weir_device_close(d);
}
