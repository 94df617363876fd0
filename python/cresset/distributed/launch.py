"""The former name of torchrun, `python -m torch.distributed.launch`."""
import sys

from .run import main

if __name__ == "__main__":
    sys.exit(main())
