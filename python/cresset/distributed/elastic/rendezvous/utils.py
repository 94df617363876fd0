"""Addresses and options as text, and functions that are called again and again."""
import ipaddress
import random
import re
import socket
import threading
import time
import weakref

__all__ = ["parse_rendezvous_endpoint"]


def _parse_rendezvous_config(config_str):
    """Reads NAME=VALUE,..."""
    config = {}
    for pair in config_str.split(",") if config_str.strip() else ():
        key, _, value = (part.strip() for part in pair.partition("="))
        if not key:
            raise ValueError("The rendezvous configuration string must be in format <key1>=<value1>,...,<keyN>=<valueN>.")
        if not value:
            raise ValueError(f"The rendezvous configuration option '{key}' must have a value specified.")
        config[key] = value
    return config


def _try_parse_port(port_str):
    """Returns the number that a text is, or None."""
    return int(port_str) if re.fullmatch(r"[0-9]+", port_str) else None


def parse_rendezvous_endpoint(endpoint, default_port):
    """Reads HOST, HOST:PORT or [ADDRESS]:PORT."""
    endpoint = (endpoint or "").strip()
    if not endpoint:
        return "localhost", default_port
    host, colon, rest = endpoint, "", ""
    if endpoint[-1] != "]":
        host, colon, rest = endpoint.rpartition(":") if ":" in endpoint else (endpoint, "", "")
    port = _try_parse_port(rest) if colon else default_port
    if port is None or port >= 2 ** 16:
        raise ValueError(f"The port number of the rendezvous endpoint '{endpoint}' must be an integer between 0 and 65536.")
    if not re.fullmatch(r"\[?[\w.:-]+\]?", host):
        raise ValueError(f"The hostname of the rendezvous endpoint '{endpoint}' must be a dot-separated list of labels, an "
                         "IPv4 address, or an IPv6 address.")
    return host.strip("[]"), port


def _addresses(host):
    """Returns a host's names and addresses; none where it has none."""
    try:
        found = socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP, flags=socket.AI_CANONNAME)
    except (ValueError, OSError):
        return set()
    return {name for info in found for name in (info[3], info[4][0]) if name}


def _matches_machine_hostname(host):
    """Returns whether a name or an address is this host's."""
    if host == "localhost":
        return True
    try:
        if ipaddress.ip_address(host).is_loopback:
            return True
    except ValueError:
        pass
    own = socket.gethostname()
    return host in (own, socket.getfqdn()) or bool(_addresses(host) & _addresses(own))


def _delay(seconds):
    """Sleeps, for a random time where two limits are given."""
    time.sleep(random.uniform(*seconds) if isinstance(seconds, tuple) else seconds)


class _PeriodicTimer:
    """Calls a function in a thread, again and again, until it is cancelled or forgotten."""

    def __init__(self, interval, function, *args, **kwargs):
        self._name, self._thread, self._stop = None, None, threading.Event()
        self._run = (interval.total_seconds(), self._stop, function, args, kwargs)
        self._finalizer = None

    @property
    def name(self):
        """The thread's name."""
        return self._name

    def set_name(self, name):
        """Sets the thread's name."""
        self._check_new()
        self._name = name

    def _check_new(self):
        if self._thread is not None:
            raise RuntimeError("The timer has already started.")

    def start(self):
        """Starts the thread."""
        self._check_new()
        self._thread = threading.Thread(target=_call_periodically, name=self._name, args=self._run, daemon=True)
        self._finalizer = weakref.finalize(self, _stop_thread, self._thread, self._stop)
        self._finalizer.atexit = False
        self._thread.start()

    def cancel(self):
        """Ends the thread."""
        if self._finalizer is not None:
            self._finalizer()


def _call_periodically(seconds, stop, function, args, kwargs):
    while not stop.wait(seconds):
        function(*args, **kwargs)


def _stop_thread(thread, stop):
    stop.set()
    thread.join()
