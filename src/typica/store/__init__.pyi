from ._file import FORMAT, fingerprint, from_bytes, load, read, save, to_bytes
from ._fitted_state import State, restore_state, state_to_store
from ._registered import storable
from ._try_parts import trial_rows

__all__ = [
    "FORMAT",
    "State",
    "fingerprint",
    "from_bytes",
    "load",
    "read",
    "restore_state",
    "save",
    "state_to_store",
    "storable",
    "to_bytes",
    "trial_rows",
]
