"""child - runs a function in a process of its own that has this one's imports."""
import multiprocessing
import warnings


def _run(to, function, arguments):
    warnings.simplefilter("ignore")
    try:
        row = function(*arguments)
    except Exception as error:                  # the row names whatever fails
        row = {"error": f"{type(error).__name__}: {error}"}
    to.send(row)


def forked(limit, function, *arguments):
    """The dict that the function returns, or {"error": why it did not}; limit in seconds."""
    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe(duplex=False)
    process = fork.Process(target=_run, args=(there, function, arguments))
    process.start()
    there.close()
    try:
        row = here.recv() if here.poll(limit) else {"error": f"not done within {limit:.0f} s"}
    except EOFError:
        process.join()
        row = {"error": f"ended with code {process.exitcode}"}
    process.kill()
    process.join()
    return row
