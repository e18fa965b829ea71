#!/bin/sh
# Installs the Debian or Ubuntu packages that a part of the project needs and that are missing: `setup.sh build` for
# building and the demo, `setup.sh test` for all tests as well. Does nothing, quickly, when everything is there. Where it
# may not install (not root and no sudo, or no apt-get) it says what is needed. Fetches nothing but packages.
set -eu

BUILD="gcc libc6-dev make cmake ninja-build pkg-config libpcre2-dev libxxhash-dev libjansson-dev"
TEST="g++ git libcmocka-dev"
CROSS="gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static"
CROSS_LIBRARIES="libpcre2-dev libxxhash-dev libjansson-dev libcmocka-dev"

say() {
    printf 'setup: %s\n' "$*"
}

# Whether a package is installed for this machine, or for the architecture that is named. The same library may be here for
# another architecture alone.
installed() { # PACKAGE[:ARCHITECTURE]
    architecture="$native"
    case "$1" in *:*) architecture="${1#*:}" ;; esac
    dpkg-query -W -f '${db:Status-Status} ${Architecture}\n' "${1%:*}" 2>/dev/null |
        grep -qE "^installed (all|$architecture)\$"
}

missing() { # PACKAGES...: those that are not installed
    for package in "$@"; do
        installed "$package" || printf '%s ' "$package"
    done
}

# A Python that is not Debian's will do.
missing_python() {
    command -v python3 >/dev/null 2>&1 || printf 'python3 '
    python3 -m pip --version >/dev/null 2>&1 || printf 'python3-pip '
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif [ -t 0 ]; then
        sudo "$@"
    else
        sudo -n "$@" # nobody is there to type a password
    fi
}

may_install() {
    [ "$(id -u)" = 0 ] || command -v sudo >/dev/null 2>&1
}

# Lists first: those of a fresh machine are empty or old. Bounded, so that a dead network cannot hang a build.
apt() { # ARGUMENTS of apt-get
    as_root env DEBIAN_FRONTEND=noninteractive timeout 900 \
        apt-get -q -o Acquire::Retries=3 -o Acquire::http::Timeout=30 -o DPkg::Lock::Timeout=300 "$@"
}

install_packages() { # PACKAGES...
    apt update >/dev/null || say "the package lists could not be refreshed, trying with those that are here"
    apt install -y --no-install-recommends "$@"
}

# Without apt-get the tools themselves are looked for, and the libraries through pkg-config.
check_without_apt() {
    lacking=""
    for tool in cc make cmake ninja pkg-config; do
        command -v "$tool" >/dev/null 2>&1 || lacking="$lacking $tool"
    done
    for library in libpcre2-8 libxxhash jansson; do
        pkg-config --exists "$library" 2>/dev/null || lacking="$lacking $library"
    done
    [ -z "$lacking" ] && return 0
    say "there is no apt-get here; please install:$lacking"
    return 1
}

# Packages of another architecture: all of Debian's are in one place, Ubuntu keeps arm64 elsewhere. There the architecture
# is used only if the machine has it already: adding it would break every later `apt-get update`.
setup_cross() {
    [ "$native" = amd64 ] || return 0
    # shellcheck disable=SC2086
    wanted="$(missing $CROSS)"
    for package in $CROSS_LIBRARIES; do
        installed "$package:arm64" || wanted="$wanted$package:arm64 "
    done
    [ -z "$wanted" ] && return 0
    added=""
    if ! dpkg --print-foreign-architectures | grep -qx arm64; then
        if ! grep -qx 'ID=debian' /etc/os-release; then
            say "arm64 packages are not to be had here without changing the package sources: no aarch64 tests"
            return 0
        fi
        as_root dpkg --add-architecture arm64
        added=yes
    fi
    say "installing for the aarch64 tests: $wanted"
    # The same libraries of this machine are named too: both architectures must have one version.
    # shellcheck disable=SC2086
    if ! install_packages $wanted $CROSS_LIBRARIES; then
        say "the packages for the aarch64 tests could not be installed: no aarch64 tests"
        [ -z "$added" ] || as_root dpkg --remove-architecture arm64 || true
    fi
}

case "${1:-}" in
build | test) ;;
*)
    echo "usage: setup.sh build|test" >&2
    exit 2
    ;;
esac

if ! command -v apt-get >/dev/null 2>&1 || ! command -v dpkg-query >/dev/null 2>&1; then
    check_without_apt
    exit $?
fi

native="$(dpkg --print-architecture)"
# shellcheck disable=SC2086
wanted="$(missing $BUILD)"
if [ "$1" = test ]; then
    # shellcheck disable=SC2086
    wanted="$wanted$(missing $TEST)$(missing_python)"
fi
if [ -n "$wanted" ]; then
    if ! may_install; then
        say "these packages are missing, and neither root nor sudo is here to install them:"
        say "  apt-get install $wanted"
        exit 1
    fi
    say "installing: $wanted"
    # shellcheck disable=SC2086
    install_packages $wanted
fi
if [ "$1" = test ] && may_install; then
    # shellcheck disable=SC2086
    setup_cross
fi
