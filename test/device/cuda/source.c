/* source.c - tests of generated sources: their parameters, and that the installed NVRTC compiles
 * all of them. No card is needed. */
#include "device/cuda/codegen/source.h"

#include "core/mem.h"
#include "device/cuda/rows.h"
#include "device/cuda/runtime/libs.h"
#include "device/cuda/lib/nvrtc.h"

/* ---- parameters ---- */

CASE(source_fields_are_what_the_text_reads)
{
    const weir_ew_program p = {.nin = 3, .nstep = 2, .nout = 1, .out = {1},
                               .step = {{.op = WEIR_OP_AFFINE},
                                        {.op = WEIR_OP_DROPOUT, .src = {3}}}};
    const weir_source     s = {.program = &p,
                               .read = {WEIR_READ_DENSE, WEIR_READ_SCALAR, 2}};
    static const weir_field want[] = {
        {WEIR_FIELD_COUNT, 0, 0}, {WEIR_FIELD_WIDE, 0, 0}, {WEIR_FIELD_IN, 0, 0},
        {WEIR_FIELD_IN, 1, 0}, {WEIR_FIELD_IN, 2, 0}, {WEIR_FIELD_OUT, 0, 0}, {WEIR_FIELD_S, 0, 0},
        {WEIR_FIELD_T, 0, 0}, {WEIR_FIELD_S, 1, 0}, {WEIR_FIELD_T, 1, 0}, {WEIR_FIELD_RNG, 1, 0},
        {WEIR_FIELD_SEED, 0, 0}, {WEIR_FIELD_DRAW, 0, 0}, {WEIR_FIELD_STRIDE, 2, 0},
        {WEIR_FIELD_STRIDE, 2, 1}, {WEIR_FIELD_DIM, 2, 1}, {WEIR_FIELD_MAGIC, 2, 1}};
    weir_field field[WEIR_FIELDS];

    const int n = weir_source_fields(&s, field);
    CHECK_OR_RETURN(n == sizeof want / sizeof *want);
    for (int i = 0; i < n; i++)
        CHECK(field[i].kind == want[i].kind && field[i].index == want[i].index &&
              field[i].axis == want[i].axis);
}

CASE(source_magic_divides)
{
    static const int64_t dims[] = {1, 2, 3, 5, 7, 16, 1000, 1023, 65537, 0x40000001, 0x7fffffff};

    for (size_t k = 0; k < sizeof dims / sizeof *dims; k++) {
        const uint64_t m = weir_source_magic(dims[k]), d = (uint64_t)dims[k];
        for (int i = 0; i < 20000; i++) {
            const uint64_t near = check_u64() % (0x80000000u / d + 1) * d;
            const uint64_t p = (i % 3 == 0 ? check_u64() : near - (uint64_t)(i % 2)) & 0x7fffffff;
            if (!CHECK(p * (m & 0xffffffffu) >> (31 + (m >> 32)) == p / d))
                return;
        }
    }
}

CASE(source_says_which_row_has_no_type)
{
    weir_ew_program p = {.type = WEIR_F16, .nin = 1, .nstep = 2, .nout = 1, .out = {1},
                         .step = {{.op = WEIR_OP_NEG}, {.op = WEIR_OP_EXP, .src = {1}}}};
    weir_op op;

    CHECK(weir_source_has(&p, &op));
    p.type = WEIR_I32;
    CHECK(!weir_source_has(&p, &op) && op == WEIR_OP_EXP);
    p.type = WEIR_BOOL;
    CHECK(!weir_source_has(&p, &op) && op == WEIR_OP_NEG);
}

/* 16 bytes of the smallest elements, but at least 4 elements. */
CASE(source_width_is_that_of_the_smallest_operand)
{
    const weir_ew_program p = {.nin = 2, .nout = 1};

    CHECK(weir_source_width(&(weir_source){.program = &p}) == 4);
    CHECK(weir_source_width(&(weir_source){.program = &p, .in = {WEIR_F64, WEIR_F64},
                                           .out = {WEIR_F64}}) == 4);
    CHECK(weir_source_width(&(weir_source){.program = &p, .in = {WEIR_F32, WEIR_BF16}}) == 8);
    CHECK(weir_source_width(&(weir_source){.program = &p, .out = {WEIR_F16}}) == 8);
    CHECK(weir_source_width(&(weir_source){.program = &p, .in = {WEIR_U8, WEIR_U8},
                                           .out = {WEIR_U8}}) == 16);
}

/* ---- the real compiler ---- */

/* True if NVRTC is installed; otherwise prints why not. */
static bool have_nvrtc(void)
{
    char target[WEIR_NVRTC_TARGET];

    if (weir_nvrtc_target(90, target) == WEIR_OK)
        return true;
    CHECK_TEXT(weir_error(), "libnvrtc.so.13");
    CHECK_TEXT(weir_error(), "WEIR_CUDA_LIBS");
    printf("NVRTC is not installed: nothing is compiled by it\n");
    return false;
}

/* Puts many kernels into one text, each in a namespace, with its macros undefined at the end. */
static void add_apart(weir_string *to, const weir_source *s, int number)
{
    static const char *const macros[] = {"T", "SUFFIX", "WEIR_WIDTH", "WEIR_LARGE", "WEIR_ROUND",
                                         "WEIR_STORED", "WEIR_UNROLL"};

    weir_string_add(to, "#undef WEIR_KERNEL\n#define WEIR_KERNEL __global__\nnamespace n%d {\n",
                    number);
    weir_source_add(s, to);
    weir_string_add(to, "}\n");
    for (size_t i = 0; i < sizeof macros / sizeof *macros; i++)
        weir_string_add(to, "#undef %s\n", macros[i]);
}

/* Compiles without optimisation, which would take most of the time. */
static void check_is_right(weir_string *text, const char *what)
{
    static const char *const   options[] = {"--gpu-architecture=compute_75", "--device-debug",
                                            "--device-as-default-execution-space", "-w"};
    const weir_cuda_lib_nvrtc *lib;
    char *const                all = weir_string_take(text);
    nvrtcProgram               program = NULL;
    char                       said[4096] = "";
    size_t                     n = 0;

    CHECK_OR_RETURN(all && weir_cuda_open_nvrtc(&lib) == WEIR_OK);
    CHECK(lib->nvrtcCreateProgram(&program, all, "all.cu", 0, NULL, NULL) == NVRTC_SUCCESS);
    const nvrtcResult r =
        lib->nvrtcCompileProgram(program, sizeof options / sizeof *options, options);
    if (r != NVRTC_SUCCESS && lib->nvrtcGetProgramLogSize(program, &n) == NVRTC_SUCCESS &&
        n < sizeof said)
        (void)lib->nvrtcGetProgramLog(program, said);
    check_that(r == NVRTC_SUCCESS, __FILE__, __LINE__, "%s: %s", what, said);
    (void)lib->nvrtcDestroyProgram(&program);
    weir_mem_free(all);
}

static weir_status compiled(const char *text, const char *names, const char *target, char **image,
                            size_t *bytes)
{
    weir_nvrtc_begin begin;

    begin.text = weir_source_begin(&begin.n);
    return weir_nvrtc_compile(&begin, text, names, target, image, bytes);
}

static void check_compiles(weir_string *text, const char *names, const char *target)
{
    char  *image = NULL, *const all = weir_string_take(text);
    size_t bytes = 0;

    CHECK_OR_RETURN(all);
    if (CHECK_OK(compiled(all, names, target, &image, &bytes)))
        CHECK(bytes > 100);
    weir_mem_free(image);
    weir_mem_free(all);
}

/* All rows of a type in one program: input i is read in way (i + row). */
static void check_type(weir_dtype t)
{
    weir_string text = {0};
    size_t      begin;
    int         n = 0;

    weir_string_add(&text, "%s", weir_source_begin(&begin));
    for (const rows_row *r = rows_table; r->name; r++) {
        weir_ew_program p = {.type = t, .nin = r->nin, .nstep = 1, .nout = 1,
                             .step = {{.op = r->op}}};
        weir_source     s = {.program = &p, .out = {t}, .large = n % 8 == 0};
        if (!rows_takes(r, t))
            continue;
        for (int i = 0; i < r->nin; i++) {
            p.step[0].src[i] = i;
            s.read[i] = (i + n) % 4 - 1;
            s.in[i] = t;
        }
        add_apart(&text, &s, n++);
    }
    check_is_right(&text, weir_dtype_name(t));
}

CASE(source_compiles_by_nvrtc)
{
    if (!have_nvrtc())
        return;
    for (int t = 0; weir_dtype_size((weir_dtype)t) > 0; t++)
        if (t != WEIR_BOOL)
            check_type((weir_dtype)t);
}

/* Compiles single kernels to machine code, as for cards: steps in f32, in bf16, and in f32 between
 * halves. */
CASE(source_compiles_to_code)
{
    static const char *const targets[] = {"sm_75", "sm_90"};
    static const weir_dtype  types[][4] = {{WEIR_F32, WEIR_F32, WEIR_F32, WEIR_F32},
                                           {WEIR_BF16, WEIR_BF16, WEIR_BF16, WEIR_BF16},
                                           {WEIR_BF16, WEIR_F16, WEIR_F32, WEIR_BF16}};
    weir_ew_program          p = {.nin = 2, .nstep = 3, .nout = 2, .out = {1, 2},
                                  .step = {{.op = WEIR_OP_ADD, .src = {0, 1}},
                                           {.op = WEIR_OP_GELU, .src = {2}},
                                           {.op = WEIR_OP_DROPOUT, .src = {3}}}};

    if (!have_nvrtc())
        return;
    for (int i = 0; i < 6; i++) {
        const weir_dtype *const t = types[i / 2];
        weir_string             text = {0};
        p.type = i / 2 == 1 ? WEIR_BF16 : WEIR_F32;
        weir_source_add(&(weir_source){.program = &p, .in = {t[0], t[1]}, .out = {t[2], t[3]},
                                       .read = {WEIR_READ_DENSE, 2}}, &text);
        check_compiles(&text, "add, gelu, dropout", targets[i % 2]);
    }
}

CASE(source_errors_are_told)
{
    char  *image = NULL;
    size_t bytes;

    if (!have_nvrtc())
        return;
    CHECK_STATUS(compiled("int wrong = missing;\n", "add, relu", "sm_90", &image, &bytes),
                 WEIR_ERR_DEVICE);
    CHECK_TEXT(weir_error(), "add, relu");
    CHECK_TEXT(weir_error(), "\"missing\" is undefined");
    char target[WEIR_NVRTC_TARGET];
    CHECK_OK(weir_nvrtc_target(90, target));
    CHECK(strcmp(target, "sm_90") == 0);
    CHECK_OK(weir_nvrtc_target(999, target));       /* newer than NVRTC: the latest PTX */
    CHECK(strncmp(target, "compute_", 8) == 0);
    CHECK_STATUS(weir_nvrtc_target(20, target), WEIR_ERR_DEVICE);
    CHECK_TEXT(weir_error(), "2.0");
}
