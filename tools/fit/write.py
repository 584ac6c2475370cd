#!/usr/bin/env python3
"""Puts what foretile_fit prints into the machine files: foretile_fit sm90 | tools/fit/write.py "fitted by ... to ..."

Reads lines "section.name = value"; comment lines are passed on. machines/h200.toml gets the values and the source, other files the
values where their source says "carried over from h200.toml".
"""
import pathlib
import re
import sys

machines = pathlib.Path(__file__).resolve().parent.parent.parent / "machines"
source = sys.argv[1]
values = {}
for line in sys.stdin:
    fitted = re.match(r"(\w+)\.(\w+) = (\S+)", line)
    if fitted:
        values[fitted[1], fitted[2]] = fitted[3]
    print(line, end="")
for path in sorted(machines.glob("*.toml")):
    section, lines = "", []
    for line in path.read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        name = line.split(" = ")[0]
        own = path.name == "h200.toml"
        if (section, name) in values and (own or "carried over from h200.toml" in line):
            line = re.sub(r"value = [^,]+,", f"value = {values[section, name]},", line)
            if own:
                line = re.sub(r'source = ".*" }', f'source = "{source}" }}', line)
        lines.append(line)
    path.write_text("\n".join(lines) + "\n")
