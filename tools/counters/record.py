#!/usr/bin/env python3
"""Records hardware counters of the project's kernels with Nsight Compute, one CSV a list of launches.

    cmake --build build --target foretile_counters
    tools/counters/record.py build/tools/counters/foretile_counters OUT

or, for a GPU host without NVRTC or compiler, tools/counters/pack.sh FOLDER here and FOLDER/record.sh OUT there.
OUT/counters_{shared,global,kernels,gemms}.csv: one row a launch, with the date, GPU, driver and versions in comments at
the top; they go to tests/golden/. Needs ncu and a Hopper GPU whose counters may be read; about three minutes. Metrics
that this ncu does not know are reported and left out. --kernels FOLDER: machine code compiled elsewhere by
'foretile_counters compile FOLDER'.
"""

import argparse
import csv
import datetime
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared"
GLOBAL = "pipe_lsu_mem_global_op"

SHARED = [f"{WAVEFRONTS}_op_ld.sum", f"{WAVEFRONTS}_op_st.sum", f"{CONFLICTS}_op_ld.sum", f"{CONFLICTS}_op_st.sum"]
SECTORS = [f"l1tex__t_{what}_{GLOBAL}_{op}.sum" for what in ("requests", "sectors") for op in ("ld", "st")]
LINES = [f"l1tex__t_set_accesses_{GLOBAL}_{op}.sum" for op in ("ld", "st")]
# Counted at the instruction, so that ldmatrix and stmatrix stand apart.
INSTRUCTIONS = [
    "sm__sass_inst_executed_op_shared_ld.sum", "sm__sass_inst_executed_op_shared_st.sum", "sm__sass_inst_executed_op_ldsm.sum",
    "sm__sass_inst_executed_op_shared_stsm.sum", "sm__sass_inst_executed_op_global_ld.sum", "sm__sass_inst_executed_op_global_st.sum",
    "sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", "sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldsm.sum", "sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_stsm.sum",
    "sm__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ld.sum", "sm__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_st.sum",
]
L2 = ["lts__t_sectors.sum", "lts__t_sectors_op_read.sum", "lts__t_sectors_op_write.sum", "lts__t_sectors_srcunit_tex.sum",
      "lts__t_sectors_srcunit_tex_op_read.sum", "lts__t_sectors_srcunit_tex_op_write.sum", "lts__t_sectors_srcunit_tex_lookup_hit.sum",
      "lts__t_sectors_srcunit_tex_lookup_miss.sum", "lts__t_sector_hit_rate.pct", "lts__t_sectors_op_read_lookup_hit.sum",
      "lts__t_sectors_op_read_lookup_miss.sum", "lts__t_sectors_srcunit_tex_op_read_lookup_hit.sum", "lts__t_sectors_srcunit_tex_op_read_lookup_miss.sum",
      "lts__t_sectors_srcunit_ltcfabric.sum"]
DRAM = ["dram__bytes_read.sum", "dram__bytes_write.sum"]
TMA = ["l1tex__m_xbar2l1tex_read_bytes.sum", "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum",
       "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld_dest_multicast.sum", "l1tex__m_l1tex2xbar_write_bytes.sum",
       "l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_st.sum"]
LAUNCH = ["launch__registers_per_thread", "launch__shared_mem_per_block", "launch__occupancy_limit_registers", "launch__occupancy_limit_shared_mem",
          "launch__occupancy_limit_warps", "launch__occupancy_limit_blocks", "launch__waves_per_multiprocessor",
          "sm__maximum_warps_per_active_cycle_pct", "sm__warps_active.avg.pct_of_peak_sustained_active"]
TIME = ["gpu__time_duration.sum", "sm__cycles_elapsed.max", "sm__cycles_active.avg"]
PEAK = "avg.pct_of_peak_sustained_elapsed"
LIGHT = [f"{unit}.{PEAK}" for unit in (
    "sm__throughput", "gpu__compute_memory_throughput", "lts__throughput", "dram__throughput", "gpu__dram_throughput", "sm__memory_throughput",
    "sm__instruction_throughput", "sm__pipe_tensor_cycles_active", "sm__pipe_tensor_op_hmma_cycles_active", "sm__inst_executed_pipe_tensor_op_gmma",
    "sm__pipe_fma_cycles_active", "sm__pipe_fmaheavy_cycles_active", "sm__pipe_alu_cycles_active", "sm__inst_executed_pipe_lsu", "sm__inst_issued",
    "l1tex__data_pipe_lsu_wavefronts", "l1tex__data_bank_reads", "l1tex__data_bank_writes")] + ["l1tex__throughput.avg.pct_of_peak_sustained_active"]

LISTS = {  # metrics, sections, caches emptied before each pass
    "gemms": (SHARED + L2 + DRAM + TMA + LAUNCH + TIME + LIGHT, ["SpeedOfLight"], True),
    "kernels": (SHARED + [f"{WAVEFRONTS}_op_gmma.sum", f"{CONFLICTS}_op_gmma.sum"] + SECTORS + LINES + INSTRUCTIONS + L2 + DRAM + TMA + LAUNCH + TIME, [], True),
    "shared": (SHARED, [], False),
    "global": (SECTORS + LINES, [], False),
}


def output_of(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout if done.returncode == 0 else ""


def known_metrics(ncu):
    """Base names that this ncu can collect on this GPU; None where it does not say."""
    names = set(re.findall(r"^\s*([a-z0-9]+__[A-Za-z0-9_]+)", output_of([ncu, "--query-metrics"]), re.M))
    return names or None


def select(metrics, known):
    """(collectable, unknown). launch__ and a few others are ncu's own and in no list: it is left to them to be missing."""
    if known is None:
        return metrics, []
    own = ("launch__", "sm__maximum_warps")
    good = [m for m in metrics if m.startswith(own) or m.split(".")[0] in known]
    return good, [m for m in metrics if m not in good]


def read_table(path):
    """Rows of ncu's raw page: {column: text}, without the row of units."""
    lines = path.read_text(errors="replace").splitlines()
    first = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if first is None:
        return []
    rows = list(csv.DictReader(line for line in lines[first:] if line.startswith('"')))
    return [row for row in rows if row["ID"].isdigit()]


def profile(ncu, program, kernels, name, metrics, sections, clean, scratch, limit):
    launches, log = scratch / f"launches_{name}.csv", scratch / f"ncu_{name}.csv"
    log.unlink(missing_ok=True)
    command = [ncu, "--clock-control", "none", "--cache-control", "all" if clean else "none", "--metrics", ",".join(metrics)]
    for section in sections:
        command += ["--section", section]
    command += ["--csv", "--page", "raw", "--print-units", "base", "--log-file", str(log), str(program), "run", str(kernels), name, str(launches)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit)
        for line in done.stderr.splitlines():
            if line.startswith("left out"):
                print(f"{name}: {line}")
        problem = "" if done.returncode == 0 else f"ncu ended with {done.returncode}: {(done.stderr or done.stdout)[-500:]}"
    except subprocess.TimeoutExpired:
        problem = f"ncu did not end within {limit} s"
    rows = read_table(log) if log.exists() else []
    described = list(csv.DictReader(launches.open())) if launches.exists() else []
    if not problem and (not rows or len(rows) != len(described)):
        said = [line for line in log.read_text(errors="replace").splitlines() if line.startswith("==")] if log.exists() else []
        problem = f"{len(described)} launches, {len(rows)} rows of counters; ncu says: {' | '.join(said[-5:])}"
    for launch, row in zip(described, rows):
        if row.get("Kernel Name", "").split("(")[0] != "foretile_kernel" or row.get("Grid Size", "").strip("()").split(",")[0] != launch["blocks"]:
            problem = f"row {row['ID']} ({row.get('Kernel Name')}, grid {row.get('Grid Size')}) is not the launch of {launch['case']}"
    return problem, described, rows


def number(text):
    text = (text or "").replace(",", "")
    try:
        value = float(text)
    except ValueError:
        return ""
    return str(int(value)) if value == int(value) else f"{value:.6g}"


def write_table(path, comments, described, rows, metrics, sections):
    columns = [m for m in metrics if m in rows[0]]
    if sections:  # with the units that the throughputs are made of
        columns += [c for c in rows[0] if c not in columns and re.search(r"__.*\.pct", c)]
    with path.open("w", newline="") as file:
        for line in comments + [f"not collected: {', '.join(m for m in metrics if m not in rows[0]) or 'nothing'}"]:
            file.write(f"# {line}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(list(described[0]) + columns)
        for launch, row in zip(described, rows):
            writer.writerow(list(launch.values()) + [number(row.get(c)) for c in columns])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path, help="the built foretile_counters")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--kernels", type=pathlib.Path, help="folder of compiled kernels; left out: compile them now")
    parser.add_argument("--list", action="append", choices=list(LISTS), help="one of the lists, repeatable; left out: all")
    parser.add_argument("--ncu", default="ncu")
    parser.add_argument("--limit", type=float, default=150, help="seconds a list may take")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    program = options.program.resolve()

    version = re.search(r"Version ([\d.]+)", output_of([options.ncu, "--version"]))
    if not version:
        sys.exit(f"{options.ncu} does not run")
    scratch = pathlib.Path(tempfile.mkdtemp())
    if not options.kernels:
        options.kernels = scratch / "kernels"
        if subprocess.run([program, "compile", options.kernels], check=False, stdout=subprocess.DEVNULL).returncode not in (0, 3):
            sys.exit("the kernels do not compile")
    # The runner's own word on whether it works here, before ncu is involved.
    gpu = subprocess.run([program, "device"], capture_output=True, text=True, check=False)
    if gpu.returncode:
        sys.exit(gpu.stderr)
    driver = output_of(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]).strip()
    comments = [f"recorded {datetime.date.today()} on {gpu.stdout.strip()}, driver {driver or 'unknown'}, Nsight Compute {version[1]}, by tools/counters/record.py",
                "clocks as they were; counters are sums over one launch unless their name says otherwise"]

    known = known_metrics(options.ncu)
    failed = False
    for name in options.list or LISTS:
        metrics, sections, clean = LISTS[name]
        good, unknown = select(metrics, known)
        for metric in unknown:
            print(f"{name}: this ncu does not know {metric}")
        begin = time.time()
        problem, described, rows = profile(options.ncu, program, options.kernels, name, good, sections, clean, scratch, options.limit)
        if problem and any("sass" in m for m in good):
            print(f"{name}: {problem}\n{name}: again without counters at the instruction")
            good = [m for m in good if "sass" not in m]
            problem, described, rows = profile(options.ncu, program, options.kernels, name, good, sections, clean, scratch, options.limit)
        if problem:
            print(f"{name}: {problem}")
            failed = True
            if (scratch / f"ncu_{name}.csv").exists():
                shutil.copy(scratch / f"ncu_{name}.csv", options.out)
        if rows and described:
            cache = "caches emptied before each pass" if clean else "caches left as they were"
            write_table(options.out / f"counters_{name}.csv", comments + [cache], described, rows, metrics, sections)
        print(f"{name}: {len(rows)} launches in {time.time() - begin:.0f} s", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
