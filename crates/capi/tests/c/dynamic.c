/* Dynamic processes: this program spawns itself; what the copies do is in their first argument. */
#include "check.h"
#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static char self[4096];

/* An argument of no characters, but for Hydra, which cannot read it. */
static char *nothing(void)
{
    return getenv("BANYAN_NODE") ? "" : "x";
}

/* Every process of one side exchanges a word with every one of the other, and both sides reduce. */
static void talk(MPI_Comm inter)
{
    int n, r, others, sum, expected = 0;
    MPI_Comm_rank(inter, &r);
    MPI_Comm_size(inter, &n);
    MPI_Comm_remote_size(inter, &others);
    MPI_Request *requests = malloc(2 * others * sizeof *requests);
    int *got = malloc(others * sizeof *got), mine = 1000 * getpid() % 100000;
    for (int i = 0; i < others; i++) {
        MPI_Irecv(&got[i], 1, MPI_INT, i, 7, inter, &requests[i]);
        MPI_Isend(&mine, 1, MPI_INT, i, 7, inter, &requests[others + i]);
    }
    MPI_Waitall(2 * others, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < others; i++)
        expected += got[i];
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, inter);
    CHECK(sum == expected);
    /* Large ones too. */
    int len = 1 << 18, *big = malloc(2 * len * sizeof *big);
    for (int i = 0; i < len; i++)
        big[i] = i + mine;
    if (r < others && r < n)
        MPI_Sendrecv(big, len, MPI_INT, r, 8, big + len, len, MPI_INT, r, 8, inter, MPI_STATUS_IGNORE);
    if (r < others)
        CHECK(big[len] == got[r] && big[2 * len - 1] == got[r] + len - 1);
    free(big);
    free(got);
    free(requests);
}

/* The new processes are one more side, with the same number of processes as are asked for. */
static void parent_of(int count, MPI_Comm over, char *what)
{
    MPI_Comm children, all;
    char *args[] = {what, "two words", nothing(), NULL};
    int *codes = malloc(count * sizeof *codes), n, r, flag;
    memset(codes, 1, count * sizeof *codes);
    CHECK(MPI_Comm_spawn(self, args, count, MPI_INFO_NULL, 0, over, &children, codes) == MPI_SUCCESS);
    for (int i = 0; i < count; i++)
        CHECK(codes[i] == MPI_SUCCESS);
    MPI_Comm_test_inter(children, &flag);
    MPI_Comm_remote_size(children, &n);
    CHECK(flag && n == count);
    talk(children);
    MPI_Comm_size(over, &n);
    MPI_Intercomm_merge(children, 0, &all);
    MPI_Comm_rank(all, &r);
    MPI_Comm_size(all, &flag);
    int mine;
    MPI_Comm_rank(over, &mine);
    CHECK(r == mine && flag == n + count);
    MPI_Barrier(all);
    MPI_Comm_disconnect(&all);
    MPI_Comm_disconnect(&children);
    free(codes);
}

static void child(int argc, char **argv, MPI_Comm parent)
{
    MPI_Comm all;
    int n;
    char name[MPI_MAX_OBJECT_NAME];
    CHECK(argc == 4 && !strcmp(argv[2], "two words") && !strcmp(argv[3], nothing()));
    MPI_Comm_get_name(parent, name, &n);
    CHECK(!strcmp(name, "MPI_COMM_PARENT"));
    talk(parent);
    MPI_Intercomm_merge(parent, 1, &all);
    MPI_Barrier(all);
    MPI_Comm_disconnect(&all);
    if (!strcmp(argv[1], "again") && rank == 0)
        parent_of(2, MPI_COMM_SELF, "child");
    MPI_Comm_disconnect(&parent);
    MPI_Comm_get_parent(&parent);
    CHECK(parent == MPI_COMM_NULL);
}

/* Programs that end and never call MPI: all of them, or beside others that do; also from all ranks at once. */
static void never_mpi(void)
{
    MPI_Comm children;
    char *ways[] = {"exit 0", "exit 3", "kill -9 $$", "sleep 0.05"}, text[MPI_MAX_ERROR_STRING];
    int code, length;
    for (int i = 0; i < 4; i++) {
        char *args[] = {"-c", ways[i], NULL};
        code = MPI_Comm_spawn("/bin/sh", args, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
        CHECK(class_of(code) == MPI_ERR_SPAWN && children == MPI_COMM_NULL);
        MPI_Error_string(code, text, &length);
        CHECK(strstr(text, rank ? "the root, rank 0, failed" : "and never called MPI_Init"));
    }
    char *commands[] = {self, "/bin/true"}, *args[] = {"child", NULL}, **all[] = {args, MPI_ARGV_NULL};
    int counts[] = {2, 1}, codes[] = {0, 0, 0};
    MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
    code = MPI_Comm_spawn_multiple(2, commands, all, counts, infos, 0, MPI_COMM_WORLD, &children, codes);
    CHECK(class_of(code) == MPI_ERR_SPAWN && class_of(codes[2]) == MPI_ERR_SPAWN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    code = MPI_Comm_spawn("/bin/true", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children, codes);
    CHECK(class_of(code) == MPI_ERR_SPAWN && class_of(codes[0]) == MPI_ERR_SPAWN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

/* What cannot be started is an error for those who wanted it, wherever it is found out. */
static void failing(void)
{
    MPI_Comm children;
    int codes[3] = {0, 0, -7};
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    /* How many are wanted is the root's to say. */
    int code = MPI_Comm_spawn("/nonexistent/program", MPI_ARGV_NULL, rank ? -5 : 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD,
                              &children, codes);
    CHECK(class_of(code) == MPI_ERR_SPAWN && children == MPI_COMM_NULL);
    CHECK(class_of(codes[0]) == MPI_ERR_SPAWN && class_of(codes[1]) == MPI_ERR_SPAWN && codes[2] == -7);
    /* The first of two commands can be started; the folder of the second one is missing. */
    char *commands[] = {self, self}, *args[] = {"child", NULL}, **all[] = {args, args};
    int counts[] = {1, size};
    MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
    MPI_Info_create(&infos[1]);
    MPI_Info_set(infos[1], "wdir", "/nonexistent");
    code = MPI_Comm_spawn_multiple(2, commands, all, counts, infos, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
    CHECK(class_of(code) == MPI_ERR_SPAWN && children == MPI_COMM_NULL);
    MPI_Info_free(&infos[1]);
    /* More than any job has, for which no array is long enough. */
    code = MPI_Comm_spawn(self, args, 1 << 30, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, codes);
    CHECK(class_of(code) == MPI_ERR_SPAWN && codes[2] == -7);
    never_mpi();
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* Two programs, told apart by their number; one in another folder. */
static void several(void)
{
    MPI_Comm children;
    MPI_Info infos[2];
    char *commands[] = {self, self}, *first[] = {"number", "0", NULL}, *second[] = {"number", "1", "/", NULL};
    char **args[] = {first, second};
    int counts[] = {1, 2}, n, sum;
    MPI_Info_create(&infos[1]);
    infos[0] = MPI_INFO_NULL;
    MPI_Info_set(infos[1], "wdir", "/");
    MPI_Comm_spawn_multiple(2, commands, args, counts, infos, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
    MPI_Comm_remote_size(children, &n);
    CHECK(n == 3);
    int zero = 0;
    MPI_Allreduce(&zero, &sum, 1, MPI_INT, MPI_SUM, children);
    CHECK(sum == 0 + 1 + 1);
    MPI_Comm_disconnect(&children);
    MPI_Info_free(&infos[1]);
}

static void number(char **argv, MPI_Comm parent)
{
    int *appnum, flag, sum;
    char folder[4096];
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &appnum, &flag);
    CHECK(flag && *appnum == atoi(argv[2]));
    if (atoi(argv[2]) == 1)
        CHECK(!strcmp(getcwd(folder, sizeof folder), argv[3]));
    MPI_Allreduce(appnum, &sum, 1, MPI_INT, MPI_SUM, parent);
    MPI_Comm_disconnect(&parent);
}

/* Calls at a port where nobody accepts, once for a moment and once for no time at all. */
static void impatient(const char *port, MPI_Comm comm)
{
    MPI_Comm inter;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "timeout", "0.02");
    CHECK(class_of(MPI_Comm_connect(port, info, 0, comm, &inter)) == MPI_ERR_PORT && inter == MPI_COMM_NULL);
    MPI_Info_set(info, "timeout", "a while");
    CHECK(class_of(MPI_Comm_connect(port, info, 0, comm, &inter)) == MPI_ERR_INFO);
    MPI_Info_free(&info);
}

/* Halves of the world meet at a port, several times; who calls gets the name from a service. */
static void ports(void)
{
    MPI_Comm half, inter;
    char port[MPI_MAX_PORT_NAME] = "";
    int side = rank % 2;
    MPI_Comm_split(MPI_COMM_WORLD, side, 0, &half);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(half, MPI_ERRORS_RETURN);
    if (rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        CHECK(MPI_Publish_name("halves of the world", MPI_INFO_NULL, port) == MPI_SUCCESS);
        CHECK(class_of(MPI_Publish_name("halves of the world", MPI_INFO_NULL, port)) == MPI_ERR_SERVICE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1)
        CHECK(MPI_Lookup_name("halves of the world", MPI_INFO_NULL, port) == MPI_SUCCESS);
    /* Nobody accepts yet, and waiting has an end. */
    if (size > 1 && side)
        impatient(port, half);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 3 && size > 1; i++) {
        if (side)
            MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &inter);
        else
            MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &inter);
        talk(inter);
        MPI_Comm_disconnect(&inter);
    }
    if (rank == 0) {
        CHECK(MPI_Unpublish_name("halves of the world", MPI_INFO_NULL, port) == MPI_SUCCESS);
        CHECK(class_of(MPI_Unpublish_name("halves of the world", MPI_INFO_NULL, port)) == MPI_ERR_SERVICE);
        CHECK(class_of(MPI_Lookup_name("halves of the world", MPI_INFO_NULL, port)) == MPI_ERR_NAME);
        MPI_Close_port(port);
        CHECK(class_of(MPI_Close_port(port)) == MPI_ERR_PORT);
    }
    /* Nobody is there any more. */
    CHECK(class_of(MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &inter)) == MPI_ERR_PORT);
    CHECK(class_of(MPI_Comm_accept("no port", MPI_INFO_NULL, 0, half, &inter)) == MPI_ERR_PORT);
    MPI_Comm_free(&half);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* A job of this one's, and one that it starts, meet at a port and are no longer parent and child. */
static void strangers(void)
{
    MPI_Comm children, inter;
    char port[MPI_MAX_PORT_NAME] = "";
    char *args[] = {"call", port, NULL};
    if (rank == 0)
        MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Comm_spawn(self, args, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
    MPI_Comm_disconnect(&children);
    MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
    talk(inter);
    MPI_Comm_disconnect(&inter);
    if (rank == 0)
        MPI_Close_port(port);
}

static void call(char **argv, MPI_Comm parent)
{
    MPI_Comm inter;
    MPI_Comm_disconnect(&parent);
    MPI_Comm_connect(argv[2], MPI_INFO_NULL, 1, MPI_COMM_WORLD, &inter);
    talk(inter);
    MPI_Comm_disconnect(&inter);
}

/* Waits for something that is no message, and goes on calling MPI: within a budget, or where the network loses what was
   said, a message that counts as sent may still need its sender. */
static void await_input(int fd)
{
    struct pollfd input = {fd, POLLIN, 0};
    int found;
    while (poll(&input, 1, 0) == 0)
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &found, MPI_STATUS_IGNORE);
}

/* Ranks 0 and 1 over a socket between them, which is the program's afterwards. */
static void joins(void)
{
    MPI_Comm inter;
    char byte = 'x', path[64];
    if (size < 2)
        return;
    snprintf(path, sizeof path, "banyan-join-%d", rank == 0 ? getpid() : 0);
    MPI_Bcast(path, sizeof path, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (rank > 1)
        return;
    struct {
        sa_family_t family;
        char name[100];
    } address = {AF_UNIX, ""};
    strcpy(address.name + 1, path);
    socklen_t len = sizeof address.family + 1 + strlen(path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0), got;
    if (rank == 0) {
        int door = fd;
        CHECK(bind(door, (struct sockaddr *)&address, len) == 0 && listen(door, 1) == 0);
        MPI_Send(&byte, 1, MPI_CHAR, 1, 9, MPI_COMM_WORLD);
        await_input(door);
        fd = accept(door, NULL, NULL);
        close(door);
    } else {
        MPI_Recv(&byte, 1, MPI_CHAR, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(connect(fd, (struct sockaddr *)&address, len) == 0);
    }
    MPI_Comm_join(fd, &inter);
    MPI_Sendrecv(&rank, 1, MPI_INT, 0, 3, &got, 1, MPI_INT, 0, 3, inter, MPI_STATUS_IGNORE);
    CHECK(got == !rank);
    CHECK(write(fd, &byte, 1) == 1);
    await_input(fd);
    CHECK(read(fd, &byte, 1) == 1 && byte == 'x');
    MPI_Comm_disconnect(&inter);
    close(fd);
}

int main(int argc, char **argv)
{
    MPI_Comm parent;
    CHECK(realpath(argv[0], self) == self);
    begin(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        if (!strcmp(argv[1], "number"))
            number(argv, parent);
        else if (!strcmp(argv[1], "call"))
            call(argv, parent);
        else if (!strcmp(argv[1], "stays"))
            talk(parent);
        else
            child(argc, argv, parent);
        if (failures)
            MPI_Abort(MPI_COMM_WORLD, 1);
        MPI_Finalize();
        return 0;
    }
    parent_of(3, MPI_COMM_WORLD, "child");
    parent_of(2, MPI_COMM_WORLD, "again");
    if (getenv("BANYAN_NODE")) /* Hydra waits for a program that is not there */
        failing();
    several();
    ports();
    strangers();
    joins();
    /* One that is never disconnected: all of them finalize together. */
    MPI_Comm children;
    char *args[] = {"stays", NULL};
    MPI_Comm_spawn(self, args, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
    talk(children);
    return finish("dynamic");
}
