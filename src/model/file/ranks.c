/* ranks.c - saves a run by all ranks of a communicator. See ranks.h, sources.h.
 *
 * Each rank writes a part of the tensors, beside the parts of the former checkpoint, whose names
 * have another generation. Only when all parts are on the disk does rank 0 put the manifest in the
 * place of the former one, by a rename: until then that is the checkpoint, whatever fails, and
 * from then on the new one is. The former parts go last.
 *
 * Every rank has all tensors, so the ranks share out the work of writing them. A tensor that is
 * another one on some rank, such as the running statistics of that rank's data, is written by each
 * rank whose elements differ from rank 0's. */
#include "model/file/ranks.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/digest.h"
#include "model/file/save.h"

enum { SENTENCE = 768, PART_NAME = 300, NUMBER_TEXT = 24 };

/* How a rank has fared. */
typedef struct verdict {
    uint64_t status;
    char     sentence[SENTENCE];
} verdict;

/* What ranks must have in common, and the generation that rank 0 gives. */
typedef struct common {
    uint64_t items, digest, step, generation;
} common;

/* What the manifest says of a rank. */
typedef struct part {
    uint64_t bytes, crc32, seed, position, reader[WEIR_READER_NUMBERS];
} part;

typedef struct saving {
    weir_comm              *comm;
    const weir_run         *run;
    const char             *what, *path;
    const weir_save_options *options;
    weir_file_items         items;
    size_t                  n;          /* of items that are saved */
    uint64_t               *digest;     /* [world][n] of their elements */
    uint64_t                generation;
    char                    mine[PATH_MAX];     /* this rank's part */
    part                   *part;       /* [world] */
} saving;

/* ---- what all ranks learn ---- */

weir_status weir_ranks_verdict(weir_comm *c, const char *what, weir_status s)
{
    const int      world = weir_comm_world(c);
    verdict        mine = {.status = s};
    verdict *const all = weir_host_alloc((size_t)world * sizeof *all);

    if (!all)
        return s != WEIR_OK ? s : weir_error_status();
    if (s != WEIR_OK)
        snprintf(mine.sentence, sizeof mine.sentence, "%s", weir_error());
    weir_status gathered = weir_comm_gather(c, &mine, sizeof mine, all);
    if (gathered != WEIR_OK && s == WEIR_OK)
        s = weir_fail(gathered, "%s: %s", what, weir_error());
    for (int r = 0; r < world && gathered == WEIR_OK; r++)
        if (all[r].status != WEIR_OK) {
            s = mine.status != WEIR_OK
                    ? weir_fail((weir_status)mine.status, "%s", mine.sentence)
                    : weir_fail((weir_status)all[r].status, "%s: rank %d has failed: %.*s", what, r,
                                SENTENCE - 1, all[r].sentence);
            break;
        }
    weir_host_free(all);
    return s;
}

static weir_status verdict_of(const saving *s, weir_status status)
{
    return weir_ranks_verdict(s->comm, s->what, status);
}

/* ---- the former checkpoint ---- */

/* The manifest's folder, with the slash; *base is its name there. */
static int folder_of(const char *path, const char **base)
{
    const char *const slash = strrchr(path, '/');

    *base = slash ? slash + 1 : path;
    return (int)(*base - path);
}

/* The generation of the manifest at the path; 0 if the path has no manifest. */
static uint64_t generation_of(const saving *s, const char *path)
{
    weir_file   f;
    weir_header h;
    uint64_t    generation = 0;

    if (weir_file_open(&f, s->what, path) != WEIR_OK)
        return 0;
    if (weir_header_read(&h, &f) == WEIR_OK) {
        if (weir_header_note(&h, "weir_ranks"))
            (void)weir_header_number(&h, &f, s->what, "weir_generation", &generation);
        weir_header_free(&h);
    }
    weir_file_close(&f);
    return generation < UINT64_MAX ? generation : 0;
}

/* The generation of PATH.bak; 0: there is no such manifest. */
static uint64_t generation_kept(const saving *s)
{
    char bak[PATH_MAX + 8];

    snprintf(bak, sizeof bak, "%s.bak", s->path);
    return generation_of(s, bak);
}

/* Rank 0: the generation after those of the path and of PATH.bak. */
static void find_generation(saving *s)
{
    const uint64_t now = generation_of(s, s->path), kept = generation_kept(s);

    s->generation = (now > kept ? now : kept) + 1;
}

/* Is it the name of a part, BASE.GENERATION.RANK.part? */
static bool is_part(const char *base, const char *name, uint64_t *generation)
{
    const size_t n = strlen(base);
    char        *end;

    if (strncmp(name, base, n) != 0 || name[n] != '.' || name[n + 1] < '0' || name[n + 1] > '9')
        return false;
    *generation = strtoull(name + n + 1, &end, 10);
    if (*end != '.' || end[1] < '0' || end[1] > '9')
        return false;
    (void)strtoull(end + 1, &end, 10);
    return strcmp(end, ".part") == 0;
}

/* Rank 0, in the end: removes the parts of checkpoints that are replaced, and of those that failed
 * or were killed. */
static void remove_parts(const saving *s)
{
    const char    *base;
    const int      length = folder_of(s->path, &base);
    const uint64_t kept = generation_kept(s);
    char           path[PATH_MAX];
    uint64_t       generation;

    snprintf(path, sizeof path, "%.*s", length, s->path);
    DIR *const folder = opendir(length > 0 ? path : ".");
    for (const struct dirent *e; folder && (e = readdir(folder));)
        if (is_part(base, e->d_name, &generation) && generation != s->generation &&
            generation != kept &&
            snprintf(path, sizeof path, "%.*s%s", length, s->path, e->d_name) < (int)sizeof path)
            (void)weir_disk_in_use->unlink(path);
    if (folder)
        (void)closedir(folder);
}

/* ---- agreement ---- */

static uint64_t digest_items(const saving *s)
{
    uint64_t h = s->n;

    for (size_t i = 0; i < s->n; i++) {
        const weir_file_item *const item = weir_items_at(&s->items, i);
        h = h * 31 + weir_digest(item->name, strlen(item->name));
        h = h * 31 + (uint64_t)item->desc.dtype * 16 + (uint64_t)item->desc.ndim;
        h = h * 31 + weir_digest(item->desc.dim, (size_t)item->desc.ndim * sizeof *item->desc.dim);
    }
    return h;
}

static weir_status begin(saving *s)
{
    const char *base;

    WEIR_TRY(weir_items_of_run(&s->items, s->what, s->run));
    if (!s->path)
        return weir_fail_null(s->what, "path");
    folder_of(s->path, &base);
    if (!*base || strlen(s->path) >= PATH_MAX - 64 || strlen(base) > PART_NAME - 64)
        return weir_fail(WEIR_ERR_IO, "%s: %.150s: is no path of a file, or too long", s->what,
                         s->path);
    if (s->run->step < 0)
        return weir_fail(WEIR_ERR_INVALID, "%s: the step is %" PRId64 " but must be 0 or more",
                         s->what, s->run->step);
    WEIR_TRY(weir_save_arrange(&s->items, &s->n));
    if (weir_comm_rank(s->comm) == 0)
        find_generation(s);
    return WEIR_OK;
}

/* The ranks must save the same tensors at the same step; rank 0's generation is that of all. */
static weir_status compare(saving *s)
{
    const size_t  world = (size_t)weir_comm_world(s->comm);
    const common  mine = {s->n, digest_items(s), (uint64_t)s->run->step, s->generation};
    common *const all = weir_host_alloc(world * sizeof *all);

    if (!all)
        return weir_error_status();
    weir_status status = weir_comm_gather(s->comm, &mine, sizeof mine, all);
    for (size_t r = 1; r < world && status == WEIR_OK; r++) {
        if (all[r].step != all[0].step)
            status = weir_fail(WEIR_ERR_COMM, "%s: rank 0 is at step %" PRIu64 ", rank %zu at step "
                               "%" PRIu64, s->what, all[0].step, r, all[r].step);
        else if (all[r].items != all[0].items || all[r].digest != all[0].digest)
            status = weir_fail(WEIR_ERR_COMM, "%s: rank 0 has %" PRIu64 " tensors, rank %zu "
                               "%" PRIu64 ", or their names, types or shapes differ", s->what,
                               all[0].items, r, all[r].items);
    }
    s->generation = all[0].generation;
    weir_host_free(all);
    return status;
}

static uint64_t largest(const saving *s)
{
    uint64_t most = sizeof(double);

    for (size_t i = 0; i < s->n; i++) {
        const uint64_t bytes = weir_save_bytes(weir_items_at(&s->items, i));
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Digests of the elements of all tensors on this rank. */
static weir_status digest_elements(const saving *s, uint64_t *mine)
{
    void *const buffer = weir_host_alloc((size_t)largest(s));
    weir_status status = buffer ? WEIR_OK : weir_error_status();

    for (size_t i = 0; i < s->n && status == WEIR_OK; i++) {
        const weir_file_item *const item = weir_items_at(&s->items, i);
        if ((status = weir_save_read(&s->items, item, buffer)) == WEIR_OK)
            mine[i] = weir_digest(buffer, (size_t)weir_save_bytes(item));
    }
    weir_host_free(buffer);
    return status;
}

static weir_status gather_digests(saving *s)
{
    const size_t    world = (size_t)weir_comm_world(s->comm), bytes = s->n * sizeof(uint64_t);
    uint64_t *const mine = weir_host_alloc(bytes + 1);

    s->digest = weir_host_alloc(world * bytes + 1);
    weir_status status = mine && s->digest ? digest_elements(s, mine) : weir_error_status();
    status = verdict_of(s, status);
    if (status == WEIR_OK)
        status = weir_comm_gather(s->comm, mine, bytes, s->digest);
    weir_host_free(mine);
    return status;
}

/* ---- this rank's part ---- */

static bool is_same(const saving *s, size_t item, size_t rank)
{
    return s->digest[rank * s->n + item] == s->digest[item];
}

/* Lists what this rank writes. Tensors that all ranks have go, one after another, to the rank that
 * has the fewest bytes so far. */
static weir_status share_out(const saving *s, weir_file_items *mine)
{
    const size_t    world = (size_t)weir_comm_world(s->comm);
    const size_t    rank = (size_t)weir_comm_rank(s->comm);
    uint64_t *const load = weir_host_alloc(world * sizeof *load);
    weir_status     status = load ? WEIR_OK : weir_error_status();

    for (size_t r = 0; r < world && load; r++)
        load[r] = 0;
    for (size_t i = 0; i < s->n && status == WEIR_OK; i++) {
        weir_file_item *const item = weir_items_at(&s->items, i);
        size_t                owner = 0;
        bool                  same = true;
        for (size_t r = 1; r < world; r++) {
            same &= is_same(s, i, r);
            owner = load[r] < load[owner] ? r : owner;
        }
        owner = same ? owner : 0;
        load[owner] += weir_save_bytes(item);
        if (owner != rank && is_same(s, i, rank))
            continue;
        if (owner != rank) {
            char name[WEIR_FILE_NAME];
            snprintf(name, sizeof name, "%s", item->name);
            snprintf(item->name, sizeof item->name, "weir_rank.%zu.%.*s", rank,
                     WEIR_FILE_NAME - 24, name);
        }
        if ((status = weir_list_reserve(&mine->list)) == WEIR_OK)
            mine->list.at[mine->list.n++] = item;
    }
    weir_host_free(load);
    return status;
}

static const char *part_name(const saving *s, size_t rank, char name[PART_NAME])
{
    const char *base;

    folder_of(s->path, &base);
    snprintf(name, PART_NAME, "%s.%" PRIu64 ".%zu.part", base, s->generation, rank);
    return name;
}

static weir_status write_part(saving *s, part *p)
{
    const weir_note note = {"weir_format", "1"};
    const char     *base;
    char            name[PART_NAME];
    weir_file_items mine = {.what = s->what, .model = s->items.model, .optim = s->items.optim};
    weir_output     o;
    weir_crc32      crc;
    size_t          n;

    part_name(s, (size_t)weir_comm_rank(s->comm), name);
    snprintf(s->mine, sizeof s->mine, "%.*s%s", folder_of(s->path, &base), s->path, name);
    weir_status status = share_out(s, &mine);
    status = status == WEIR_OK ? weir_save_arrange(&mine, &n) : status;
    if (status == WEIR_OK && (status = weir_output_begin(&o, s->what, s->mine)) == WEIR_OK) {
        weir_crc32_begin(&crc);
        o.crc = &crc;
        status = weir_save_write(&mine, n, &note, 1, &o);
        p->bytes = o.bytes;
        p->crc32 = weir_crc32_value(&crc);
        if (status == WEIR_OK)
            status = weir_output_finish(&o, false);
        else
            weir_output_discard(&o);
    }
    weir_list_free(&mine.list);
    return status;
}

/* The numbers of this rank that the manifest has beside its part. */
static weir_status describe(const saving *s, part *p)
{
    const weir_random  random = weir_device_random(s->run->model->dev);
    weir_batches_state at = {0};

    p->seed = random.seed;
    p->position = random.position;
    if (s->run->batches)
        WEIR_TRY(weir_batches_get_state(s->run->batches, &at));
    weir_reader_numbers(&at, p->reader);
    return WEIR_OK;
}

/* ---- the manifest ---- */

/* Lines of the manifest while they are collected. */
typedef struct lines {
    weir_note *note;
    size_t     n;
    char     (*key)[WEIR_KEY_TEXT], (*value)[NUMBER_TEXT], (*name)[PART_NAME];
} lines;

static void add_number(lines *l, const char *key, size_t rank, uint64_t value)
{
    snprintf(l->value[l->n], NUMBER_TEXT, "%" PRIu64, value);
    l->note[l->n] = (weir_note){weir_rank_key(key, rank, l->key[l->n]), l->value[l->n]};
    l->n++;
}

static void add_rank(const saving *s, lines *l, size_t r)
{
    const part *const p = &s->part[r];

    l->note[l->n] = (weir_note){weir_rank_key("weir_part", r, l->key[l->n]),
                                part_name(s, r, l->name[r])};
    l->n++;
    add_number(l, "weir_part_bytes", r, p->bytes);
    add_number(l, "weir_part_crc32", r, p->crc32);
    if (r == 0)
        return;                 /* whose numbers are the run's */
    add_number(l, "weir_seed", r, p->seed);
    add_number(l, "weir_position", r, p->position);
    for (int i = 0; i < WEIR_READER_NUMBERS && s->run->batches; i++)
        add_number(l, weir_reader_key[i], r, p->reader[i]);
}

static weir_status write_notes(const saving *s, const weir_run_notes *run, lines *l)
{
    const size_t          world = (size_t)weir_comm_world(s->comm);
    const weir_file_items none = {.what = s->what};
    char                  ranks[NUMBER_TEXT], generation[NUMBER_TEXT];
    weir_output           o;

    snprintf(ranks, sizeof ranks, "%zu", world);
    snprintf(generation, sizeof generation, "%" PRIu64, s->generation);
    memcpy(l->note, run->note, run->n * sizeof *l->note);
    l->n = run->n;
    l->note[l->n++] = (weir_note){"weir_generation", generation};
    l->note[l->n++] = (weir_note){"weir_ranks", ranks};
    for (size_t r = 0; r < world; r++)
        add_rank(s, l, r);
    WEIR_TRY(weir_output_begin(&o, s->what, s->path));
    const weir_status status = weir_save_write(&none, 0, l->note, l->n, &o);
    if (status == WEIR_OK)
        return weir_output_finish(&o, s->options && s->options->keep_previous);
    weir_output_discard(&o);
    return status;
}

/* Rank 0. */
static weir_status write_manifest(const saving *s)
{
    const size_t   world = (size_t)weir_comm_world(s->comm);
    const size_t   most = WEIR_RUN_NOTES + 2 + world * (5 + WEIR_READER_NUMBERS);
    weir_run_notes run;
    lines          l = {.note = weir_host_alloc(most * sizeof *l.note),
                        .key = weir_host_alloc(most * sizeof *l.key),
                        .value = weir_host_alloc(most * sizeof *l.value),
                        .name = weir_host_alloc(world * sizeof *l.name)};
    weir_status    status = l.note && l.key && l.value && l.name
                                ? weir_run_notes_make(&run, s->run) : weir_error_status();

    if (status == WEIR_OK)
        status = write_notes(s, &run, &l);
    weir_host_free(l.note);
    weir_host_free(l.key);
    weir_host_free(l.value);
    weir_host_free(l.name);
    return status;
}

/* ---- saving ---- */

/* All parts are written, or those that are go again. A part stays after an ERR_COMM, when this rank
 * cannot know whether rank 0 has heard of all parts and names them in the manifest; the next
 * checkpoint replaces it if not. */
static weir_status write_parts(saving *s)
{
    part              mine = {0};
    weir_status       status = describe(s, &mine);
    const weir_status written = status == WEIR_OK ? write_part(s, &mine) : status;

    status = verdict_of(s, written);
    if (status != WEIR_OK && status != WEIR_ERR_COMM && written == WEIR_OK)
        (void)weir_disk_in_use->unlink(s->mine);
    return status == WEIR_OK ? weir_comm_gather(s->comm, &mine, sizeof mine, s->part) : status;
}

static weir_status save(saving *s)
{
    WEIR_TRY(verdict_of(s, begin(s)));
    WEIR_TRY(compare(s));
    WEIR_TRY(gather_digests(s));
    s->part = weir_host_alloc((size_t)weir_comm_world(s->comm) * sizeof *s->part);
    WEIR_TRY(verdict_of(s, s->part ? WEIR_OK : weir_error_status()));
    WEIR_TRY(write_parts(s));
    WEIR_TRY(verdict_of(s, weir_comm_rank(s->comm) == 0 ? write_manifest(s) : WEIR_OK));
    if (weir_comm_rank(s->comm) == 0)
        remove_parts(s);
    return WEIR_OK;
}

weir_status weir_run_save(const weir_run *run, const char *path, const weir_save_options *options)
{
    if (!run || weir_comm_world(run->comm) == 1)
        return weir_save_alone(run, path, options);
    saving s = {.comm = run->comm, .run = run, .what = "run_save", .path = path,
                .options = options};

    const weir_status status = save(&s);
    weir_items_free(&s.items);
    weir_host_free(s.digest);
    weir_host_free(s.part);
    return status;
}
