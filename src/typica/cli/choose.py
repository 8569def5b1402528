"""What `typica choose` shows."""

from __future__ import annotations

import numpy as np

from typica.bench.choose import Choice
from typica.cli.show import console, percent, table


def show_choice(choice: Choice) -> None:
    """Print the verdict, a row a detector with what it rests on, and how to read it."""
    console.print(choice.verdict, style="bold", markup=False)
    console.print()
    rows = []
    for name, mean in choice.means.items():
        kinds = [float(np.mean(list(kind[name].values()))) for kind in (choice.auroc, choice.near) if kind]
        cells = [percent(mean), *(map(percent, kinds) if choice.near else ()), percent(choice.certainty[name])]
        rows.append([name, *cells, percent(choice.ahead[name]) if name in choice.ahead else ""])
    headings = ["classes left out", "near"] if choice.near else []
    console.print(table("", ["detector", "AUROC ↑", *headings, "best in %", "ahead in %"], rows))
    for name, error in choice.failed.items():
        console.print(f"{name}: {error}", style="red", markup=False)
    if choice.near:
        names = ", ".join(next(iter(choice.near.values())))
        console.print(
            f"near: pictures corrupted or mixed ({names}); the two kinds of unknown weigh the same.", style="dim"
        )
    console.print(
        "Mean AUROC with each class in turn as the unknown. When unknowns and rows are resampled: how often a detector "
        f"is best of all, and how often ahead of {choice.best} (a tie is half). The network has seen the class that "
        "plays the unknown, so all AUROCs are too high: read the order.",
        style="dim",
        markup=False,
    )
