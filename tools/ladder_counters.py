#!/usr/bin/env python3
"""Records the counters of the ladder's rungs with Nsight Compute: one launch of each variant at 384 x 384 x 192.

    tools/ladder_counters.py build/foretile_ladder_tool tests/golden/counters_ladder.csv

Needs ncu and a Hopper GPU whose counters may be read.
"""
import csv
import datetime
import glob
import io
import shutil
import subprocess
import sys

METRICS = [
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum", "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ldgsts.sum", "l1tex__t_sectors_pipe_lsu_mem_global_op_ldgsts.sum",
    "sm__sass_inst_executed_op_shared_ld.sum", "sm__sass_inst_executed_op_shared_st.sum", "sm__sass_inst_executed_op_ldsm.sum",
    "sm__sass_inst_executed_op_global_ld.sum", "sm__sass_inst_executed_op_global_st.sum", "smsp__inst_executed.sum",
    "sm__sass_thread_inst_executed_op_ffma_pred_on.sum",
    "launch__registers_per_thread", "launch__shared_mem_per_block", "sm__maximum_warps_per_active_cycle_pct",
]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    ncu = shutil.which("ncu") or next(iter(sorted(glob.glob("/usr/local/cuda*/bin/ncu") + glob.glob("/opt/nvidia/nsight-compute/*/ncu"))), None)
    if not ncu:
        sys.exit("ncu is not found")
    names = [line.split(",")[:2] for line in subprocess.run([sys.argv[1], "launch"], check=True, capture_output=True, text=True).stdout.splitlines()]
    text = subprocess.run([ncu, "--csv", "--page", "raw", "--kernel-name", "foretile_kernel", "--metrics", ",".join(METRICS), sys.argv[1], "launch"],
                          check=True, capture_output=True, text=True).stdout
    begin = text.index('"ID"')
    rows = list(csv.DictReader(io.StringIO(text[begin:])))[1:]  # the second line holds units
    if len(rows) != len(names):
        sys.exit(f"{len(rows)} launches were profiled, {len(names)} made")
    found = [m for m in METRICS if m in rows[0]]
    for m in METRICS:
        if m not in found:
            print("unknown to this ncu:", m)
    gpu = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
    with open(sys.argv[2], "w") as out:
        out.write(f"# {datetime.date.today()}, {gpu}, 384 x 384 x 192; by tools/ladder_counters.py\n")
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["rung", "variant"] + found)
        for name, row in zip(names, rows):
            writer.writerow(name + [row[m].replace(",", "") for m in found])


main()
