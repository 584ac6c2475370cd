# Sourced by tools/aarch64.sh and tools/sanitize.sh, where a test takes ten times as long as usual.
#   run_shards LOGS all|some COMMAND...   runs a GoogleTest program in as many processes as there are cores, each with its
# share of the tests; `some` leaves out the emulator's long ones: the sweep, the L2 replays, mutations and chains of all but the smallest kernels. LOGS.N.log keeps what
# each printed. Fails if one of them does.
run_shards() {
  local logs=$1 skip='Gemm.Speed*' failed=0 shards=() i  # how fast a kernel is means nothing here
  [[ $2 == all ]] || skip+=:Sweep.*:All/OfKernels.*:$(printf 'Kernels/%s:' {Mutants,Pairs}.*/{cooperative,pingpong,cluster,direct_store,epilogue,decode*})
  shift 2
  export GTEST_TOTAL_SHARDS=$(nproc)
  for ((i = 0; i < GTEST_TOTAL_SHARDS; ++i)); do
    GTEST_SHARD_INDEX=$i "$@" --gtest_brief=1 "--gtest_filter=-$skip" >"$logs.$i.log" 2>&1 &
    shards+=($!)
  done
  for ((i = 0; i < GTEST_TOTAL_SHARDS; ++i)); do
    wait "${shards[i]}" || failed=1
    grep -v '^Running main' "$logs.$i.log" || true
  done
  return $failed
}
