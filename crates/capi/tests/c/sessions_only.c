/* A program that never calls MPI_Init: its launcher must not take it for one that left without a word. Ranks above 0 go
 * through more sessions than rank 0 does. */
#include "check.h"

int main(void)
{
    for (int i = 0; i < 2 + (rank > 0); i++) {
        MPI_Session session;
        MPI_Group group;
        MPI_Comm comm;
        int sum = 0;
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
        MPI_Group_from_session_pset(session, i < 2 ? "mpi://WORLD" : "mpi://SELF", &group);
        MPI_Comm_create_from_group(group, "only", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
        if (i < 2) {
            MPI_Comm_rank(comm, &rank);
            MPI_Comm_size(comm, &size);
            MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
            CHECK(sum == size * (size - 1) / 2);
        }
        MPI_Group_free(&group);
        MPI_Comm_free(&comm);
        MPI_Session_finalize(&session);
    }
    if (rank == 0)
        printf("sessions_only: %s (%d ranks)\n", failures ? "FAILED" : "ok", size);
    return failures != 0;
}
