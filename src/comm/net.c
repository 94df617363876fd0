/* Sockets with time limits. */
#include "comm/net.h"
#include "base/clock.h"
#include "comm/wait.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 2048, FIRST_PAUSE_US = 2000, LAST_PAUSE_US = 200000 };

/* The addresses of host:port; the caller frees them. */
static cr_status net_resolve(struct addrinfo **out, const char *host, int port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    char text[16];

    snprintf(text, sizeof text, "%d", port);
    int rc = getaddrinfo(host, text, &hints, out);
    return rc ? cr_fail(
                    CR_NETWORK,
                    "The IPv4 network addresses of (%s, %d) cannot be retrieved (gai error: "
                    "%d - %s).",
                    host, port, rc, gai_strerror(rc))
              : CR_OK;
}

static bool is_loopback(const struct addrinfo *a)
{
    if (a->ai_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)a->ai_addr)->sin_addr.s_addr) >>
                   24 ==
               127;
    return IN6_IS_ADDR_LOOPBACK(
        &((const struct sockaddr_in6 *)(const void *)a->ai_addr)->sin6_addr);
}

static int listen_at(const struct sockaddr *at, socklen_t len)
{
    int fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, at, len) || listen(fd, BACKLOG)) {
        int keep = errno;
        close(fd);
        errno = keep;
        return -1;
    }
    return fd;
}

cr_status cr_net_listen(int *out, const char *host, int port)
{
    struct addrinfo *list;
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = -1;

    CR_TRY(net_resolve(&list, host, port));
    bool here = is_loopback(list);
    for (const struct addrinfo *a = list; a && here && fd < 0; a = a->ai_next)
        fd = listen_at(a->ai_addr, a->ai_addrlen);
    if (!here)
        fd = listen_at((const void *)&any, sizeof any);
    freeaddrinfo(list);
    if (fd < 0)
        return cr_fail(CR_NETWORK,
                       "The server socket has failed to listen on any local network address. "
                       "port: %d, useIpv6: false, code: %d, name: %s, message: %s",
                       port, -errno, strerrorname_np(errno), strerror(errno));
    *out = fd;
    return CR_OK;
}

int cr_net_port(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } a;
    socklen_t n = sizeof a;

    if (getsockname(fd, &a.any, &n))
        return 0;
    return ntohs(a.any.sa_family == AF_INET6 ? a.v6.sin6_port : a.v4.sin_port);
}

static cr_status take_failed(const char *call, int fd)
{
    return cr_fail(CR_NETWORK, "%s failed for fd %d: (errno: %d - %s)", call, fd, errno,
                   strerror(errno));
}

/* It does not block: a connection may be gone when the server accepts it. */
cr_status cr_net_take(int fd, int port)
{
    struct sockaddr_storage at;
    socklen_t n = sizeof at;

    if (getsockname(fd, (struct sockaddr *)&at, &n))
        return take_failed("getsockname", fd);
    if (at.ss_family != AF_INET && at.ss_family != AF_INET6)
        return cr_fail(CR_NETWORK, "listen fd %d is no socket of IPv4 or IPv6", fd);
    int bound = cr_net_port(fd);
    if (port && bound != port)
        return cr_fail(CR_NETWORK,
                       "listen fd %d is bound to port %d, expected to be bound to port %d", fd,
                       bound, port);
    if (listen(fd, BACKLOG))
        return take_failed("listen", fd);
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        return take_failed("fcntl", fd);
    return CR_OK;
}

/* True when the socket is ready before `end`, else errno. */
static bool net_ready(int fd, short events, double end)
{
    struct pollfd p = {.fd = fd, .events = events};

    for (;;) {
        int rc = poll(&p, 1, cr_wait_slice(end));
        if (rc > 0)
            return true;
        if (rc == 0 && cr_seconds() >= end) {
            errno = ETIMEDOUT;
            return false;
        }
        if (rc < 0 && errno != EINTR)
            return false;
        if (cr_interrupted()) {
            errno = EINTR;
            return false;
        }
    }
}

/* The error of a connection that has started: 0 when it stands. */
static int connect_error(int fd, double end)
{
    int error = 0;
    socklen_t n = sizeof error;

    if (!net_ready(fd, POLLOUT, end))
        return errno;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) ? errno : error;
}

/* A connected socket, or -1 with errno. */
static int connect_to(const struct addrinfo *a, double end)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;

    if (fd < 0)
        return -1;
    int error = connect(fd, a->ai_addr, a->ai_addrlen) ? errno : 0;
    if (error == EINPROGRESS)
        error = connect_error(fd, end);
    if (error) {
        close(fd);
        errno = error;
        return -1;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static cr_status connect_failed(const char *host, int port, int64_t timeout_ms)
{
    return cr_fail(CR_NETWORK,
                   "The client socket has timed out after %lldms while trying to connect to "
                   "(%s, %d): %s",
                   (long long)timeout_ms, host, port, strerror(errno));
}

cr_status cr_net_connect(int *out, const char *host, int port, int64_t timeout_ms)
{
    double end = cr_seconds() + 1e-3 * (double)timeout_ms;
    struct addrinfo *list;
    int fd = -1;

    CR_TRY(net_resolve(&list, host, port));
    for (useconds_t pause = FIRST_PAUSE_US;;
         pause = pause * 2 < LAST_PAUSE_US ? pause * 2 : LAST_PAUSE_US) {
        for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next)
            fd = connect_to(a, end);
        if (fd >= 0 || cr_seconds() + 1e-6 * pause > end || cr_wait_pause(pause))
            break;
    }
    freeaddrinfo(list);
    *out = fd;
    return fd < 0 ? connect_failed(host, port, timeout_ms) : CR_OK;
}

cr_status cr_net_send(int fd, const void *at, size_t n, double end)
{
    for (const char *p = at; n;) {
        ssize_t did = send(fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (did < 0 && (errno == EAGAIN ? net_ready(fd, POLLOUT, end) : errno == EINTR))
            continue;
        if (did < 0)
            return cr_fail(CR_NETWORK, "failed to send: %s", strerror(errno));
        p += did;
        n -= (size_t)did;
    }
    return CR_OK;
}

cr_status cr_net_receive(int fd, void *at, size_t n, double end)
{
    for (char *p = at; n;) {
        ssize_t did = recv(fd, p, n, MSG_DONTWAIT);
        if (did < 0 && (errno == EAGAIN ? net_ready(fd, POLLIN, end) : errno == EINTR))
            continue;
        if (did <= 0)
            return cr_fail(CR_NETWORK, "failed to recv, got %zd bytes: %s",
                           did < 0 ? (ssize_t)0 : did,
                           did ? strerror(errno) : "Connection was closed by the peer");
        p += did;
        n -= (size_t)did;
    }
    return CR_OK;
}

cr_status cr_net_device_address(char *out, size_t size, const char *device)
{
    struct ifaddrs *list = NULL;
    bool found = false;

    if (getifaddrs(&list))
        list = NULL;
    for (const struct ifaddrs *a = list; a && !found; a = a->ifa_next)
        if (a->ifa_addr && a->ifa_addr->sa_family == AF_INET && !strcmp(a->ifa_name, device))
            found =
                inet_ntop(AF_INET,
                          &((const struct sockaddr_in *)(const void *)a->ifa_addr)->sin_addr,
                          out, (socklen_t)size) != NULL;
    if (list)
        freeifaddrs(list);
    return found ? CR_OK
                 : cr_fail(CR_NETWORK,
                           "Unable to find address for: %s (there is no network device "
                           "of this name with an IPv4 address)",
                           device);
}
