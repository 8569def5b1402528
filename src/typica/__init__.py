"""Know when a trained classifier is looking at something it does not know."""

import gc

import lazy_loader

__version__ = "0.1.0"

# The public names are in `__init__.pyi`. They are loaded when first asked for, so that `import
# typica` costs next to nothing.
_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

# Names that are looked for here and live elsewhere, as they need an extra.
_ELSEWHERE = {
    "FeatureExtractor": "nets",
    "Guard": "nets",
    "Perturb": "nets",
    "extract": "nets",
    "judge_images": "nets",
    "to_onnx": "export",
}


def __getattr__(name: str) -> object:
    """Return a public name of `typica`, loaded now; say where else one is that is not here."""
    if name in _ELSEWHERE:
        raise AttributeError(f"typica has no {name}; it is typica.{_ELSEWHERE[name]}.{name}")
    return _load_without_collecting(name)


def _load_without_collecting(name: str) -> object:
    """Load a public name while Python does not look for garbage: imports make next to none.

    Looking for it, again and again, takes longer than to load all of our own modules.
    """
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        return _load(name)
    finally:
        if was_collecting:
            gc.enable()
