"""Every client era with every server era, feature by feature, through Portico.

    python -m tests.matrix [--direct] [--gateways N] [--store sqlite|dynamodb|moto] [--place serve|lambda]
                           [--pair CLIENT/SERVER] [--feature NAME]

Prints a table: `ok`, or `FAIL` with the reasons below. The exit code is 1 if anything failed. `--direct` leaves the
gateway out and the pairs that do not understand each other without one, which shows harness and server to be right.
`--place lambda` takes the deployment on the emulator; `-` is what Lambda itself leaves no way to.
"""

import argparse
import asyncio
import logging
import sys

from tests.matrix import CLIENTS, DIRECT_PAIRS, PAIRS, Pair, left_out, run_check
from tests.matrix.checks import CHECKS
from tests.matrix.processes import STORES, setting
from tests.support import Place


def row(first: str, cells: list[str], width: int) -> str:
    return "  ".join([first.ljust(width), *cells]).rstrip()


def run(pairs: list[Pair], features: list[str], *, gateways: int, store: str) -> dict[tuple[str, Pair], str]:
    """Prints the table while it grows; gives the reasons of what failed."""
    width = max(map(len, ["client/server", *features]))
    titles = [f"{client}/{server}" for client, server in pairs]
    failures: dict[tuple[str, Pair], str] = {}
    servers = list(dict.fromkeys(server for _, server in pairs))
    with setting(servers, gateways=gateways, store=store) as place:
        print(row("client/server", titles, width), flush=True)
        for feature in features:
            cells = []
            for pair, title in zip(pairs, titles, strict=True):
                if left_out(feature, pair[0]):
                    cells.append("-".ljust(len(title)))
                    continue
                failure = asyncio.run(run_check(place, feature, *pair))
                if failure:
                    failures[feature, pair] = failure
                cells.append(("FAIL" if failure else "ok").ljust(len(title)))
            print(row(feature, cells, width), flush=True)
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--direct", action="store_true", help="without a gateway")
    parser.add_argument("--gateways", type=int, default=1, metavar="N", help="that share a store")
    parser.add_argument("--store", choices=STORES, default="sqlite")
    parser.add_argument("--place", choices=("serve", "lambda"), default="serve", help="where Portico runs")
    parser.add_argument("--pair", action="append", metavar="CLIENT/SERVER", help="may be repeated")
    parser.add_argument("--feature", action="append", choices=CHECKS, metavar="NAME", help="may be repeated")
    options = parser.parse_args()
    Place.chosen = options.place
    if options.place == "lambda" and (options.direct or options.gateways > 1):
        parser.error("a deployment is one, and many processes")
    logging.getLogger("client").setLevel(logging.ERROR)  # the SDK's; it warns of tools it has not listed
    possible = DIRECT_PAIRS if options.direct else PAIRS
    pairs = [tuple(pair.split("/")) for pair in options.pair] if options.pair else list(possible)
    if unknown := [pair for pair in pairs if pair not in possible]:
        parser.error(f"no such pair: {unknown}; clients are {', '.join(CLIENTS)}")
    features = options.feature or list(CHECKS)
    gateways = 0 if options.direct else options.gateways
    failures = run(pairs, features, gateways=gateways, store=options.store)
    for (feature, (client, server)), reason in failures.items():
        print(f"\n{feature}, {client} client, {server} server:\n{reason}")
    total = sum(not left_out(feature, client) for feature in features for client, _ in pairs)
    print(f"\n{total - len(failures)} of {total} ok")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
