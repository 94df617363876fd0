/* Promises of agents: each request ends once, and no bytes of a connection reach other
 * memory. */
#include "base/clock.h"
#include "base/memory.h"
#include "base/test.h"
#include "base/thread.h"
#include "comm/agent.h"
#include "comm/net.h"
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SECRET = 16 };

typedef struct {
    cr_store *store;
    cr_agent *at[2];
} two;

static two two_agents(void)
{
    two t = {0};

    OK(cr_store_hash(&t.store));
    for (int i = 0; i < 2; i++)
        OK(cr_agent_new(&t.at[i], t.store, i, "127.0.0.1"));
    return t;
}

static void two_end(two *t)
{
    for (int i = 0; i < 2; i++)
        cr_agent_free(t->at[i]);
    cr_store_drop(t->store);
}

/* The next message, which must be of the kind and have the number. */
static cr_message *next_is(cr_agent *a, cr_message_kind kind, uint64_t id)
{
    cr_message *m = NULL;
    int waiting;

    cr_agent_next(a, kind == CR_MESSAGE_REQUEST, &m, &waiting);
    CHECK(m != NULL);
    if (m) {
        EQ(m->kind, kind);
        EQ(m->id, id);
    }
    return m;
}

static void ends_as(cr_agent *a, cr_message_kind kind, uint64_t id)
{
    cr_message_drop(next_is(a, kind, id));
}

static void ask(cr_agent *a, int to, uint64_t id, int64_t timeout_ms)
{
    cr_bytes part = cr_bytes_of("question");

    OK(cr_agent_ask(a, CR_MESSAGE_REQUEST, to, id, timeout_ms, &part, 1));
}

static void reply(cr_agent *a, int to, uint64_t id)
{
    cr_bytes part = cr_bytes_of("answer");

    OK(cr_agent_reply(a, to, id, &part, 1));
}

/* Requests and replies travel between the two agents. */
static void works(two *t, uint64_t id)
{
    ask(t->at[0], 1, id, 0);
    ends_as(t->at[1], CR_MESSAGE_REQUEST, id);
    reply(t->at[1], 0, id);
    ends_as(t->at[0], CR_MESSAGE_REPLY, id);
}

TEST(parts_of_all_sizes_arrive_at_both_agents)
{
    enum { MOST = 8 << 20 };
    static char bytes[MOST];
    static const size_t sizes[] = {0, 1, 32767, 32768, 0, MOST, 5, 0};
    two t = two_agents();
    cr_bytes part[CR_LEN(sizes)];

    for (size_t i = 0; i < MOST; i++)
        bytes[i] = (char)(i * 31 >> 3);
    for (size_t i = 0; i < CR_LEN(sizes); i++)
        part[i] = (cr_bytes){sizes[i] ? bytes : NULL, sizes[i]};
    for (int to = 0; to < 2; to++) {
        uint64_t id = 10 + (uint64_t)to;
        OK(cr_agent_ask(t.at[0], CR_MESSAGE_REQUEST, to, id, 0, part, CR_LEN(sizes)));
        cr_message *m = next_is(t.at[to], CR_MESSAGE_REQUEST, id);
        EQ(m->parts, CR_LEN(sizes));
        for (size_t i = 0; i < CR_LEN(sizes); i++) {
            EQ(m->part[i].len, sizes[i]);
            CHECK(!memcmp(m->part[i].at, bytes, sizes[i]));
        }
        cr_message_drop(m);
        OK(cr_agent_reply(t.at[to], 0, id, NULL, 0));
        ends_as(t.at[0], CR_MESSAGE_REPLY, id);
    }
    two_end(&t);
}

TEST(a_late_reply_is_dropped)
{
    two t = two_agents();

    ask(t.at[0], 1, 1, 10);
    ends_as(t.at[0], CR_MESSAGE_LATE, 1);
    ends_as(t.at[1], CR_MESSAGE_REQUEST, 1);
    reply(t.at[1], 0, 1);
    works(&t, 2);
    two_end(&t);
}

TEST(a_process_that_ends_loses_its_requests)
{
    two t = two_agents();
    cr_bytes part = cr_bytes_of("question");

    ask(t.at[0], 1, 1, 0);
    cr_agent_free(t.at[1]);
    t.at[1] = NULL;
    ends_as(t.at[0], CR_MESSAGE_LOST, 1);
    FAILS(CR_NETWORK, cr_agent_ask(t.at[0], CR_MESSAGE_REQUEST, 1, 2, 0, &part, 1));
    cr_agent_forget(t.at[0], 1);
    OK(cr_agent_new(&t.at[1], t.store, 1, "127.0.0.1"));
    works(&t, 3);
    two_end(&t);
}

TEST(requests_to_a_forgotten_process_are_lost_with_it_and_others_stay)
{
    two t = two_agents();
    cr_agent *old = t.at[1];

    ask(t.at[0], 1, 1, 0);
    cr_agent_forget(t.at[0], 1);
    OK(cr_agent_new(&t.at[1], t.store, 1, "127.0.0.1"));
    ask(t.at[0], 1, 2, 0);
    cr_agent_free(old);
    ends_as(t.at[0], CR_MESSAGE_LOST, 1);
    ends_as(t.at[1], CR_MESSAGE_REQUEST, 2);
    reply(t.at[1], 0, 2);
    ends_as(t.at[0], CR_MESSAGE_REPLY, 2);
    two_end(&t);
}

TEST(a_request_is_lost_without_memory_for_the_message)
{
    two t = two_agents();

    ask(t.at[0], 1, 1, 0);
    cr_fail_alloc_after(1);
    cr_agent_free(t.at[1]);
    ends_as(t.at[0], CR_MESSAGE_LOST, 1);
    cr_fail_alloc_after(0);
    t.at[1] = NULL;
    two_end(&t);
}

TEST(a_reply_that_was_sent_before_the_end_arrives)
{
    for (int i = 0; i < 40; i++) {
        two t = two_agents();
        ask(t.at[0], 1, 1, 0);
        ends_as(t.at[1], CR_MESSAGE_REQUEST, 1);
        reply(t.at[1], 0, 1); /* the first message in this direction */
        cr_agent_free(t.at[1]);
        t.at[1] = NULL;
        ends_as(t.at[0], CR_MESSAGE_REPLY, 1);
        two_end(&t);
    }
}

/* --- bytes that no agent sends --- */
typedef struct {
    char secret[SECRET];
    int32_t port;
    char host[256];
} address;

typedef struct {
    char secret[SECRET];
    uint64_t rank;
} hello;

typedef struct {
    uint64_t id;
    uint32_t kind, parts;
} head;

static address address_of(two *t)
{
    cr_text entry = {0};
    address to;

    OK(cr_store_get(t->store, "agent/1", 1000, &entry));
    EQ(entry.len, sizeof to);
    memcpy(&to, entry.at, sizeof to);
    cr_text_drop(&entry);
    return to;
}

/* A connection to agent 1 by a program of this test. */
static int stranger(two *t, uint64_t rank, bool knows)
{
    address to = address_of(t);
    hello hi = {.rank = rank};
    int fd = -1;

    memcpy(hi.secret, to.secret, SECRET);
    hi.secret[SECRET - 1] = (char)(hi.secret[SECRET - 1] ^ !knows);
    OK(cr_net_connect(&fd, to.host, to.port, 1000));
    OK(cr_net_send(fd, &hi, sizeof hi, cr_seconds() + 5));
    return fd;
}

static void say(int fd, const void *at, size_t n)
{
    OK(cr_net_send(fd, at, n, cr_seconds() + 5));
}

/* The agent has closed the connection. */
static void refused(int fd)
{
    struct pollfd end = {.fd = fd, .events = POLLIN};
    char byte;

    EQ(poll(&end, 1, 20000), 1);
    EQ(recv(fd, &byte, 1, 0) > 0, 0);
    close(fd);
}

TEST(processes_without_the_secret_or_a_rank_are_refused)
{
    two t = two_agents();

    refused(stranger(&t, 0, false));
    refused(stranger(&t, UINT64_MAX, true));
    refused(stranger(&t, (uint64_t)1 << 31, true));
    works(&t, 1);
    two_end(&t);
}

TEST(connections_that_do_not_say_who_they_are_are_closed)
{
    two t = two_agents();
    address to = address_of(&t);
    int fd[2] = {-1, -1};

    for (int i = 0; i < 2; i++)
        OK(cr_net_connect(&fd[i], to.host, to.port, 1000));
    say(fd[1], to.secret, SECRET); /* a part of a hello */
    works(&t, 1);
    for (int i = 0; i < 2; i++)
        refused(fd[i]);
    works(&t, 2);
    two_end(&t);
}

TEST(heads_and_lengths_that_cannot_be_are_refused)
{
    static const head heads[] = {
        {1, 3, 0}, {1, UINT32_MAX, 0}, {1, 0, UINT32_MAX}, {1, 0, (1 << 20) + 1}};
    static const uint64_t lengths[] = {UINT64_MAX, UINT64_MAX - 1, (uint64_t)1 << 63,
                                       INT64_MAX};
    two t = two_agents();

    for (size_t i = 0; i < CR_LEN(heads); i++) {
        int fd = stranger(&t, 0, true);
        say(fd, &heads[i], sizeof heads[i]);
        refused(fd);
    }
    for (size_t i = 0; i < CR_LEN(lengths); i++) {
        head h = {1, CR_MESSAGE_REQUEST, 1};
        int fd = stranger(&t, 0, true);
        say(fd, &h, sizeof h);
        say(fd, &lengths[i], sizeof lengths[i]);
        refused(fd);
    }
    works(&t, 1);
    two_end(&t);
}

TEST(a_message_that_ends_early_is_dropped_at_every_byte)
{
    struct {
        head h;
        uint64_t length[2];
        char bytes[5];
    } m = {{1, CR_MESSAGE_REQUEST, 2}, {3, 2}, "12345"};
    size_t whole = sizeof m.h + sizeof m.length + sizeof m.bytes;
    two t = two_agents();

    for (size_t n = 0; n < whole; n++) {
        int fd = stranger(&t, 0, true);
        say(fd, &m, n);
        close(fd);
    }
    works(&t, 9); /* no other request has arrived */
    two_end(&t);
}

TEST(a_reply_of_a_process_that_was_not_asked_is_dropped)
{
    two t = two_agents();
    head false_reply = {7, CR_MESSAGE_REPLY, 0}, request = {8, CR_MESSAGE_REQUEST, 0};
    int fd = stranger(&t, 5, true);

    ask(t.at[1], 0, 7, 0);
    say(fd, &false_reply, sizeof false_reply);
    say(fd, &request, sizeof request);
    ends_as(t.at[1], CR_MESSAGE_REQUEST, 8); /* so the reply has been read */
    ends_as(t.at[0], CR_MESSAGE_REQUEST, 7);
    reply(t.at[0], 1, 7);
    cr_message *m = next_is(t.at[1], CR_MESSAGE_REPLY, 7);
    EQ(m->from, 0);
    EQ(m->parts, 1);
    cr_message_drop(m);
    close(fd);
    two_end(&t);
}

TEST(requests_to_a_process_whose_messages_cannot_be_read_are_lost)
{
    two t = two_agents();
    head wrong = {1, 99, 0};
    int fd = stranger(&t, 0, true);

    ask(t.at[1], 0, 7, 0);
    say(fd, &wrong, sizeof wrong);
    ends_as(t.at[1], CR_MESSAGE_LOST, 7);
    close(fd);
    two_end(&t);
}

TEST(a_message_of_too_many_parts_is_not_sent)
{
    two t = two_agents();
    cr_bytes none = {0};

    FAILS(CR_VALUE, cr_agent_ask(t.at[0], CR_MESSAGE_REQUEST, 1, 1, 0, &none, (1 << 20) + 1));
    works(&t, 2);
    two_end(&t);
}

/* --- threads --- */
enum { EACH = 200 };

typedef struct {
    cr_agent *a;
    uint64_t first;
} asker;

static void *ask_many(void *at)
{
    const asker *me = at;

    for (uint64_t i = 0; i < EACH; i++)
        ask(me->a, 1, me->first + i, 0);
    return NULL;
}

static void *answer_all(void *at)
{
    cr_message *m;
    int waiting;

    for (;;) {
        cr_agent_next(at, true, &m, &waiting);
        if (!m)
            return NULL;
        reply(at, m->from, m->id);
        cr_message_drop(m);
    }
}

TEST(threads_ask_at_once_and_each_request_ends_once)
{
    two t = two_agents();
    asker askers[2] = {{t.at[0], 0}, {t.at[0], EACH}};
    pthread_t threads[3];
    bool seen[2 * EACH] = {0};
    cr_message *m;
    int waiting;

    EQ(cr_thread_start(&threads[2], answer_all, t.at[1]), 0);
    for (int i = 0; i < 2; i++)
        EQ(cr_thread_start(&threads[i], ask_many, &askers[i]), 0);
    for (int i = 0; i < 2 * EACH; i++) {
        cr_agent_next(t.at[0], false, &m, &waiting);
        EQ(m->kind, CR_MESSAGE_REPLY);
        CHECK(m->id < 2 * EACH && !seen[m->id]);
        seen[m->id % (2 * EACH)] = true;
        cr_message_drop(m);
    }
    cr_agent_shut(t.at[1]); /* wakes the thread that answers */
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    two_end(&t);
}
