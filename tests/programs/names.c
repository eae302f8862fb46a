/* The name service: `names N`: the last of N ranks publishes a port, all look it up, and after it has been taken back
 * nobody finds it any more. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static void check(int right, const char *what)
{
    if (right)
        return;
    fprintf(stderr, "rank %d of %d: wrong %s\n", rank, size, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* A port, or what looks like one where the library has no transport that can be connected to later. */
static void make_port(char *port)
{
    if (MPI_Open_port(MPI_INFO_NULL, port) != MPI_SUCCESS)
        snprintf(port, MPI_MAX_PORT_NAME, "made-up#port$%d", (int)getpid());
}

int main(int argc, char **argv)
{
    char service[64] = "", port[MPI_MAX_PORT_NAME] = "", found[MPI_MAX_PORT_NAME] = "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    check(argc < 2 || size == atoi(argv[1]), "number of ranks");
    int last = size - 1;
    if (rank == last) {
        snprintf(service, sizeof service, "ocean-%d", (int)getpid());
        check(MPI_Lookup_name(service, MPI_INFO_NULL, found) != MPI_SUCCESS, "lookup before publishing");
        make_port(port);
        check(MPI_Publish_name(service, MPI_INFO_NULL, port) == MPI_SUCCESS, "publish");
    }
    MPI_Bcast(service, sizeof service, MPI_CHAR, last, MPI_COMM_WORLD);
    MPI_Bcast(port, sizeof port, MPI_CHAR, last, MPI_COMM_WORLD);
    check(MPI_Lookup_name(service, MPI_INFO_NULL, found) == MPI_SUCCESS, "lookup");
    check(strcmp(found, port) == 0, "port found");
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == last)
        check(MPI_Unpublish_name(service, MPI_INFO_NULL, port) == MPI_SUCCESS, "unpublish");
    MPI_Barrier(MPI_COMM_WORLD);
    check(MPI_Lookup_name(service, MPI_INFO_NULL, found) != MPI_SUCCESS, "lookup after unpublishing");
    if (rank == 0)
        printf("%d ranks found %s\n", size, service);
    MPI_Finalize();
    return 0;
}
