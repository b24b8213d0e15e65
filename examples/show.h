/* show.h - shared by the examples: options, a clock, a progress bar, a table, text files. */
#ifndef EXAMPLES_SHOW_H
#define EXAMPLES_SHOW_H

#include <stdbool.h>
#include <stddef.h>

/* One command-line option "--NAME VALUE", or "--NAME" alone for a flag. `value` holds the
 * default. */
typedef struct show_option {
    const char *name;       /* without the dashes */
    enum { SHOW_FLAG, SHOW_NUMBER, SHOW_SWITCH, SHOW_TEXT } kind;
    void       *value;      /* bool; int, 0 to 1000000; int, on 1, off 0; const char *: by kind */
    const char *meaning;
} show_option;

#define SHOW_OPTIONS 16     /* the largest n */

/* Reads argv with getopt_long. Returns false if the program should end, with exit code *status: 0
 * after --help, 2 after an invalid option, which is named on stderr. */
bool show_options(int argc, char **argv, const char *job, const show_option *options, size_t n,
                  int *status);

/* Milliseconds of a steady clock. */
double show_ms(void);

/* The median; sorts `values`. 0 if n is 0. */
double show_median(double *values, size_t n);

/* Redraws "LABEL [####....] 40/100 loss 0.1234" on stderr if that is a terminal; done == total
 * ends the line. */
void show_progress(const char *label, int done, int total, double loss);

/* Writes text to DIR/NAME, creates DIR if it is missing, and names the file on stdout, or a failure
 * on stderr. */
void show_write(const char *dir, const char *name, const char *text);

/* Prints a table of rows x columns cells on stdout: row 0 has the headings, columns are aligned to
 * the right. */
#define SHOW_CELL 32
void show_table(size_t rows, size_t columns, char (*cells)[SHOW_CELL]);

#endif
