"""Data in and out: images opened, decoded and batched; tables of features; the benchmark sets.

Every name is loaded when it is first asked for, so that `import typica.data` costs next to nothing.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
