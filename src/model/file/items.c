/* items.c - collects the tensors of a model or a run and names them. */
#include "model/file/items.h"

#include <stdio.h>
#include <string.h>

#include "model/file/json.h"

/* Adds an item PREFIX NAME SUFFIX; NULL after a failure. */
static weir_file_item *add(weir_file_items *l, weir_file_kind kind, const char *prefix,
                           const char *name, const char *suffix, weir_desc desc)
{
    if (!*name || !weir_json_is_utf8(name) || strlen(name) >= WEIR_NAME_MAX) {
        weir_fail(WEIR_ERR_INVALID, "%s: %s tensor %zu %s", l->what, *prefix ? prefix : "the",
                  l->list.n,
                  !*name ? "has no name" : "has a name that is too long, or that is not UTF-8");
        return NULL;
    }
    if (weir_list_reserve(&l->list) != WEIR_OK)
        return NULL;
    weir_file_item *const item = weir_host_alloc(sizeof *item);
    if (!item)
        return NULL;
    *item = (weir_file_item){.kind = kind, .desc = desc};
    snprintf(item->name, sizeof item->name, "%s%s%s", prefix, name, suffix);
    l->list.at[l->list.n++] = item;
    return item;
}

static weir_status add_tensor(weir_file_items *l, const char *prefix, weir_tensor *t)
{
    weir_file_item *const item = t ? add(l, WEIR_FILE_PLAIN, prefix, weir_tensor_name(t), "",
                                         weir_tensor_desc(t))
                                   : NULL;
    if (item)
        item->tensor = t;
    return item ? WEIR_OK : weir_error_status();
}

weir_status weir_items_of_model(weir_file_items *l, const char *what, const weir_model *m)
{
    *l = (weir_file_items){.what = what};
    if (!m)
        return weir_fail_null(what, "model");
    for (size_t i = 0; i < m->params.tensors.n; i++)
        WEIR_TRY(add_tensor(l, "", m->params.tensors.at[i]));
    for (size_t i = 0; i < m->states.tensors.n; i++)
        WEIR_TRY(add_tensor(l, "", m->states.tensors.at[i]));
    return WEIR_OK;
}

/* ---- the optimiser ---- */

/* The states of one parameter, made or not. */
static weir_status add_parts(weir_file_items *l, weir_tensor *param)
{
    const weir_slot *const slot = weir_optim_find(l->optim, param);
    weir_part              part[WEIR_PARTS];
    char                   suffix[24];
    const int              n = weir_optim_parts(l->optim, param, part);

    for (int i = 0; i < n; i++) {
        snprintf(suffix, sizeof suffix, ".%s", part[i].name);
        weir_file_item *const item = add(l, WEIR_FILE_PART, "optim.", weir_tensor_name(param),
                                         suffix, part[i].desc);
        if (!item)
            return weir_error_status();
        item->tensor = part[i].tensor;
        item->param = param;
    }
    weir_file_item *const sum = add(l, WEIR_FILE_SUM, "optim.", weir_tensor_name(param), ".sum",
                                    weir_optim_sum_desc(l->optim, param));
    if (!sum)
        return weir_error_status();
    sum->tensor = slot ? slot->sum : NULL;
    sum->param = param;
    return WEIR_OK;
}

static bool trainable(const weir_tensor *t)
{
    const weir_dtype type = weir_tensor_desc(t).dtype;
    return type == WEIR_F32 || type == WEIR_F64;
}

static bool is_in(const weir_list *l, const weir_tensor *t)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->at[i] == t)
            return true;
    return false;
}

/* States of the model's parameters, and of others that the optimiser has updated. */
static weir_status add_states(weir_file_items *l)
{
    const weir_list *const params = &l->model->params.tensors, *const slots = &l->optim->slots;

    for (size_t i = 0; i < params->n; i++)
        if (trainable(params->at[i]))
            WEIR_TRY(add_parts(l, params->at[i]));
    for (size_t i = 0; i < slots->n; i++) {
        weir_tensor *const param = ((weir_slot *)slots->at[i])->param;
        if (!is_in(params, param))
            WEIR_TRY(add_parts(l, param));
    }
    return WEIR_OK;
}

static weir_status add_optim(weir_file_items *l)
{
    static const struct {
        const char *name;
        weir_dtype  dtype;
    } rates[WEIR_RATES] = {[WEIR_F32_RATE] = {"lr.f32", WEIR_F32},
                           [WEIR_F64_RATE] = {"lr.f64", WEIR_F64}};
    weir_file_item *item = add(l, WEIR_FILE_LR, "optim.", "lr", "", weir_scalar(WEIR_F64));

    for (int i = 0; item && i < WEIR_RATES; i++)
        if ((item = add(l, WEIR_FILE_RATE, "optim.", rates[i].name, "",
                        weir_scalar(rates[i].dtype))))
            item->tensor = l->optim->lr[i];
    if (item && l->optim->step &&
        (item = add(l, WEIR_FILE_PLAIN, "optim.", "step", "", weir_scalar(WEIR_F64))))
        item->tensor = l->optim->step;
    if (item && l->optim->summed &&
        (item = add(l, WEIR_FILE_SUM, "optim.", "summed", "", weir_scalar(WEIR_F64))))
        item->tensor = l->optim->summed;
    return item ? add_states(l) : weir_error_status();
}

weir_status weir_items_of_run(weir_file_items *l, const char *what, const weir_run *run)
{
    *l = (weir_file_items){0};
    if (!run)
        return weir_fail_null(what, "run");
    if (run->tensor_count && !run->tensors)
        return weir_fail_null(what, "tensors");
    WEIR_TRY(weir_items_of_model(l, what, run->model));
    l->model = run->model;
    l->optim = run->optim;
    if (run->optim)
        WEIR_TRY(add_optim(l));
    for (size_t i = 0; i < weir_scaler_state_count(run->scaler); i++)
        WEIR_TRY(add_tensor(l, "", weir_scaler_state(run->scaler, i)));
    for (size_t i = 0; i < run->tensor_count; i++) {
        if (!run->tensors[i])
            return weir_fail_null(what, "a tensor of tensors");
        WEIR_TRY(add_tensor(l, "program.", run->tensors[i]));
    }
    return WEIR_OK;
}

void weir_items_free(weir_file_items *l)
{
    for (size_t i = 0; i < l->list.n; i++)
        weir_host_free(l->list.at[i]);
    weir_list_free(&l->list);
}

/* ---- a reader of batches ---- */

const char *const weir_reader_key[WEIR_READER_NUMBERS] = {
    "weir_batches_epoch", "weir_batches_batch",   "weir_batches_seed",     "weir_batches_samples",
    "weir_batches_size",  "weir_batches_shuffle", "weir_batches_drop_last"};

void weir_reader_numbers(const weir_batches_state *at, uint64_t number[WEIR_READER_NUMBERS])
{
    const uint64_t all[WEIR_READER_NUMBERS] = {
        (uint64_t)at->epoch, (uint64_t)at->batch, at->seed,     (uint64_t)at->samples,
        (uint64_t)at->size,  at->shuffle,         at->drop_last};

    memcpy(number, all, sizeof all);
}

void weir_reader_place(const uint64_t number[WEIR_READER_NUMBERS], weir_batches_state *at)
{
    *at = (weir_batches_state){(int64_t)number[0], (int64_t)number[1], number[2],
                               (int64_t)number[3], (int64_t)number[4], number[5] != 0,
                               number[6] != 0};
}
