/* Promises of stores: every kind answers alike, waits end in time, a lost server is an
 * error. */
#include "base/clock.h"
#include "base/test.h"
#include "comm/net.h"
#include "comm/store.h"
#include "comm/store_impl.h"
#include "comm/wait.h"
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const keyed_files[] = {"/tmp/cr_store_test"};

static const char *test_path(void)
{
    static char path[64];

    snprintf(path, sizeof path, "%s.%d", keyed_files[0], (int)getpid());
    return path;
}

static cr_store_tcp_options tcp_here(int port, bool server)
{
    return (cr_store_tcp_options){.host = "127.0.0.1",
                                  .port = port,
                                  .server = server,
                                  .listen_fd = -1,
                                  .timeout_ms = 5000};
}

/* The k-th kind of store; false after the last. */
static bool make_store(int k, cr_store **out)
{
    cr_store *under = NULL;
    cr_store_tcp_options tcp = tcp_here(0, true);

    switch (k) {
    case 0: OK(cr_store_hash(out)); return true;
    case 1: OK(cr_store_file(out, test_path(), 1)); return true;
    case 2: OK(cr_store_tcp(out, &tcp)); return true;
    case 3:
        OK(cr_store_hash(&under));
        OK(cr_store_prefix(out, "p", under));
        cr_store_drop(under);
        return true;
    default: return false;
    }
}

static void is_value(cr_store *s, const char *key, const char *expected)
{
    cr_text t = {0};

    OK(cr_store_get(s, key, 1000, &t));
    EQ_STR(cr_text_str(&t), expected);
    cr_text_drop(&t);
}

static void ask(cr_store *s, cr_store_request r, cr_store_reply *out)
{
    *out = (cr_store_reply){0};
    OK(cr_store_call(s, &r, out));
}

TEST(every_kind_keeps_values_sums_and_queues)
{
    cr_store *s = NULL;

    for (int k = 0; make_store(k, &s); k++) {
        cr_bytes key = cr_bytes_of("a"), pair[2] = {cr_bytes_of("1"), cr_bytes_of("2")};
        cr_store_reply reply;
        int64_t sum;
        bool there;

        OK(cr_store_set(s, "a", cr_bytes_of("1")));
        is_value(s, "a", "1");
        OK(cr_store_add(s, "n", 40, &sum));
        OK(cr_store_add(s, "n", 2, &sum));
        EQ(sum, 42);
        is_value(s, "n", "42");
        ask(s, (cr_store_request){CR_STORE_COMPARE_SET, 0, -1, 1, 2, &key, pair, 0}, &reply);
        cr_store_reply_drop(&reply);
        is_value(s, "a", "2");
        ask(s, (cr_store_request){CR_STORE_APPEND, 0, -1, 1, 1, &key, pair, 0}, &reply);
        cr_store_reply_drop(&reply);
        is_value(s, "a", "21");
        ask(s, (cr_store_request){CR_STORE_DELETE, 0, -1, 1, 0, &key, NULL, 0}, &reply);
        EQ(reply.number, 1);
        cr_store_reply_drop(&reply);
        OK(cr_store_check(s, "a", &there));
        EQ(there, false);
        cr_bytes q = cr_bytes_of("q");
        for (int i = 0; i < 2; i++) {
            ask(s, (cr_store_request){CR_STORE_PUSH, 0, -1, 1, 1, &q, pair + i, 0}, &reply);
            cr_store_reply_drop(&reply);
        }
        ask(s, (cr_store_request){CR_STORE_POP, 1, -1, 1, 0, &q, NULL, 0}, &reply);
        EQ_STR(reply.value.at[0].at, "1");
        cr_store_reply_drop(&reply);
        ask(s, (cr_store_request){CR_STORE_LENGTH, 0, -1, 1, 0, &q, NULL, 0}, &reply);
        EQ(reply.number, 1);
        cr_store_reply_drop(&reply);
        cr_store_drop(s);
    }
    EQ(access(test_path(), F_OK), -1);
}

TEST(a_wait_ends_at_its_limit_and_names_the_key)
{
    cr_store *s = NULL;

    for (int k = 0; make_store(k, &s); k++) {
        double start = cr_seconds();
        FAILS(CR_STORE, cr_store_wait(s, "never", 50));
        CHECK(strstr(cr_error_message(), "never") != NULL);
        CHECK(cr_seconds() - start >= 0.05);
        cr_store_drop(s);
    }
}

static void *set_later(void *s)
{
    usleep(20000);
    return cr_store_set(s, "later", cr_bytes_of("x")) ? s : NULL;
}

TEST(a_wait_sees_a_key_that_another_thread_sets)
{
    cr_store *s = NULL;

    for (int k = 0; make_store(k, &s); k++) {
        pthread_t thread;
        void *failed;

        EQ(pthread_create(&thread, NULL, set_later, s), 0);
        OK(cr_store_wait(s, "later", 5000));
        pthread_join(thread, &failed);
        EQ(failed, NULL);
        cr_store_drop(s);
    }
}

static bool wait_over(void) { return true; }

TEST(a_program_ends_the_waits_of_every_kind)
{
    cr_store_tcp_options nowhere = tcp_here(1, false);
    cr_store *s = NULL;

    for (int k = 0; make_store(k, &s); k++) {
        double start = cr_seconds();
        cr_wait_hook = wait_over;
        CHECK(cr_store_wait(s, "never", 20000) != CR_OK);
        cr_wait_hook = NULL;
        CHECK(cr_seconds() - start < 10);
        cr_store_drop(s);
    }
    cr_wait_hook = wait_over;
    FAILS(CR_NETWORK, cr_store_tcp(&s, &nowhere));
    cr_wait_hook = NULL;
}

TEST(a_file_that_a_stopped_process_locked_is_an_error_in_time)
{
    cr_store *s = NULL;

    OK(cr_store_file(&s, test_path(), 0));
    int fd = open(test_path(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    EQ(flock(fd, LOCK_EX), 0);
    FAILS(CR_STORE, cr_store_wait(s, "never", 20));
    CHECK(strstr(cr_error_message(), "holds the lock") != NULL);
    close(fd);
    cr_store_drop(s);
    unlink(test_path());
}

TEST(a_server_takes_a_bound_socket_and_refuses_others)
{
    cr_store_tcp_options o = tcp_here(0, true);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    cr_store *s = NULL;
    int pair[2];

    EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    for (int *fd = (int[]){1000000, pair[0], -1}; *fd >= 0; fd++) {
        o.listen_fd = *fd;
        FAILS(CR_NETWORK, cr_store_tcp(&s, &o));
    }
    EQ(close(pair[0]), 0);
    EQ(close(pair[1]), 0);
    o.listen_fd = socket(AF_INET, SOCK_STREAM, 0);
    EQ(bind(o.listen_fd, (struct sockaddr *)&at, sizeof at), 0);
    o.port = 1;
    FAILS(CR_NETWORK, cr_store_tcp(&s, &o));
    CHECK(strstr(cr_error_message(), "expected to be bound to port 1") != NULL);
    o.port = cr_net_port(o.listen_fd);
    OK(cr_store_tcp(&s, &o));
    OK(cr_store_set(s, "k", cr_bytes_of("v")));
    is_value(s, "k", "v");
    cr_store_drop(s);
}

TEST(many_keys_are_found_and_deleted)
{
    cr_store *s = NULL;
    char key[32];
    bool there;

    OK(cr_store_hash(&s));
    for (int i = 0; i < 1000; i++) {
        snprintf(key, sizeof key, "key%d", i);
        OK(cr_store_set(s, key, cr_bytes_of(key)));
    }
    is_value(s, "key999", "key999");
    OK(cr_store_check(s, "key1000", &there));
    EQ(there, false);
    cr_store_drop(s);
}

TEST(a_server_that_is_killed_or_stopped_is_an_error_in_time)
{
    for (int stop = 0; stop < 2; stop++) {
        cr_store_tcp_options o = tcp_here(0, true);
        cr_store *client = NULL, *server = NULL;
        int port[2];

        EQ(pipe(port), 0);
        pid_t child = fork();
        if (!child) {
            if (cr_store_tcp(&server, &o))
                _exit(1);
            int p = cr_store_tcp_port(server);
            _exit(write(port[1], &p, sizeof p) != sizeof p || pause());
        }
        EQ(read(port[0], &o.port, sizeof o.port), sizeof o.port);
        o.server = false;
        OK(cr_store_tcp(&client, &o));
        OK(cr_store_set(client, "a", cr_bytes_of("1")));
        kill(child, stop ? SIGSTOP : SIGKILL);
        FAILS(CR_NETWORK, cr_store_wait(client, "b", 100));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        cr_store_drop(client);
        close(port[0]);
        close(port[1]);
    }
}

TEST(a_port_in_use_and_a_name_without_address_are_network_errors)
{
    cr_store_tcp_options o = tcp_here(0, true);
    cr_store *a = NULL, *b = NULL;

    OK(cr_store_tcp(&a, &o));
    o.port = cr_store_tcp_port(a);
    FAILS(CR_NETWORK, cr_store_tcp(&b, &o));
    CHECK(strstr(cr_error_message(), "EADDRINUSE") != NULL);
    o.shared = true;
    o.port = 0;
    o.host = "no.such.host.invalid";
    FAILS(CR_NETWORK, cr_store_tcp(&b, &o));
    EQ(b, NULL);
    cr_store_drop(a);
}

TEST(stores_at_a_shared_port_share_a_table)
{
    cr_store_tcp_options o = tcp_here(0, true);
    cr_store *a = NULL, *b = NULL;

    o.shared = true;
    OK(cr_store_tcp(&a, &o));
    o.port = cr_store_tcp_port(a);
    OK(cr_store_tcp(&b, &o));
    OK(cr_store_set(a, "k", cr_bytes_of("v")));
    cr_store_drop(a);
    is_value(b, "k", "v");
    cr_store_drop(b);
}

TEST(a_file_with_half_a_request_at_its_end_is_mended)
{
    cr_store *a = NULL, *b = NULL;

    OK(cr_store_file(&a, test_path(), 0));
    OK(cr_store_set(a, "k", cr_bytes_of("v")));
    FILE *f = fopen(test_path(), "ab");
    CHECK(f && fwrite("\x40\0\0\0half", 1, 8, f) == 8);
    fclose(f);
    OK(cr_store_file(&b, test_path(), 0));
    is_value(b, "k", "v");
    OK(cr_store_set(b, "l", cr_bytes_of("w")));
    is_value(a, "l", "w");
    cr_store_drop(a);
    cr_store_drop(b);
    unlink(test_path());
}

/* A file that takes no more bytes: the limit of a process's files. */
TEST(a_change_that_the_file_does_not_take_is_no_change)
{
    struct rlimit before, small;
    cr_store *a = NULL;
    cr_text value = {0};
    char *large = cr_alloc_zero(1 << 16);
    int64_t sum = 0;

    OK(cr_store_file(&a, test_path(), 0));
    OK(cr_store_add(a, "sum", 1, &sum));
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 1 << 12;
    setrlimit(RLIMIT_FSIZE, &small);
    FAILS(CR_IO, cr_store_set(a, "large", (cr_bytes){large, 1 << 16}));
    setrlimit(RLIMIT_FSIZE, &before);
    FAILS(CR_STORE, cr_store_get(a, "large", 10, &value));
    OK(cr_store_add(a, "sum", 1, &sum));
    EQ(sum, 2);
    cr_text_drop(&value);
    cr_store_drop(a);
    cr_free(large);
    unlink(test_path());
}

TEST(bytes_that_are_no_request_are_refused)
{
    cr_wire_room room = {0};
    cr_store_request r;
    unsigned seed = 1;
    char bytes[40];

    FAILS(CR_VALUE, cr_wire_read_request(&r, &room, "", 0));
    for (int i = 0; i < 20000; i++) {
        for (size_t k = 0; k < sizeof bytes; k++)
            bytes[k] = (char)(rand_r(&seed) % 4 ? 0 : rand_r(&seed));
        if (!cr_wire_read_request(&r, &room, bytes, sizeof bytes))
            CHECK(r.keys + r.values <= 10);
    }
    cr_vec_drop(&room);
}
