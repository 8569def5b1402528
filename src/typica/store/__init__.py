"""Detectors on disk: one safetensors file, no pickle, checksummed, written whole or not at all.

Format 2. The arrays are the tensors of the file. Its metadata holds one string, `typica`, a JSON
document: {"content": NODE, "format": 2, "library": VERSION, "sha256": DIGEST}. The digest is taken
over that text, with zeros where the digest stands, and over all tensors (names, dtypes, shapes,
bytes). A NODE is a JSON scalar, a list or a dict of nodes, or one of

    {"$array": NAME}              the tensor of that name
    {"$strings": [...]}           an array of strings
    {"$float": "inf"}             a float that JSON lacks: inf, -inf or nan
    {"$tuple": [...]}             a tuple
    {"$KIND": NODE}               a class that registered under KIND: head, moments, ctm ...
    {"$sklearn": NAME, ...}       a scikit-learn transformer out of a fixed list
    {"$pipeline": [[NAME, NODE], ...]}

Loading looks kinds up in that registry and sets data; nothing in a file can name code to run.

Every name is loaded when it is first asked for, so that a detector which is never stored does not
wait for safetensors.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
