/* Exchanges numbered messages of many sizes with both neighbours for some seconds, and checks that none is lost, comes
 * twice or out of order.
 *
 *   steady [SECONDS]          rank 0 prints "steady: begun" when all have exchanged something
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORDS_MAX = 40000, ROUND = 50 };

static int rank, size;
static int out[WORDS_MAX], in[WORDS_MAX];

static void exchange(int turn)
{
    static const int words[] = {1, 10, 500, 3000, WORDS_MAX};
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    int count = words[turn % 5], received = 0;
    MPI_Status status;
    for (int i = 0; i < count; i++)
        out[i] = turn + i + rank;
    MPI_Sendrecv(out, count, MPI_INT, next, turn % 100, in, WORDS_MAX, MPI_INT, previous, MPI_ANY_TAG, MPI_COMM_WORLD,
                 &status);
    MPI_Get_count(&status, MPI_INT, &received);
    int right = received == count && status.MPI_TAG == turn % 100;
    for (int i = 0; right && i < count; i++)
        right = in[i] == turn + i + previous;
    if (right)
        return;
    fprintf(stderr, "rank %d: message %d of rank %d is wrong\n", rank, turn, previous);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv)
{
    int over = 0, turn = 0;
    double seconds = argc > 1 ? atof(argv[1]) : 5;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    double start = MPI_Wtime();
    while (!over) {
        for (int i = 0; i < ROUND; i++)
            exchange(turn++);
        over = MPI_Wtime() - start > seconds;
        MPI_Bcast(&over, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (rank == 0 && turn == ROUND) {
            puts("steady: begun");
            fflush(stdout);
        }
    }
    if (rank == 0)
        printf("steady: %d ranks, all messages of each in order\n", size);
    MPI_Finalize();
    return 0;
}
