"""The table of what is synchronised and what is refused, from what the tests of this folder run.

python tests/shards/support_table.py > docs/support.md
"""

from __future__ import annotations

from collections.abc import Iterable

from claims import CLAIMS
from claims_jax import JAX
from refused import REFUSED

__all__ = ["page"]

PAGE = """\
# What learns on N ranks as on one

Each line of the first table is a test: two and four ranks, with 8 environments each, end every
iteration with the parameters, normalisers, moments and learning rate of one rank with all their
environments and the same noise, and record the same figures, to 1e-5. The ranks are equal to the
last bit. Mini-batches of the one rank are the unions of the ranks'. In lines of `skrl (jax)` the
ranks learn from their slices of the one rank's rollouts, in two updates one after the other.

{synchronised}

What would not learn so is refused before any rank starts, with the reason:

{refused}

Printed by `python tests/shards/support_table.py`.
"""


def page() -> str:
    """Return the page."""
    synchronised = [(claim.library, claim.algorithm, claim.features) for claim in (*CLAIMS, *JAX)]
    refused = [(each.library, each.algorithm, each.features, each.reason) for each in REFUSED]
    return PAGE.format(
        synchronised=table(("library", "algorithm", "with"), synchronised),
        refused=table(("library", "algorithm", "refused", "because"), refused),
    )


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    lines = [head, tuple("---" for _ in head), *sorted(rows, key=lambda row: row[:2])]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    print(page(), end="")
