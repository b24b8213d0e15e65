/* sources.c - opens a file, or a manifest and its parts. See sources.h.
 *
 * A manifest is as hostile as any file: parts are names within its folder, and their sizes and
 * checksums must be those that it says. */
#include "model/file/sources.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/file/crc32.h"
#include "model/model.h"

static const char of_rank[] = "weir_rank.";

const char *weir_rank_key(const char *key, size_t r, char text[WEIR_KEY_TEXT])
{
    snprintf(text, WEIR_KEY_TEXT, "%.40s.%zu", key, r);
    return text;
}

static weir_status check_format(const weir_file_source *s)
{
    const char *const format = weir_header_note(&s->header, "weir_format");

    if (format && strcmp(format, "1") != 0)
        return weir_file_fail(&s->file, "has the format '%.20s'; this library reads format 1",
                              format);
    return WEIR_OK;
}

/* ---- parts ---- */

/* The path of a part: a name without a folder, in the manifest's folder. */
static weir_status part_path(const weir_file_sources *s, const char *name, char path[PATH_MAX])
{
    const char *const slash = strrchr(s->main.file.path, '/');
    const int         folder = slash ? (int)(slash - s->main.file.path) + 1 : 0;

    if (!*name || strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return weir_file_fail(&s->main.file, "'%.60s' is no name of a part", name);
    if (snprintf(path, PATH_MAX, "%.*s%s", folder, s->main.file.path, name) >= PATH_MAX)
        return weir_file_fail(&s->main.file, "the part '%.60s...' has too long a path", name);
    return WEIR_OK;
}

static weir_status check_sum(weir_file_source *p, uint64_t wanted)
{
    enum { CHUNK = 1 << 16 };
    weir_crc32 crc;
    char *const chunk = weir_host_alloc(CHUNK);
    weir_status status = chunk ? WEIR_OK : weir_error_status();

    weir_crc32_begin(&crc);
    while (status == WEIR_OK && p->file.at < p->file.size) {
        const uint64_t left = p->file.size - p->file.at;
        const size_t   n = left < CHUNK ? (size_t)left : CHUNK;
        if ((status = weir_file_read(&p->file, chunk, n)) == WEIR_OK)
            weir_crc32_add(&crc, chunk, n);
    }
    weir_host_free(chunk);
    WEIR_TRY(status);
    if (weir_crc32_value(&crc) != wanted)
        return weir_file_fail(&p->file, "has the checksum %08" PRIx32 ", the manifest says "
                              "%08" PRIx64, weir_crc32_value(&crc), wanted);
    return weir_file_rewind(&p->file);
}

static weir_status open_part(weir_file_sources *s, size_t r)
{
    weir_file_source *const p = &s->part[r];
    const char *const  what = s->main.file.what;
    char               key[WEIR_KEY_TEXT];
    uint64_t           bytes, crc;

    const char *const name = weir_header_note(&s->main.header,
                                              weir_rank_key("weir_part", r, key));
    if (!name)
        return weir_file_fail(&s->main.file, "lacks %s", key);
    WEIR_TRY(part_path(s, name, p->path));
    WEIR_TRY(weir_header_number(&s->main.header, &s->main.file, what,
                                weir_rank_key("weir_part_bytes", r, key), &bytes));
    WEIR_TRY(weir_header_number(&s->main.header, &s->main.file, what,
                                weir_rank_key("weir_part_crc32", r, key), &crc));
    WEIR_TRY(weir_file_open(&p->file, what, p->path));
    if (p->file.size != bytes)
        return weir_file_fail(&p->file, "has %" PRIu64 " bytes, the manifest says %" PRIu64,
                              p->file.size, bytes);
    WEIR_TRY(check_sum(p, crc));
    WEIR_TRY(weir_header_read(&p->header, &p->file));
    return check_format(p);
}

static weir_status open_parts(weir_file_sources *s, int rank)
{
    uint64_t n;

    if (!weir_header_note(&s->main.header, "weir_ranks"))
        return WEIR_OK;
    WEIR_TRY(weir_header_number(&s->main.header, &s->main.file, s->main.file.what, "weir_ranks",
                                &n));
    if (n < 1 || n > WEIR_RANKS_MAX)
        return weir_file_fail(&s->main.file, "is of %" PRIu64 " ranks, not 1 to %d", n,
                              WEIR_RANKS_MAX);
    if (s->main.header.entries > 0)
        return weir_file_fail(&s->main.file, "is a manifest, and has tensors");
    s->part = weir_host_alloc((size_t)n * sizeof *s->part);
    if (!s->part)
        return weir_error_status();
    s->rank = rank % (int)n;
    for (size_t r = 0; r < n; r++) {
        s->part[r] = (weir_file_source){.file.fd = -1};
        s->parts++;
        WEIR_TRY(open_part(s, r));
    }
    return WEIR_OK;
}

weir_status weir_sources_open(weir_file_sources *s, const char *what, const char *path, int rank)
{
    *s = (weir_file_sources){.main.file.fd = -1};
    WEIR_TRY(weir_file_open(&s->main.file, what, path));
    WEIR_TRY(weir_header_read(&s->main.header, &s->main.file));
    WEIR_TRY(check_format(&s->main));
    return open_parts(s, rank);
}

void weir_sources_close(weir_file_sources *s)
{
    for (size_t r = 0; r < s->parts; r++) {
        weir_file_close(&s->part[r].file);
        weir_header_free(&s->part[r].header);
    }
    weir_host_free(s->part);
    weir_file_close(&s->main.file);
    weir_header_free(&s->main.header);
    *s = (weir_file_sources){.main.file.fd = -1};
}

/* ---- looking up ---- */

static weir_file_entry *find(weir_file_sources *s, const char *name, weir_file_source **from)
{
    weir_file_entry *e = NULL;

    *from = &s->main;
    if (s->parts == 0)
        return weir_header_find(&s->main.header, name);
    for (size_t r = 0; r < s->parts && !e; r++) {
        *from = &s->part[r];
        e = weir_header_find(&s->part[r].header, name);
    }
    return e;
}

weir_file_entry *weir_sources_find(weir_file_sources *s, const char *name, weir_file_source **from)
{
    char             own[WEIR_NAME_MAX + 80];
    weir_file_entry *e = NULL;

    snprintf(own, sizeof own, "%s%d.%s", of_rank, s->rank, name);
    if (s->parts > 0 && s->rank > 0)
        e = weir_header_find(&s->part[s->rank].header, own);
    if (!e)
        return find(s, name, from);
    weir_file_entry *const of_all = find(s, name, from);
    if (of_all)
        of_all->taken = true;   /* this rank's own stands for it */
    *from = &s->part[s->rank];
    return e;
}

bool weir_source_of_rank(const weir_file_entry *e)
{
    return strncmp(e->name, of_rank, sizeof of_rank - 1) == 0;
}

const char *weir_sources_note(const weir_file_sources *s, const char *key)
{
    char              text[WEIR_KEY_TEXT];
    const char *const own =
        s->rank > 0 ? weir_header_note(&s->main.header, weir_rank_key(key, (size_t)s->rank, text))
                    : NULL;

    return own ? own : weir_header_note(&s->main.header, key);
}

weir_status weir_sources_number(const weir_file_sources *s, const char *key, uint64_t *value)
{
    char       text[WEIR_KEY_TEXT];
    const bool own = s->rank > 0 && weir_header_note(&s->main.header,
                                                     weir_rank_key(key, (size_t)s->rank, text));

    return weir_header_number(&s->main.header, &s->main.file, "run_save", own ? text : key, value);
}
