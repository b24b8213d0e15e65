/* pack.c - tests of PACK and UNPACK: every code of every element type is restored to the bit. */
#include "core/half.h"
#include "device/cpu/kernels.h"
#include "device/kernel_case.h"

static size_t bytes_of(const weir_pack_attr *a)
{
    return weir_pack_bytes(a);
}

/* Packs the elements that fill writes, unpacks them and compares; checks the number of bytes. */
static void round_trip(weir_pack_attr a, void (*fill)(const weir_pack_attr *a, void *to))
{
    const weir_desc plain = weir_1d((weir_dtype)a.dtype, a.count);
    const weir_desc bytes = weir_1d(WEIR_U8, (int64_t)bytes_of(&a));
    kernel_case     pack = {.choose = weir_cpu_pack, .op = WEIR_OP_PACK, .attr = &a,
                            .attr_bytes = sizeof a};
    kernel_case     unpack = {.choose = weir_cpu_unpack, .op = WEIR_OP_UNPACK, .attr = &a,
                              .attr_bytes = sizeof a};

    fill(&a, kernel_in(&pack, kernel_dense(plain)));
    const void *const code = kernel_out(&pack, bytes);
    kernel_run(&pack);
    memcpy(kernel_in(&unpack, kernel_dense(bytes)), code, bytes_of(&a));
    kernel_out(&unpack, plain);
    kernel_run(&unpack);
    if (!CHECK_BITS(unpack.dst[0], pack.src[0], weir_shape_bytes(&plain)))
        printf("    kind %d of %s, %d bits from %lld, %lld elements\n", (int)a.kind,
               weir_dtype_name((weir_dtype)a.dtype), (int)a.bits, (long long)a.base,
               (long long)a.count);
    kernel_free(&pack);
    kernel_free(&unpack);
}

/* All codes in turn; of wide ones the first, the last and some in between. */
static void fill_whole(const weir_pack_attr *a, void *to)
{
    const weir_layout l = kernel_dense(weir_1d((weir_dtype)a->dtype, a->count));
    const uint64_t    codes = (uint64_t)1 << a->bits;

    for (int64_t i = 0; i < a->count; i++) {
        const uint64_t code = i % 3 == 2 ? codes - 1 - (uint64_t)i % codes
                                         : (uint64_t)i * (a->bits < 32 ? 1 : 1234567) % codes;
        kernel_set(&l, to, i, (double)(a->base + (int64_t)code));
    }
}

CASE(whole_numbers)
{
    static const struct { weir_dtype type; int most; } types[] = {
        {WEIR_F32, 16}, {WEIR_F64, 32}, {WEIR_I32, 16}, {WEIR_I64, 32}, {WEIR_U8, 4},
        {WEIR_BOOL, 1}, {WEIR_F16, 8}, {WEIR_BF16, 4}};
    static const int64_t counts[] = {0, 1, 7, 8, 9, 1023, 1025, 32768, 70001};

    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int64_t bits = 1; bits <= types[t].most; bits *= 2)
            for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
                const bool    unsign = types[t].type == WEIR_U8 || types[t].type == WEIR_BOOL;
                weir_pack_attr a = {.kind = WEIR_PACK_WHOLE, .dtype = types[t].type,
                                    .count = counts[n], .bits = bits};
                round_trip(a, fill_whole);
                a.base = unsign ? 0 : -3;
                round_trip(a, fill_whole);
            }
}

CASE(far_from_zero)
{
    round_trip((weir_pack_attr){.kind = WEIR_PACK_WHOLE, .dtype = WEIR_I64, .count = 5000,
                                .bits = 8, .base = -((int64_t)1 << 52)}, fill_whole);
    round_trip((weir_pack_attr){.kind = WEIR_PACK_WHOLE, .dtype = WEIR_I32, .count = 70000,
                                .bits = 16, .base = INT32_MIN}, fill_whole);
    round_trip((weir_pack_attr){.kind = WEIR_PACK_WHOLE, .dtype = WEIR_F32, .count = 70000,
                                .bits = 16, .base = -(1 << 24)}, fill_whole);
}

/* Casts of each of the 65,536 bf16 and f16 numbers, infinities and NaNs included. */
static void fill_half(const weir_pack_attr *a, void *to)
{
    for (int64_t i = 0; i < a->count; i++) {
        const float x = a->kind == WEIR_PACK_BF16 ? weir_from_bf16((uint16_t)i)
                                                  : weir_from_f16((uint16_t)i);
        if (a->dtype == WEIR_F32)
            memcpy((float *)to + i, &x, sizeof x);
        else
            ((double *)to)[i] = (double)x;
    }
}

CASE(halves)
{
    for (int64_t kind = WEIR_PACK_BF16; kind <= WEIR_PACK_F16; kind++)
        for (int64_t type = WEIR_F32; type <= WEIR_F64; type++)
            round_trip((weir_pack_attr){.kind = kind, .dtype = type, .count = 65536, .bits = 16},
                       fill_half);
}

static void fill_single(const weir_pack_attr *a, void *to)
{
    for (int64_t i = 0; i < a->count; i++)
        ((double *)to)[i] = (double)weir_half_float((uint32_t)i * 0x9e3779b9u);
}

CASE(singles)
{
    round_trip((weir_pack_attr){.kind = WEIR_PACK_F32, .dtype = WEIR_F64, .count = 200000,
                                .bits = 32}, fill_single);
}

/* Calls that no planner makes fail. */
CASE(wrong_attributes)
{
    const weir_pack_attr wrong[] = {
        {.kind = WEIR_PACK_WHOLE, .dtype = WEIR_F32, .count = 8, .bits = 3},
        {.kind = WEIR_PACK_WHOLE, .dtype = WEIR_F32, .count = 8, .bits = 0},
        {.kind = WEIR_PACK_WHOLE, .dtype = WEIR_F32, .count = 9, .bits = 1},
        {.kind = WEIR_PACK_WHOLE, .dtype = WEIR_F64, .count = 8, .bits = 1},
        {.kind = WEIR_PACK_F32, .dtype = WEIR_F32, .count = 8, .bits = 32},
        {.kind = WEIR_PACK_KINDS, .dtype = WEIR_F32, .count = 8, .bits = 1},
        {.kind = WEIR_PACK_WHOLE, .dtype = 99, .count = 8, .bits = 1}};
    const weir_layout in = kernel_dense(weir_1d(WEIR_F32, 8));

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        weir_layout     out = kernel_dense(weir_1d(WEIR_U8, 1));
        weir_kernel     kernel = {0};
        const weir_call c = {.op = WEIR_OP_PACK, .nin = 1, .nout = 1, .in = &in, .out = &out,
                             .attr = &wrong[i], .attr_bytes = sizeof wrong[i], .alias = -1};
        CHECK(weir_cpu_pack(NULL, &c, &kernel) != WEIR_OK);
    }
}
