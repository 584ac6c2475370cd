#!/usr/bin/env python3
"""Registers and instructions of the ladder's loops as compiled for sm_90a: writes src/ladder/compiled.inc.

    python3 tools/ladder_table.py build/foretile_ladder_tool

Needs NVRTC (the tool finds it) and nvdisasm (FORETILE_NVDISASM, the PATH, or beside CUDA). The loop along K is taken to be
the innermost loop with the most multiplies; what is neither a multiply nor an access nor a barrier in it counts as "other".
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MULTIPLY = ("FFMA", "HMMA", "HGMMA", "DFMA", "DADD", "DMUL", "FADD")
ACCESS = ("LDG", "STG", "LDS", "STS", "LDSM", "STSM", "LDGSTS", "BAR")


def nvdisasm():
    for candidate in (os.environ.get("FORETILE_NVDISASM"), shutil.which("nvdisasm"), "/usr/local/cuda/bin/nvdisasm"):
        if candidate and os.path.exists(candidate):
            return candidate
    sys.exit("nvdisasm is not found: set FORETILE_NVDISASM")


def opcode(line):
    return re.sub(r"^@!?U?P\w+ ", "", line).split()[0].split(".")[0]


def register_clocks(lines):
    """Clocks a multiply takes of the register file, on average over a loop's FFMAs.

    An SM partition has two banks of registers, even and odd numbers, and reads one register of each a clock for all 32 lanes.
    An operand that the multiply before it had in the same place, marked .reuse, is not read again. Found to hold within 3 % on an
    H200 for loops of nothing but multiplies and shared loads (docs/performance.md). Where a multiply wants the second read of the
    bank opposite to that of the one before it, three quarters of the clock are won back: fitted to the tiles of rungs 6 and 7, most
    of which do that all along.
    """
    clocks, multiplies, kept, booked = 0, 0, {}, None
    for line in lines:
        m = re.search(r"FFMA R(\d+), R(\d+)(\.reuse)?, R(\d+)(\.reuse)?, R(\d+)(\.reuse)?", line)
        if not m:
            kept, booked = {}, None
            continue
        operands = [(int(m[2 + 2 * i]), bool(m[3 + 2 * i])) for i in range(3)]
        reads = [r for i, (r, _) in enumerate(operands) if kept.get(i) != r]
        odd = sum(r % 2 for r in reads)
        even = len(reads) - odd
        bank = None if max(odd, even) < 2 else odd > even
        wait = max(1, odd, even) - 1
        clocks += 1 + (wait / 4 if booked is not None and bank is not None and bank != booked else wait)
        booked = bank
        multiplies += 1
        kept = {i: r for i, (r, reuse) in enumerate(operands) if reuse}
    return clocks / multiplies if multiplies else 1


def loop(text):
    """(multiplies, instructions, accesses, register clocks a multiply) of the loop with the most multiplies.

    Where the loop has loads of 16 bytes, blocks with narrower ones are its path for sizes that do not allow them: not counted.
    """
    items = []
    for line in text.splitlines():
        label = re.match(r"\s*(\.L_x_\d+):", line)
        instruction = re.search(r"/\*[0-9a-f]{4,5}\*/\s+(.*?);", line)
        if label:
            items.append((label.group(1), None))
        elif instruction:
            items.append((None, instruction.group(1)))
    where = {label: i for i, (label, _) in enumerate(items) if label}
    best = (0, 0, 0, 1)
    for i, (_, line) in enumerate(items):
        target = line and re.search(r"BRA.*?`\((\.L_x_\d+)\)", line)
        if not target or where.get(target.group(1), i) >= i:
            continue
        blocks = [[]]
        for label, x in items[where[target.group(1)]:i + 1]:
            if label:
                blocks.append([])
            else:
                blocks[-1].append(x)
                if " BRA" in " " + x:
                    blocks.append([])
        if any("LDG.E.128" in x or "LDGSTS" in x for b in blocks for x in b):
            blocks = [b for b in blocks if not any(re.search(r"LDG\.E(?!\.128)", x) for x in b)]
        body = [opcode(x) for b in blocks for x in b]
        multiplies = sum(x in MULTIPLY for x in body)
        if multiplies > best[0]:
            best = (multiplies, len(body), sum(x in ACCESS for x in body), register_clocks([x for b in blocks for x in b]))
    return best


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], "compile", folder], check=True)
        lines = []
        for entry in open(os.path.join(folder, "list.txt")):
            file, rung, variant, registers, spill, _ = entry.rstrip("\n").split("\t")
            text = subprocess.run([nvdisasm(), "-c", os.path.join(folder, file)], check=True, capture_output=True, text=True).stdout
            multiplies, instructions, accesses, clocks = loop(text)
            lines.append(f'{{{rung}, "{variant}", {registers}, {spill}, {multiplies}, {accesses}, {instructions - multiplies - accesses}, {clocks:.3f}}},\n')
    with open(os.path.join(ROOT, "src", "ladder", "compiled.inc"), "w") as out:
        out.write("// Rung, variant, registers, bytes spilled, multiplies, accesses and other instructions of the loop along K,\n"
                  "// clocks of the register file a multiply.\n"
                  "// By tools/ladder_table.py for sm_90a, NVRTC 13.0.\n")
        out.writelines(lines)


if __name__ == "__main__":
    main()
