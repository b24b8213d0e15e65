/* fake_nccl.h - what tests may ask of the emulated NCCL, which exports it. */
#ifndef WEIR_TEST_EMULATOR_FAKE_NCCL_H
#define WEIR_TEST_EMULATOR_FAKE_NCCL_H

#ifdef __cplusplus
extern "C" {
#endif

/* Why the emulated NCCL last refused something; "" if it has refused nothing since the last call of
 * this. Valid until the next call. */
__attribute__((visibility("default"))) const char *emulate_nccl_refusal(void);

#ifdef __cplusplus
}
#endif

#endif
