"""The backend c10d: a TCP store, or a file, keeps the state of a run's meetings."""
import binascii
import os
import tempfile
from base64 import b64decode, b64encode
from datetime import timedelta

from ... import FileStore, TCPStore
from .api import RendezvousConnectionError, RendezvousError, RendezvousStateError
from .dynamic_rendezvous import RendezvousBackend
from .utils import _matches_machine_hostname, parse_rendezvous_endpoint

__all__ = ["C10dRendezvousBackend", "create_backend"]

DEFAULT_PORT = 29400
_LOST = "The connection to the C10d store has failed. See inner exception for details."


class C10dRendezvousBackend(RendezvousBackend):
    """Keeps a state under one key of a store, as base64."""

    _NONE = "-"  # not base64: no state was written

    def __init__(self, store, run_id):
        if not run_id:
            raise ValueError("The run id must be a non-empty string.")
        self._store, self._key = store, f"torch.rendezvous.{run_id}"
        self._ask("compare_set", self._key, "", self._NONE)

    @property
    def name(self):
        return "c10d"

    def _ask(self, method, *args):
        try:
            return getattr(self._store, method)(*args)
        except (ValueError, RuntimeError, TimeoutError) as error:
            raise RendezvousConnectionError(_LOST) from error

    def _decode(self, text):
        """Returns (state, token); the token is the text."""
        if text == self._NONE.encode():
            return None
        try:
            return b64decode(text, validate=True), text
        except binascii.Error as error:
            raise RendezvousStateError("The state object is corrupt. See inner exception for details.") from error

    def get_state(self):
        return self._decode(self._ask("get", self._key))

    def set_state(self, state, token=None):
        if token is not None and not isinstance(token, bytes):
            found = self.get_state()
            return None if found is None else (*found, False)
        wanted = b64encode(state)
        now = self._ask("compare_set", self._key, self._NONE if token is None else token.decode(), wanted.decode())
        found = self._decode(now)
        return None if found is None else (*found, now == wanted)


def _create_tcp_store(params):
    host, port = parse_rendezvous_endpoint(params.endpoint, DEFAULT_PORT)
    stated, seconds = params.get_as_bool("is_host"), params.get_as_int("read_timeout", 60)
    if seconds <= 0:
        raise ValueError("The read timeout must be a positive integer.")
    serves = _matches_machine_hostname(host) if stated is None else stated
    for is_server in (serves, False):
        try:
            return TCPStore(host, port, is_master=is_server, wait_for_workers=False, timeout=timedelta(seconds=seconds))
        except (ValueError, RuntimeError, TimeoutError) as error:
            if not is_server or stated is not None:  # else another agent of this host may have the port
                raise RendezvousConnectionError(_LOST) from error


def _create_file_store(params):
    path = params.endpoint
    if not path:
        try:
            number, path = tempfile.mkstemp()
            os.close(number)
        except OSError as error:
            raise RendezvousError("The file creation for C10d store has failed. See inner exception for details.") from error
    try:
        return FileStore(path)
    except (ValueError, RuntimeError) as error:
        raise RendezvousConnectionError(_LOST) from error


def create_backend(params):
    """Returns (backend, store).  Options: store_type tcp or file, is_host, read_timeout."""
    kinds = {"tcp": _create_tcp_store, "file": _create_file_store}
    kind = params.get("store_type", "tcp").strip().lower()
    if kind not in kinds:
        raise ValueError("Invalid store type given. Currently only supports file and tcp.")
    store = kinds[kind](params)
    return C10dRendezvousBackend(store, params.run_id), store
