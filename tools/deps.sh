#!/bin/sh
# Checks that the build's dependencies are installed: system packages, the virtual environment,
# and the named Python packages.  As root on Debian it installs missing ones; otherwise it
# prints what to install.
#   [TOOLS="DEBIAN..."] deps.sh PYTHON VENV [PACKAGE...]
#   deps.sh PYTHON                installs nothing; checks what compiling the package needs
set -eu
python=$1 venv=${2-}
shift $(($# > 1 ? 2 : 1))

missing= parts=
need() { # need NAME TEST PACKAGE...
    name=$1 test=$2
    shift 2
    if ! eval "$test" >/dev/null 2>&1; then
        parts="$parts${parts:+, }$name"
        missing="$missing $*"
    fi
}
header() {
    if command -v "${CC:-gcc}"; then
        echo "#include <$1>" | "${CC:-gcc}" -E -
    else
        for file in "/usr/include/$1" /usr/include/*/"$1"; do
            [ -f "$file" ] && return
        done
    fi
}
include() { "$python" -c 'import sysconfig; print(sysconfig.get_paths()["include"])'; }
library() { /sbin/ldconfig -p | grep -q "$1"; }
refuse() { echo "cresset: $*" >&2; exit 1; }

# Debian's packages are of one version of Python, so another one is the user's to install.
if ! command -v "$python" >/dev/null; then
    [ -n "$venv" ] && [ "$python" = python3.11 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null ||
        refuse "there is no $python: install CPython 3.11, 3.12 or 3.13 with its headers, and name it with PYTHON="
elif ! "$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))'; then
    refuse "CPython 3.11, 3.12 or 3.13 is needed, and $python is $("$python" -V)"
elif [ "$python" != python3.11 ] && ! [ -f "$(include)/Python.h" ]; then
    refuse "$python has no headers (Debian: python3-dev): there is no $(include)/Python.h"
fi

need "a C compiler (${CC:-gcc})" 'command -v "${CC:-gcc}"' gcc
need make 'command -v make' make
need "the C library's headers" 'header stdio.h' libc6-dev
need "zlib's header (zlib.h)" 'header zlib.h' zlib1g-dev
need "oneDNN's header (oneapi/dnnl/dnnl.h)" 'header oneapi/dnnl/dnnl.h' libdnnl-dev
need strip 'command -v strip' binutils
if [ -n "$venv" ]; then
    need pkg-config 'command -v pkg-config' pkg-config
    need OpenBLAS 'library libopenblas.so.0' libopenblas0-pthread
    need "$python" 'command -v "$python"' python3
    need "Python's headers" 'test -f "$(include)/Python.h"' python3-dev
    need "Python's venv" '"$python" -c "import ensurepip, venv"' python3-venv
fi
for tool in ${TOOLS:-}; do
    need "$tool" 'command -v "$tool" || dpkg -s "$tool"' "$tool"
done

if [ -n "$missing" ]; then
    if [ -z "$venv" ] || [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        refuse "missing: $parts; on Debian: apt-get install$missing"
    fi
    echo "installing:$missing"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi
[ -n "$venv" ] || exit 0

[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
# Tests and the digits example need these packages.  The library itself needs none.
missing=
for package in "$@"; do
    "$venv/bin/python" - "$package" <<'END' || missing="$missing $package"
import sys
from importlib.metadata import PackageNotFoundError, version
try:
    version(sys.argv[1])
except PackageNotFoundError:
    sys.exit(1)
END
done
[ -z "$missing" ] || "$venv/bin/python" -m pip install -q --disable-pip-version-check $missing
