/* fake_files.h - files that a test makes up, opened in the place of the system's by core/env.h. */
#ifndef WEIR_TEST_FAKE_FILES_H
#define WEIR_TEST_FAKE_FILES_H

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "core/env.h"

typedef struct fake_file {
    const char *path, *text;
} fake_file;

static const fake_file *fake_files;     /* up to a NULL path */

/* weir_env.open: a pipe with the text, which is short; ENOENT for any other path. */
static int fake_open(const char *path, int flags, mode_t mode)
{
    int end[2];

    (void)flags, (void)mode;
    for (const fake_file *f = fake_files; f->path; f++)
        if (strcmp(f->path, path) == 0 && pipe(end) == 0) {
            CHECK(write(end[1], f->text, strlen(f->text)) == (ssize_t)strlen(f->text));
            close(end[1]);
            return end[0];
        }
    errno = ENOENT;
    return -1;
}

/* Opens these files, which must live on, until weir_env_set(NULL). */
static inline void fake_system(weir_env *e, const fake_file *files)
{
    *e = weir_env_system;
    e->open = fake_open;
    fake_files = files;
    weir_env_set(e);
}

#endif
