"""machine.py - names the machine that a table was measured on."""
import os
import subprocess


def machine():
    """Processor, cores, vector instructions and memory in one line."""
    facts = {}
    listing = subprocess.run(["lscpu"], capture_output=True, text=True, check=False).stdout
    for line in listing.splitlines():
        key, _, value = line.partition(":")
        facts.setdefault(key.strip(), value.strip())
    flags = facts.get("Flags", "").split()
    best = next((f for f in ("avx512f", "avx2", "avx") if f in flags), "no AVX")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return (f"{facts.get('Model name', 'unknown CPU')} (family {facts.get('CPU family', '?')}, "
            f"model {facts.get('Model', '?')}), {len(os.sched_getaffinity(0))} logical cores, "
            f"{best}, {memory:.0f} GB")
