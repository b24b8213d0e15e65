/* plugin_open.c - tests of the library behind "cuda": found, counted, opened, refused; the emulated
 * card stands in for a real one. */
#include <stdlib.h>

#include "check.h"
#include "weir.h"

/* Makes `folder` the place of the plugin until the next call. */
static void look_in(const char *folder)
{
    setenv("WEIR_PLUGINS", folder, 1);
}

CASE(counted_and_opened)
{
    look_in(WEIR_TEST_PLUGINS);
    CHECK(weir_device_count("cuda") == 1);
    weir_device *const first = weir_device_open("cuda", NULL), *const second =
                                                                   weir_device_open("cuda:0", NULL);
    CHECK_OR_RETURN(first && second && first != second);
    char *const text = weir_info_text(first);
    CHECK_TEXT(text, "device cuda");
    CHECK_TEXT(text, "card 0");
    CHECK_TEXT(text, "NVRTC: ");
    CHECK_TEXT(text, "cuBLASLt: ");
    CHECK_TEXT(text, "cuDNN: ");
    CHECK_TEXT(text, "NCCL: ");
    weir_text_free(text);
    weir_memory m;
    weir_device_memory(first, &m);
    CHECK(m.total > 0 && m.unused > 0 && m.unused <= m.total && m.live == 0);
    weir_device_close(first);
    weir_device_close(second);
}

CASE(refused)
{
    look_in(WEIR_TEST_PLUGINS);
    CHECK(!weir_device_open("cuda:7", NULL));
    CHECK_STATUS(weir_error_status(), WEIR_ERR_DEVICE);
    CHECK_TEXT(weir_error(), "unknown card 7 (this machine has 1)");
    CHECK(!weir_device_open("cuda:first", NULL));
    CHECK_STATUS(weir_error_status(), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "unknown card 'cuda:first'");
    CHECK(!weir_device_open("cuda:", NULL));
    CHECK(!weir_device_open("cuda:-1", NULL));
}

CASE(absent)
{
    look_in("/nowhere");
    CHECK(!weir_device_open("cuda", NULL));
    CHECK_STATUS(weir_error_status(), WEIR_ERR_DEVICE);
    CHECK_TEXT(weir_error(), "/nowhere/libweir_cuda.so");
    CHECK(weir_device_count("cuda") == -1);
    look_in(WEIR_TEST_PLUGINS);
}

CASE(elements_there_and_back)
{
    float in[24], out[24] = {0};

    look_in(WEIR_TEST_PLUGINS);
    weir_device *const d = weir_device_open("cuda", NULL);
    weir_device *const cpu = weir_device_open("cpu", NULL);
    CHECK_OR_RETURN(d && cpu);
    check_floats(in, 24, -1, 1);
    weir_tensor *const x = weir_input(d, weir_2d(WEIR_F32, 4, 6));
    weir_tensor *const y = weir_input(cpu, weir_2d(WEIR_F32, 4, 6));
    CHECK_OK(weir_write(x, in, sizeof in));
    CHECK_OK(weir_read(x, out, sizeof out));
    CHECK_BITS(in, out, sizeof in);
    CHECK(!weir_add(x, y));             /* values of two devices cannot be combined */
    CHECK_STATUS(weir_error_status(), WEIR_ERR_DEVICE);
    void   *at;
    int64_t stride[WEIR_MAX_DIMS];
    CHECK_STATUS(weir_tensor_memory(x, &at, stride), WEIR_ERR_DEVICE);
    weir_release(x);
    weir_release(y);
    weir_device_close(d);
    weir_device_close(cpu);
}
