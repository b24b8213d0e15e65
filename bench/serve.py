"""serve.py - the protocol by which peers train on command: one line asked, one line answered."""
import sys
import time


def serve(trial, version, batch):
    """Runs what standard input asks for: 'run K', 'memory', 'quit'."""
    print("ready", version, batch, flush=True)
    for line in sys.stdin:
        words = line.split()
        if words == ["quit"]:
            break
        if words == ["memory"]:
            print("memory", trial.persistent(), trial.step_peak(), flush=True)
        elif len(words) == 2 and words[0] == "run" and words[1].isdigit():
            times = []
            for _ in range(int(words[1])):
                begin = time.perf_counter()
                trial.step()
                times.append((time.perf_counter() - begin) * 1e3)
            print("ms", *(f"{t:.6f}" for t in times), flush=True)
        else:
            print("error: send 'run K', 'memory' or 'quit'", flush=True)
