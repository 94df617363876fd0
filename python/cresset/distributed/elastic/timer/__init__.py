"""Time limits of parts of programs: a server in another process kills workers that exceed one.

    timer.configure(timer.LocalTimerClient(queue))  # in a worker; the server: timer.LocalTimerServer(queue).start()
    with timer.expires(after=60):
        step()
"""
from .api import TimerClient, TimerRequest, TimerServer, configure, expires
from .file_based_local_timer import FileTimerClient, FileTimerRequest, FileTimerServer
from .local_timer import LocalTimerClient, LocalTimerServer

__all__ = ["FileTimerClient", "FileTimerRequest", "FileTimerServer", "LocalTimerClient", "LocalTimerServer", "TimerClient",
           "TimerRequest", "TimerServer", "configure", "expires"]
