/* A job that is still connected dies, and those that spawned it hear of it and go on: `bereft
   kill|abort|leave|early|long|late|window|locked`.
   Each waits for something else from somebody who does not come any more; with `early` nobody has talked to anybody before,
   with `long` all but one have begun a collective of long messages, with `late` they begin it when that one has disconnected,
   with `window` they have a window with it; with `locked` it has the lock of a rank's memory when it dies, which those who live get then.
   A second job lives on. With `together` it ends the others as well, and with `fatal` its mistake does. */
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORDS = 1 << 18 };
static MPI_Win window;

/* Memory that the two jobs reach, in which the one that spawned the other comes first. */
static void make_window(MPI_Comm others, int high)
{
    MPI_Comm both;
    int *words;
    MPI_Intercomm_merge(others, high, &both);
    MPI_Win_allocate(WORDS * sizeof(int), sizeof(int), MPI_INFO_NULL, both, &words, &window);
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    MPI_Comm_free(&both);
    MPI_Barrier(others);
}

/* Rank 2 lets the dead process and rank 1 access its memory: the one that lives does. How many calls have gone wrong? */
static int meet_behind(int rank, int dead)
{
    int bad = 0, either[2] = {dead, 1}, two = 2;
    MPI_Group all, some;
    MPI_Win_get_group(window, &all);
    if (rank == 2) {
        MPI_Group_incl(all, 2, either, &some);
        bad += MPI_Win_post(some, 0, window) != MPI_SUCCESS;
        bad += MPI_Win_wait(window) == MPI_SUCCESS;
        MPI_Group_free(&some);
    } else if (rank == 1) {
        MPI_Win_unlock(dead, window); /* it may have been given */
        MPI_Group_incl(all, 1, &two, &some);
        bad += MPI_Win_start(some, 0, window) != MPI_SUCCESS;
        bad += MPI_Put(&two, 1, MPI_INT, 2, 0, 1, MPI_INT, window) != MPI_SUCCESS;
        bad += MPI_Win_complete(window) != MPI_SUCCESS;
        MPI_Group_free(&some);
    }
    MPI_Group_free(&all);
    return bad;
}

/* Each waits for something else that the process at `dead` does not do. How many did not hear of it? */
static int use_window(int rank, int dead)
{
    static int words[WORDS];
    MPI_Group all, one;
    MPI_Request request = MPI_REQUEST_NULL;
    int code;
    MPI_Win_get_group(window, &all);
    MPI_Group_incl(all, 1, &dead, &one);
    MPI_Group_free(&all);
    if (rank == 0) {
        code = MPI_Win_lock(MPI_LOCK_EXCLUSIVE, dead, 0, window);
        if (code == MPI_SUCCESS)
            code = MPI_Put(words, 1, MPI_INT, dead, 0, 1, MPI_INT, window);
        if (code == MPI_SUCCESS)
            code = MPI_Win_flush(dead, window);
    } else if (rank == 1) {
        code = MPI_Win_lock(MPI_LOCK_SHARED, dead, 0, window);
        if (code == MPI_SUCCESS)
            code = MPI_Rget(words, WORDS, MPI_INT, dead, 0, WORDS, MPI_INT, window, &request);
        if (code == MPI_SUCCESS)
            code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        code = MPI_Win_start(one, 0, window);
    }
    MPI_Group_free(&one);
    return (code == MPI_SUCCESS) + meet_behind(rank, dead);
}

/* Locks the memory of rank 0, for good. */
static void keep_lock(int rank)
{
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
        MPI_Put(&rank, 1, MPI_INT, 0, 0, 1, MPI_INT, window);
        MPI_Win_flush(0, window);
    }
}

/* Asks for the lock that the other job has. How many calls have failed, or found something else than was put? */
static int ask_for_lock(int rank)
{
    int found = -1, bad = 0;
    if (rank == 0)
        return 0;
    bad += MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window) != MPI_SUCCESS;
    bad += MPI_Put(&rank, 1, MPI_INT, 0, rank, 1, MPI_INT, window) != MPI_SUCCESS;
    if (rank == 1)
        bad += MPI_Win_flush(0, window) != MPI_SUCCESS;
    bad += MPI_Win_unlock(0, window) != MPI_SUCCESS;
    bad += MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window) != MPI_SUCCESS;
    bad += MPI_Get(&found, 1, MPI_INT, 0, rank, 1, MPI_INT, window) != MPI_SUCCESS;
    bad += MPI_Win_unlock(0, window) != MPI_SUCCESS;
    return bad + (found != rank);
}

static int child(const char *how, const char *go, MPI_Comm parent)
{
    int rank, got, early = !strcmp(how, "early");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!early)
        MPI_Barrier(parent);
    if (!strcmp(how, "window") || !strcmp(how, "locked"))
        make_window(parent, 1);
    if (!strcmp(how, "locked")) {
        keep_lock(rank);
        MPI_Barrier(parent);
    }
    if (!strcmp(how, "live")) {
        MPI_Bcast(&got, 1, MPI_INT, 0, parent);
        printf("another job has lived to hear %d\n", got);
        return MPI_Finalize();
    }
    if (rank == 1)
        for (;;)
            pause();
    while (access(go, F_OK)) /* all of them have what they spawned; whoever runs this ends it if that is never so */
        usleep(1000);
    if (!strcmp(how, "abort"))
        MPI_Abort(MPI_COMM_WORLD, 5);
    if (!strcmp(how, "together"))
        MPI_Abort(parent, 6);
    if (!strcmp(how, "fatal"))
        MPI_Send(&rank, 1, MPI_INT, 99, 0, MPI_COMM_WORLD);
    if (!strcmp(how, "leave"))
        _exit(0); /* without MPI_Finalize */
    raise(SIGKILL);
    return 1;
}

static MPI_Comm spawn(char *program, char *how, char *go)
{
    MPI_Comm children;
    char *args[] = {how, go, NULL};
    MPI_Comm_spawn(program, args, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
    if (strcmp(how, "early"))
        MPI_Barrier(children);
    if (!strcmp(how, "window") || !strcmp(how, "locked"))
        make_window(children, 0);
    if (!strcmp(how, "locked"))
        MPI_Barrier(children);
    MPI_Comm_set_errhandler(children, MPI_ERRORS_RETURN);
    return children;
}

/* What is left works: the other job, and those that spawned both. */
static int end(int rank, int bad, MPI_Comm living, const char *go)
{
    int number = 42, all;
    MPI_Bcast(&number, 1, MPI_INT, rank == 0 ? MPI_ROOT : MPI_PROC_NULL, living);
    MPI_Allreduce(&bad, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf(all ? "%d calls found nothing wrong\n" : "they are gone, and we are here\n", all);
    if (rank == 0)
        unlink(go);
    MPI_Finalize();
    return all != 0;
}

int main(int argc, char **argv)
{
    MPI_Comm parent, dying, living, copy;
    MPI_Request request;
    MPI_Status status;
    char self[4096], go[4200], first[4200], text[MPI_MAX_ERROR_STRING];
    int rank, size, number = 42, code, class, length, bad = 0;
    static int many[2][300000];
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL)
        return child(argv[1], argv[2], parent);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!realpath(argv[0], self))
        return 1;
    snprintf(go, sizeof go, "%s.%d", self, getpid());
    strcpy(first, go);
    unlink(go); /* what a run that was aborted has left */
    living = spawn(self, "live", go);
    dying = spawn(self, argv[1], go);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        close(open(go, O_CREAT | O_WRONLY, 0600));
    if (!strcmp(argv[1], "early")) /* it may count as sent, and nobody takes it */
        MPI_Send(&number, 1, MPI_INT, 1, 7, dying);
    if (!strcmp(argv[1], "long") && rank > 0) /* rank 0 takes part in nothing any more, once it has heard */
        bad += MPI_Allreduce(many[0], many[1], 300000, MPI_INT, MPI_SUM, dying) == MPI_SUCCESS;
    if (!strcmp(argv[1], "late")) {
        MPI_Bcast(go, sizeof go, MPI_CHAR, 0, MPI_COMM_WORLD);
        strcat(go, "+");
        while (rank > 0 && access(go, F_OK)) /* outside of MPI, so that nothing is heard */
            usleep(1000);
        if (rank > 0)
            bad += MPI_Allreduce(many[0], many[1], 300000, MPI_INT, MPI_SUM, dying) == MPI_SUCCESS;
        else
            bad += MPI_Recv(&number, 1, MPI_INT, 0, 7, dying, &status) == MPI_SUCCESS;
        if (rank == 0)
            unlink(first);
        bad += MPI_Comm_disconnect(&dying) != MPI_SUCCESS;
        if (rank == 0)
            close(open(go, O_CREAT | O_WRONLY, 0600));
        return end(rank, bad, living, go);
    }
    if (!strcmp(argv[1], "window"))
        bad += use_window(rank, size);
    if (!strcmp(argv[1], "locked"))
        bad += ask_for_lock(rank);
    /* The one that dies, the one that is ended with it, either; a message that can be probed, a send, all together. */
    code = MPI_Recv(&number, 1, MPI_INT, rank % 3 == 2 ? MPI_ANY_SOURCE : rank % 2, 7, dying, &status);
    MPI_Error_class(code, &class);
    /* Early on, it may be found out by trying to connect. */
    bad += strcmp(argv[1], "early") ? class != MPI_ERR_PROC_ABORTED : class == MPI_SUCCESS;
    if (rank == 0) {
        MPI_Error_string(code, text, &length);
        printf("lost: %s\n", text);
    }
    bad += MPI_Probe(1, 7, dying, &status) == MPI_SUCCESS;
    bad += MPI_Ssend(&number, 1, MPI_INT, 1, 7, dying) == MPI_SUCCESS;
    code = MPI_Irecv(&number, 1, MPI_INT, 0, 8, dying, &request);
    if (code == MPI_SUCCESS)
        code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    bad += code == MPI_SUCCESS;
    bad += MPI_Barrier(dying) == MPI_SUCCESS;
    bad += MPI_Allreduce(&rank, &number, 1, MPI_INT, MPI_SUM, dying) == MPI_SUCCESS;
    bad += MPI_Comm_dup(dying, &copy) == MPI_SUCCESS;
    MPI_Precv_init(&number, 1, 1, MPI_INT, 1, 9, dying, MPI_INFO_NULL, &request);
    code = MPI_Start(&request);
    if (code == MPI_SUCCESS)
        code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    bad += code == MPI_SUCCESS;
    MPI_Request_free(&request);
    if (strcmp(argv[1], "early")) /* else they finalize with it */
        bad += MPI_Comm_disconnect(&dying) != MPI_SUCCESS || dying != MPI_COMM_NULL;
    return end(rank, bad, living, go);
}
