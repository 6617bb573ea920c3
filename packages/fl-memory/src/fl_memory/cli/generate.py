"""``fl-memory generate``: a synthetic trace."""

from __future__ import annotations

import argparse
import inspect
from pathlib import Path

from fl_memory.cli.options import size_argument
from fl_memory.traces import write
from fl_memory.traces.synthetic import GENERATORS


def main(arguments: list[str]) -> int:
    """Write the trace."""
    parser = argparse.ArgumentParser(prog="fl-memory generate", description="A synthetic trace.")
    kinds = parser.add_subparsers(dest="generator", required=True, metavar="GENERATOR")
    for name, generator in GENERATORS.items():
        about = (inspect.getdoc(generator) or "").partition("\n")[0]
        options = kinds.add_parser(
            name,
            help=about,
            description=inspect.getdoc(generator),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        for key, parameter in inspect.signature(generator).parameters.items():
            default = parameter.default
            options.add_argument(
                f"--{key}",
                type=size_argument if isinstance(default, int) else float,
                default=default,
                help="(%(default)s)",
            )
        options.add_argument("-o", "--output", type=Path, metavar="FILE", required=True)
    given = vars(parser.parse_args(arguments))
    output = given.pop("output")
    trace = GENERATORS[given.pop("generator")](**given)
    write(trace, output)
    print(f"{output}: {len(trace)} rows, {trace.peak_live_bytes} bytes live at the peak")
    return 0
