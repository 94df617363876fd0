"""torchrun: starts a program's processes, `python -m torch.distributed.run [options] program [arguments]`."""
import argparse
import os
import sys
import uuid

from ..numa.binding import AffinityMode, NumaOptions
from .argparse_util import check_env, env
from .elastic.multiprocessing import DefaultLogsSpecs, SignalException, Std
from .elastic.multiprocessing.errors import ChildFailedError, record
from .elastic.rendezvous.utils import _parse_rendezvous_config
from .launcher.api import LaunchConfig, launch_agent

__all__ = ["get_args_parser", "parse_args", "run", "main"]


def get_args_parser():
    """Returns the parser of torchrun's arguments."""
    p = argparse.ArgumentParser(prog="torchrun", description="Starts the processes of a distributed program.")

    def option(*names, **kwargs):
        underscored = [n.replace("-", "_").replace("__", "--", 1) if n.startswith("--") else n for n in names]
        p.add_argument(*dict.fromkeys([*names, *underscored]), **{"action": env, **kwargs})
    option("--nnodes", default="1:1", help="number of hosts, or MIN:MAX")
    option("--nproc-per-node", default="1", help="processes a host: a number, or auto, cpu, gpu")
    option("--rdzv-backend", default="static", help="static, c10d, or one that a program has registered")
    option("--rdzv-endpoint", default="", help="HOST:PORT where agents meet")
    option("--rdzv-id", default="none", help="name of the run")
    option("--rdzv-conf", default="", help="NAME=VALUE,...: timeout, last_call_timeout, join_timeout")
    option("--standalone", action=check_env, help="one host, any free port")
    option("--max-restarts", default=0, type=int, help="starts after failures")
    option("--monitor-interval", default=0.1, type=float, help="seconds between looks at the processes")
    option("--start-method", default="spawn", choices=["spawn", "fork", "forkserver"],
           help="how processes of functions start; a program's processes are new ones")
    option("--event-log-handler", default="null", help="where events go: null, console, or one that a program has added")
    option("--role", default="default", help="name of the workers")
    option("-m", "--module", action=check_env, help="the program is a module, as of python -m")
    option("--no-python", action=check_env, help="the program is not a Python script")
    option("--run-path", action=check_env, help="run the script by runpy")
    option("--log-dir", default=None, help="folder of the processes' output")
    option("-r", "--redirects", default="0", help="output to files: 0, 1 (stdout), 2 (stderr), 3, or RANK:N,...")
    option("-t", "--tee", default="0", help="output to files and to the console, as --redirects")
    option("--local-ranks-filter", default="", help="local ranks whose output is shown: 0,1,...")
    option("--node-rank", default=0, type=int, help="this host's number, with the static backend")
    option("--master-addr", default="127.0.0.1", help="host of rank 0, with the static backend")
    option("--master-port", default=29500, type=int, help="port of rank 0, with the static backend")
    option("--local-addr", default=None, help="this host's address")
    option("--virtual-local-rank", action=check_env, help="LOCAL_RANK is 0 in each process")
    option("--numa-binding", default=None, choices=[m.value for m in AffinityMode], help="the processors of each process")
    option("--duplicate-stdout-filters", default=[], type=_texts,
           help="TEXT,...: lines of printed output with one of the texts go to LOG_DIR/.../filtered_stdout.log as well; ,, is a comma")
    option("--duplicate-stderr-filters", default=[], type=_texts, help="the same for errors, filtered_stderr.log")
    option("--logs-specs", default=None, help="a LogsSpecs by its name among packages' entry points torchrun.logs_specs")
    option("--signals-to-handle", default="SIGTERM,SIGINT,SIGHUP,SIGQUIT", help="signals that end the run and are passed on")
    option("--shutdown-timeout", default=None, type=int, help="seconds in which processes end themselves, or 30")
    p.add_argument("training_script", type=str, help="the program")
    p.add_argument("training_script_args", nargs=argparse.REMAINDER, help="its arguments")
    return p


def _texts(text):
    """Splits a list at its commas; two commas are a comma of a text."""
    return [part.replace("\0", ",") for part in text.replace(",,", "\0").split(",")]


def _logs_specs(name):
    """Returns the class of a run's files: the usual one, or that of a package, by name."""
    if name is None:
        return DefaultLogsSpecs
    from importlib.metadata import entry_points
    for point in entry_points(group="torchrun.logs_specs", name=name):
        return point.load()
    raise ValueError(f"Could not find entrypoint under 'torchrun.logs_specs[{name}]' key")


def parse_args(args):
    """Returns torchrun's arguments."""
    return get_args_parser().parse_args(args)


def parse_min_max_nnodes(nnodes):
    """Returns the least and most hosts."""
    parts = nnodes.split(":")
    if len(parts) not in (1, 2):
        raise RuntimeError(f'nnodes={nnodes} is not in "MIN:MAX" format')
    return int(parts[0]), int(parts[-1])


def determine_local_world_size(nproc_per_node):
    """Returns the processes of this host."""
    text = str(nproc_per_node)
    if text in ("auto", "cpu"):
        return os.cpu_count()
    if text == "gpu":
        from .. import cuda
        if not cuda.is_available():
            raise ValueError("Cuda is not available.")
        return cuda.device_count()
    try:
        count = int(text)
    except ValueError:
        raise ValueError(f"Unsupported nproc_per_node value: {nproc_per_node}") from None
    if count < 1:
        raise ValueError(f"nproc_per_node must be at least 1, not {count}")
    return count


def _program(args):
    rest = [args.training_script, *args.training_script_args]
    if args.no_python:
        if args.module:
            raise ValueError("Don't use both the '--no-python' flag and the '--module' flag at the same time.")
        return rest
    python = [os.environ.get("PYTHON_EXEC", sys.executable), "-u"]
    if args.run_path:
        return [*python, "-c", "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')",
                *rest]
    return [*python, *(["-m"] if args.module else []), *rest]


def _meeting(args):
    """Returns the backend, the endpoint and the options with which hosts meet."""
    conf = _parse_rendezvous_config(args.rdzv_conf)
    if args.standalone:
        return "c10d", "127.0.0.1:0", {"is_host": "1"}
    if args.rdzv_backend == "static":
        return "static", args.rdzv_endpoint or f"{args.master_addr}:{int(args.master_port)}", {"rank": int(args.node_rank), **conf}
    return args.rdzv_backend, args.rdzv_endpoint or "127.0.0.1:29400", conf


def _config(args):
    """Returns the run's configuration.  Programs that call run(), such as accelerate, give numbers as text."""
    low, high = (1, 1) if args.standalone else parse_min_max_nnodes(args.nnodes)
    if not 0 < low <= high:
        raise ValueError(f"nnodes: 0 < MIN <= MAX is needed, not {args.nnodes}")
    if int(args.max_restarts) < 0:
        raise ValueError("max_restarts must not be negative")
    shown = {int(r) for r in args.local_ranks_filter.split(",")} if args.local_ranks_filter else None
    backend, endpoint, conf = _meeting(args)
    binding = getattr(args, "numa_binding", None)
    return LaunchConfig(low, high, determine_local_world_size(args.nproc_per_node),
                        _logs_specs(getattr(args, "logs_specs", None))(
                            log_dir=args.log_dir, redirects=Std.from_str(args.redirects), tee=Std.from_str(args.tee),
                            local_ranks_filter=shown),
                        str(uuid.uuid4()) if args.standalone else args.rdzv_id, args.role, endpoint, backend, conf,
                        start_method=args.start_method, max_restarts=int(args.max_restarts), monitor_interval=float(args.monitor_interval),
                        local_addr=args.local_addr, event_log_handler=args.event_log_handler,
                        numa_options=NumaOptions(AffinityMode(binding)) if binding else None, virtual_local_rank=args.virtual_local_rank,
                        **{name: getattr(args, name) for name in ("signals_to_handle", "duplicate_stdout_filters",
                                                                  "duplicate_stderr_filters", "shutdown_timeout")
                           if getattr(args, name, None) is not None})


def run(args):
    """Runs a program with torchrun's arguments."""
    from ..run import put_on_path
    config = _config(args)
    more = {"OMP_NUM_THREADS": "1"} if config.nproc_per_node > 1 and "OMP_NUM_THREADS" not in os.environ else {}
    sys.path.insert(0, "")
    put_on_path()
    del sys.path[0]
    program, *rest = _program(args)
    launch_agent(config, program, rest, more, args.training_script)


@record
def main(args=None, parse=parse_args):
    """The command line, read by `parse`.  Returns the exit status.  A program that gives arguments gets the errors instead."""
    if args is not None:
        return run(parse(args))
    try:
        run(parse(args))
    except ChildFailedError as error:
        print(error, file=sys.stderr, flush=True)
        return 1
    except SignalException as error:
        print(error, file=sys.stderr, flush=True)
        return 128 + error.sigval
    return 0


if __name__ == "__main__":
    sys.exit(main())
