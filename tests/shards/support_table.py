"""The table of synchronized and refused features, from the tests of this folder.

python tests/shards/support_table.py > docs/support.md
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from claims import CLAIMS
from claims_jax import JAX
from pairs_of_all import TABLES
from refused import REFUSED

__all__ = ["page"]

PAGE = """\
# Support matrix

Each line of the first table is a test. Two and four ranks, with 8 environments each, train beside
one rank with all their environments and the same noise. After every iteration their parameters,
normalizers, moments and learning rate match those of the one rank to 1e-5, and so do the metrics
that they record. The ranks are equal to the last bit. The mini-batches of the one rank are the
unions of the ranks' mini-batches. In lines of `skrl (jax)` the ranks learn from their slices of the
one rank's rollouts, in two updates one after the other.

{synchronized}

What would not learn this way is refused before any rank starts, with the reason:

{refused}

## Combinations of options

Options that work alone may fail together. So the values of an algorithm's options are combined such
that each value of one option meets each value of every other, and every combination is a test: two
ranks train for two iterations and learn as one rank does, to 1e-4.

Some combinations have no one rank to compare with. Their mini-batches end within an environment's
rollout, differ in size, or differ in number for the critic; or rounding decides (random numbers
that are drawn by rejection, half precision). There the ranks must end equal to the last bit.

What cannot work is refused before any rank starts, or, if only the environments can tell, once they
are made. Each such pair of values is a test too.

{combined}

| library | algorithm | option | values |
| --- | --- | --- | --- |
{options}

A sample of them runs in `make test`, all of them in `make test-all`. With jax, three of each of
skrl's tables train there too, and the ranks end equal.

Printed by `python tests/shards/support_table.py`.
"""


def page() -> str:
    """Return the page."""
    synchronized = [(claim.library, claim.algorithm, claim.features) for claim in (*CLAIMS, *JAX)]
    refused = [(each.library, each.algorithm, each.features, each.reason) for each in REFUSED]
    return PAGE.format(
        synchronized=table(("library", "algorithm", "with"), by_algorithm(synchronized)),
        refused=table(("library", "algorithm", "refused", "because"), by_algorithm(refused)),
        combined=combined(),
        options="\n".join(options()),
    )


def combined() -> str:
    """Return the number of combinations of each table, and their outcomes."""
    head = ("library", "algorithm", "options", "values", "as one rank", "ranks equal", "refused")
    rows = []
    for each in TABLES:
        values = sum(len(names) for names in each.options.values())
        twins = sum(one.has_twin for one in each.trained)
        counts = (len(each.options), values, twins, len(each.trained) - twins, len(each.refused))
        rows.append((each.base.library, each.algorithm, *map(str, counts)))
    totals = [str(sum(int(row[column]) for row in rows)) for column in range(2, len(head))]
    return table(head, [*rows, ("together", "", *totals)])


def options() -> Iterator[str]:
    """Yield a row for each option of each table, with its values."""
    for each in TABLES:
        for option, values in each.options.items():
            if len(values) > 1:
                yield f"| {each.base.library} | {each.algorithm} | {option} | {'; '.join(values)} |"


def by_algorithm(rows: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return rows in the order of their libraries and algorithms."""
    return sorted(rows, key=lambda row: row[:2])


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    print(page(), end="")
