"""The command `shoal plan`: what a table would take on more machines, as tables with sentences, JSON or CSV."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from shoal.cli.flags import Add, add_knobs, add_set, config_of
from shoal.cli.printing import clear_line, print_json, said_beside, table
from shoal.errors import ConfigError
from shoal.files.output import Output
from shoal.settings.meaning import PLANNED
from shoal.words import duration, file_size, plural, power_of_ten, short


def add_command(add: Add, progress: Callable[[bool], Any]) -> None:
    parser = add(
        "plan", help="what a table would take on 1 to 256 nodes, and from which number on more do not help",
        usage="shoal plan FILE|ROWSxCOLUMNS [--target COLUMN] [flags]",
    )  # fmt: skip
    parser.add_argument("file", metavar="FILE|ROWSxCOLUMNS", help="a CSV file, or a shape such as 2000000x50")
    parser.add_argument(
        "--nodes", default="1,2,...,256", metavar="1,2,4", help="numbers of nodes, a worker each (default: %(default)s)"
    )
    parser.add_argument(
        "--network", default="10Gbit,0.5ms", metavar="10Gbit,0.5ms",
        help="bandwidth, latency one way and, if given, the server's time for a message (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--stragglers", default="", metavar="5%,3".replace("%", "%%"),
        help="share of nodes that are slow, and how many times as long they take",
    )  # fmt: skip
    parser.add_argument("--failures", default="", metavar="24h", help="how long a node lasts on average")
    parser.add_argument("--modes", default="sync,ssp,async,local", metavar="a,b", help="which (default: %(default)s)")
    parser.add_argument(
        "--compressions",
        default="none,topk",
        metavar="a,b",
        help="of gradients: none, topk, half (default: %(default)s)",
    )
    parser.add_argument("--out", metavar="plan.csv", help="a file with a line for each way; - for standard output")
    add_knobs(parser, set(PLANNED), linear=True)
    add_set(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(command=lambda chosen: _plan(chosen, progress))


def _plan(chosen: argparse.Namespace, progress: Callable[[bool], Any]) -> None:
    from shoal.tasks.plan import PlanRequest, as_csv, nodes_of, plan

    out, chosen.out = chosen.out, None
    nodes = nodes_of(chosen.nodes)
    if not nodes:
        raise ConfigError("Expected at least one number of nodes, got none. Give some such as --nodes 1,2,4.")
    asked = PlanRequest(
        nodes, chosen.network, chosen.stragglers, chosen.failures, _names(chosen.modes), _names(chosen.compressions)
    )
    config = config_of(chosen)
    if out:
        Output(out, {"the data": config.file}).check()
    found = plan(config, asked, progress(chosen.json))
    clear_line()
    if out:
        Output(out).write(as_csv(found))
    with said_beside(out):
        if chosen.json:
            print_json(found)
        else:
            show(found)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def show(found: dict[str, Any]) -> None:
    about, constants = found["table"], found["constants"]
    print(
        f"{about['name']}: {about['rows']:,} rows, {plural(about['columns'], 'weight')} to fit, "
        f"{file_size(about['bytes'])} of text; network {found['network']}, one worker a node"
    )
    print(
        f"measured here: {constants['gradient_rows_per_second'] / 1e6:.3g} million rows a second of gradients, "
        f"{constants['reading_bytes_per_second'] / 1e6:,.0f} MB a second of reading, "
        f"{1e6 * constants['seconds_of_a_message']:.0f} us of the server for a message"
    )
    print(
        f"\nSeconds from the file to a distance of {power_of_ten(found['tolerance'])} to the optimum, reading included"
    )
    kinds = list(dict.fromkeys((way["way"], way["compression"]) for way in found["ways"]))
    cells = {(way["way"], way["compression"], way["nodes"]): way for way in found["ways"]}
    counts = sorted({way["nodes"] for way in found["ways"]})
    rows = [(f"{n:,}", *(_seconds(cells[(*kind, n)]) for kind in kinds)) for n in counts]
    table(("nodes", *map(_kind, kinds)), rows, right=set(range(len(kinds) + 1)))
    print("\nWhere more nodes do not help any more")
    rows = []
    for one in found["best"]:
        way = cells[one["way"], one["compression"], one["nodes"]]
        rows.append(
            (_kind((one["way"], one["compression"])), f"{one['nodes']:,}" + ("" if one["enough"] else "+"),
             duration(one["total"]), f"{way['rows_per_second']:.3g}", file_size(way["nbytes"]),
             short(way["node_hours"]), f"{way['waiting']:.0%}", one["limit_said"] or "more nodes still help")
        )  # fmt: skip
    head = ("way", "nodes", "seconds", "rows/s", "traffic", "node-hours", "waiting", "what limits it there")
    table(head, rows, right={1, 2, 3, 4, 5, 6})
    sample = found["sample"]
    said = "the table itself" if sample["whole"] else f"{sample['rows']:,} rows in its place"
    print(
        f"\nRehearsed in {duration(found['seconds'])} with {said}; constants are seconds of the processor"
        + (f" (load of this machine: {found['load']:.1f})." if found["load"] is not None else ".")
    )
    if any(not way["reached"] for way in found["ways"]):
        print("note: *: the optimum is not reached within the epochs and passes that are allowed.")


def _seconds(way: dict[str, Any]) -> str:
    return f"{way['total']:.3g}" + ("" if way["reached"] else "*")


def _kind(kind: tuple[str, str]) -> str:
    return kind[0] if kind[1] == "none" else f"{kind[0]} {kind[1]}"
