# shellcheck shell=bash
# Sourced by the commands of this directory: strict mode, a scratch directory that goes away at the
# end, copies of the tree, fresh environments. Nothing is built or installed in the checkout.

set -euo pipefail
exec </dev/null

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
scratch=$(mktemp -d "${TMPDIR:-/tmp}/mtlmon.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

# modules are compiled once: those of a mutant, or an environment, are imported by many processes
unset PYTHONPATH PYTHONHOME PYTHONSAFEPATH PYTHONDONTWRITEBYTECODE VIRTUAL_ENV
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_QUIET=2

# The files under version control, and new ones that are not ignored; nothing that was built.
copy_tree() { # DIRECTORY
    mkdir -p "$1"
    git -C "$root" ls-files -z --cached --others --exclude-standard |
        (cd "$root" && while IFS= read -r -d '' file; do
            if [[ -e $file ]]; then printf '%s\0' "$file"; fi
        done) |
        tar -C "$root" -c --null -T - | tar -C "$1" -x
}

# A new virtual environment, of $PYTHON if that is set, entered.
enter_environment() { # DIRECTORY
    "${PYTHON:-python3}" -m venv "$1"
    # shellcheck disable=SC1091
    . "$1/bin/activate"
}

# Install the project with extras into the environment entered, from $MTLMON_WHEEL if that is set
# (a run that has built the wheel already saves a build), else from the tree. Modules are compiled
# as they are imported, which are a few of those that there are.
install() { # TREE EXTRAS
    pip install --no-compile "${MTLMON_WHEEL:-$1}[$2]"
}

# Memory must stay flat, over more rounds than in a run of all tests.
leak_test() {
    MTLMON_LEAK_ROUNDS=${MTLMON_LEAK_ROUNDS:-2000} pytest -q tests/test_leaks.py
}
