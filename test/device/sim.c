/* sim.c - tests of the simulated device: what it takes, its clocks, its capacity, what it refuses,
 * and training steps of every network on it. */
#include "device/sim/sim.h"

#include "check.h"
#include "core/attr.h"
#include "core/mem.h"
#include "weir.h"

static weir_device *opened(const char *name)
{
    weir_device *d = weir_device_open(name, &(weir_device_options){.threads = 1});
    CHECK(d != NULL);
    return d;
}

/* ---- what it is ---- */

CASE(presets_and_numbers)
{
    weir_sim_spec s;
    CHECK_OK(weir_sim_spec_read("v100", &s));
    CHECK(s.rates.flops == 14e12 && s.rates.bytes == 900e9 && s.rates.link_in == 12e9);
    CHECK(s.rates.link_out == 12e9 && s.rates.call == 5e-6 && s.capacity == 16e9);
    CHECK_OK(weir_sim_spec_read(NULL, &s));
    CHECK(s.rates.flops == 10e12 && s.rates.bytes == 600e9);
    CHECK_OK(weir_sim_spec_read("h200,link_in=1GB/s,capacity=0.5GiB,call=0,copy=1e-3", &s));
    CHECK(s.rates.flops == 67e12 && s.rates.link_in == 1e9 && s.rates.link_out == 50e9);
    CHECK(s.capacity == 0x1p29 && s.rates.call == 0 && s.rates.copy == 1e-3);
    CHECK_OK(weir_sim_spec_read("flops=1e12,memory=100GB,link=7e9", &s));
    CHECK(s.rates.flops == 1e12 && s.rates.bytes == 100e9 && s.rates.link_out == 7e9);
    for (const char *const *p = (const char *const[]){"format", "laptop", "p100", "v100",
                                                      "rtx2080ti", "h200", NULL}; *p; p++)
        CHECK_OK(weir_sim_spec_read(*p, &s));
}

CASE(bad_specs)
{
    static const struct { const char *text, *says; } bad[] = {
        {"sim:abacus", "'abacus'; the presets are format"},
        {"sim:v100,p100", "'p100'"},
        {"sim:flop=1e12", "'flop'"},
        {"sim:flops=fast", "flops=fast must be"},
        {"sim:flops=1e12B", "flops=1e12B must be"},
        {"sim:flops=0", "flops=0 must be"},
        {"sim:flops=nan", "flops=nan must be"},
        {"sim:memory=-1", "memory=-1 must be"},
        {"sim:memory=0x10", "memory=0x10 must be"},
        {"sim:memory=", "memory= must be"},
        {"sim:link=3leagues", "link=3leagues must be"},
        {"sim:call=-1e-6", "call=-1e-6 must be seconds"},
        {"sim:copy=inf", "copy=inf must be seconds"},
        {"sim:capacity=1e20", "capacity is 1e+20 bytes"},
        {"sim:capacity=0.5", "capacity=0.5 must be"},
        {"sim:", "nothing between"},
        {"sim:v100,", "nothing between"},
        {"sim:v100,,call=1", "nothing between"},
        {"sim:v100,call=0000000000000000000000000000000000000000000000000000000000", "too long"},
        {"cpu:fast", "\"cpu\" takes nothing"},
        {"si", "no device \"si\""},
        {"simulated", "no device \"simulated\""},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK(weir_device_open(bad[i].text, NULL) == NULL);
        CHECK_TEXT(weir_error(), bad[i].says);
    }
}

CASE(open_short_of_memory)
{
    weir_device *d = NULL;
    for (int n = 0; n < 50 && !d; n++) {
        const int64_t alive = weir_mem_alive();
        weir_mem_fail_nth(n, true);
        d = weir_device_open("sim:v100", &(weir_device_options){.threads = 1});
        weir_mem_fail_nth(-1, false);
        CHECK(d || (weir_error_status() == WEIR_ERR_NOMEM && weir_mem_alive() == alive));
    }
    CHECK(d != NULL);
    weir_device_close(d);
}

CASE(info)
{
    weir_device *d = opened("sim:p100");
    CHECK_OR_RETURN(d != NULL);
    char *text = weir_info_text(d);
    CHECK_TEXT(text, "device sim");
    CHECK_TEXT(text, "9.3 TFLOP/s, memory 732 GB/s");
    weir_text_free(text);
    weir_device_close(d);
}
