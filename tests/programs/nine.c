/* Nine long messages whose receivers wait for the ninth: rank 0 offers one to each of ranks 1 to 9, in that order, and
 * none of them is taken before rank 9 has its own and has said so. With room for fewer connections than that, those with
 * an offer that nobody has answered must give way, and the offers be answered over others. Says "right" at the end. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PEERS = 9, BYTES = 300000 };

static unsigned char byte_of(int peer, int at) { return (unsigned char)(peer * 31 + at % 251); }

static void receive(unsigned char *buffer, int me)
{
    memset(buffer, 0, BYTES);
    MPI_Recv(buffer, BYTES, MPI_BYTE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int at = 0; at < BYTES; at++)
        if (buffer[at] != byte_of(me, at)) {
            fprintf(stderr, "rank %d: byte %d is wrong\n", me, at);
            MPI_Abort(MPI_COMM_WORLD, 3);
        }
}

int main(int argc, char **argv)
{
    int rank, size, word = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size <= PEERS) {
        fprintf(stderr, "at least %d processes are needed\n", PEERS + 1);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    unsigned char *buffers = malloc((size_t)PEERS * BYTES);
    if (rank == 0) {
        MPI_Request sends[PEERS];
        for (int peer = 1; peer <= PEERS; peer++) {
            unsigned char *buffer = buffers + (size_t)(peer - 1) * BYTES;
            for (int at = 0; at < BYTES; at++)
                buffer[at] = byte_of(peer, at);
            MPI_Isend(buffer, BYTES, MPI_BYTE, peer, 5, MPI_COMM_WORLD, &sends[peer - 1]);
        }
        MPI_Waitall(PEERS, sends, MPI_STATUSES_IGNORE);
    } else if (rank == PEERS) {
        receive(buffers, rank);
        for (int peer = 1; peer < PEERS; peer++)
            MPI_Ssend(&rank, 1, MPI_INT, peer, 6, MPI_COMM_WORLD);
    } else if (rank < PEERS) {
        MPI_Recv(&word, 1, MPI_INT, PEERS, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        receive(buffers, rank);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("nine messages to ranks that wait for the ninth: right\n");
    free(buffers);
    MPI_Finalize();
    return 0;
}
