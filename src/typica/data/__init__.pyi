from ._batches import Batch, image_batches
from ._decode import ImageError, decode
from ._folders import SPLITS
from ._images import Images, open_images
from ._kinds import holds_images
from ._transform import Preprocessing
from ._unpack import unpack
from .features import (
    RowWriter,
    find_head,
    has_logits,
    read_features,
    read_head,
    read_labels,
    source_of,
)

__all__ = [
    "SPLITS",
    "Batch",
    "ImageError",
    "Images",
    "Preprocessing",
    "RowWriter",
    "decode",
    "find_head",
    "has_logits",
    "holds_images",
    "image_batches",
    "open_images",
    "read_features",
    "read_head",
    "read_labels",
    "source_of",
    "unpack",
]
