/* show.c - options, clock, progress bar, files and table of the examples. */
#include "show.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void help(const char *program, const char *job, const show_option *options, size_t n)
{
    static const char *const values[] = {"", " N", " on|off", " TEXT"};

    printf("%s - %s\n", program, job);
    for (size_t i = 0; i < n; i++) {
        char head[40];
        snprintf(head, sizeof head, "--%s%s", options[i].name, values[options[i].kind]);
        printf("  %-18s %s\n", head, options[i].meaning);
    }
}

static bool set_number(int *out, const char *text)
{
    char      *end;
    const long v = strtol(text, &end, 10);
    if (*text == '\0' || *end != '\0' || v < 0 || v > 1000000)
        return false;
    *out = (int)v;
    return true;
}

static bool set_switch(int *out, const char *text)
{
    *out = strcmp(text, "on") == 0;
    return *out || strcmp(text, "off") == 0;
}

static bool set(const show_option *o, const char *text)
{
    switch (o->kind) {
    case SHOW_NUMBER: return set_number(o->value, text);
    case SHOW_SWITCH: return set_switch(o->value, text);
    case SHOW_TEXT: *(const char **)o->value = text; return true;
    case SHOW_FLAG: *(bool *)o->value = true; return true;
    }
    return false;
}

/* For getopt_long, which returns 0 and the index of the option in the table, or 'h'. */
static void list_names(struct option *to, const show_option *options, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (struct option){options[i].name,
                                options[i].kind == SHOW_FLAG ? no_argument : required_argument,
                                NULL, 0};
    to[n] = (struct option){"help", no_argument, NULL, 'h'};
    to[n + 1] = (struct option){0};
}

bool show_options(int argc, char **argv, const char *job, const show_option *options, size_t n,
                  int *status)
{
    struct option names[SHOW_OPTIONS + 2];

    list_names(names, options, n);
    opterr = 0;
    while (optind < argc) {
        const char *const word = argv[optind];
        int               at = 0;
        const int         found = getopt_long(argc, argv, "+:", names, &at);
        if (found == 'h') {
            help(argv[0], job, options, n);
            *status = 0;
            return false;
        }
        if (found != 0 || !set(&options[at], optarg)) {
            fprintf(stderr, "%s: %s %s; --help lists the options\n", argv[0], word,
                    found == 0 || found == ':' ? "needs a valid value" : "is not an option");
            *status = 2;
            return false;
        }
    }
    return true;
}

double show_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double show_median(double *values, size_t n)
{
    if (n == 0)
        return 0;
    qsort(values, n, sizeof *values, by_value);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

void show_progress(const char *label, int done, int total, double loss)
{
    enum { WIDTH = 30 };
    if (!isatty(STDERR_FILENO) || total < 1)
        return;

    const int filled = (int)((long long)done * WIDTH / total);
    char      bar[WIDTH + 1];
    memset(bar, '.', WIDTH);
    memset(bar, '#', (size_t)filled);
    bar[WIDTH] = '\0';
    fprintf(stderr, "\r%s [%s] %d/%d  loss %.4f\033[K%s", label, bar, done, total, loss,
            done == total ? "\n" : "");
    fflush(stderr);
}

void show_write(const char *dir, const char *name, const char *text)
{
    char path[512];

    snprintf(path, sizeof path, "%.400s/%.100s", dir, name);
    FILE *f = mkdir(dir, 0777) == 0 || errno == EEXIST ? fopen(path, "w") : NULL;
    bool  good = f && fputs(text, f) >= 0;
    if (f && fclose(f) != 0)
        good = false;
    fprintf(good ? stdout : stderr, "%s %s\n", good ? "wrote" : "could not write", path);
}

void show_table(size_t rows, size_t columns, char (*cells)[SHOW_CELL])
{
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < columns; c++) {
            size_t width = 0;
            for (size_t i = 0; i < rows; i++) {
                const size_t n = strlen(cells[i * columns + c]);
                width = n > width ? n : width;
            }
            printf("%s%*s", c ? "  " : "", (int)width, cells[r * columns + c]);
        }
        printf("\n");
    }
}
