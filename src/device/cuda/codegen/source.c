/* source.c - generates the source of kernels for element-wise rows. See source.h.
 *
 *     a struct of parameters; for each strided input a function from positions to offsets;
 *     each thread, for WEIR_WIDTH positions at a time:
 *         reads all inputs, draws, computes the steps position by position, writes all outputs
 *
 * All reads of a position precede its writes, and a DENSE input is read at this position only, so
 * an output may share the address of such an input. Expressions, and the functions they call, are
 * the text of the tables in core: additions and products round as on the CPU. Steps of halves are
 * rounded one by one, like stored values; those in f32 are not, whatever the operands' types. */
#include "device/cuda/codegen/source.h"

#include <assert.h>
#include <string.h>

typedef enum row_types { FLOATS, NUMBERS, ORDERED, WHOLE } row_types;

typedef struct row_def {
    int         nin;        /* -1: not a row */
    row_types   types;
    const char *id, *text;
} row_def;

static const row_def rows[WEIR_OP_COUNT] = {
#define ROW(ID, id, nin, types, value) [WEIR_OP_##ID] = {nin, types, #id, #value},
#include "core/elementwise.def"
#undef ROW
};

#include "core/row.h"       /* after the table, whose text its macros would change */

/* Built from rtc_types.h and core's headers, and from rtc_kernel.h. */
static const char beginning[] = {
#include <rtc_begin.inc>
    0};
static const char kernel_text[] = {
#include <rtc_kernel.inc>
    0};

/* How elements of a type are stored and computed. */
typedef struct element {
    const char *stored, *number, *ordered;  /* types: in memory, of rows of NUMBERS, of others */
    const char *suffix, *load, *store;
    const char *attr;                       /* the type of a parameter */
    int         size;
} element;

static const element elements[] = {
    [WEIR_F32] = {"float", "float", "float", "f32", "", "", "float", 4},
    [WEIR_F64] = {"double", "double", "double", "f64", "", "", "double", 8},
    [WEIR_I32] = {"uint32_t", "uint32_t", "int32_t", "i32", "", "", "int64_t", 4},
    [WEIR_I64] = {"uint64_t", "uint64_t", "int64_t", "i64", "", "", "int64_t", 8},
    [WEIR_U8] = {"uint8_t", "uint8_t", "uint8_t", "u8", "", "", "int64_t", 1},
    [WEIR_BOOL] = {0},
    [WEIR_F16] = {"uint16_t", "float", "float", "f32", "weir_from_f16", "weir_to_f16", "float", 2},
    [WEIR_BF16] = {"uint16_t", "float", "float", "f32", "weir_from_bf16", "weir_to_bf16", "float",
                   2},
    [WEIR_I8] = {"uint8_t", "uint8_t", "int8_t", "i8", "", "", "int64_t", 1},
    [WEIR_I16] = {"uint16_t", "uint32_t", "int16_t", "i16", "", "", "int64_t", 2},
    [WEIR_U16] = {"uint16_t", "uint32_t", "uint16_t", "u16", "", "", "int64_t", 2},
    [WEIR_U32] = {"uint32_t", "uint32_t", "uint32_t", "u32", "", "", "int64_t", 4},
    [WEIR_U64] = {"uint64_t", "uint64_t", "uint64_t", "u64", "", "", "int64_t", 8},
};

static bool is_integer(weir_dtype t)
{
    return elements[t].attr && strcmp(elements[t].attr, "int64_t") == 0;
}

/* As rows convert it: to the nearest number of the type. */
static int64_t integer_attr(weir_dtype type, double v)
{
    switch (type) {
    case WEIR_I8:  return attr_of_i8(v);
    case WEIR_U8:  return attr_of_u8(v);
    case WEIR_I16: return attr_of_i16(v);
    case WEIR_U16: return attr_of_u16(v);
    case WEIR_I32: return attr_of_i32(v);
    case WEIR_U32: return attr_of_u32(v);
    case WEIR_U64: return (int64_t)attr_of_u64(v);
    default:       return attr_of_i64(v);
    }
}

static const row_def *row_of(const weir_ew_program *p, int64_t step)
{
    return &rows[p->step[step].op];
}

/* Elements in 16 bytes of the smallest type. */
int weir_source_width(const weir_source *s)
{
    int size = 4;                   /* a block of random words has 4 */

    for (int i = 0; i < s->program->nin; i++)
        size = elements[s->in[i]].size < size ? elements[s->in[i]].size : size;
    for (int i = 0; i < s->program->nout; i++)
        size = elements[s->out[i]].size < size ? elements[s->out[i]].size : size;
    return 16 / size;
}

bool weir_source_has(const weir_ew_program *p, weir_op *op)
{
    const weir_dtype type = (weir_dtype)p->type;

    for (int64_t j = 0; j < p->nstep; j++) {
        const row_def *const r = row_of(p, j);
        *op = (weir_op)p->step[j].op;
        if (!r->text || type == WEIR_BOOL || (is_integer(type) && r->types == FLOATS) ||
            (!is_integer(type) && r->types == WHOLE))
            return false;
    }
    return true;
}

const char *weir_source_begin(size_t *n)
{
    *n = sizeof beginning - 1;
    return beginning;
}

void weir_source_names(const weir_ew_program *p, weir_string *text)
{
    for (int64_t j = 0; j < p->nstep; j++)
        weir_string_add(text, "%s%s", j > 0 ? ", " : "", row_of(p, j)->id);
}

/* True if the expression contains the word. */
static bool says(const char *text, const char *word)
{
    const char *const part = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    const size_t      n = strlen(word);

    for (const char *at = text; (at = strstr(at, word)); at++)
        if ((at == text || !strchr(part, at[-1])) && (!at[n] || !strchr(part, at[n])))
            return true;
    return false;
}

static bool draws(const row_def *r)
{
    return says(r->text, "DRAW") || says(r->text, "DRAW_NORMAL");
}

/* ---- parameters ---- */

static void field_add(weir_field *field, int *n, weir_field_kind kind, int index, int axis)
{
    assert(*n < WEIR_FIELDS);
    field[(*n)++] = (weir_field){kind, index, axis};
}

static void fields_of_step(const weir_source *s, int j, weir_field *field, int *n)
{
    const row_def *const r = row_of(s->program, j);

    if (says(r->text, "s"))
        field_add(field, n, WEIR_FIELD_S, j, 0);
    if (says(r->text, "t"))
        field_add(field, n, WEIR_FIELD_T, j, 0);
    if (draws(r))
        field_add(field, n, WEIR_FIELD_RNG, j, 0);
}

int weir_source_fields(const weir_source *s, weir_field field[WEIR_FIELDS])
{
    int  n = 0;
    bool random = false;

    field_add(field, &n, WEIR_FIELD_COUNT, 0, 0);
    field_add(field, &n, WEIR_FIELD_WIDE, 0, 0);
    for (int i = 0; i < s->program->nin; i++)
        field_add(field, &n, WEIR_FIELD_IN, i, 0);
    for (int i = 0; i < s->program->nout; i++)
        field_add(field, &n, WEIR_FIELD_OUT, i, 0);
    for (int j = 0; j < s->program->nstep; j++) {
        fields_of_step(s, j, field, &n);
        random = random || draws(row_of(s->program, j));
    }
    if (random) {
        field_add(field, &n, WEIR_FIELD_SEED, 0, 0);
        field_add(field, &n, WEIR_FIELD_DRAW, 0, 0);
    }
    for (int i = 0; i < s->program->nin; i++)
        for (int axis = 0; axis < s->read[i]; axis++) {
            field_add(field, &n, WEIR_FIELD_STRIDE, i, axis);
            if (axis > 0) {
                field_add(field, &n, WEIR_FIELD_DIM, i, axis);
                field_add(field, &n, WEIR_FIELD_MAGIC, i, axis);
            }
        }
    return n;
}

/* Floats as f32 or f64 bits; integers as 64 bits. */
uint64_t weir_source_attr(weir_dtype type, double v)
{
    uint64_t word = 0;

    if (type == WEIR_F64) {
        memcpy(&word, &v, sizeof v);
    } else if (is_integer(type)) {
        const int64_t whole = integer_attr(type, v);
        memcpy(&word, &whole, sizeof whole);
    } else {
        const float f = attr_of_f32(v);
        memcpy(&word, &f, sizeof f);
    }
    return word;
}

uint64_t weir_source_magic(int64_t dim)
{
    uint64_t shift = 0;

    if (dim < 1 || dim >= (int64_t)1 << 31)
        return 0;
    while ((int64_t)1 << shift < dim)
        shift++;
    const uint64_t d = (uint64_t)dim, m = (((uint64_t)1 << (31 + shift)) + d - 1) / d;
    return m | shift << 32;
}

static void add_field(const weir_source *s, const weir_field *f, weir_string *to)
{
    const char *const attr = elements[s->program->type].attr;

    switch (f->kind) {
    case WEIR_FIELD_COUNT:  weir_string_add(to, "    int64_t n;\n"); break;
    case WEIR_FIELD_WIDE:   weir_string_add(to, "    uint64_t wide;\n"); break;
    case WEIR_FIELD_IN:
        weir_string_add(to, "    const %s *in%d;\n", elements[s->in[f->index]].stored, f->index);
        break;
    case WEIR_FIELD_OUT:
        weir_string_add(to, "    %s *out%d;\n", elements[s->out[f->index]].stored, f->index);
        break;
    case WEIR_FIELD_S:
    case WEIR_FIELD_T:      /* all have 8 bytes */
        weir_string_add(to, "    %s %c%d%s;\n", attr, f->kind == WEIR_FIELD_S ? 's' : 't',
                        f->index, strcmp(attr, "float") == 0 ? "[2]" : "[1]");
        break;
    case WEIR_FIELD_SEED:   weir_string_add(to, "    uint64_t seed;\n"); break;
    case WEIR_FIELD_DRAW:   weir_string_add(to, "    const uint64_t *draw;\n"); break;
    case WEIR_FIELD_RNG:    weir_string_add(to, "    uint64_t rng%d;\n", f->index); break;
    case WEIR_FIELD_STRIDE:
        weir_string_add(to, "    int64_t stride%d_%d;\n", f->index, f->axis);
        break;
    case WEIR_FIELD_DIM:
        weir_string_add(to, "    uint64_t dim%d_%d;\n", f->index, f->axis);
        break;
    case WEIR_FIELD_MAGIC:
        weir_string_add(to, "    uint64_t magic%d_%d;\n", f->index, f->axis);
        break;
    }
}

/* ---- the kernel ---- */

static void add_types(const weir_source *s, const char *computed, weir_string *to)
{
    const element *const e = &elements[s->program->type];

    weir_string_add(to, "#define T %s\n#define SUFFIX %s\n#define WEIR_WIDTH %d\n", computed,
                    e->suffix, weir_source_width(s));
    weir_string_add(to, "%stypedef %s weir_position;\n", s->large ? "#define WEIR_LARGE\n" : "",
                    s->large ? "uint64_t" : "uint32_t");
    weir_string_add(to, "#define WEIR_ROUND(x) ((T)%s(%s(x)))\n", e->load, e->store);
}

/* Adds the functions that read and write each of the operands' types, once per type. */
static void add_stored(const weir_source *s, weir_string *to)
{
    const char *seen[WEIR_EW_MAX_IN + WEIR_EW_MAX_OUT];
    int         n = 0;

    for (int i = 0; i < s->program->nin + s->program->nout; i++) {
        const weir_dtype type = i < s->program->nin ? s->in[i] : s->out[i - s->program->nin];
        int              k = 0;
        while (k < n && strcmp(seen[k], elements[type].stored) != 0)
            k++;
        if (k == n) {
            seen[n++] = elements[type].stored;
            weir_string_add(to, "WEIR_STORED(%s)\n", elements[type].stored);
        }
    }
}

static void add_parameters(const weir_source *s, weir_string *to)
{
    weir_field field[WEIR_FIELDS];
    const int  n = weir_source_fields(s, field);

    weir_string_add(to, "typedef struct weir_args {\n");
    for (int i = 0; i < n; i++)
        add_field(s, &field[i], to);
    weir_string_add(to, "} weir_args;\n");
}

/* Adds the offset of input i's element at a position, innermost axis first. */
static void add_place(int i, int axes, weir_string *to)
{
    weir_string_add(to, "static inline int64_t weir_place%d(const weir_args k, weir_position p)\n"
                    "{\n    int64_t at = 0;\n", i);
    for (int axis = axes - 1; axis > 0; axis--)
        weir_string_add(to, "    {\n        const weir_position q = weir_quotient(p, k.dim%d_%d, "
                        "k.magic%d_%d);\n        at += (int64_t)(p - q * (weir_position)k.dim%d_%d)"
                        " * k.stride%d_%d;\n        p = q;\n    }\n", i, axis, i, axis, i, axis, i,
                        axis);
    weir_string_add(to, "    return at + (int64_t)p * k.stride%d_0;\n}\n", i);
}

static void add_read(int i, int read, const char *stored, weir_string *to)
{
    if (read == WEIR_READ_DENSE)
        weir_string_add(to, "        weir_pack_%s x%d;\n        weir_read_%s(&x%d, k.in%d + at, "
                        "some, k.wide >> %d & 1);\n", stored, i, stored, i, i, i);
    else if (read > 0)
        weir_string_add(to, "        weir_pack_%s x%d;\n        if (k.wide >> %d & 1) {\n"
                        "            weir_read_%s(&x%d, k.in%d + weir_place%d(k, "
                        "(weir_position)at), some, true);\n"
                        "        } else if (k.wide >> %d & 1) {\n"
                        "            weir_fill_%s(&x%d, k.in%d[weir_place%d(k, "
                        "(weir_position)at)]);\n        } else {\n#pragma unroll\n"
                        "            for (int i = 0; i < WEIR_WIDTH; i++)\n"
                        "                x%d.e[i] = i < some ? k.in%d[weir_place%d(k, "
                        "(weir_position)(at + i))] : (%s)0;\n        }\n", stored, i, i, stored, i,
                        i, i, WEIR_WIDE_SAME + i, stored, i, i, i, i, i, i, stored);
}

static void add_draw(int j, const row_def *r, const char *suffix, weir_string *to)
{
    weir_string_add(to, "        uint32_t word%d[WEIR_WIDTH];\n"
                    "        weir_draw_words(seed, base + k.rng%d, at, word%d);\n", j, j, j);
    if (says(r->text, "DRAW_NORMAL"))
        weir_string_add(to, "        T normal%d[WEIR_WIDTH];\n#pragma unroll\n"
                        "        for (int i = 0; i < WEIR_WIDTH; i += 2)\n"
                        "            weir_normals_%s(word%d[i], word%d[i + 1], &normal%d[i], "
                        "&normal%d[i + 1]);\n", j, suffix, j, j, j, j);
}

/* Adds v<j> = the row applied to its operands. */
static void add_step(const weir_ew_program *p, int j, weir_string *to)
{
    const row_def *const r = row_of(p, j);

    weir_string_add(to, "            T v%d;\n            {\n", j);
    for (int i = 0; i < r->nin; i++) {
        const int value = (int)p->step[j].src[i];
        const bool input = value < p->nin;
        weir_string_add(to, "                const T %c = %c%d;\n", 'a' + i, input ? 'i' : 'v',
                        input ? value : value - (int)p->nin);
    }
    for (const char *attr = "st"; *attr; attr++)
        if (says(r->text, (const char[]){*attr, '\0'}))
            weir_string_add(to, "                const T %c = (T)k.%c%d[0];\n", *attr, *attr, j);
    if (says(r->text, "DRAW_NORMAL"))
        weir_string_add(to, "                const T normal = normal%d[i];\n", j);
    if (says(r->text, "DRAW"))
        weir_string_add(to, "                const T uniform = K(weir_uniform_from(word%d[i]));\n",
                        j);
    const element *const half = &elements[p->step[j].rounds];
    weir_string_add(to, "                v%d = (T)%s(%s(WEIR_ROUND((T)(%s))));\n            }\n", j,
                    half->load, half->store, r->text);
}

static void add_inputs(const weir_source *s, weir_string *to)
{
    for (int i = 0; i < s->program->nin; i++)
        if (s->read[i] == WEIR_READ_SCALAR)
            weir_string_add(to, "            const T i%d = scalar%d;\n", i, i);
        else
            weir_string_add(to, "            const T i%d = (T)%s(x%d.e[i]);\n", i,
                            elements[s->in[i]].load, i);
}

/* Adds what is the same for all positions. */
static void add_constants(const weir_source *s, weir_string *to)
{
    const weir_ew_program *const p = s->program;
    bool                         random = false;

    for (int j = 0; j < p->nstep; j++)
        random = random || draws(row_of(p, j));
    if (random)
        weir_string_add(to, "    const uint64_t seed = k.draw ? k.draw[0] : k.seed;\n"
                        "    const uint64_t base = k.draw ? k.draw[1] : 0;\n");
    for (int i = 0; i < p->nin; i++)
        if (s->read[i] == WEIR_READ_SCALAR)
            weir_string_add(to, "    const T scalar%d = (T)%s(k.in%d[0]);\n", i,
                            elements[s->in[i]].load, i);
}

static void add_body(const weir_source *s, const char *suffix, weir_string *to)
{
    const weir_ew_program *const p = s->program;

    for (int i = 0; i < p->nin; i++)
        add_read(i, s->read[i], elements[s->in[i]].stored, to);
    for (int j = 0; j < p->nstep; j++)
        if (draws(row_of(p, j)))
            add_draw(j, row_of(p, j), suffix, to);
    for (int o = 0; o < p->nout; o++)
        weir_string_add(to, "        weir_pack_%s y%d;\n", elements[s->out[o]].stored, o);
    weir_string_add(to, "#pragma unroll\n        for (int i = 0; i < WEIR_WIDTH; i++) {\n");
    add_inputs(s, to);
    for (int j = 0; j < p->nstep; j++)
        add_step(p, j, to);
    for (int o = 0; o < p->nout; o++)
        weir_string_add(to, "            y%d.e[i] = (%s)%s(v%d);\n", o, elements[s->out[o]].stored,
                        elements[s->out[o]].store, (int)p->out[o]);
    weir_string_add(to, "        }\n");
    for (int o = 0; o < p->nout; o++)
        weir_string_add(to, "        weir_write_%s(&y%d, k.out%d + at, some, k.wide >> %d & 1);\n",
                        elements[s->out[o]].stored, o, o, WEIR_WIDE_OUT + o);
}

void weir_source_add(const weir_source *s, weir_string *text)
{
    const element *const e = &elements[s->program->type];
    const row_types      types = row_of(s->program, 0)->types;

    add_types(s, types == NUMBERS ? e->number : e->ordered, text);
    weir_string_add(text, "%s", kernel_text);
    add_stored(s, text);
    add_parameters(s, text);
    for (int i = 0; i < s->program->nin; i++)
        if (s->read[i] > 0)
            add_place(i, s->read[i], text);
    weir_string_add(text, "WEIR_KERNEL void " WEIR_SOURCE_KERNEL "(const weir_args k)\n{\n");
    add_constants(s, text);
    weir_string_add(text, "    for (int64_t at = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x)"
                    " * WEIR_WIDTH; at < k.n;\n         at += (int64_t)gridDim.x * blockDim.x * "
                    "WEIR_WIDTH) {\n        const int some = k.n - at < WEIR_WIDTH ? "
                    "(int)(k.n - at) : WEIR_WIDTH;\n");
    add_body(s, e->suffix, text);
    weir_string_add(text, "    }\n}\n");
}
