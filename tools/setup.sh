# Sourced by the scripts of this folder: installs missing Debian/Ubuntu packages by name and asks for nothing.

build_packages="g++ cmake ninja-build libyaml-cpp-dev libcli11-dev nlohmann-json3-dev libfmt-dev libeigen3-dev"
test_packages="libgtest-dev libgmock-dev clang-format binutils"
all_packages="clang clang-tidy"

note() { printf '%s\n' "$*" >&2; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

# install PACKAGE...: those that are missing. Says so and goes on where there is no apt or no right to use it: the
# build then names what it lacks.
install() {
  local missing="" package
  if ! command -v apt-get >/dev/null; then
    note "no apt-get here: these must be there already: $*"
    return 0
  fi
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
  done
  [ -z "$missing" ] && return 0
  if [ "$(id -u)" != 0 ] && ! { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }; then
    note "missing, and neither root nor sudo without a password: apt-get install$missing"
    return 0
  fi
  note "installing$missing"
  as_root apt-get update -qq >/dev/null
  # shellcheck disable=SC2086
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
}

# Device code for one architecture where there is no GPU to run any: three take three times as long. A build of one's own
# compiles all (see tools/cmake/Cuda.cmake), and CMAKE_CUDA_ARCHITECTURES names others.
# It is then not optimised either, where the compiler can be told so.
architectures=""
if ! nvidia-smi --list-gpus >/dev/null 2>&1; then
  architectures="-DCMAKE_CUDA_ARCHITECTURES=90-real"
  nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
  if "$nvcc" --help 2>/dev/null | grep -q -- --Ofast-compile; then
    architectures="$architectures -DCMAKE_CUDA_FLAGS=--Ofast-compile=max"
  fi
fi

# One line for each optional part that this build cannot have.
name_missing_options() {
  if ! command -v nvcc >/dev/null && [ ! -x /usr/local/cuda/bin/nvcc ]; then
    note "without CUDA: no toolkit found (nvcc); prices need none"
  elif [ -n "$architectures" ]; then
    note "no GPU here: device code for Hopper (sm_90) only"
  fi
  if ! command -v mpicxx >/dev/null; then
    note "without MPI: not found (libopenmpi-dev); prices need none"
  fi
}

jobs=$(nproc 2>/dev/null || echo 2)
launcher=""
if command -v ccache >/dev/null; then  # the manual's settings for precompiled headers
  launcher="-DCMAKE_CXX_COMPILER_LAUNCHER=env;CCACHE_SLOPPINESS=pch_defines,time_macros;ccache"
fi

# configure PRESET OPTION...; quiet unless it fails
configure() {
  local log
  log=$(mktemp)
  # shellcheck disable=SC2086
  if ! cmake --preset "$@" $launcher $architectures >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    return 1
  fi
  rm -f "$log"
}
