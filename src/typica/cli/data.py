"""`typica data get` and `typica data list`."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from typica.cli.app import Json, app
from typica.cli.show import console, error_console, progress, table, write_json
from typica.data.sets import benchmark_set, find_set, get_set, list_sets, set_home
from typica.errors import InputError

commands = typer.Typer(
    help="Get the benchmark sets, and see which are here.",
    epilog="Example: typica data get svhn textures",
    no_args_is_help=True,
)
app.add_typer(commands, name="data")

Root = Annotated[
    Path | None,
    typer.Option(
        "--root", help="Folder of the sets; $TYPICA_HOME or ~/.cache/typica if not given."
    ),
]


@commands.command(epilog="Example: typica data get svhn textures")
def get(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME...", help="Sets, as `data list` has them.")
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="Every set that has a public address.")
    ] = False,
    root: Root = None,
) -> None:
    """Download sets, check them, and unpack them; run it again and it goes on where it stopped."""
    if bool(names) == all_:
        raise InputError(
            "data get: pass the names of sets, or --all; `typica data list` shows them."
        )
    wanted = (
        [name for name in list_sets() if benchmark_set(name).files] if all_ else list(names or ())
    )
    for name in wanted:
        benchmark_set(name)  # says what is misspelt before anything is fetched
    failed = []
    for name in wanted:
        try:
            path = _get(name, root)
        except (InputError, OSError) as error:
            if len(wanted) == 1:
                raise
            failed.append(name)
            error_console.print(f"error: {error}", style="red", markup=False, soft_wrap=True)
            continue
        console.print(f"{name}: {path}", markup=False, soft_wrap=True)
    if failed:
        raise InputError(
            f"data get: {len(failed)} of {len(wanted)} sets are missing ({', '.join(failed)}); see above."
        )


def _get(name: str, root: Path | None) -> Path:
    with ExitStack() as bars:

        def tell(step: str, size: int | None) -> None:
            bars.close()
            error_console.print(f"{name}: {step} ({_bytes(size)})", markup=False, soft_wrap=True)
            if size:
                bars.enter_context(progress(step, size))

        return get_set(name, root, tell=tell)


@commands.command("list", epilog="Example: typica data list --json -")
def list_(root: Root = None, json_file: Json = None) -> None:
    """List the benchmark sets: what they are, how large, and where they lie if they are here."""
    described: dict[str, dict[str, Any]] = {}
    for name in list_sets():
        entry = benchmark_set(name)
        path = find_set(name, root)
        described[name] = {
            "title": entry.title,
            "page": entry.page,
            "licence": entry.licence,
            "pictures": entry.pictures,
            "bytes": entry.size,
            "files": [
                {
                    "name": file.name,
                    "addresses": list(file.addresses),
                    "bytes": file.size,
                    **file.digests._asdict(),
                }
                for file in entry.files
            ],
            "path": None if path is None else str(path),
        }
    if json_file != "-":
        rows = [
            [
                name,
                entry["title"],
                "here" if entry["path"] else "",
                _bytes(entry["bytes"]) if entry["files"] else "by hand",
            ]
            for name, entry in described.items()
        ]
        console.print(
            table(
                f"Sets in {root or set_home()}", ["set", "what it is", "", "download"], rows, text=3
            )
        )
        console.print(
            "Get one with: typica data get NAME. --json tells addresses, checksums and licences."
        )
    if json_file is not None:
        write_json(described, json_file)


def _bytes(size: int | None) -> str:
    """Return a number of bytes as people say it.

    >>> _bytes(170_498_071), _bytes(4542), _bytes(None)
    ('170 MB', '5 kB', '?')
    """
    if size is None:
        return "?"
    for unit, step in (("GB", 10**9), ("MB", 10**6)):
        if size >= step:
            return f"{size / step:.3g} {unit}"
    return f"{size / 1000:.0f} kB"
