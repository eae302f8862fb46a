"""The name service: the last of N ranks publishes a port, all look it up, and then it is taken back."""
import os
import sys

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
last = size - 1


def check(right, what):
    if not right:
        print(f"rank {rank} of {size}: wrong {what}", file=sys.stderr)
        world.Abort(1)


def look_up(service):
    try:
        return MPI.Lookup_name(service)
    except MPI.Exception:
        return None


def make_port():  # where the library has no transport that can be connected to later, what looks like a port
    try:
        return MPI.Open_port()
    except MPI.Exception:
        return f"made-up#port${os.getpid()}"


check(len(sys.argv) < 2 or size == int(sys.argv[1]), "number of ranks")
service = port = None
if rank == last:
    service = f"ocean-{os.getpid()}"
    check(look_up(service) is None, "lookup before publishing")
    port = make_port()
    MPI.Publish_name(service, port)
service, port = world.bcast((service, port), root=last)
check(look_up(service) == port, "port found")
world.Barrier()
if rank == last:
    MPI.Unpublish_name(service, port)
world.Barrier()
check(look_up(service) is None, "lookup after unpublishing")
if rank == 0:
    print(f"{size} ranks found {service}")
