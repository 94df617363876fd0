/* Injects faults into groups of processes: faults COUNT SEED [MS]
 *
 * Each injection starts 2 to 4 ranks that repeat a random call, and lets one rank be killed,
 * end, stop, sleep, call otherwise, or be killed after the store was lost, at a random call or
 * moment.  Every other rank must end with an error within the timeout and a margin, and the
 * error must name the rank and its fault.  Prints every injection that breaks a promise, and
 * counts: by engine, and the processes that outlive their injection.
 *
 * MS (600) is the groups' timeout.  Healthy ranks must not be late where other programs take
 * the processors: the ranks first measure a few calls, and the slowest of these gives a longer
 * timeout if it has to. */
#include "base/clock.h"
#include "comm/group.h"
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static int timeout_ms = 600;
enum { MARGIN_MS = 4000, CALLS = 12, MOST = 4, TEXT = 1500, MEASURED = 4, TIMES_SLOWEST = 10 };
enum { WAITED_MS = 10000 }; /* for a fault: many calls of a quick engine */
typedef enum { KILL, END, STOP, SLEEP, SIZE, DTYPE, KIND, LOST, FAULTS } fault;
static const char *const fault_names[] = {"kill", "end",   "stop", "sleep",
                                          "size", "dtype", "kind", "lost store and kill"};
static const char *const engines[] = {"gloo", "mpi"};
static int injected[CR_LEN(engines)];

typedef struct {
    const char *engine;
    int size, victim, at_call;
    useconds_t
        at_us; /* the moment after the start of the call, for kill and stop; 0: before it */
    cr_call_kind kind;
    int64_t elements;
    fault what;
    int port;
} plan;

typedef struct {
    cr_status st;
    double ms, limit_ms;
    char text[TEXT];
} outcome;

static unsigned draw(unsigned *seed, unsigned n) { return (unsigned)rand_r(seed) % n; }

static plan draw_plan(unsigned *seed)
{
    static const cr_call_kind kinds[] = {
        CR_CALL_BROADCAST,      CR_CALL_ALL_REDUCE, CR_CALL_REDUCE,
        CR_CALL_ALL_GATHER,     CR_CALL_GATHER,     CR_CALL_SCATTER,
        CR_CALL_REDUCE_SCATTER, CR_CALL_ALL_TO_ALL, CR_CALL_BARRIER};
    static const int64_t elements[] = {3, 300, 5000, 400000};
    plan p = {.engine = engines[draw(seed, CR_LEN(engines))], .size = 2 + (int)draw(seed, 3)};

    p.victim = (int)draw(seed, (unsigned)p.size);
    p.at_call = (int)draw(seed, CALLS);
    p.at_us = draw(seed, 2) ? 1 + draw(seed, 3000) : 0;
    p.kind = kinds[draw(seed, CR_LEN(kinds))];
    p.elements = elements[draw(seed, CR_LEN(elements))];
    p.what = (fault)draw(seed, FAULTS);
    if (p.kind == CR_CALL_BARRIER && (p.what == SIZE || p.what == DTYPE))
        p.what = KIND;
    return p;
}

/* --- a rank --- */
static cr_status call_once(cr_comm *g, cr_call_kind kind, cr_dtype dtype, int64_t n,
                           const char *where, char *room)
{
    int size = cr_comm_size(g), me = cr_comm_rank(g);
    cr_buffer all[MOST], own = {room, n};
    cr_call_args c = {.kind = kind, .dtype = dtype, .in = &own, .out = &own, .root = 0};
    bool root = me == 0;

    for (int r = 0; r < size; r++)
        all[r] = (cr_buffer){room + (size_t)(r + 1) * (size_t)n * 8, n};
    c.ins = kind == CR_CALL_ALL_GATHER || kind == CR_CALL_GATHER           ? 1
            : kind == CR_CALL_REDUCE_SCATTER || kind == CR_CALL_ALL_TO_ALL ? size
            : kind == CR_CALL_SCATTER && root                              ? size
                                                                           : 0;
    c.outs =
        kind == CR_CALL_BARRIER || (kind == CR_CALL_GATHER && !root) ? 0
        : kind == CR_CALL_ALL_GATHER || kind == CR_CALL_GATHER || kind == CR_CALL_ALL_TO_ALL
            ? size
            : 1;
    c.in = c.ins > 1 ? all : &own;
    c.out = c.outs > 1 ? all : &own;
    return cr_comm_run(g, &c, where);
}

static void signal_later(const plan *p, int number)
{
    pid_t self = getpid();

    if (!p->at_us) {
        kill(self, number);
        return;
    }
    if (!fork()) {
        usleep(p->at_us);
        kill(self, number);
        _exit(0);
    }
}

/* Asks the judge to end the store, and gives it time to do so. */
static void lose_store(int report)
{
    if (write(report, "", 1) == 1)
        usleep(200 * 1000);
}

static void commit_fault(const plan *p, int report, cr_call_kind *kind, cr_dtype *dtype,
                         int64_t *n)
{
    switch (p->what) {
    case KILL: signal_later(p, SIGKILL); break;
    case STOP: signal_later(p, SIGSTOP); break;
    case END: _exit(0);
    case SLEEP: usleep((useconds_t)(timeout_ms + MARGIN_MS) * 1000); _exit(0);
    case LOST:
        lose_store(report);
        kill(getpid(), SIGKILL);
        break;
    case SIZE: *n += 1; break;
    case DTYPE: *dtype = CR_I32; break;
    default: *kind = *kind == CR_CALL_BARRIER ? CR_CALL_ALL_REDUCE : CR_CALL_BARRIER; break;
    }
}

/* Sets this process's timeout_ms from the slowest healthy call of all ranks. */
static cr_status measure(cr_comm *g, const plan *p, char *room)
{
    double slowest = 0;
    cr_buffer own = {&slowest, 1};
    cr_call_args most = {.kind = CR_CALL_ALL_REDUCE,
                         .op = CR_REDUCE_MAX,
                         .dtype = CR_F64,
                         .root = -1,
                         .outs = 1,
                         .out = &own};

    for (int i = 0; i < MEASURED; i++) {
        double start = cr_seconds();
        CR_TRY(call_once(g, p->kind, CR_F32, p->elements, "measure.py:1", room));
        slowest = fmax(slowest, 1e3 * (cr_seconds() - start));
    }
    CR_TRY(cr_comm_run(g, &most, "measure.py:2"));
    timeout_ms = (int)fmax(timeout_ms, TIMES_SLOWEST * slowest);
    cr_comm_set_timeout(g, timeout_ms);
    return CR_OK;
}

static void rank_main(const plan *p, int rank, int report)
{
    cr_store_tcp_options o = {
        .host = "127.0.0.1", .port = p->port, .listen_fd = -1, .timeout_ms = 20000};
    cr_store *store = NULL;
    cr_comm *g = NULL;
    outcome out = {0};
    char *room = calloc((size_t)(p->elements + 1) * (MOST + 2), 8);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    out.st = cr_store_tcp(&store, &o);
    cr_comm_how how = {.engine = p->engine,
                       .name = "faults",
                       .rank = rank,
                       .size = p->size,
                       .store = store,
                       .timeout_ms = 20000};
    if (!out.st)
        out.st = cr_comm_new(&g, &how);
    if (!out.st)
        out.st = measure(g, p, room);
    double start = cr_seconds(), last = start + 1e-3 * WAITED_MS;
    for (int i = 0; !out.st && start < last; i++) {
        cr_call_kind kind = p->kind;
        cr_dtype dtype = CR_F32;
        int64_t n = p->elements;
        start = cr_seconds();
        if (i == p->at_call && rank == p->victim)
            commit_fault(p, report, &kind, &dtype, &n);
        out.st = call_once(g, kind, dtype, n, rank == p->victim ? "victim.py:1" : "other.py:1",
                           room);
    }
    out.ms = 1e3 * (cr_seconds() - start);
    out.limit_ms = timeout_ms + MARGIN_MS;
    snprintf(out.text, sizeof out.text, "%s", cr_error_message());
    if (write(report, &out, sizeof out) != sizeof out)
        _exit(2);
    _exit(0);
}

/* --- the judge --- */
static const char *missing(const plan *p, const outcome *o)
{
    static char needed[64];

    if (!o->st)
        return "an error";
    if (o->ms > o->limit_ms)
        return "an end in time";
    if (p->what == KILL || p->what == END || p->what == STOP || p->what == LOST) {
        snprintf(needed, sizeof needed, "rank %d (process", p->victim);
        if (!strstr(o->text, needed))
            return needed;
        return strstr(o->text, p->what == STOP ? "is stopped" : "has ended") ? NULL
                                                                             : "the fault";
    }
    if (p->what == SLEEP) {
        snprintf(needed, sizeof needed, "rank %d is in no call", p->victim);
        return strstr(o->text, needed) ? NULL : needed;
    }
    return strstr(o->text, "victim.py:1") ? NULL : "the line";
}

static bool judge(const plan *p, int rank, int from)
{
    outcome o = {0};
    ssize_t n = read(from, &o, sizeof o);
    const char *lacks = n == sizeof o ? missing(p, &o) : "a report";

    if (lacks)
        printf("rank %d of %d, %s, %s of %lld elements, fault %s of rank %d at call %d + %d "
               "us: no %s: "
               "%.0f ms: %s\n",
               rank, p->size, p->engine, cr_call_kind_name(p->kind), (long long)p->elements,
               fault_names[p->what], p->victim, p->at_call, (int)p->at_us, lacks, o.ms, o.text);
    return !lacks;
}

/* Waits until the victim asks, or ends. */
static void end_store(cr_store **server, int from)
{
    char asked;

    if (read(from, &asked, 1) == 1) {
        cr_store_drop(*server);
        *server = NULL;
    }
}

/* Returns how many processes of an injection live on after a moment: ranks have been waited
 * for, what they started comes to this process. */
static int orphans(void)
{
    int left = 0;

    for (int i = 0; i < 100; i++) {
        pid_t p = waitpid(-1, NULL, WNOHANG);
        if (p < 0)
            return 0;
        if (!p)
            usleep(10000);
        left = !p;
    }
    return left;
}

static bool inject(unsigned *seed)
{
    plan p = draw_plan(seed);
    cr_store_tcp_options o = {
        .host = "127.0.0.1", .server = true, .listen_fd = -1, .timeout_ms = 20000};
    cr_store *server = NULL;
    pid_t child[MOST];
    int pipes[MOST][2];
    bool good = true;

    if (!cr_engine_is_available(p.engine))
        p.engine = engines[!strcmp(p.engine, engines[0])];
    if (cr_store_tcp(&server, &o))
        return false;
    p.port = cr_store_tcp_port(server);
    for (int r = 0; r < p.size; r++) {
        if (pipe(pipes[r]))
            return false;
        child[r] = fork();
        if (!child[r])
            rank_main(&p, r, pipes[r][1]);
        close(pipes[r][1]);
    }
    if (p.what == LOST)
        end_store(&server, pipes[p.victim][0]);
    for (int r = 0; r < p.size; r++)
        if (r != p.victim)
            good &= judge(&p, r, pipes[r][0]);
    kill(child[p.victim], SIGKILL); /* sleeping or stopped */
    for (int r = 0; r < p.size; r++) {
        waitpid(child[r], NULL, 0);
        close(pipes[r][0]);
    }
    cr_store_drop(server);
    injected[!strcmp(p.engine, engines[1])]++;
    if (orphans()) {
        printf("fault %s of rank %d (%s): a process outlives it\n", fault_names[p.what],
               p.victim, p.engine);
        good = false;
    }
    return good;
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 40, good = 0;
    unsigned seed = argc > 2 ? (unsigned)atoi(argv[2]) : 1;

    if (argc > 3)
        timeout_ms = atoi(argv[3]);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    alarm((unsigned)(60 + count * (8 + timeout_ms / 500))); /* a hang of the program itself */
    for (int i = 0; i < count; i++)
        good += inject(&seed);
    printf("faults: %d injected (gloo %d, mpi %d), %d as promised\n", count, injected[0],
           injected[1], good);
    return good != count;
}
