/* Ranks that start ranks: `spawn C` has C children started by MPI_Comm_spawn, then C more by MPI_Comm_spawn_multiple
 * as two commands (and in another folder), and reduces over parents and children together each time. */
#include <mpi.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void check(int right, const char *what)
{
    if (right)
        return;
    fprintf(stderr, "process %d: wrong %s\n", (int)getpid(), what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Both sides of `between` in one communicator, everybody counted. */
static void reduce_together(MPI_Comm between, int is_child, int parents, int children)
{
    MPI_Comm all;
    int one[2] = {!is_child, is_child}, sum[2] = {0, 0}, rank, size;
    MPI_Intercomm_merge(between, is_child, &all);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    check(size == parents + children, "size after merging");
    check((rank >= parents) == is_child, "order after merging");
    MPI_Allreduce(one, sum, 2, MPI_INT, MPI_SUM, all);
    check(sum[0] == parents && sum[1] == children, "sum over parents and children");
    MPI_Comm_free(&all);
}

/* child NUMBER-OF-COMMAND PARENTS CHILDREN FOLDER */
static int child(char **argv, MPI_Comm parents)
{
    char folder[PATH_MAX];
    int size, there, *command, found;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_remote_size(parents, &there);
    check(there == atoi(argv[3]), "number of parents");
    check(size == atoi(argv[4]), "number of children");
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &command, &found);
    check(!found || *command == atoi(argv[2]), "MPI_APPNUM");
    check(getcwd(folder, sizeof folder) && (!strcmp(argv[5], "-") || !strcmp(folder, argv[5])), "working folder");
    reduce_together(parents, 1, there, size);
    MPI_Comm_disconnect(&parents);
    MPI_Finalize();
    return 0;
}

static void all_started(const int *codes, int children)
{
    for (int i = 0; i < children; i++)
        check(codes[i] == MPI_SUCCESS, "error code of a child");
}

static void spawn_one(char *program, int parents, int children, int *codes)
{
    char there[12], here[12];
    char *arguments[] = {"child", "0", there, here, "-", NULL};
    MPI_Comm between;
    snprintf(there, sizeof there, "%d", parents);
    snprintf(here, sizeof here, "%d", children);
    MPI_Comm_spawn(program, arguments, children, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between, codes);
    all_started(codes, children);
    reduce_together(between, 0, parents, children);
    MPI_Comm_disconnect(&between);
}

static void spawn_several(char *program, int parents, int children, int *codes)
{
    char there[12], here[12];
    char *first[] = {"child", "0", there, here, "/", NULL}, *second[] = {"child", "1", there, here, "/", NULL};
    char *programs[] = {program, program}, **arguments[] = {first, second};
    int counts[] = {children - children / 2, children / 2};
    MPI_Info info, infos[2];
    MPI_Comm between;
    snprintf(there, sizeof there, "%d", parents);
    snprintf(here, sizeof here, "%d", children);
    MPI_Info_create(&info);
    MPI_Info_set(info, "wdir", "/");
    infos[0] = infos[1] = info;
    MPI_Comm_spawn_multiple(2, programs, arguments, counts, infos, 0, MPI_COMM_WORLD, &between, codes);
    all_started(codes, children);
    reduce_together(between, 0, parents, children);
    MPI_Info_free(&info);
    MPI_Comm_disconnect(&between);
}

int main(int argc, char **argv)
{
    MPI_Comm parents;
    int rank, size, children;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parents);
    if (argc == 6 && !strcmp(argv[1], "child")) {
        check(parents != MPI_COMM_NULL, "parent: there is none");
        return child(argv, parents);
    }
    check(parents == MPI_COMM_NULL, "parent: nobody spawned this one");
    check(argc == 2 && atoi(argv[1]) > 1, "arguments: how many children?");
    children = atoi(argv[1]);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int *codes = malloc(sizeof(int) * (size_t)children);
    char program[PATH_MAX];
    check(realpath(argv[0], program) != NULL, "path of this program");
    spawn_one(program, size, children, codes);
    spawn_several(program, size, children, codes);
    free(codes);
    if (rank == 0)
        printf("%d ranks had %d children, twice\n", size, children);
    MPI_Finalize();
    return 0;
}
