"""The modules that `import fl_tensor` loads, and its time.

Each measurement is a fresh interpreter without site-packages (-I -S): numpy or a plug-in could not
even be found there. Modules of the standard library that get loaded must be listed in
import_cost.txt, the union over the supported Python versions (run with --write under each).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ALLOWED = HERE / "import_cost.txt"
SOURCES = [str(HERE.parent / "packages" / name / "src") for name in ("fl-memory", "fl-tensor")]
OURS = ("fl_memory", "fl_tensor")
RUNS = 7

PROBE = """
import sys, time
sys.path[:0] = {sources!r}
before = set(sys.modules)
start = time.perf_counter()
import fl_tensor
seconds = time.perf_counter() - start
loaded = sorted(set(sys.modules) - before)
import json
print(json.dumps([seconds, loaded]))
"""


def measure() -> tuple[float, list[str]]:
    command = [sys.executable, "-I", "-S", "-c", PROBE.format(sources=SOURCES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"import fl_tensor fails without site-packages:\n{done.stderr}")
    seconds, loaded = json.loads(done.stdout)
    return seconds, loaded


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="add what was loaded to the list")
    options = parser.parse_args()
    measured = [measure() for _ in range(RUNS)]
    seconds = statistics.median(s for s, _ in measured)
    names = sorted({name for _, loaded in measured for name in loaded})
    foreign = [name for name in names if name.split(".")[0] not in OURS]
    allowed = set(ALLOWED.read_text().split())
    version = ".".join(map(str, sys.version_info[:2]))
    print(
        f"import fl_tensor: {seconds * 1e3:.0f} ms (median of {RUNS}, Python {version}), "
        f"{len(names) - len(foreign)} modules of ours, {len(foreign)} of the standard library"
    )
    outside = [name for name in foreign if name.split(".")[0] not in sys.stdlib_module_names]
    if outside:
        print("not of the standard library:", *outside)
        return 1
    new = sorted(set(foreign) - allowed)
    if new and options.write:
        ALLOWED.write_text("".join(f"{name}\n" for name in sorted(allowed | set(foreign))))
        print("added:", *new)
    elif new:
        print(f"not in {ALLOWED.name}:", *new)
        print("Import them inside the function that needs them, or accept them with --write.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
