from . import corrupt, sets
from ._batches import Batch, image_batches
from ._class_names import check_classes, in_order, read_classes
from ._decode import ImageError, decode
from ._feature_table import Features
from ._folder_classes import SPLITS
from ._holds_images import are_images, holds_images
from ._image_lists import read_listing
from ._image_sets import Images
from ._open_images import open_images
from ._row_writer import RowPrinter, RowWriter
from ._rows import (
    checked_rows,
    column_named,
    names_file,
    read_grouped,
    read_known,
    read_labelled,
    read_rows,
)
from ._standard_input import read_arriving
from ._thumbnail import thumbnail
from ._transform import Preprocessing
from ._unpack import unpack
from ._verdict_files import check_verdict_file, write_verdicts
from .features import (
    FeatureFile,
    find_head,
    has_logits,
    open_features,
    read_features,
    read_head,
    read_labels,
    read_origin,
)

__all__ = [
    "SPLITS",
    "Batch",
    "FeatureFile",
    "Features",
    "ImageError",
    "Images",
    "Preprocessing",
    "RowPrinter",
    "RowWriter",
    "are_images",
    "check_classes",
    "check_verdict_file",
    "checked_rows",
    "column_named",
    "corrupt",
    "decode",
    "find_head",
    "has_logits",
    "holds_images",
    "image_batches",
    "in_order",
    "names_file",
    "open_features",
    "open_images",
    "read_arriving",
    "read_classes",
    "read_features",
    "read_grouped",
    "read_head",
    "read_known",
    "read_labelled",
    "read_labels",
    "read_listing",
    "read_origin",
    "read_rows",
    "sets",
    "thumbnail",
    "unpack",
    "write_verdicts",
]
