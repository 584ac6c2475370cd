#!/usr/bin/env python3
"""The table of the catalogue's kernels as compiled: registers, spills, shared memory, and the width of every access.

    tools/catalogue.py --tool build/foretile_catalogue_tool --write   regenerates tests/golden/catalogue.csv
    tools/catalogue.py --tool build/foretile_catalogue_tool --check   compares with it

Needs NVRTC (the tool finds it) and nvdisasm: on the PATH, in FORETILE_NVDISASM, beside CUDA, or from PyPI
(pip install nvidia-cuda-nvdisasm). Exit code 0: equal or written; 1: a difference, or a kernel that must not ship;
77: skipped, with the reason (no NVRTC or nvdisasm here, or another NVRTC version than the table's).
"""

import argparse
import collections
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from ladder_table import loop

SKIPPED = 77
TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden", "catalogue.csv")
# Memory instructions by family, counted by width in bits; then plain counts.
WIDTHS = ("LDG", "STG", "LDS", "STS", "STSM", "LDSM", "LDL", "STL")
COUNTS = ("HGMMA", "UTMALDG", "UTMASTG", "SYNCS", "BAR", "FFMA")
COLUMNS = ("operation", "configuration", "registers", "spill_bytes", "shared_bytes", "instructions") + tuple(x.lower() for x in WIDTHS + COUNTS) + ("ffma_clocks",)


def find_nvdisasm():
    candidates = [os.environ.get("FORETILE_NVDISASM"), shutil.which("nvdisasm"), "/usr/local/cuda/bin/nvdisasm"]
    for folder in sys.path:
        candidates += glob.glob(os.path.join(folder, "nvidia", "*", "bin", "nvdisasm"))
    for path in candidates:
        if path and os.access(path, os.X_OK):
            return path
    return None


def width_of(opcode):
    """Bits a thread moves: LDG.E.128 -> 128. Matrix moves count 8x8 matrices of 16 bits: STSM.16.M88.4 -> x4."""
    parts = opcode.split(".")
    if parts[0] in ("STSM", "LDSM"):
        return "x" + (parts[-1] if parts[-1] in ("2", "4") else "1")
    for part in parts[1:]:
        if part in ("64", "128"):
            return part
        if part in ("U8", "S8"):
            return "8"
        if part in ("U16", "S16"):
            return "16"
    return "32"


def analyse(nvdisasm, cubin):
    text = subprocess.run([nvdisasm, "-c", cubin], check=True, capture_output=True, text=True).stdout
    widths = {family: collections.Counter() for family in WIDTHS}
    counts = collections.Counter()
    instructions = 0
    for line in text.splitlines():
        match = re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P[0-9T]+\s+)?([A-Z][A-Z0-9_.]*)", line)
        if not match:
            continue
        opcode = match.group(1)
        family = opcode.split(".")[0]
        if family == "NOP":
            continue
        instructions += 1
        if family in widths:
            widths[family][width_of(opcode)] += 1
        elif family in COUNTS:
            counts[family] += 1
    if instructions == 0:
        raise RuntimeError(f"no instruction found in {cubin}")
    row = {"instructions": str(instructions)}
    for family in WIDTHS:
        row[family.lower()] = " ".join(f"{width}:{count}" for width, count in sorted(widths[family].items(), key=lambda x: (len(x[0]), x[0])))
    for family in COUNTS:
        row[family.lower()] = str(counts[family])
    multiplies, _, _, clocks = loop(text)
    row["ffma_clocks"] = f"{clocks:.2f}" if multiplies and counts["FFMA"] else ""
    return row


def generate(tool, folder, nvdisasm):
    if folder:
        return load(folder, nvdisasm)
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run([tool, folder], stderr=sys.stderr)
        if run.returncode == 3:
            print("skipped: no NVRTC on this machine")
            sys.exit(SKIPPED)
        if run.returncode != 0:
            sys.exit(1)
        return load(folder, nvdisasm)


def load(folder, nvdisasm):
    with open(os.path.join(folder, "list.json")) as f:
        listing = json.load(f)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        analysed = list(pool.map(lambda k: analyse(nvdisasm, os.path.join(folder, k["cubin"])), listing["kernels"]))
    rows = []
    for kernel, row in zip(listing["kernels"], analysed):
        row.update({key: str(kernel[key]) for key in ("operation", "configuration", "registers", "spill_bytes", "shared_bytes")})
        rows.append(row)
    return listing["nvrtc"], rows


def write(version, rows):
    with open(TABLE, "w") as f:
        f.write(f"# compiler: {version}, sm_90a; made by tools/catalogue.py. Accesses: instructions in the machine code, by bits a thread (matrix moves: by matrices); ffma_clocks: of the register file, an FFMA of the loop along K\n")
        f.write(",".join(COLUMNS) + "\n")
        for row in rows:
            f.write(",".join(row[c] for c in COLUMNS) + "\n")


def read():
    with open(TABLE) as f:
        lines = f.read().splitlines()
    version = re.match(r"# compiler: (NVRTC [0-9.]+)", lines[0]).group(1)
    columns = lines[1].split(",")
    return version, [dict(zip(columns, line.split(","))) for line in lines[2:]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--tool", help="foretile_catalogue_tool: compiles all")
    source.add_argument("--folder", help="what the tool, or a test, has written already; --check then compares these kernels alone")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", action="store_true")
    what.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    nvdisasm = find_nvdisasm()
    if not nvdisasm:
        print("skipped: nvdisasm is not found (pip install nvidia-cuda-nvdisasm, or FORETILE_NVDISASM)")
        return SKIPPED
    version, rows = generate(arguments.tool, arguments.folder, nvdisasm)
    if arguments.write:
        write(version, rows)
        print(f"{len(rows)} kernels written to {os.path.normpath(TABLE)} ({version})")
        return 0
    expected_version, expected = read()
    if version != expected_version:
        print(f"skipped: the table is {expected_version}'s, here is {version}")
        return SKIPPED
    key = lambda row: (row["operation"], row["configuration"])
    ours, theirs = {key(r): r for r in rows}, {key(r): r for r in expected}
    differences = 0
    for k in sorted(set(ours) if arguments.folder else set(ours) | set(theirs)):
        if k not in ours or k not in theirs:
            print(f"{k[0]} {k[1]}: {'not in the table' if k not in theirs else 'in the table, but no longer in the catalogue'}")
            differences += 1
            continue
        for column in COLUMNS:
            if ours[k][column] != theirs[k][column]:
                print(f"{k[0]} {k[1]}: {column} is {ours[k][column]}, the table says {theirs[k][column]}")
                differences += 1
    print(f"{len(ours)} kernels, {differences} differences from the table")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
