"""The former torchrun, `python -m torch.distributed.launch`: without --use-env, programs get --local-rank=N as an argument."""
import sys

from . import run
from .argparse_util import check_env
from .elastic.utils import macros


def parse_args(args):
    """Returns torchrun's arguments, with the program's --local-rank."""
    parser = run.get_args_parser()
    parser.add_argument("--use-env", "--use_env", action=check_env, help="LOCAL_RANK alone tells the rank")
    found = parser.parse_args(args)
    if not found.use_env:
        found.training_script_args.insert(0, f"--local-rank={macros.local_rank}")
    return found


def main(args=None):
    """The command line.  Returns the exit status."""
    return run.main(args, parse_args)


if __name__ == "__main__":
    sys.exit(main())
