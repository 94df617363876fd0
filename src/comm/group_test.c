/* Promises of groups, for each engine that is here: values of every call, dtype and reduction
 * on 1 to 4 ranks, refusals, and errors that name a rank which is killed, stopped, or calls
 * otherwise. The ranks are children of the test. */
#include "base/clock.h"
#include "base/test.h"
#include "comm/group_impl.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void (*rank_fn)(cr_comm *g);

static const char *const tested[] = {"gloo", "mpi"};
enum { MOST_RANKS = 4 };

/* A child counts its failures by its exit status. */
static int failures;
#define MUST(what)                                                                             \
    do {                                                                                       \
        if (!(what)) {                                                                         \
            failures++;                                                                        \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #what,                     \
                    cr_error_message());                                                       \
        }                                                                                      \
    } while (0)

static void rank_main(const char *engine, int port, int rank, int size, int64_t ms, rank_fn fn)
{
    cr_store_tcp_options o = {
        .host = "127.0.0.1", .port = port, .listen_fd = -1, .timeout_ms = 20000};
    cr_store *store = NULL;
    cr_comm *g = NULL;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    MUST(!cr_store_tcp(&store, &o));
    cr_comm_how how = {engine, "test", rank, size, NULL, store, 20000, NULL, NULL};
    MUST(!cr_comm_new(&g, &how));
    if (g) {
        cr_comm_set_timeout(g, ms);
        fn(g);
    }
    /* Without the end of the group: ranks end at different times. */
    fflush(stderr);
    _exit(failures ? 1 : 0);
}

/* Runs `fn` in `size` processes.  Returns the number of those that failed; a killed one counts
 * as passed. */
static int run_ranks(const char *engine, int size, int64_t ms, rank_fn fn)
{
    cr_store_tcp_options o = {
        .host = "127.0.0.1", .server = true, .listen_fd = -1, .timeout_ms = 20000};
    cr_store *server = NULL;
    pid_t child[MOST_RANKS];
    int bad = 0, status;

    OK(cr_store_tcp(&server, &o));
    for (int r = 0; r < size; r++) {
        child[r] = fork();
        if (!child[r])
            rank_main(engine, cr_store_tcp_port(server), r, size, ms, fn);
    }
    for (int r = 0; r < size; r++) {
        pid_t ended = waitpid(child[r], &status, 0);
        bad += ended != child[r] || (WIFEXITED(status) && WEXITSTATUS(status));
    }
    cr_store_drop(server);
    return bad;
}

static void all_engines(int least, int most, int64_t ms, rank_fn fn)
{
#ifdef __SANITIZE_THREAD__
    most = 0; /* this sanitizer lets no forked process start threads */
    CHECK(fn != NULL);
#endif
    for (size_t e = 0; e < CR_LEN(tested); e++)
        for (int n = least; n <= most; n += n == 1 ? 1 : 2) {
            if (cr_engine_is_available(tested[e]))
                EQ(run_ranks(tested[e], n, ms, fn), 0);
            else
                CHECK(strstr(cr_error_message(), "install") != NULL);
        }
}

/* --- values --- */
static double element(int rank, int64_t i) { return (double)((rank + i) % 5 + 1); }

static void fill(cr_dtype t, void *at, int64_t n, int rank)
{
    for (int64_t i = 0; i < n; i++)
        cr_scalar_store(cr_scalar_float(element(rank, i)), t,
                        (char *)at + (size_t)i * cr_dtype_size(t));
}

static double value(cr_dtype t, const void *at, int64_t i)
{
    return cr_scalar_as_double(
        cr_scalar_load(t, (const char *)at + (size_t)i * cr_dtype_size(t)));
}

static double expected(cr_reduce_op op, cr_dtype t, int size, int64_t i)
{
    double x = element(0, i), sum = x;
    int64_t bits = (int64_t)x;

    for (int r = 1; r < size; r++) {
        double y = element(r, i);
        sum = op == CR_REDUCE_PRODUCT ? sum * y
              : op == CR_REDUCE_MIN   ? (y < sum ? y : sum)
              : op == CR_REDUCE_MAX   ? (y > sum ? y : sum)
                                      : sum + y;
        bits = op == CR_REDUCE_BAND  ? bits & (int64_t)y
               : op == CR_REDUCE_BOR ? bits | (int64_t)y
                                     : bits ^ (int64_t)y;
    }
    if (op == CR_REDUCE_BAND || op == CR_REDUCE_BOR || op == CR_REDUCE_BXOR)
        sum = (double)bits;
    if (op == CR_REDUCE_PREMUL_SUM)
        sum *= 0.5;
    if (op == CR_REDUCE_AVG)
        sum = cr_dtype_is_inexact(t) ? sum / size : (double)((int64_t)sum / size);
    if (t == CR_BOOL)
        return op == CR_REDUCE_BXOR ? size % 2 : 1;
    return sum;
}

static bool equal(cr_dtype t, double a, double b)
{
    double d = a > b ? a - b : b - a;

    return d <= (t == CR_BF16 || t == CR_F16 ? 0.02 * b
                 : cr_dtype_is_float8(t)     ? 0.2 * b
                                             : 1e-6 * b);
}

/* Gloo refuses the average of integers, and leaves them as they are. */
static bool refuses(cr_comm *g, cr_dtype t, cr_reduce_op op)
{
    return op == CR_REDUCE_AVG && !cr_dtype_is_inexact(t) && !strcmp(cr_comm_engine(g), "gloo");
}

static void reduce_all(cr_comm *g, cr_dtype t, cr_reduce_op op, int64_t n)
{
    void *at = calloc((size_t)n + 1, cr_dtype_size(t));
    cr_buffer b = {at, n};
    cr_call_args call = {
        .kind = CR_CALL_ALL_REDUCE, .op = op, .dtype = t, .factor = 0.5, .outs = 1, .out = &b};
    int size = cr_comm_size(g), wrong = 0;

    fill(t, at, n, cr_comm_rank(g));
    cr_status st = cr_comm_run(g, &call, "here.py:1");
    MUST(refuses(g, t, op) ? st == CR_RUNTIME : st == CR_OK);
    for (int64_t i = 0; i < n; i++)
        wrong += !equal(t, value(t, at, i),
                        st ? element(cr_comm_rank(g), i) : expected(op, t, size, i));
    if (wrong)
        fprintf(stderr, "%d wrong of %lld: %s %s\n", wrong, (long long)n, cr_dtype_name(t),
                cr_reduce_name(op));
    MUST(!wrong);
    free(at);
}

static void reduce_everything(cr_comm *g)
{
    static const int64_t counts[] = {7, 1003};

    for (int t = 0; t < CR_DTYPE_COUNT; t++)
        for (int op = 0; op < CR_REDUCE_COUNT; op++)
            for (size_t k = 0; k < CR_LEN(counts); k++)
                if (!cr_reduce_check((cr_reduce_op)op, (cr_dtype)t) && t != CR_E8M0FNU)
                    reduce_all(g, (cr_dtype)t, (cr_reduce_op)op, counts[k]);
    reduce_all(g, CR_F32, CR_REDUCE_SUM, 0);
}

/* Contributions that just travel with the description and just do not, exchanges of pairs, and
 * several segments with uneven parts, of which one is empty. */
static void reduce_every_size(cr_comm *g)
{
    static const int64_t counts[] = {16384, 16385, 40000, 65537, 131073, 700001};
    static const struct {
        cr_dtype dtype;
        cr_reduce_op op;
    } how[] = {{CR_F32, CR_REDUCE_SUM},        {CR_F32, CR_REDUCE_AVG},
               {CR_F32, CR_REDUCE_PREMUL_SUM}, {CR_F64, CR_REDUCE_MAX},
               {CR_BF16, CR_REDUCE_AVG},       {CR_U8, CR_REDUCE_BAND},
               {CR_I64, CR_REDUCE_AVG}};

    for (size_t i = 0; i < CR_LEN(how); i++)
        for (size_t k = 0; k < CR_LEN(counts); k++)
            reduce_all(g, how[i].dtype, how[i].op, counts[k]);
}

/* Calls of one work, some of which travel together: two kinds, three roots, two dtypes, and one
 * buffer that is reduced twice. */
enum { TOGETHER = 40, TOGETHER_MOST = 30000 };
static void together_fill(cr_call_args *c, cr_buffer *b, int i, int rank)
{
    static const int64_t counts[] = {1, 0, 700, TOGETHER_MOST};

    b->count = counts[i % (int)CR_LEN(counts)];
    *c = (cr_call_args){.kind = i < TOGETHER / 2 ? CR_CALL_BROADCAST : CR_CALL_ALL_REDUCE,
                        .dtype = i % 7 ? CR_F32 : CR_I32,
                        .root = i < TOGETHER / 4 || i >= TOGETHER / 2 ? 0 : 1,
                        .outs = 1,
                        .out = b};
    fill(c->dtype, b->at, b->count, rank + i);
}

static int together_wrong(const cr_call_args *c, int i, int size)
{
    bool sum = c->kind == CR_CALL_ALL_REDUCE;
    int wrong = 0;

    for (int64_t k = 0; k < c->out[0].count; k++) {
        double right = 0;
        for (int r = sum ? 0 : c->root; r < (sum ? size : c->root + 1); r++)
            right += element(r + i, k);
        wrong += value(c->dtype, c->out[0].at, k) != right;
    }
    return wrong;
}

static void run_together(cr_comm *g)
{
    cr_buffer b[TOGETHER];
    cr_call_args calls[TOGETHER + 2];
    cr_work *w = NULL;
    float twice = (float)(cr_comm_rank(g) + 1);
    cr_buffer again = {&twice, 1};
    int size = cr_comm_size(g);

    for (int i = 0; i < TOGETHER; i++) {
        b[i].at = calloc(TOGETHER_MOST, sizeof(float));
        together_fill(&calls[i], &b[i], i, cr_comm_rank(g));
    }
    for (int i = TOGETHER; i < TOGETHER + 2; i++)
        calls[i] = (cr_call_args){
            .kind = CR_CALL_ALL_REDUCE, .dtype = CR_F32, .outs = 1, .out = &again};
    MUST(!cr_comm_start(&w, g, calls, TOGETHER + 2, "here.py:2", -1, true));
    MUST(!cr_work_wait(w, -1));
    for (int i = 0; i < TOGETHER; i++)
        MUST(!together_wrong(&calls[i], i, size));
    MUST(twice == (float)(size * (size + 1) / 2 * size));
    MUST(cr_comm_sequence(g) == TOGETHER + 2);
    cr_work_drop(w);
    for (int i = 0; i < TOGETHER; i++)
        free(b[i].at);
}

TEST(every_dtype_and_reduction_has_its_value) { all_engines(1, 4, 20000, reduce_everything); }
TEST(every_size_of_a_reduction_has_its_value) { all_engines(2, 4, 20000, reduce_every_size); }
TEST(small_calls_that_travel_together_have_their_values)
{
    all_engines(2, 4, 20000, run_together);
}

enum { APART = 6, APART_MOST = 5 };

/* Fractions whose sum depends on the order of addition. */
static void apart_fill(cr_call_args *c, cr_buffer *b, float *at, int i, int rank)
{
    *b = (cr_buffer){at, i % APART_MOST};
    for (int k = 0; k < APART_MOST; k++)
        at[k] = 1.0f / (float)(rank * rank + i + k + 1);
    *c = (cr_call_args){
        .kind = CR_CALL_ALL_REDUCE, .dtype = CR_F32, .outs = 1, .out = b, .apart = true};
}

/* Works of `each` calls, which differs between ranks. */
static void apart_run(cr_comm *g, const cr_call_args *calls, int each)
{
    cr_work *w = NULL;

    for (int i = 0; i < APART; i += each) {
        int n = i + each < APART ? each : APART - i;
        MUST(!cr_comm_start(&w, g, calls + i, n, "here.py:3", -1, false));
        MUST(!cr_work_wait(w, -1));
        cr_work_drop(w);
    }
}

static void run_apart(cr_comm *g)
{
    float alone[APART][APART_MOST], joined[APART][APART_MOST];
    cr_call_args calls[APART];
    cr_buffer b[APART];
    int rank = cr_comm_rank(g);

    for (int i = 0; i < APART; i++)
        apart_fill(&calls[i], &b[i], alone[i], i, rank);
    apart_run(g, calls, 1);
    for (int each = 1; each <= APART; each++) {
        for (int i = 0; i < APART; i++)
            apart_fill(&calls[i], &b[i], joined[i], i, rank);
        apart_run(g, calls, (each + rank) % APART + 1);
        MUST(!memcmp(alone, joined, sizeof alone));
    }
    MUST(cr_comm_sequence(g) == APART * (APART + 1));
}

TEST(ranks_may_put_their_reductions_into_works_of_other_sizes)
{
    all_engines(2, 4, 20000, run_apart);
}

/* Rank r's part has per + r elements. */
static void move_everything(cr_comm *g)
{
    int size = cr_comm_size(g), me = cr_comm_rank(g);
    int64_t per[] = {0, 3, 50000};

    for (size_t k = 0; k < CR_LEN(per); k++)
        for (int root = 0; root < size; root++) {
            int64_t total = 0;
            cr_buffer all[MOST_RANKS], own, parts[MOST_RANKS];
            float *room = calloc((size_t)(per[k] + size) * 8 * MOST_RANKS, 4), *at = room;
            for (int r = 0; r < size; r++, at += per[k] + size)
                all[r] = (cr_buffer){at, per[k] + r};
            own = (cr_buffer){at, per[k] + me};
            at += per[k] + size;
            fill(CR_F32, own.at, own.count, me);
            cr_call_args c = {.kind = CR_CALL_ALL_GATHER,
                              .dtype = CR_F32,
                              .ins = 1,
                              .outs = size,
                              .in = &own,
                              .out = all};
            MUST(!cr_comm_run(g, &c, "g.py:1"));
            for (int r = 0; r < size; r++)
                for (int64_t i = 0; i < all[r].count; i++)
                    total += (double)((float *)all[r].at)[i] != element(r, i);
            memset(room, 0, (size_t)((char *)own.at - (char *)room));
            c.kind = CR_CALL_GATHER;
            c.root = root;
            c.outs = me == root ? size : 0;
            MUST(!cr_comm_run(g, &c, "g.py:2"));
            for (int r = 0; r < size && me == root; r++)
                for (int64_t i = 0; i < all[r].count; i++)
                    total += (double)((float *)all[r].at)[i] != element(r, i);
            memset(own.at, 0, (size_t)own.count * 4);
            c = (cr_call_args){.kind = CR_CALL_SCATTER,
                               .dtype = CR_F32,
                               .root = root,
                               .ins = me == root ? size : 0,
                               .outs = 1,
                               .in = all,
                               .out = &own};
            MUST(!cr_comm_run(g, &c, "g.py:3"));
            for (int64_t i = 0; i < own.count; i++)
                total += (double)((float *)own.at)[i] != element(me, i);
            /* to rank r: per + r elements that name the sender */
            for (int r = 0; r < size; r++) {
                fill(CR_F32, all[r].at, all[r].count, 10 * me);
                parts[r] = (cr_buffer){at, per[k] + me};
                at += per[k] + size;
            }
            c = (cr_call_args){.kind = CR_CALL_ALL_TO_ALL,
                               .dtype = CR_F32,
                               .ins = size,
                               .outs = size,
                               .in = all,
                               .out = parts};
            MUST(!cr_comm_run(g, &c, "g.py:4"));
            for (int r = 0; r < size; r++)
                for (int64_t i = 0; i < parts[r].count; i++)
                    total += (double)((float *)parts[r].at)[i] != element(10 * r, i);
            c = (cr_call_args){.kind = CR_CALL_REDUCE_SCATTER,
                               .dtype = CR_F32,
                               .ins = size,
                               .outs = 1,
                               .in = all,
                               .out = &own};
            for (int r = 0; r < size; r++)
                fill(CR_F32, all[r].at, all[r].count, me);
            MUST(!cr_comm_run(g, &c, "g.py:5"));
            for (int64_t i = 0; i < own.count; i++)
                total +=
                    (double)((float *)own.at)[i] != expected(CR_REDUCE_SUM, CR_F32, size, i);
            cr_buffer one = all[0];
            fill(CR_F32, one.at, one.count, me);
            c = (cr_call_args){.kind = CR_CALL_BROADCAST,
                               .dtype = CR_F32,
                               .root = root,
                               .outs = 1,
                               .out = &one};
            MUST(!cr_comm_run(g, &c, "g.py:6"));
            for (int64_t i = 0; i < one.count; i++)
                total += (double)((float *)one.at)[i] != element(root, i);
            fill(CR_F32, one.at, one.count, me);
            c.kind = CR_CALL_REDUCE;
            MUST(!cr_comm_run(g, &c, "g.py:7"));
            for (int64_t i = 0; i < one.count; i++)
                total +=
                    (double)((float *)one.at)[i] !=
                    (me == root ? expected(CR_REDUCE_SUM, CR_F32, size, i) : element(me, i));
            MUST(total == 0);
            free(room);
        }
}

TEST(every_call_moves_uneven_parts) { all_engines(1, 4, 20000, move_everything); }

static void messages(cr_comm *g)
{
    int size = cr_comm_size(g), me = cr_comm_rank(g), from = -1;
    float out[2] = {(float)me, 7}, in[2] = {0};
    cr_buffer o = {out, 2}, i = {in, 2};
    cr_call_args send = {.kind = CR_CALL_SEND,
                         .dtype = CR_F32,
                         .root = (me + 1) % size,
                         .tag = 5,
                         .ins = 1,
                         .in = &o};
    cr_call_args take = {
        .kind = CR_CALL_RECEIVE, .dtype = CR_F32, .root = -1, .tag = 5, .outs = 1, .out = &i};
    cr_work *a = NULL, *b = NULL;

    MUST(!cr_comm_start(&b, g, &take, 1, "m.py:1", -1, false));
    MUST(!cr_comm_start(&a, g, &send, 1, "m.py:2", -1, false));
    while (me % 2 && !cr_work_is_done(b))
        usleep(1000);
    MUST(!cr_work_wait(b, -1));
    MUST(!cr_work_wait(a, -1));
    from = cr_work_source(b);
    MUST(from == (me + size - 1) % size && in[0] == (float)from);
    cr_work_drop(a);
    cr_work_drop(b);
    send.root = me;
    MUST(cr_comm_start(&a, g, &send, 1, "m.py:3", -1, false) == CR_VALUE);
}

TEST(messages_arrive_from_any_rank) { all_engines(2, 4, 20000, messages); }

static void queue_many(cr_comm *g)
{
    enum { MANY = 50 };
    float x[MANY];
    cr_work *w[MANY];

    for (int i = 0; i < MANY; i++) {
        x[i] = 1;
        cr_buffer b = {&x[i], 1};
        cr_call_args c = {.kind = CR_CALL_ALL_REDUCE, .dtype = CR_F32, .outs = 1, .out = &b};
        MUST(!cr_comm_start(&w[i], g, &c, 1, "q.py:1", -1, i % 7 == 3));
    }
    for (int i = 0; i < MANY; i++) {
        MUST(!cr_work_wait(w[i], -1));
        MUST(x[i] == (float)cr_comm_size(g));
        cr_work_drop(w[i]);
    }
    MUST(cr_comm_sequence(g) == MANY);
}

TEST(calls_run_in_the_order_of_their_start) { all_engines(2, 4, 20000, queue_many); }

/* --- faults --- */
static cr_status sum_of(cr_comm *g, int64_t n, cr_dtype t, const char *where)
{
    void *at = calloc((size_t)n + 1, cr_dtype_size(t));
    cr_buffer b = {at, n};
    cr_call_args c = {.kind = CR_CALL_ALL_REDUCE, .dtype = t, .outs = 1, .out = &b};
    cr_status st = cr_comm_run(g, &c, where);

    free(at);
    return st;
}

static void call_otherwise(cr_comm *g)
{
    int me = cr_comm_rank(g);
    double start = cr_seconds();

    MUST(!sum_of(g, 4, CR_F32, "a.py:1"));
    MUST(sum_of(g, me == 1 ? 5 : 4, CR_F32, me == 1 ? "b.py:7" : "a.py:2") == CR_COMM);
    MUST(strstr(cr_error_message(), "b.py:7") && strstr(cr_error_message(), "a.py:2"));
    MUST(strstr(cr_error_message(), "5 elements of float32") != NULL);
    MUST(sum_of(g, 4, CR_F32, "a.py:3") == CR_COMM);
    MUST(strstr(cr_error_message(), "closed since") != NULL);
    MUST(cr_seconds() - start < 15);
}

TEST(calls_that_differ_are_an_error_with_both_lines)
{
    all_engines(2, 4, 20000, call_otherwise);
}

static void differ_in_dtype(cr_comm *g)
{
    MUST(sum_of(g, 40000, cr_comm_rank(g) ? CR_F32 : CR_I32, "a.py:1") == CR_COMM);
    MUST(strstr(cr_error_message(), "of int32") && strstr(cr_error_message(), "of float32"));
}

TEST(large_calls_that_differ_in_dtype_are_an_error)
{
    all_engines(2, 4, 20000, differ_in_dtype);
}

/* A child of rank 0 ends the group that it inherited; the ranks go on. */
static void end_in_a_child(cr_comm *g)
{
    int64_t sum = 1;
    cr_buffer b = {&sum, 1};
    cr_call_args call = {
        .kind = CR_CALL_ALL_REDUCE, .dtype = CR_I64, .root = -1, .outs = 1, .out = &b};
    int status = 0;

    MUST(!cr_comm_run(g, &call, "before"));
    pid_t child = cr_comm_rank(g) ? -1 : fork();
    if (!child) {
        MUST(cr_comm_run(g, &call, "in the child") == CR_COMM);
        MUST(strstr(cr_error_message(), "forked"));
        cr_comm_shut(g, "by the child");
        cr_comm_drop(g);
        _exit(failures ? 1 : 0);
    }
    if (child > 0)
        MUST(waitpid(child, &status, 0) == child && !status);
    MUST(!cr_comm_run(g, &call, "after"));
    MUST(sum == (int64_t)cr_comm_size(g) * cr_comm_size(g));
}

TEST(a_forked_child_leaves_its_parents_group_alone)
{
    all_engines(2, 3, 20000, end_in_a_child);
}

static void lose_rank_1(cr_comm *g)
{
    MUST(!sum_of(g, 4, CR_F32, "a.py:1"));
    if (cr_comm_rank(g) == 1)
        kill(getpid(), SIGKILL);
    MUST(sum_of(g, 400000, CR_F32, "a.py:2") == CR_COMM);
    MUST(strstr(cr_error_message(), "rank 1 (process") &&
         strstr(cr_error_message(), "has ended"));
}

TEST(a_rank_that_is_killed_is_named) { all_engines(2, 4, 20000, lose_rank_1); }

static void stop_rank_1(cr_comm *g)
{
    double start = cr_seconds();

    MUST(!sum_of(g, 4, CR_F32, "a.py:1"));
    if (cr_comm_rank(g) == 1) {
        pid_t self = getpid();
        if (!fork()) { /* ends the stop later */
            usleep(2500000);
            kill(self, SIGKILL);
            _exit(0);
        }
        kill(self, SIGSTOP);
    }
    MUST(sum_of(g, 4, CR_F32, "a.py:2") == CR_COMM);
    MUST(strstr(cr_error_message(), "rank 1 (process") &&
         strstr(cr_error_message(), "is stopped"));
    MUST(cr_seconds() - start < 5);
}

TEST(a_rank_that_is_stopped_is_named_after_the_timeout) { all_engines(2, 4, 700, stop_rank_1); }

/* --- reports without a store --- */
static int held_end = -1; /* of a pipe: rank 1 runs while it is open */

/* A lost store, which the report asks before it looks at the ranks. */
static cr_status lost_call(cr_store *s, const cr_store_request *r, cr_store_reply *out)
{
    (void)s, (void)r, (void)out;
    close(held_end);
    return cr_fail(CR_STORE, "the store is lost");
}

/* Rank 1: ends some time after the report has begun. */
static void end_slowly(const char *path, int pipe_end)
{
    cr_store *store = NULL;
    cr_peers *peers = NULL;
    char byte;

    close(held_end);
    MUST(!cr_store_file(&store, path, 2));
    cr_comm_how how = {"gloo", "test", 1, 2, NULL, store, 20000, NULL, NULL};
    MUST(!cr_peers_meet(&peers, &how));
    MUST(!read(pipe_end, &byte, 1));
    usleep(100000);
    _exit(failures ? 1 : 0);
}

static void report_without_store(cr_peers *peers)
{
    static const cr_store_kind lost = {lost_call, NULL, NULL};
    cr_store store = {1, &lost, 20000};
    cr_comm g = {.store = &store, .peers = peers, .size = 2, .name = "test"};
    cr_call_args args = {.kind = CR_CALL_ALL_REDUCE};
    cr_running call = {&g, &args, 0, "a.py:1", 1, cr_seconds(), cr_seconds() + 20};

    FAILS(CR_COMM, cr_report(&call, cr_fail(CR_COMM, "the connection is closed")));
    CHECK(strstr(cr_error_message(), "rank 1 (process") != NULL);
    CHECK(strstr(cr_error_message(), "has ended") != NULL);
}

TEST(a_rank_that_ends_after_its_connections_is_named_without_a_store)
{
    char path[] = "/tmp/cresset_report_XXXXXX";
    int fd = mkstemp(path), ends[2], status = 1;
    cr_store *store = NULL;
    cr_peers *peers = NULL;

    CHECK(fd >= 0 && !pipe(ends));
    held_end = ends[1];
    pid_t child = fork();
    if (!child)
        end_slowly(path, ends[0]);
    OK(cr_store_file(&store, path, 2));
    cr_comm_how how = {"gloo", "test", 0, 2, NULL, store, 20000, NULL, NULL};
    OK(cr_peers_meet(&peers, &how));
    report_without_store(peers);
    CHECK(waitpid(child, &status, 0) == child && !status);
    cr_peers_free(peers);
    cr_store_drop(store);
    close(ends[0]);
    close(fd);
    unlink(path);
}

/* Rank 1: states another engine, or one that is not there. */
static void name_engine(const char *path, const char *engine)
{
    cr_store *store = NULL;
    cr_peers *peers = NULL;
    cr_comm *g = NULL;

    MUST(!cr_store_file(&store, path, 2));
    cr_comm_how how = {engine, "test", 1, 2, NULL, store, 20000, NULL, "b.py:2"};
    MUST((strcmp(engine, "mpi") ? cr_comm_new(&g, &how) : cr_peers_meet(&peers, &how)) ==
         CR_COMM);
    _exit(failures ? 1 : 0);
}

static void meet_engine(const char *engine, const char *text)
{
    char path[] = "/tmp/cresset_engine_XXXXXX";
    int fd = mkstemp(path), status = 1;
    cr_store *store = NULL;
    cr_peers *peers = NULL;

    CHECK(fd >= 0);
    pid_t child = fork();
    if (!child)
        name_engine(path, engine);
    OK(cr_store_file(&store, path, 2));
    cr_comm_how how = {"gloo", "test", 0, 2, NULL, store, 20000, NULL, "a.py:1"};
    FAILS(CR_COMM, cr_peers_meet(&peers, &how));
    CHECK(strstr(cr_error_message(), text) != NULL);
    CHECK(waitpid(child, &status, 0) == child && !status);
    cr_store_drop(store);
    close(fd);
    unlink(path);
}

TEST(ranks_with_other_engines_are_named)
{
    meet_engine("mpi", "rank 0 names 'gloo' (a.py:1), rank 1 names 'mpi' (b.py:2)");
    meet_engine("carrier pigeon", "rank 1 has no engine 'carrier pigeon' (b.py:2): there is no "
                                  "engine 'carrier pigeon'");
}

TEST(a_rank_that_never_comes_is_named)
{
    cr_store *s = NULL;
    cr_comm *g = NULL;

    OK(cr_store_hash(&s));
    cr_comm_how how = {"gloo", "test", 0, 3, NULL, s, 100, NULL, NULL};
    if (cr_engine_is_available("gloo")) {
        FAILS(CR_STORE, cr_comm_new(&g, &how));
        CHECK(strstr(cr_error_message(), "ranks 1, 2") != NULL);
    }
    how.rank = 3;
    FAILS(CR_VALUE, cr_comm_new(&g, &how));
    how.engine = "carrier pigeon";
    how.rank = 0;
    FAILS(CR_COMM, cr_comm_new(&g, &how));
    EQ(g, NULL);
    cr_store_drop(s);
}

TEST(averages_of_many_ranks_are_truncated)
{
    int8_t a[] = {100, -100, 3};
    uint8_t b[] = {255, 1, 0};
    int64_t c[] = {-513, 513, INT64_MIN};

    cr_reduce_average(CR_I8, a, 3, 256);
    cr_reduce_average(CR_U8, b, 3, 256);
    cr_reduce_average(CR_I64, c, 3, 256);
    for (int i = 0; i < 3; i++)
        CHECK(!a[i] && !b[i]);
    CHECK(c[0] == -2 && c[1] == 2 && c[2] == INT64_MIN / 256);
}

TEST(a_fake_group_has_any_size)
{
    cr_comm *g = NULL;
    cr_comm_how how = {"fake", "plan", 5, 4096, NULL, NULL, 1000, NULL, NULL};
    float x[2] = {1, 2};
    cr_buffer b = {x, 2};
    cr_call_args c = {.kind = CR_CALL_ALL_REDUCE, .dtype = CR_F32, .outs = 1, .out = &b};
    cr_text history = {0};

    OK(cr_comm_new(&g, &how));
    OK(cr_comm_run(g, &c, "p.py:3"));
    EQ(x[1], 2);
    c.op = CR_REDUCE_BAND;
    FAILS(CR_VALUE, cr_comm_run(g, &c, "p.py:4"));
    cr_comm_history(g, &history);
    CHECK(strstr(cr_text_str(&history), "1\tall_reduce\t2\tfloat32\tp.py:3\tcompleted") !=
          NULL);
    cr_text_drop(&history);
    cr_comm_drop(g);
}

/* An engine of another library: the fake one under another name. */
TEST(a_group_without_an_engine_of_its_name_fails)
{
    cr_comm *g = NULL;
    cr_comm_how how = {"outside", "plan", 1, 2, NULL, NULL, 1000, NULL, NULL};

    FAILS(CR_COMM, cr_comm_new(&g, &how));
    EQ_STR(cr_error_message(), "there is no engine 'outside' for groups of processes");
    CHECK(!g);
}
