"""Writes a C program that calls each function of the installed headers with NULL for every pointer but the result,
and once more with tensors: `nulls.py FOLDER_OF_HEADERS FILE`.

Each call is made in a process of its own.  The program prints the calls whose processes ended by a signal, and
"N calls".
"""
import re
import sys
from pathlib import Path

HEADERS = "cresset_ops.h", "cresset.h", "cresset_nn.h", "cresset_call.h", "cresset_dist.h"
NUMBERS = re.compile(r"(int|int64_t|uint64_t|unsigned|uint32_t|int32_t|size_t|double|float|bool)\b")

PROGRAM = """#include <cresset.h>
#include <cresset_dist.h>
#include <cresset_nn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static void *made[64]; /* results */
static cr_tensor *some;

%s
static const struct {
    const char *call;
    void (*function)(void);
} calls[] = {
%s};

int main(void)
{
    int64_t size[2] = {2, 3};
    size_t n = sizeof calls / sizeof *calls;

    if (cr_init() || cr_ones(&some, size, 2, CR_F32))
        return 1;
    for (size_t i = 0; i < n; i++) {
        int status = 0;
        fflush(stdout);
        pid_t child = fork();
        if (!child) {
            alarm(20);
            calls[i].function();
            _exit(0);
        }
        waitpid(child, &status, 0);
        if (WIFSIGNALED(status))
            printf("%%s: signal %%d\\n", calls[i].call, WTERMSIG(status));
    }
    printf("%%zu calls\\n", n);
    return 0;
}
"""


def declarations(text):
    """(name, parameters) of each function that a header declares."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    for found in re.finditer(r"CR_API\s+(?:CR_MUST\s+)?[\w \*]+?\b(cr_\w+)\(([^;{]*?)\)\s*;", text, re.S):
        params = " ".join(found[2].split())
        if "(*" not in params and "..." not in params:
            yield found[1], [] if params in ("", "void") else params.split(", ")


def argument(param, first, tensor):
    """The argument for a parameter, or None for a kind that the program cannot make."""
    kind = param.replace("const ", "")
    if first and re.match(r"cr_\w+ \*\*", kind):
        return "(void *)made"
    if "*" in kind or "[" in kind:
        return tensor if re.match(r"cr_tensor \*\w", kind) else "NULL"
    if kind.startswith("cr_scalar"):
        return "cr_scalar_float(1.0)"
    if kind.startswith("cr_dtype"):
        return "CR_F32"
    return "2" if kind.endswith("_len") else "1" if NUMBERS.match(kind) else None


def program(folder):
    functions, rows = [], []
    for name, params in sorted({call[0]: call for header in HEADERS for call in declarations((folder / header).read_text())}.values()):
        for tensor in ("NULL", "some"):
            arguments = [argument(param, i == 0, tensor) for i, param in enumerate(params)]
            if None in arguments or (tensor == "some" and tensor not in arguments):
                continue
            call = f"{name}({', '.join(arguments)})"
            functions.append(f"static void call_{len(functions)}(void) {{ {call}; }}\n")
            rows.append(f'    {{"{call}", call_{len(rows)}}},\n')
    return PROGRAM % ("".join(functions), "".join(rows))


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(program(Path(sys.argv[1])))
