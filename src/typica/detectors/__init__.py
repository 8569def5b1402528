"""The detectors, one method per file. A file added here is a detector added everywhere.

Every name is loaded when it is first asked for: a method costs nothing until it is used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
