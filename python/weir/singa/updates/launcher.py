"""launcher - tells whether a launcher such as mpirun started this process."""
import os

from weir.errors import CommError

# What launchers tell each process of their number: Open MPI, MPICH and Intel MPI, Slurm.
_WORLD_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")


def refuse_launcher() -> None:
    """For a communicator of one rank: a CommError in one of several processes, each of which would
    train a model of its own."""
    if os.environ.get("WEIR_COMM"):             # a world of one, on purpose
        return
    for name in _WORLD_SIZES:
        size = os.environ.get(name, "")
        if size.isdigit() and int(size) > 1:
            raise CommError(f"DistOpt: {name} says that a launcher started {size} processes, but "
                            "this one is alone: start them by weir launch, torchrun, or mpirun or "
                            "mpiexec of Open MPI or MPICH, or give each an NcclIdHolder")
