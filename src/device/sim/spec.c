/* spec.c - the machine that a simulated device models: presets, and numbers given by name.
 *
 * Presets are published peak numbers, so simulated times are lower bounds. Link bandwidths are what
 * copies from pinned host memory reach: about 12 GB/s of the 15.75 of PCIe 3.0 x16 (and of 4.0 x8),
 * 50 of the 63 of PCIe 5.0 x16. Capacities count a GB as 1e9 bytes; the rest of the 2^30 is left to
 * the driver's context and the libraries. */
#include "device/sim/spec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/status.h"
#include "core/text.h"

#define CALL        5e-6        /* seconds to launch a kernel */
#define COPY        1e-5        /* seconds to launch a copy */
#define WIRE        3.1e9       /* what messages reach of the 25 Gbit/s of a node's Ethernet */
#define ALPHA       2e-5        /* seconds that a message takes besides */
#define MOST_RANKS  65536
#define MOST_BYTES  0x1p50
#define ITEM        64          /* characters of one item, terminator included */

static const struct {
    const char *name;
    double      flops, bytes, link, capacity;
} presets[] = {
    {"format", WEIR_FORMAT_FLOPS, WEIR_FORMAT_BYTES, 12e9, 16e9},
    /* GeForce RTX 4060 Laptop: 3072 cores x 2 x 1.89 GHz, 128 bit of GDDR6 at 16 Gbit/s (NVIDIA,
     * GeForce laptop comparison, 2023). */
    {"laptop", 11.6e12, 256e9, 12e9, 8e9},
    /* Tesla P100 PCIe 16 GB (NVIDIA, Tesla P100 PCIe data sheet, 2016). */
    {"p100", 9.3e12, 732e9, 12e9, 16e9},
    /* Tesla V100 PCIe 16 GB (NVIDIA, Tesla V100 data sheet, 2018). */
    {"v100", 14e12, 900e9, 12e9, 16e9},
    /* GeForce RTX 2080 Ti, reference clocks (NVIDIA, Turing architecture white paper, 2018). */
    {"rtx2080ti", 13.4e12, 616e9, 12e9, 11e9},
    /* H200 SXM, f32 without tensor cores (NVIDIA, H200 data sheet, 2024). */
    {"h200", 67e12, 4.8e12, 50e9, 141e9},
};

enum { PRESETS = sizeof presets / sizeof presets[0], SECONDS, COUNT, BYTES, RANKS };

#define AT(field) offsetof(weir_sim_spec, field)

static const struct {
    const char *name;
    int         kind;
    size_t      at[2];          /* offsets in weir_sim_spec of the fields that get the number */
} keys[] = {
    {"flops", COUNT, {AT(rates.flops), AT(rates.flops)}},
    {"memory", BYTES, {AT(rates.bytes), AT(rates.bytes)}},
    {"link", BYTES, {AT(rates.link_out), AT(rates.link_in)}},
    {"link_out", BYTES, {AT(rates.link_out), AT(rates.link_out)}},
    {"link_in", BYTES, {AT(rates.link_in), AT(rates.link_in)}},
    {"capacity", BYTES, {AT(capacity), AT(capacity)}},
    {"call", SECONDS, {AT(rates.call), AT(rates.call)}},
    {"copy", SECONDS, {AT(rates.copy), AT(rates.copy)}},
    {"world", RANKS, {AT(world), AT(world)}},
    {"node", RANKS, {AT(node), AT(node)}},
    {"wire", BYTES, {AT(network.wire), AT(network.wire)}},
    {"alpha", SECONDS, {AT(network.alpha), AT(network.alpha)}},
    {"inner", BYTES, {AT(network.inner), AT(network.inner)}},
};

enum { KEYS = sizeof keys / sizeof keys[0] };

static bool read_preset(const char *name, weir_sim_spec *spec)
{
    for (int i = 0; i < PRESETS; i++)
        if (strcmp(presets[i].name, name) == 0) {
            *spec = (weir_sim_spec){
                .rates = {.flops = presets[i].flops, .bytes = presets[i].bytes,
                          .link_out = presets[i].link, .link_in = presets[i].link, .call = CALL,
                          .copy = COPY},
                .capacity = presets[i].capacity,
                .world = 1,
                .node = 1,
                .network = {.wire = WIRE, .alpha = ALPHA}};
            return true;
        }
    return false;
}

/* Parses a decimal number, with a unit if it counts bytes ("16GB", "900GB/s"); -1 for any other
 * text. */
static double read_number(const char *text, int kind)
{
    char        *end;
    const double value = strtod(text, &end);
    char         unit[ITEM];

    if (end == text || strpbrk(text, "xXpP") || !isfinite(value))
        return -1;
    strcpy(unit, end);
    const size_t n = strlen(unit);
    if (kind == BYTES && n > 2 && strcmp(unit + n - 2, "/s") == 0)
        unit[n - 2] = '\0';
    const double bytes = kind == BYTES ? weir_unit_bytes(unit) : unit[0] ? -1 : 1;
    return bytes < 0 ? -1 : value * bytes;
}

static weir_status unknown(const char *item)
{
    weir_string s = {0};

    for (int i = 0; i < PRESETS; i++)
        weir_string_add(&s, "%s%s", i ? ", " : "", presets[i].name);
    for (int i = 0; i < KEYS; i++)
        weir_string_add(&s, ", %s=NUMBER", keys[i].name);
    char *const known = weir_string_take(&s);
    if (!known)
        return WEIR_ERR_NOMEM;
    weir_fail_unknown("device sim: unknown preset or key", item, strlen(item), known);
    weir_text_free(known);
    return WEIR_ERR_INVALID;
}

static bool is_good(int kind, double number)
{
    if (kind == SECONDS)
        return number >= 0 && number < 1e6;
    return number >= 1 && (kind == RANKS ? number <= MOST_RANKS && number == floor(number)
                                         : number <= 1e24);
}

/* Completes the network: within a node ranks exchange over the link of the machine, if nothing else
 * is said. */
static weir_status connect(weir_sim_spec *spec)
{
    weir_network *const n = &spec->network;

    if (fmod(spec->world, spec->node) != 0)
        return weir_fail(WEIR_ERR_INVALID, "device sim: nodes of %.0f ranks do not divide a world "
                         "of %.0f", spec->node, spec->world);
    n->world = (int)spec->world;
    n->node = (int)spec->node;
    n->inner_alpha = spec->rates.copy;
    if (n->inner <= 0)
        n->inner = fmin(spec->rates.link_out, spec->rates.link_in);
    return WEIR_OK;
}

/* Parses "KEY=VALUE". */
static weir_status read_item(char *item, weir_sim_spec *spec)
{
    char *const value = strchr(item, '=');
    int         k = 0;

    if (!value)
        return unknown(item);
    *value = '\0';
    while (k < KEYS && strcmp(keys[k].name, item) != 0)
        k++;
    if (k == KEYS)
        return unknown(item);
    const double number = read_number(value + 1, keys[k].kind);
    if (!is_good(keys[k].kind, number))
        return weir_fail(WEIR_ERR_INVALID, "device sim: %s=%s must be %s", item, value + 1,
                         keys[k].kind == SECONDS ? "seconds such as 5e-6, not negative"
                         : keys[k].kind == RANKS ? "a whole number of ranks from 1 to 65536"
                         : keys[k].kind == BYTES ? "at least 1 byte, such as 12e9, 900GB or 16GiB"
                                                 : "at least 1 a second, such as 14e12");
    for (int i = 0; i < 2; i++)
        *(double *)(void *)((char *)spec + keys[k].at[i]) = number;
    return WEIR_OK;
}

weir_status weir_sim_spec_read(const char *text, weir_sim_spec *spec)
{
    char item[ITEM];

    read_preset("format", spec);
    for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        const size_t n = strcspn(at, ",");
        if (n == 0)
            return weir_fail(WEIR_ERR_INVALID,
                             "device sim: empty item in '%s'", text);
        if (n >= sizeof item)
            return weir_fail(WEIR_ERR_INVALID, "device sim: '%.*s...' is too long", ITEM - 1, at);
        memcpy(item, at, n);
        item[n] = '\0';
        if (at == text && !strchr(item, '=') && read_preset(item, spec))
            continue;
        WEIR_TRY(read_item(item, spec));
    }
    if (spec->capacity > MOST_BYTES)
        return weir_fail(WEIR_ERR_INVALID, "device sim: capacity is %g bytes, %g is the most",
                         spec->capacity, MOST_BYTES);
    return connect(spec);
}
