/* How much of a large message's transfer hides behind computing, in percent, as Intel's and OSU's benchmarks define it:
 *
 *   100 * (1 - (t_both - t_compute) / t_transfer)
 *
 * Rank 0 sends and rank 1 receives without blocking, both compute for about as long as the transfer alone takes, and
 * both wait. All times are of the same exchange, with parts of it left out: rank 0's clock runs from when the receive
 * has been posted to when rank 1 says that it has computed and has the message. What that word takes is in all of them.
 *
 * A library that needs long for the transfer alone, with one side idle, hides more of it, and may still be the slower one:
 * so what the message costs beside the computing, t_both - t_compute, is told too. With a core for each of two ranks that
 * compute, and nothing else to copy for them, it is not less than half of what one of them takes to copy the message.
 *
 * The kinds of exchange take turns, and the median of each counts: a difference of times that were measured one after
 * the other says more about the machine than about the library.
 */

enum { UNIT_STEPS = 1000, CALIBRATION_UNITS = 100 };
enum { UNITS_PER_TEST = 4 }; /* a few microseconds: often enough for a library that moves a message in parts */
enum { TURNS_MIN = 15, TURNS_MAX = 1000 };
static const double TURNS_S = 0.4; /* for all turns, if their number allows */

enum kind { TRANSFER, COMPUTE, BOTH, BOTH_TESTED, KINDS };

static long compute_units;

/* In registers only: memory is what the transfer needs. Each step depends on the one before. */
static double compute_unit(double x)
{
    for (int i = 0; i < UNIT_STEPS; i++)
        x = x * 0.999 + 0.001;
    return x;
}

static void compute(enum kind kind, MPI_Request *request)
{
    static volatile double kept; /* else nothing would be computed */
    double x = kept;
    int done = kind != BOTH_TESTED;
    for (long i = 1; i <= compute_units; i++) {
        x = compute_unit(x);
        if (!done && i % UNITS_PER_TEST == 0)
            MPI_Test(request, &done, MPI_STATUS_IGNORE);
    }
    kept = x;
}

/* Seconds from the receiver's readiness to its answer. The receiver hears first that the message has been rewritten:
 * else it would compute, or wait, for a while that no clock sees. */
static double exchange_near(enum kind kind)
{
    MPI_Request request = MPI_REQUEST_NULL;
    char answer = 0;
    rewrite(send_buffer, turn);
    MPI_Send(&answer, 1, MPI_BYTE, far_rank, 4, MPI_COMM_WORLD);
    MPI_Recv(&answer, 1, MPI_BYTE, far_rank, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    double start = now();
    if (kind != COMPUTE)
        MPI_Isend(send_buffer, (int)message_bytes, MPI_BYTE, far_rank, 2, MPI_COMM_WORLD, &request);
    if (kind != TRANSFER)
        compute(kind, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Recv(&answer, 1, MPI_BYTE, far_rank, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return now() - start;
}

static void exchange_far(enum kind kind)
{
    MPI_Request request = MPI_REQUEST_NULL;
    char answer = 0;
    MPI_Recv(&answer, 1, MPI_BYTE, near_rank, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (kind != COMPUTE)
        MPI_Irecv(receive_buffer, (int)message_bytes, MPI_BYTE, near_rank, 2, MPI_COMM_WORLD, &request);
    MPI_Send(&answer, 1, MPI_BYTE, near_rank, 5, MPI_COMM_WORLD);
    if (kind != TRANSFER)
        compute(kind, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Send(&answer, 1, MPI_BYTE, near_rank, 3, MPI_COMM_WORLD);
    if (kind != COMPUTE)
        read_back(receive_buffer, turn);
}

/* The median of each kind, which only the near rank knows. */
static void exchange(long turns, double median_s[KINDS])
{
    static double times[KINDS][TURNS_MAX];
    for (long i = 0; i < turns; i++) {
        for (int kind = 0; kind < KINDS; kind++, turn++) {
            if (rank == near_rank)
                times[kind][i] = exchange_near((enum kind)kind);
            else
                exchange_far((enum kind)kind);
        }
    }
    for (int kind = 0; kind < KINDS; kind++) {
        qsort(times[kind], (size_t)turns, sizeof(double), by_value);
        median_s[kind] = times[kind][turns / 2];
    }
}

/* So much computing that it takes about as long as the transfer, and how many turns there is time for. */
static long fit_computing(void)
{
    double median_s[KINDS];
    compute_units = CALIBRATION_UNITS;
    exchange(TURNS_MIN, median_s); /* connects, and warms caches */
    exchange(TURNS_MIN, median_s);
    double transfer_s = median_s[TRANSFER], unit_s = median_s[COMPUTE] / CALIBRATION_UNITS;
    double turns = TURNS_S / (6 * transfer_s); /* the last two kinds take up to twice as long */
    long plan[2] = {transfer_s > unit_s ? (long)(transfer_s / unit_s + 0.5) : 1,
                    turns < TURNS_MIN ? TURNS_MIN : turns > TURNS_MAX ? TURNS_MAX : (long)turns};
    agree(plan);
    compute_units = plan[0];
    return plan[1];
}

/* Computing alone has no tests in it, so what they take counts against what they hide. */
static double hidden_percent(enum kind kind, const double median_s[KINDS])
{
    double hidden = 1 - (median_s[kind] - median_s[COMPUTE]) / median_s[TRANSFER];
    return 100 * (hidden < 0 ? 0 : hidden > 1 ? 1 : hidden);
}

/* Microseconds that the message takes from a program that computes. */
static double exposed_us(enum kind kind, const double median_s[KINDS])
{
    double exposed = median_s[kind] - median_s[COMPUTE];
    return 1e6 * (exposed < 0 ? 0 : exposed);
}

static void run_overlap(size_t bytes)
{
    double median_s[KINDS];
    make_buffers();
    if (rank > 1)
        return;
    message_bytes = bytes;
    exchange(fit_computing(), median_s);
    report("overlap", hidden_percent(BOTH, median_s));
    report("overlap_test", hidden_percent(BOTH_TESTED, median_s));
    report("exposed", exposed_us(BOTH, median_s));
    report("exposed_test", exposed_us(BOTH_TESTED, median_s));
}
