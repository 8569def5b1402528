"""Banks: the features, logits, labels and names of a data set, in one memory-mapped folder."""

from typica.bank._columns import DTYPES
from typica.bank._describe import describe_bank
from typica.bank._folder import bank_settings, remove_bank, remove_if_changed
from typica.bank._parquet import ParquetNotes, read_notes
from typica.bank._reader import Bank
from typica.bank._write_bank import write_bank
from typica.bank._writer import BankWriter

__all__ = [
    "DTYPES",
    "Bank",
    "BankWriter",
    "ParquetNotes",
    "bank_settings",
    "describe_bank",
    "read_notes",
    "remove_bank",
    "remove_if_changed",
    "write_bank",
]
