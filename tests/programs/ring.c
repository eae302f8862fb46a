/* A token goes once around the ring; nothing else is sent. Every process talks to two others, so that is
 * how many connections it may have. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, size, token = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    if (rank == 0) {
        MPI_Request request;
        MPI_Isend(&rank, 1, MPI_INT, next, 7, MPI_COMM_WORLD, &request); /* a ring of one meets itself */
        MPI_Recv(&token, 1, MPI_INT, previous, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(&token, 1, MPI_INT, previous, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        token += rank;
        MPI_Send(&token, 1, MPI_INT, next, 7, MPI_COMM_WORLD);
    }
    int expected = rank == 0 ? size * (size - 1) / 2 : rank * (rank + 1) / 2;
    if (token != expected) {
        fprintf(stderr, "rank %d: token %d, expected %d\n", rank, token, expected);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0)
        printf("ring of %d: token %d\n", size, token);
    MPI_Finalize();
    return 0;
}
