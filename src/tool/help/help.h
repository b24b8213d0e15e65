/* help.h - help and what else is made from the tables of commands and options.
 * Defined in help.c, manual.c and complete.c. */
#ifndef WEIR_TOOL_HELP_HELP_H
#define WEIR_TOOL_HELP_HELP_H

#include "tool/tool.h"

int tool_help(const tool_options *o);

void tool_help_all(FILE *to);                               /* weir --help */
void tool_help_command(FILE *to, const tool_command *c);    /* weir COMMAND --help */

/* The default of an option as text, written into `buffer` if it is a number; NULL: none. */
const char *tool_option_default(const tool_option *r, char *buffer, size_t bytes);

/* One line of weir_environment_text, taken apart. */
typedef struct tool_variable {
    char name[32], reader[16], values[64], fallback[64], meaning[160];
} tool_variable;

/* Reads the next line; *at is NULL before the first. False at the end. */
bool tool_variable_next(const char **at, tool_variable *v);

void tool_manual(FILE *to);         /* weir.1 */

/* Markdown for the reference: one of commands, environment, exit-codes, files; NULL: all. False:
 * there is no such topic. */
bool tool_markdown(FILE *to, const char *topic);

void tool_complete_bash(FILE *to);
void tool_complete_zsh(FILE *to);
void tool_complete_fish(FILE *to);

#endif
