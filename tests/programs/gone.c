/* A sender gives its memory away before the receiver has read it. That is a mistake of the program, and both sides are
   told: nobody waits for ever. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define BYTES (1 << 20)

int main(int argc, char **argv)
{
    int rank, error;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    /* Far from where the system puts other maps, so that none of them takes the place. */
    char *memory = mmap((void *)0x100000000000, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (rank == 0) {
        MPI_Request request;
        MPI_Isend(memory, BYTES, MPI_CHAR, 1, 5, MPI_COMM_WORLD, &request);
        munmap(memory, BYTES);
        MPI_Send(NULL, 0, MPI_CHAR, 1, 6, MPI_COMM_WORLD);
        error = MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(NULL, 0, MPI_CHAR, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        error = MPI_Recv(memory, BYTES, MPI_CHAR, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(error, text, &length);
    printf("rank %d: %s\n", rank, error == MPI_SUCCESS ? "no error" : text);
    MPI_Finalize();
    return error == MPI_SUCCESS;
}
