/* Jobs that start others and meet others. The same source for every library; what it prints is milliseconds.
 *
 *   dynamic spawn CHILDREN TIMES     one process has CHILDREN copies of this program started, TIMES one after the other
 *   dynamic accept FILE TIMES        leaves the name of a port in FILE; is called there TIMES
 *   dynamic connect FILE TIMES       reads the name of the port, which must be there, and calls it
 *   dynamic version
 *
 * A spawn is over when a barrier between parent and children is through, a meeting when both sides have disconnected.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void spawn(char *program, int children, int times, double *times_s)
{
    char *arguments[] = {"child", NULL};
    for (int i = 0; i < times; i++) {
        MPI_Comm inter;
        int n;
        double start = MPI_Wtime();
        MPI_Comm_spawn(program, arguments, children, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter, MPI_ERRCODES_IGNORE);
        MPI_Barrier(inter);
        times_s[i] = MPI_Wtime() - start;
        MPI_Comm_remote_size(inter, &n);
        if (n != children)
            MPI_Abort(MPI_COMM_WORLD, 2);
        MPI_Comm_disconnect(&inter);
    }
}

static void write_port(const char *path, const char *port)
{
    char early[4096];
    snprintf(early, sizeof early, "%s.new", path);
    FILE *file = fopen(early, "w");
    if (!file || fputs(port, file) < 0 || fclose(file) != 0 || rename(early, path) != 0)
        MPI_Abort(MPI_COMM_WORLD, 3);
}

static void read_port(const char *path, char *port)
{
    FILE *file = fopen(path, "r");
    if (!file || !fgets(port, MPI_MAX_PORT_NAME, file))
        MPI_Abort(MPI_COMM_WORLD, 3);
    fclose(file);
}

static void meet(int accepts, const char *path, int times, double *times_s)
{
    char port[MPI_MAX_PORT_NAME] = "";
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0 && accepts) {
        MPI_Open_port(MPI_INFO_NULL, port);
        write_port(path, port);
    } else if (rank == 0) {
        read_port(path, port);
    }
    for (int i = 0; i < times; i++) {
        MPI_Comm inter;
        double start = MPI_Wtime();
        if (accepts)
            MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
        else
            MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
        MPI_Barrier(inter);
        MPI_Comm_disconnect(&inter);
        times_s[i] = MPI_Wtime() - start;
    }
    if (rank == 0 && accepts)
        MPI_Close_port(port);
}

int main(int argc, char **argv)
{
    MPI_Comm parent;
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        MPI_Barrier(parent);
        MPI_Comm_disconnect(&parent);
        return MPI_Finalize();
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc == 2 && !strcmp(argv[1], "version")) {
        char version[MPI_MAX_LIBRARY_VERSION_STRING];
        int len;
        MPI_Get_library_version(version, &len);
        printf("version %s\n", version);
        return MPI_Finalize();
    }
    int times = argc == 4 ? atoi(argv[3]) : 0;
    double *times_s = calloc(times, sizeof *times_s);
    if (times <= 0 || !times_s)
        MPI_Abort(MPI_COMM_WORLD, 1);
    if (!strcmp(argv[1], "spawn"))
        spawn(argv[0], atoi(argv[2]), times, times_s);
    else
        meet(!strcmp(argv[1], "accept"), argv[2], times, times_s);
    for (int i = 0; i < times && rank == 0; i++)
        printf("%s_ms %.4f\n", argv[1], 1e3 * times_s[i]);
    free(times_s);
    return MPI_Finalize();
}
