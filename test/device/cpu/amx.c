/* amx.c - what is said of AMX, whatever this machine has. */
#include "device/cpu/amx.h"

#include <errno.h>
#include <stdlib.h>

#include "check.h"
#include "weir/device.h"

static void check_told(weir_amx amx, const char *want)
{
    weir_string s = {0};

    weir_cpu_amx_info(&amx, &s);
    char *const text = weir_string_take(&s);
    CHECK_TEXT(text, want);
    weir_text_free(text);
}

CASE(each_finding_has_a_sentence)
{
    weir_amx amx = {0};

    check_told(amx, "AMX: not shown by this processor\n");
    amx.tiles = true;
    check_told(amx, "AMX: tiles, which the system does not save\n");
    amx.int8 = amx.saved = true;
    check_told(amx, "AMX: tiles of int8, permitted\n");
    amx.bf16 = true;
    check_told(amx, "AMX: tiles of bf16 and int8, permitted\n");
    amx.refused = ENOSPC;
    check_told(amx, "permission refused: No space left on device\n");
    amx.refused = ECANCELED;
    check_told(amx, "left out by WEIR_ISA\n");
}

/* Permission is the process's, so asking again changes nothing. */
CASE(permission_is_asked_for_again)
{
    const weir_amx first = weir_cpu_amx(), again = weir_cpu_amx();

    CHECK(first.tiles == again.tiles && first.bf16 == again.bf16 && first.int8 == again.int8);
    CHECK(first.saved == again.saved && first.refused == again.refused);
    CHECK(!first.bf16 || first.tiles);
}

CASE(the_device_says_what_was_found)
{
    weir_device *d = weir_device_open("cpu", NULL);
    CHECK_OR_RETURN(d != NULL);
    char *const text = weir_info_text(d);
    CHECK_TEXT(text, "\nAMX: ");
    weir_text_free(text);
    weir_device_close(d);
}
