/* isa.c - tests of the selection of an instruction set. */
#include "device/cpu/isa.h"

#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "weir/device.h"

CASE(instruction_set_only_downwards)
{
    const char *before = getenv("WEIR_ISA");
    char        kept[16];
    snprintf(kept, sizeof kept, "%s", before ? before : "");
    for (int i = 0; i < WEIR_ISA_COUNT; i++) {
        setenv("WEIR_ISA", weir_cpu_isa_name((weir_isa)i), 1);
        const int best = (int)weir_cpu_isa_best();
        CHECK((int)weir_cpu_isa() == (i < best ? i : best));
    }
    setenv("WEIR_ISA", "abacus", 1);
    CHECK(weir_cpu_isa() == weir_cpu_isa_best());
    if (before)
        setenv("WEIR_ISA", kept, 1);
    else
        unsetenv("WEIR_ISA");
}

CASE(instruction_set_is_told)
{
    weir_device *d = weir_device_open("cpu", NULL);
    CHECK_OR_RETURN(d != NULL);
    char *text = weir_info_text(d);
    CHECK_TEXT(text, weir_cpu_isa_name(weir_cpu_isa()));
    weir_text_free(text);
    weir_device_close(d);
}
