/* Rank 0 talks to all others in turn, a message and an answer each, and looks at its memory: pages of its own and of
 * segments that it shares. With a budget of connections they must not grow once the budget is used up. An argument says
 * how many peers that takes (default 16). Prints the bytes then and at the end. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

/* Resident pages, in KiB. */
static long resident(void)
{
    long size, resident;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%ld %ld", &size, &resident) != 2)
        return -1;
    fclose(file);
    return resident * 4;
}

int main(int argc, char **argv)
{
    int rank, size, word, budget = argc > 1 ? atoi(argv[1]) : 16;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0) {
        long then = 0;
        for (int peer = 1; peer < size; peer++) {
            word = peer * 3;
            MPI_Send(&word, 1, MPI_INT, peer, 1, MPI_COMM_WORLD);
            MPI_Recv(&word, 1, MPI_INT, peer, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (word != peer * 3 + 1) {
                fprintf(stderr, "rank %d answered %d\n", peer, word);
                MPI_Abort(MPI_COMM_WORLD, 3);
            }
            if (peer == 2 * budget)
                then = resident();
        }
        printf("%d peers in turn: %ld KiB after %d, %ld KiB at the end\n", size - 1, then, 2 * budget, resident());
    } else {
        MPI_Recv(&word, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        word++;
        MPI_Send(&word, 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
