/* net.h - sockets of the room comm: addresses, connections with time limits. */
#ifndef CR_COMM_NET_H
#define CR_COMM_NET_H

#include "base/text.h"

/* A socket that listens at host:port (port 0: a free one).  A host that is not an address of
 * the loopback device listens at all addresses.  CR_NETWORK. */
CR_MUST cr_status cr_net_listen(int *fd, const char *host, int port);
/* Makes a bound socket of the program listen, if it is bound to `port` (0: to any).  The caller
 * owns it after a success only.  CR_NETWORK. */
CR_MUST cr_status cr_net_take(int fd, int port);
/* The port of a socket; 0 when it has none. */
int cr_net_port(int fd);
/* Connects, again and again until `timeout_ms` has passed.  CR_NETWORK. */
CR_MUST cr_status cr_net_connect(int *fd, const char *host, int port, int64_t timeout_ms);
/* Sends or receives exactly `n` bytes until the time `end` (cr_seconds).  CR_NETWORK. */
CR_MUST cr_status cr_net_send(int fd, const void *at, size_t n, double end);
CR_MUST cr_status cr_net_receive(int fd, void *at, size_t n, double end);

/* The address of a network device, as "127.0.0.1".  CR_NETWORK when there is no such device. */
CR_MUST cr_status cr_net_device_address(char *out, size_t size, const char *device);

#endif
