"""Code that runs where a network is opened: which it is, and whether the user has agreed to it.

A file that can run code is loaded only where it is trusted. To name a function,
`package.module:function`, is to agree. What is agreed to is remembered for the user: the function,
the file that it lies in, the content of that file and of the weights it is called with. A detector
or a suite that names the same needs no further consent; another file, or one changed byte in
either, does.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from typica.errors import InputError, argument
from typica.files import atomic_path, is_ours, make_private, sha256
from typica.nets import zoo
from typica.progress import note

# Of models; never functions.
FILES = (".onnx", ".safetensors", ".pt", ".pth", ".torchscript", ".ts", ".pt2")
_LARGEST = 2**24  # bytes of agreements; a larger file is not ours
# By name: modules that were seen loaded, each with its spec, which a reload replaces, and the
# digest of its file then.
_seen_loaded: dict[str, tuple[Any, Any, str | None]] = {}


@dataclass(frozen=True)
class Code:
    """What runs where a function makes a network; None in `weights` where it is called with none.

    file: where the function's module lies. code: the SHA-256 of that file. weights: that of the
    file of weights, or the text that stands for them.
    """

    function: str
    file: str
    code: str
    weights: str | None

    def describe(self) -> str:
        """Return, to ask the user's consent, the function, its file and the start of its digest."""
        return f"{self.function}, whose code (SHA-256 {self.code[:16]}..., {self.file}) will run"

    def is_agreed(self) -> bool:
        """Tell whether the user has agreed to it before."""
        return dataclasses.asdict(self) in _agreements()

    def agree(self) -> None:
        """Remember that the user agrees; where that cannot be written it is asked again."""
        known = _agreements()
        if dataclasses.asdict(self) in known:
            return
        try:
            _write([*known, dataclasses.asdict(self)])
        except (OSError, InputError) as error:
            note(f"cannot remember that {self.function} may run ({error})")


def check_trust(path: Path, trust: bool) -> None:
    """Refuse a file of PyTorch's, which can run code when it is loaded, unless it is trusted."""
    if not trust:
        raise InputError(
            f"{path} can run any code when it is loaded, as TorchScript and .pt2 files can, and "
            "is refused; export the model to ONNX (torch.onnx.export), or name the function that "
            "makes it, package.module:function, or, where you trust the file, agree with "
            f"{argument('trust', True)}."
        )


def code_to_run(spec: str, weights: Any = None) -> Code | None:
    """Return what would run; None where nothing identifies it: then consent is asked each time."""
    module = spec.rpartition(":")[0]
    file, digest = _file_of(module), code_of(module)
    if file is None or digest is None:
        return None
    content: str | None = None
    if weights is not None:
        if not isinstance(weights, str | os.PathLike) or Path(weights).is_dir():
            return None
        path = Path(weights)
        content = sha256(path) if path.is_file() else f"text {os.fspath(weights)}"
    return Code(spec, str(Path(file).resolve()), digest, content)


def code_to_agree_to(spec: Any, weights: Any = None) -> str | None:
    """Return the function that needs the user's consent, for a message.

    None where no function is named, or the user has agreed to it before.
    """
    if not is_function(spec):
        return None
    code = code_to_run(spec, weights)
    if code is None:
        return f"{spec}, whose code will run"
    return None if code.is_agreed() else code.describe()


def is_function(spec: Any) -> bool:
    """Tell whether a network is named as package.module:function, whose code has to run."""
    if not isinstance(spec, str) or ":" not in spec or zoo.find(spec) is not None:
        return False
    return Path(spec).suffix.lower() not in FILES


def code_of(module: str) -> str | None:
    """Return the SHA-256 of a module's file: functions may change while names and weights stay.

    A module that is not loaded yet is looked for, in this folder first, and not run.
    """
    file = _file_of(module)
    return None if file is None else sha256(Path(file))


def code_that_runs(module: str) -> str | None:
    """Return the SHA-256 of a loaded module's file; refuse one that has changed since.

    Python runs what it has loaded, whatever the file holds by now.
    """
    loaded, digest = sys.modules[module], code_of(module)
    spec = getattr(loaded, "__spec__", None)
    before = _seen_loaded.get(module)
    if before is None or before[0] is not loaded or before[1] is not spec:
        _seen_loaded[module] = loaded, spec, digest
    elif before[2] != digest:
        raise InputError(
            f"{loaded.__file__} has changed since it was loaded, and the old code would run; "
            "start Python again."
        )
    return digest


def agreements_file() -> Path:
    """Return where agreements are kept: typica/agreed.json in $XDG_CONFIG_HOME or ~/.config."""
    given = Path(os.environ.get("XDG_CONFIG_HOME") or "")
    home = given if given.is_absolute() else Path.home() / ".config"
    return home / "typica" / "agreed.json"


def _file_of(module: str) -> str | None:
    """Return the file of a module, loaded or not; None for one that is built in."""
    loaded = sys.modules.get(module)
    file = _found(module) if loaded is None else getattr(loaded, "__file__", None)
    if file is None or not Path(file).is_file():
        return None
    return file


def _found(module: str) -> str | None:
    importlib.invalidate_caches()
    folders: Sequence[str] | None = [str(Path.cwd()), *sys.path]
    found = None
    for part in module.split("."):
        found = PathFinder.find_spec(part, folders)
        if found is None:
            return None
        folders = found.submodule_search_locations
    return None if found is None else found.origin


def _agreements() -> list[dict[str, Any]]:
    """Return what was agreed to; nothing where somebody else could have written the file."""
    try:
        with agreements_file().open("rb") as file:
            status = os.fstat(file.fileno())
            if not is_ours(status) or status.st_size > _LARGEST:
                return []
            entries = json.loads(file.read())
    except (OSError, ValueError, RecursionError):
        return []
    return entries if isinstance(entries, list) else []


def _write(entries: list[dict[str, Any]]) -> None:
    path = agreements_file()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.exists() and not is_ours(path.stat()):
        raise InputError(
            f"{path} can be written by others; delete it, or remove their write permission"
        )
    make_private(path)  # the mode is kept
    with atomic_path(path) as temporary:
        make_private(temporary)
        temporary.write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")
