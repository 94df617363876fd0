#!/bin/sh
# Makes sure that the packages and the virtual environment that the build needs are there.
# As root it installs what is missing; otherwise it says what to install.
#   deps.sh PYTHON VENV
set -eu
python=$1 venv=$2

missing=
need() { # need TEST PACKAGE
    if ! eval "$1" >/dev/null 2>&1; then missing="$missing $2"; fi
}
header() { echo "#include <$1>" | ${CC:-gcc} -E - >/dev/null 2>&1; }
need 'command -v gcc' gcc
need 'command -v make' make
need 'header stdio.h' libc6-dev
need 'header zlib.h' zlib1g-dev
need 'header oneapi/dnnl/dnnl.h' libdnnl-dev
need 'header cblas.h || header openblas/cblas.h || header x86_64-linux-gnu/cblas.h' libopenblas-dev
need "command -v $python" python3
need "header \"$($python -c 'import sysconfig; print(sysconfig.get_paths()["include"])' 2>/dev/null || echo none)/Python.h\" || test -f \"$($python -c 'import sysconfig; print(sysconfig.get_paths()["include"])' 2>/dev/null)/Python.h\"" "python3-dev"
need "$python -m venv --help && $python -c 'import ensurepip'" python3-venv

if [ -n "$missing" ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "installing:$missing"
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $missing >/dev/null
    else
        echo "missing packages (Debian names):$missing" >&2
        exit 1
    fi
fi

if [ ! -x "$venv/bin/python" ]; then
    "$python" -m venv "$venv"
fi
# What tests and the digits need; the package itself needs nothing.
if ! "$venv/bin/python" -c 'import numpy, scipy, pytest, sklearn' 2>/dev/null; then
    "$venv/bin/python" -m pip install -q --disable-pip-version-check numpy scipy pytest scikit-learn
fi
