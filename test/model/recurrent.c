/* recurrent.c - LSTM and GRU layers: parameters, and that both learn a task that needs memory. */
#include "check.h"
#include "core/mem.h"
#include "weir.h"

enum { STEPS = 6, BATCH = 8, HIDDEN = 12 };

static weir_device *open_cpu(void)
{
    return weir_device_open(check_device(), &(weir_device_options){.threads = 1, .seed = 3});
}

CASE(recurrent_parameters)
{
    weir_device *d = open_cpu();
    weir_model  *m = weir_model_new(d);

    CHECK(weir_lstm_new(m, "rnn", 5, 7, 2, true) != NULL);
    CHECK(weir_model_param_count(m) == 16);
    CHECK_TEXT(weir_tensor_name(weir_model_param(m, 0)), "rnn.weight_ih_l0");
    CHECK_TEXT(weir_tensor_name(weir_model_param(m, 15)), "rnn.bias_hh_l1_reverse");
    const weir_desc w = weir_tensor_desc(weir_model_param(m, 8));
    CHECK(w.ndim == 2 && w.dim[0] == 28 && w.dim[1] == 14);

    weir_tensor *const x = weir_input(d, (weir_desc){WEIR_F32, 3, {3, 2, 5}});
    CHECK_OK(weir_write_fill(x, 0.5));
    const weir_desc y = weir_tensor_desc(weir_apply(weir_gru_new(m, "g", 5, 7, 1, false), x));
    CHECK(y.ndim == 3 && y.dim[0] == 3 && y.dim[1] == 2 && y.dim[2] == 7);
    weir_release(x);
    weir_model_free(m);
    weir_device_close(d);
}

CASE(recurrent_mistakes)
{
    weir_device *d = open_cpu();
    weir_model  *m = weir_model_new(d);

    CHECK(weir_lstm_new(m, "rnn", 5, 0, 1, false) == NULL);
    CHECK_TEXT(weir_error(), "hidden 0");
    CHECK(weir_gru_new(m, "rnn", 5, 3, 0, false) == NULL);
    CHECK_TEXT(weir_error(), "layers 0");
    CHECK(weir_gru_new(NULL, "rnn", 5, 3, 1, false) == NULL);
    CHECK(weir_model_param_count(m) == 0);
    weir_model_free(m);
    weir_device_close(d);
}

/* Whether the first element of a sequence was positive, asked after its last: loss after training,
 * with the graph off or on. */
static float learned(bool graph, bool lstm)
{
    weir_device *const d = open_cpu();
    weir_model *const  m = weir_model_new(d);
    weir_layer *const  rnn = lstm ? weir_lstm_new(m, "rnn", 1, HIDDEN, 1, false)
                                  : weir_gru_new(m, "rnn", 1, HIDDEN, 1, false);
    weir_layer *const  out = weir_linear_new(m, "out", HIDDEN, 2, true);
    weir_optim *const  adam = weir_adam_new(d, 0.02, NULL);
    weir_tensor *const x = weir_input(d, (weir_desc){WEIR_F32, 3, {STEPS, BATCH, 1}});
    weir_tensor *const y = weir_input(d, weir_1d(WEIR_I32, BATCH));
    float              data[STEPS * BATCH], value = 9;
    int32_t            target[BATCH];

    for (int i = 0; i < STEPS * BATCH; i++)
        data[i] = (float)(i * 37 % 19) / 9.5f - 1;
    for (int i = 0; i < BATCH; i++)
        target[i] = data[i] > 0;
    CHECK_OK(weir_write(x, data, sizeof data));
    CHECK_OK(weir_write(y, target, sizeof target));
    weir_graph *const g = graph ? weir_graph_begin(d) : NULL;
    for (int i = 0; i < 80 && (i == 0 || !graph); i++) {
        weir_scope_begin(d);
        weir_tensor *const last = weir_reshape(weir_narrow(weir_apply(rnn, x), 0, STEPS - 1, 1), 2,
                                               (int64_t[]){BATCH, HIDDEN});
        weir_tensor *const loss = weir_keep(weir_cross_entropy(weir_apply(out, last), y));
        CHECK_OK(weir_minimize(adam, loss));
        weir_retain(loss);
        weir_scope_end(d);
        if (g)
            CHECK_OK(weir_graph_end(g, NULL));
        for (int k = 0; g && k < 80; k++)
            CHECK_OK(weir_graph_run(g));
        CHECK_OK(weir_read(loss, &value, sizeof value));
        weir_release(loss);
    }
    weir_graph_free(g);
    weir_release(x);
    weir_release(y);
    weir_optim_free(adam);
    weir_model_free(m);
    weir_device_close(d);
    return value;
}

CASE(recurrent_learns)
{
    const float lstm = learned(false, true), gru = learned(false, false);

    CHECK(lstm < 0.1f && gru < 0.1f);
    CHECK(learned(true, true) == lstm);
    CHECK(learned(true, false) == gru);
}

/* Every allocation of a constructor fails once: no layer and no parameter is left over. */
CASE(recurrent_out_of_memory)
{
    weir_device *d = open_cpu();
    weir_model  *m = weir_model_new(d);
    bool         failed = true;

    for (int64_t n = 0; failed; n++) {
        const size_t before = weir_model_param_count(m);
        weir_mem_fail_nth(n, false);
        weir_layer *const l = weir_lstm_new(m, "rnn", 2, 3, 1, true);
        failed = weir_mem_failed();
        weir_mem_fail_nth(-1, false);
        CHECK(l ? weir_model_param_count(m) == before + 8
                : failed && weir_model_param_count(m) == before);
    }
    weir_model_free(m);
    weir_device_close(d);
}
