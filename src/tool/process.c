/* process.c - what the process takes of the machine's memory, as the kernel counts it.
 *
 * Private are the pages that are no file's: heaps, mappings that were touched, stacks, code made at
 * run time, what programs and libraries have written of their own. Resident are these and the pages
 * of files, mostly the code of libraries, which the system may drop and read again; the kernel
 * remembers the most there were. */
#include "tool/tool.h"

#include <stdio.h>
#include <string.h>

/* The number of kilobytes behind `name` in a file of /proc, in bytes; -1 if it is missing. */
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
