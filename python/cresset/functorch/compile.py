"""functorch.compile: see `cresset._functorch.aot_autograd`."""
from .._functorch.aot_autograd import (aot_function, aot_module, compiled_function, compiled_module,
                                       default_partition, make_boxed_compiler, make_boxed_func,
                                       min_cut_rematerialization_partition, nop, print_compile)
