# Sourced by ./ft and ./test from the root of the checkout: sets up, configures, builds.
#   build_foretile SETUP_FLAG TARGET...
say() { echo "foretile: $*" >&2; }

build_foretile() {
  local flag=$1 log=build/build.log lock start
  shift
  mkdir -p build
  # One build at a time in a checkout. The lock goes with the last process that holds the file open, however it ended: where this
  # script is killed, ninja finishes first.
  exec {lock}>build/.lock
  if ! flock --nonblock $lock; then
    say "waiting for another build in this checkout"
    flock $lock || say "build/.lock cannot be locked here: two builds at once would disturb each other"
  fi
  start=$SECONDS
  # Set-up is looked at again when its script changes; its own checks make a second run cheap.
  local stamp=build/.setup${flag}
  if [[ ! -e $stamp || tools/setup.sh -nt $stamp ]]; then
    tools/setup.sh $flag || exit 1
    touch "$stamp"
  fi
  # Where NVRTC and nvdisasm came from PyPI, let the library and the tests find them.
  local site
  for site in build/python/lib/python3*/site-packages/nvidia/*; do
    [[ -d $site/lib ]] && export LD_LIBRARY_PATH="$PWD/$site/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    [[ -d $site/bin ]] && export PATH="$PATH:$PWD/$site/bin"
  done
  if [[ ! -e build/build.ninja ]]; then
    say "configuring (build/, Release)"
    local compiler=()
    # C++20 as the sources use it starts with g++ 12; older distributions have it beside their default.
    if [[ -z ${CXX:-} ]] && command -v g++-12 >/dev/null && [[ $(g++ -dumpversion | cut -d. -f1) -lt 12 ]]; then
      compiler=(-DCMAKE_CXX_COMPILER=g++-12)
    fi
    if ! cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release "${compiler[@]}" >$log 2>&1; then
      tail -20 $log >&2
      say "cmake could not configure the build (whole log: $log)"
      rm -f build/build.ninja
      exit 1
    fi
  fi
  if [[ -t 2 ]]; then
    # On a terminal ninja keeps to one line; it is quiet when all is built.
    if ! NINJA_STATUS='[%f/%t, %es] ' ninja -C build --quiet "$@" >&2; then
      say "the build failed"
      exit 1
    fi
  else
    ninja -C build "$@" >$log 2>&1 &
    local builder=$! shown=0
    trap "kill $builder 2>/dev/null" EXIT
    trap 'exit 130' INT TERM
    while kill -0 $builder 2>/dev/null; do
      sleep 0.05
      if (( SECONDS - start >= shown + 15 )); then
        shown=$(( SECONDS - start ))
        say "building $(tail -c 4000 $log | grep -o '^\[[0-9]*/[0-9]*\]' | tail -1) after $shown s"
      fi
    done
    trap - EXIT INT TERM
    if ! wait $builder; then
      grep -A 30 -m 1 '^FAILED' $log >&2 || tail -20 $log >&2
      say "the build failed (whole log: $log)"
      exit 1
    fi
  fi
  exec {lock}>&-
  if (( SECONDS - start > 2 )); then say "built in $(( SECONDS - start )) s"; fi
}
