/* vtable.c - tests of the CUDA device's table of functions, on the emulated card. */
#include "device/cuda/card_fixture.h"
#include "device/memory/reserve.h"

#include <unistd.h>

CASE(memory)
{
    enum { N = 1000 };
    unsigned char in[N], out[N];
    void         *p = NULL;
    size_t        end = 0;
    card_fixture  card;

    CHECK_OR_RETURN(card_fixture_of(&card));
    weir_device *const d = weir_device_open("cuda", NULL);
    CHECK_OR_RETURN(d != NULL);
    for (int i = 0; i < N; i++)
        in[i] = (unsigned char)check_u64();
    const weir_memory_limits before = d->ops->space(d);
    CHECK(before.total == (size_t)2 << 30);
    CHECK_OK(d->ops->alloc(d, N, false, &p));
    CHECK((uintptr_t)p % d->ops->align == 0);
    CHECK(before.unused - d->ops->space(d).unused == 1024);
    CHECK_OK(d->ops->upload(d, p, in, N));
    memset(in, 0, 10);                                  /* reusable when upload returns */
    CHECK_OK(d->ops->fill(d, (char *)p + 10, 0x3c, 20));
    CHECK_OK(d->ops->download(d, out, p, N));
    for (int i = 10; i < 30; i++)
        CHECK(out[i] == 0x3c);
    CHECK_BITS(out + 30, in + 30, N - 30);
    CHECK_OK(d->ops->paint(d, p, N));
    CHECK_OK(d->ops->painted(d, p, N, &end));
    CHECK(end == 0);
    CHECK_OK(d->ops->fill(d, (char *)p + 700, 1, 3));
    CHECK_OK(d->ops->painted(d, p, N, &end));
    CHECK(end == 703);
    CHECK_OK(d->ops->sync(d));
    d->ops->free(d, p, N);
    CHECK(d->ops->space(d).unused == before.unused);
    weir_device_close(d);
}

CASE(out_of_memory)
{
    card_fixture card;
    char         bytes[32];

    CHECK_OR_RETURN(card_fixture_of(&card));
    const size_t before = card.allocated();             /* by devices of other cases */
    const size_t total = ((before + 4194304) * WEIR_RESERVE_SHARE + WEIR_RESERVE_SHARE - 2) /
                         (WEIR_RESERVE_SHARE - 1);      /* 4 MiB beside what is kept free */
    snprintf(bytes, sizeof bytes, "%zu", total);
    setenv("WEIR_EMULATED_BYTES", bytes, 1);
    weir_device *const d = weir_device_open("cuda", NULL);
    if (!CHECK(d != NULL)) {
        unsetenv("WEIR_EMULATED_BYTES");
        return;
    }
    void *p = &p;
    CHECK_STATUS(d->ops->alloc(d, total - before + 1, false, &p), WEIR_ERR_NOMEM);
    CHECK_TEXT(weir_error(), "out of memory");
    weir_tensor *const x = weir_input(d, weir_1d(WEIR_F32, 1 << 19));
    weir_tensor *const y = weir_input(d, weir_1d(WEIR_F32, (1 << 19) + 1));
    float *const       host = calloc((1 << 19) + 1, sizeof *host);
    CHECK_OK(weir_write(x, host, sizeof *host << 19));
    CHECK_STATUS(weir_write(y, host, sizeof *host * ((1 << 19) + 1)), WEIR_ERR_NOMEM);
    weir_release(x);
    CHECK_OK(weir_write(y, host, sizeof *host * ((1 << 19) + 1)));
    free(host);
    weir_release(y);
    weir_device_close(d);
    CHECK(card.allocated() == before);
    unsetenv("WEIR_EMULATED_BYTES");
}

CASE(no_card)
{
    card_fixture card;
    CHECK_OR_RETURN(card_fixture_of(&card));
    setenv("WEIR_EMULATED_CARDS", "0", 1);
    CHECK(weir_device_count("cuda") == 0);
    CHECK(!weir_device_open("cuda", NULL));
    CHECK_STATUS(weir_error_status(), WEIR_ERR_DEVICE);
    CHECK_TEXT(weir_error(), "card");
    unsetenv("WEIR_EMULATED_CARDS");
    card.fail("cudaGetDeviceCount", 1, cudaErrorInsufficientDriver);
    CHECK(!weir_device_open("cuda", NULL));
    CHECK_STATUS(weir_error_status(), WEIR_ERR_DEVICE);
    CHECK_TEXT(weir_error(), "the driver is for CUDA");
    card.recover();
}

CASE(code_for_the_card)
{
    card_fixture card;
    CHECK_OR_RETURN(card_fixture_of(&card));
    card.fail("cudaFuncGetAttributes", 1, cudaErrorNoKernelImageForDevice);
    CHECK(!weir_device_open("cuda", NULL));
    CHECK_STATUS(weir_error_status(), WEIR_ERR_DEVICE);
    CHECK_TEXT(weir_error(), "card 0 (emulated card) is sm_90: build it with WEIR_CUDA_ARCH=90");
    card.recover();
    for (int old = 0; old < 2; old++) {
        setenv("WEIR_EMULATED_CODE", old ? "75" : "90", 1);
        weir_device *const d = weir_device_open("cuda", NULL);
        char *const        info = weir_info_text(d);
        CHECK_TEXT(info, old ? "this card runs those for sm_75" : "this card runs those for sm_90");
        CHECK((strstr(info, "warning: they are for cards older than this one") != NULL) == old);
        weir_text_free(info);
        weir_device_close(d);
    }
    unsetenv("WEIR_EMULATED_CODE");
}

/* The plugin for real cards, if it was built: opens a device, or fails with a sentence that says
 * what is missing. */
CASE(real_plugin)
{
    const char *const folder = WEIR_TEST_PLUGINS "/..";

    if (access(WEIR_TEST_PLUGINS "/../libweir_cuda.so", R_OK) != 0) {
        printf("vtable/real_plugin: left out, the plugin was not built\n");
        return;
    }
    setenv("WEIR_PLUGINS", folder, 1);
    weir_device *const d = weir_device_open("cuda", NULL);
    if (!d) {
        CHECK_STATUS(weir_error_status(), WEIR_ERR_DEVICE);
        CHECK(strstr(weir_error(), "card") || strstr(weir_error(), "from another build"));
        CHECK(weir_device_count("cuda") <= 0);
    }
    weir_device_close(d);
    setenv("WEIR_PLUGINS", WEIR_TEST_PLUGINS, 1);
}
