"""Banks: the features, logits, labels and names of a data set, in one memory-mapped folder."""

from typica.bank._reader import (
    Bank,
    BankWriter,
    bank_from_parquet,
    check_source,
    remove_bank,
    write_bank,
)

__all__ = [
    "Bank",
    "BankWriter",
    "bank_from_parquet",
    "check_source",
    "remove_bank",
    "write_bank",
]
