/* save.c - writes a model as it was read, with the parameters and states of now in their places.
 *
 * Everything else - nodes, names, notes of the exporter - is copied byte for byte, so that any
 * program that read the model before reads it again. */
#include <inttypes.h>

#include "model/onnx/elements.h"
#include "model/onnx/call.h"

enum { PART = 1 << 20 };                /* bytes that are copied at a time */

/* The bytes of the file that hold t's elements, as they lie in memory. */
static weir_status place_of(weir_onnx_proto *p, const weir_onnx_tensor *t, size_t bytes,
                            weir_wire_range *place)
{
    weir_wire       w = weir_wire_over(&p->source, t->message);
    weir_wire_field f;
    bool            more;

    if (t->external)
        return weir_wire_fail(&p->source, "'%.60s' is in another file, which is not written",
                              t->name);
    *place = t->raw;
    while (!t->has_raw) {
        WEIR_TRY(weir_wire_next(&w, &f, &more));
        if (!more)
            break;
        const bool plain = (f.number == 4 && t->type == WEIR_ONNX_FLOAT) ||
                           (f.number == 10 && t->type == WEIR_ONNX_DOUBLE);
        if (plain && f.kind == WEIR_WIRE_RANGE)
            *place = f.range;
    }
    if (place->end - place->at == bytes)
        return WEIR_OK;
    return weir_wire_fail(&p->source, "the elements of '%.60s' do not lie side by side", t->name);
}

static weir_status copy(weir_onnx_proto *p, uint64_t from, uint64_t to, void *buffer,
                        weir_output *o)
{
    while (from < to) {
        const uint64_t n = to - from < PART ? to - from : PART;
        WEIR_TRY(weir_wire_copy(&p->source, (weir_wire_range){from, from + n}, buffer));
        WEIR_TRY(weir_output_add(o, buffer, (size_t)n));
        from += n;
    }
    return WEIR_OK;
}

/* The longest row of a parameter or state, and PART at least. */
static size_t room_for(const struct weir_onnx *m)
{
    size_t room = PART;

    for (size_t i = 0; i < m->proto.graph.n_init; i++) {
        const weir_onnx_value *const v = &m->value[m->proto.graph.init[i].slot];
        const size_t                 need = v->t ? weir_elements_room(v->t) : 0;
        room = need > room ? need : room;
    }
    return room;
}

static weir_status write_all(struct weir_onnx *m, void *buffer, size_t room, weir_output *o)
{
    weir_onnx_proto *const p = &m->proto;
    uint64_t               done = 0;

    for (size_t i = 0; i < p->graph.n_init; i++) {
        const weir_onnx_tensor *const t = &p->graph.init[i];
        weir_onnx_value *const        v = &m->value[t->slot];
        weir_wire_range               at = {0};
        if (!v->kept || v->known)       /* a constant stays as it is */
            continue;
        WEIR_TRY(place_of(p, t, weir_tensor_bytes(v->t), &at));
        if (at.at < done)
            return weir_wire_fail(&p->source, "its tensors overlap");
        WEIR_TRY(copy(p, done, at.at, buffer, o));
        WEIR_TRY(weir_elements_add(v->t, buffer, room, o));
        done = at.end;
    }
    return copy(p, done, p->source.size, buffer, o);
}

static weir_status write_file(struct weir_onnx *m, const char *path)
{
    const size_t room = room_for(m);
    void *const  buffer = weir_host_alloc(room);
    weir_output  o;
    weir_status  s = buffer ? weir_output_begin(&o, "onnx_save", path) : weir_error_status();

    if (s == WEIR_OK) {
        s = write_all(m, buffer, room, &o);
        if (s == WEIR_OK)
            s = weir_output_finish(&o, false);
        else
            weir_output_discard(&o);
    }
    weir_host_free(buffer);
    return s;
}

weir_status weir_onnx_save(weir_onnx *m, const char *path)
{
    if (!m || !path)
        return weir_fail_null("onnx_save", m ? "path" : "model");
    if (!m->path)
        return weir_fail(WEIR_ERR_STATE, "onnx_save: the model was opened from bytes in memory, "
                         "which it does not keep: open it by its path");
    const uint64_t size = m->size;
    WEIR_TRY(weir_wire_open(&m->proto.source, "onnx_save", m->path, NULL, 0));
    const weir_status s = m->proto.source.size == size
                              ? write_file(m, path)
                              : weir_wire_fail(&m->proto.source, "has changed since it was opened: "
                                               "%" PRIu64 " bytes in place of %" PRIu64,
                                               m->proto.source.size, size);
    weir_wire_close(&m->proto.source);
    return s;
}
