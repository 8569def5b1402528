"""The rectifiers, one method per file, which change features before a detector sees them.

They are scikit-learn transformers, composed by scikit-learn's own Pipeline,
`make_pipeline(ReAct(percentile=90), Energy(head))`, which `typica.calibrate`, `explain` and `save`
take like a detector. A file added here is a rectifier added everywhere.

Every name is loaded when it is first asked for.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
