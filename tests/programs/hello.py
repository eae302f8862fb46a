"""Everybody is there: `hello.py N` fails unless it runs on N ranks that can talk to each other."""
import sys

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
if len(sys.argv) > 1 and size != int(sys.argv[1]):
    sys.exit(f"rank {rank}: the world has {size} ranks, not {sys.argv[1]}")
total = world.allreduce(rank)
if total != size * (size - 1) // 2:
    print(f"rank {rank}: sum {total} of {size} ranks", file=sys.stderr)
    world.Abort(1)
if rank == 0:
    print(f"hello from {size} ranks, the first on {MPI.Get_processor_name()}, {MPI.Get_library_version()[:30]!r}")
