#!/usr/bin/env bash
# Brings .venv up to date with pinned versions: `tools/venv.sh core` for using Glimpse, `server` for serving too, `dev` for tests.
# Safe to run again at any time: what is there is kept, what an interrupted run left half-made is built anew.
#
# PYTHON       the interpreter to build with (default: python3)
# TORCH_INDEX  an extra package index that has PyTorch's CPU builds (default: none; the README says when to set it)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly TORCH_VERSION=2.13.0
readonly TRITON_VERSION=3.6.0
readonly VENV=.venv
readonly PYTHON=${PYTHON:-python3}
readonly TORCH_INDEX=${TORCH_INDEX:-}
readonly WANTED=${1:-core}

say() { printf 'glimpse set-up: %s\n' "$*" >&2; }
fail() { say "$@"; exit 1; }

check_python() {
    command -v "$PYTHON" >/dev/null || fail "$PYTHON was not found; install Python 3.11 or newer (Debian, Ubuntu: apt install python3 python3-venv)"
    "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
        || fail "Python 3.11 or newer is needed, $PYTHON is $("$PYTHON" -c 'import platform; print(platform.python_version())'); name another: make PYTHON=python3.12 ..."
    "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null \
        || fail "$PYTHON cannot make virtual environments; install the package python3-venv (Debian, Ubuntu: apt install python3-venv)"
}

# The environment is sound when it was finished here, its interpreter starts, and no pip run inside it was cut short.
is_sound() {
    [ -f "$VENV/.made-in" ] && [ "$(cat "$VENV/.made-in")" = "$PWD" ] && [ ! -e "$VENV/.busy" ] && "$VENV/bin/python" -c pass 2>/dev/null
}

make_venv() {
    is_sound && return
    check_python
    if [ -e "$VENV" ]; then
        say "$VENV is half-made or from another place: building it anew"
        rm -rf "$VENV"
    fi
    "$PYTHON" -m venv "$VENV"
    printf '%s\n' "$PWD" >"$VENV/.made-in"
}

# A pip that was cut short can leave a package half there, so its run is marked until it has ended well.
run_pip() {
    touch "$VENV/.busy"
    "$VENV/bin/python" -m pip --disable-pip-version-check "$@" || return
    rm -f "$VENV/.busy"
}

has_nvidia_gpu() { command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q '^GPU'; }

has_cpu_build() {
    "$VENV/bin/python" -m pip install --quiet --dry-run --no-deps "${INDEX[@]}" "torch==$TORCH_VERSION+cpu" >/dev/null 2>&1
}

# Alone and first: PyTorch's build decides the size of everything else.
install_torch() {
    local wanted="torch==$TORCH_VERSION"
    if has_nvidia_gpu; then
        wanted="torch===$TORCH_VERSION"  # ===: the CUDA build as published, not a CPU build that calls itself 2.13.0+cpu
        say "an NVIDIA GPU is here: installing PyTorch $TORCH_VERSION with CUDA (several GB)"
    elif has_cpu_build; then
        wanted="torch==$TORCH_VERSION+cpu"
        say "installing PyTorch $TORCH_VERSION for the CPU"
    else
        say "installing PyTorch $TORCH_VERSION as the package registry has it (on Linux x86-64 with CUDA, several GB; TORCH_INDEX=... gives the CPU build, see README.md)"
    fi
    run_pip install "${QUIET[@]}" "${INDEX[@]}" -c constraints.txt setuptools "$wanted"
}

install_glimpse() {
    say "installing what $1"
    run_pip install "${QUIET[@]}" -c constraints.txt --no-build-isolation -e "$2"
}

# The kernels' tests run under Triton's interpreter. PyTorch's CUDA build brings the Triton that belongs to it.
install_triton() {
    has_nvidia_gpu || "$VENV/bin/python" -c 'import triton' 2>/dev/null \
        || run_pip install "${QUIET[@]}" --no-deps "triton==$TRITON_VERSION" \
        || { rm -f "$VENV/.busy"; say "no Triton for this machine: its tests are left out"; }
}

# A step is done when its stamp holds the checksum of everything that decided it.
step() {
    local stamp="$VENV/.done-$1" sum
    sum=$(cat pyproject.toml constraints.txt tools/venv.sh | cksum)
    shift
    [ "$(cat "$stamp" 2>/dev/null)" = "$sum" ] && return
    "$@"
    printf '%s\n' "$sum" >"$stamp"
}

QUIET=()
[ -t 1 ] || QUIET=(--quiet)
INDEX=()
[ -z "$TORCH_INDEX" ] || INDEX=(--extra-index-url "$TORCH_INDEX")

trap 'exit 130' INT
trap 'exit 143' TERM
make_venv
step torch install_torch
case $WANTED in
    core) step core install_glimpse "Glimpse needs" . ;;
    server) step server install_glimpse "the server needs" '.[serve]' ;;
    dev)
        step triton install_triton  # before xgrammar would take any
        step dev install_glimpse "the tests need" '.[dev]'
        ;;
    *) fail "unknown set '$WANTED': core, server or dev" ;;
esac
