"""Detectors as SQL, for rows that stay in their warehouse: DuckDB, Spark SQL, PostgreSQL.

from typica.scale.sql import score_sql

print(score_sql(detector, "postgres", table="photos", features="embedding"))
"""

from typica.scale.sql._dialects import DIALECTS
from typica.scale.sql._fit import fit_sql
from typica.scale.sql._score import MEANS, score_sql
from typica.scale.sql._script import Script

__all__ = ["DIALECTS", "MEANS", "Script", "fit_sql", "score_sql"]
