/* sources.h - what a run or a model is loaded from: a safetensors file, or the files of all ranks
 * that a manifest names.
 *
 * A manifest is a safetensors file without tensors. Its __metadata__ has "weir_ranks", the number
 * of files, and for each rank R "weir_part.R", its file in the manifest's folder, with
 * "weir_part_bytes.R" and "weir_part_crc32.R". What differs between ranks is there with the suffix
 * ".R"; a tensor that is another one on rank R than on rank 0 is called "weir_rank.R.NAME". */
#ifndef WEIR_MODEL_FILE_SOURCES_H
#define WEIR_MODEL_FILE_SOURCES_H

#include <limits.h>

#include "model/file/header.h"

/* Most ranks of a manifest, and the bytes of a key of __metadata__ with a rank's number. */
enum { WEIR_RANKS_MAX = 65536, WEIR_KEY_TEXT = 64 };

typedef struct weir_file_source {
    weir_file   file;
    weir_header header;
    char        path[PATH_MAX];         /* of a part */
} weir_file_source;

typedef struct weir_file_sources {
    weir_file_source  main;          /* the file, or the manifest */
    weir_file_source *part;          /* [parts] owned */
    size_t       parts;         /* 0: no manifest */
    int          rank;          /* the rank of the checkpoint whose values are this rank's */
} weir_file_sources;

/* Opens and checks the file, and with a manifest all parts, checksums included. rank: this rank; of
 * a checkpoint of fewer ranks it takes the place of one of them. ERR_IO. Close it even then. */
weir_status weir_sources_open(weir_file_sources *s, const char *what, const char *path, int rank);
void        weir_sources_close(weir_file_sources *s);

/* This rank's tensor of the name, else that of all; *from gets its file. NULL: none has it. */
weir_file_entry *weir_sources_find(weir_file_sources *s, const char *name, weir_file_source **from);

/* This rank's note, else that of all; NULL: the file lacks it. */
const char *weir_sources_note(const weir_file_sources *s, const char *key);

/* The same as a number: weir_header_number. */
weir_status weir_sources_number(const weir_file_sources *s, const char *key, uint64_t *value);

/* Is it the tensor of one rank, whichever it is? */
bool weir_source_of_rank(const weir_file_entry *e);

/* The key of rank r: "weir_seed.3". */
const char *weir_rank_key(const char *key, size_t r, char text[WEIR_KEY_TEXT]);

#endif
