/* Sessions that begin when the world is over. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Barrier(MPI_COMM_WORLD);
    int wrong = finish("sessions_late");
    for (int i = 0; i < 3; i++) {
        MPI_Session session;
        MPI_Group group;
        MPI_Comm comm;
        int sum = -1;
        CHECK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) == MPI_SUCCESS);
        CHECK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group) == MPI_SUCCESS);
        CHECK(MPI_Comm_create_from_group(group, "late", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm) == MPI_SUCCESS);
        CHECK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS);
        CHECK(sum == size * (size - 1) / 2);
        /* Somebody whom this process may not have met. */
        int to = (rank + size / 2) % size, from = (rank + size - size / 2) % size, got = -1;
        MPI_Sendrecv(&rank, 1, MPI_INT, to, 0, &got, 1, MPI_INT, from, 0, comm, MPI_STATUS_IGNORE);
        CHECK(got == from);
        MPI_Group_free(&group);
        MPI_Comm_free(&comm);
        MPI_Session_finalize(&session);
    }
    return wrong || failures;
}
