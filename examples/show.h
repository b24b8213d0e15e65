/* show.h - what the examples share: options, a clock, a progress bar, a table, files of text. */
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

#define SHOW_OPTIONS 16     /* n at most */

/* Reads argv, by getopt_long. False when the program should end, with its exit status in *status: 0
 * after --help, 2 after a mistake, which is printed. */
bool show_options(int argc, char **argv, const char *job, const show_option *options, size_t n,
                  int *status);

/* Milliseconds of a clock that only goes forward. */
double show_ms(void);

/* The median; sorts `values`. 0 if n is 0. */
double show_median(double *values, size_t n);

/* Draws "LABEL [####....] 40/100 loss 0.1234" over itself on stderr if that is a terminal; done
 * == total ends the line. */
void show_progress(const char *label, int done, int total, double loss);

/* Writes text to DIR/NAME, makes DIR if need be, and says so on stdout (a failure on stderr). */
void show_write(const char *dir, const char *name, const char *text);

/* Prints rows x columns cells on stdout, row 0 the headings, columns aligned to the right. */
#define SHOW_CELL 32
void show_table(size_t rows, size_t columns, char (*cells)[SHOW_CELL]);

#endif
