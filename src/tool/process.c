/* process.c - the memory of the process, as the kernel counts it.
 *
 * Private pages belong to no file: heaps, touched mappings, stacks, code generated at run time, and
 * written data of programs and libraries. Resident pages are these and the pages of files, mostly
 * code of libraries, which the system may drop and read again; the kernel keeps their maximum. */
#include "tool/tool.h"

#include <stdio.h>
#include <string.h>

/* The field `name` of a file in /proc, which is in kilobytes, as bytes; -1 if it is missing. */
static int64_t field(const char *path, const char *name)
{
    FILE *const  f = fopen(path, "r");
    const size_t n = strlen(name);
    char         line[256];
    long long    kilobytes = -1;

    while (f && kilobytes < 0 && fgets(line, sizeof line, f))
        if (strncmp(line, name, n) == 0 && sscanf(line + n, ": %lld", &kilobytes) != 1)
            kilobytes = -1;
    if (f)
        fclose(f);
    return kilobytes < 0 ? -1 : kilobytes * 1024;
}

bool tool_process_read(tool_process *p)
{
    *p = (tool_process){.private_bytes = field("/proc/self/smaps_rollup", "Anonymous"),
                        .resident = field("/proc/self/status", "VmRSS"),
                        .resident_peak = field("/proc/self/status", "VmHWM")};
    return tool_heap_counts() && p->private_bytes >= 0 && p->resident >= 0 && p->resident_peak >= 0;
}

bool tool_process_mark(void)
{
    FILE *const f = fopen("/proc/self/clear_refs", "w");
    const bool  written = f && fputs("5", f) >= 0;

    return f && fclose(f) == 0 && written;
}
