#!/bin/sh
# Checks that the build's dependencies are installed: system packages, the virtual environment,
# and the named Python packages.  As root on Debian it installs missing ones; otherwise it
# prints what to install.
#   [TOOLS="DEBIAN..."] deps.sh PYTHON VENV [PACKAGE...]
set -eu
python=$1 venv=$2
shift 2

missing=
need() { # need TEST PACKAGE...
    if ! eval "$1" >/dev/null 2>&1; then
        shift
        missing="$missing $*"
    fi
}
header() { echo "#include <$1>" | "${CC:-gcc}" -E - ; }
include() { "$python" -c 'import sysconfig; print(sysconfig.get_paths()["include"])'; }
library() { /sbin/ldconfig -p | grep -q "$1"; }

need 'command -v "${CC:-gcc}"' gcc
need 'command -v make' make
need 'command -v pkg-config' pkg-config
need 'header stdio.h' libc6-dev
need 'header zlib.h' zlib1g-dev
need 'header oneapi/dnnl/dnnl.h' libdnnl-dev
need 'library libopenblas.so.0' libopenblas0-pthread
need 'command -v "$python"' python3
need 'test -f "$(include)/Python.h"' python3-dev
need '"$python" -c "import ensurepip, venv"' python3-venv
for tool in ${TOOLS:-}; do
    need 'command -v "$tool" || dpkg -s "$tool"' "$tool"
done

if [ -n "$missing" ]; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "these packages are missing (Debian's names):$missing" >&2
        exit 1
    fi
    echo "installing:$missing"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi

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
