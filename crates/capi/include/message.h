/* Messages and collectives of ARMCI, for programs that use nothing else. */
#ifndef BANYAN_ARMCI_MESSAGE_H
#define BANYAN_ARMCI_MESSAGE_H

#include <armci.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Who takes part: all processes, those of this node, or the first one of each node. */
enum armci_scope_e {
    SCOPE_ALL = 333,
    SCOPE_NODE = 337,
    SCOPE_MASTERS = 339
};

enum armci_type_e {
    ARMCI_INT = -99,
    ARMCI_LONG = -101,
    ARMCI_LONG_LONG = -102,
    ARMCI_FLOAT = -306,
    ARMCI_DOUBLE = -307
};

void armci_msg_init(int *argc, char ***argv);
void armci_msg_finalize(void);
int armci_msg_me(void);
int armci_msg_nproc(void);
void armci_msg_abort(int code);
double armci_timer(void);

void armci_msg_snd(int tag, void *buffer, int len, int to);
void armci_msg_rcv(int tag, void *buffer, int buflen, int *msglen, int from);
int armci_msg_rcvany(int tag, void *buffer, int buflen, int *msglen);

/* Roots of collectives of a group are named by their ranks among all. */
void armci_msg_barrier(void);
void armci_msg_group_barrier(ARMCI_Group *group);
void armci_msg_bintree(int scope, int *root, int *up, int *left, int *right);
void armci_msg_bcast(void *buffer, int len, int root);
void armci_msg_brdcst(void *buffer, int len, int root);
void armci_msg_bcast_scope(int scope, void *buffer, int len, int root);
void armci_msg_group_bcast_scope(int scope, void *buffer, int len, int root, ARMCI_Group *group);

/* Operations: + * max min absmax absmin or && || & | land lor band bor. */
void armci_msg_gop_scope(int scope, void *x, int n, char *op, int datatype);
void armci_msg_igop(int *x, int n, char *op);
void armci_msg_lgop(long *x, int n, char *op);
void armci_msg_llgop(long long *x, int n, char *op);
void armci_msg_fgop(float *x, int n, char *op);
void armci_msg_dgop(double *x, int n, char *op);
void armci_msg_group_gop_scope(int scope, void *x, int n, char *op, int datatype, ARMCI_Group *group);
void armci_msg_group_igop(int *x, int n, char *op, ARMCI_Group *group);
void armci_msg_group_lgop(long *x, int n, char *op, ARMCI_Group *group);
void armci_msg_group_llgop(long long *x, int n, char *op, ARMCI_Group *group);
void armci_msg_group_fgop(float *x, int n, char *op, ARMCI_Group *group);
void armci_msg_group_dgop(double *x, int n, char *op, ARMCI_Group *group);
void armci_msg_reduce(void *x, int n, char *op, int datatype);
void armci_msg_reduce_scope(int scope, void *x, int n, char *op, int datatype);

/* The n bytes of that process whose first element is the largest or smallest (op: max or min) of those that contribute. */
void armci_msg_sel(void *x, int n, char *op, int datatype, int contribute);
void armci_msg_sel_scope(int scope, void *x, int n, char *op, int datatype, int contribute);

#ifdef __cplusplus
}
#endif

#endif
