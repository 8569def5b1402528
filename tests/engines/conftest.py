"""Local clusters, one of each kind for all tests that use it."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

# Workers start their own Python, which must be this one and find what the tests find.
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
_TESTS = str(Path(__file__).parents[1])
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_TESTS, os.environ.get("PYTHONPATH", "")]))
os.environ["RAY_DATA_DISABLE_PROGRESS_BARS"] = "1"


def pytest_configure(config):
    """Engines warn of each other's versions, and of what they will change."""
    for category in ("DeprecationWarning", "FutureWarning", "ResourceWarning", "UserWarning"):
        config.addinivalue_line("filterwarnings", f"ignore::{category}")


@pytest.fixture(scope="session")
def spark():
    from pyspark.sql import SparkSession

    folder = tempfile.mkdtemp(prefix="typica-spark-")
    session = (
        SparkSession.builder.master("local[2,4]")  # a task may fail thrice
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
        .config("spark.local.dir", f"{folder}/local")
        .config("spark.log.level", "FATAL")
        .getOrCreate()
    )
    yield session
    session.stop()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def dask():
    from distributed import Client

    with Client(
        n_workers=2,
        threads_per_worker=1,
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
    ) as client:
        yield client


@pytest.fixture(scope="session")
def ray():
    import ray

    ray.init(
        "local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.CRITICAL,
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    yield ray
    ray.shutdown()


@pytest.fixture(params=["dask", "ray", "spark"])
def engine(request):
    """The name of an engine whose local cluster runs."""
    request.getfixturevalue(request.param)
    return request.param


@pytest.fixture
def cluster(engine, request):
    """The cluster of an engine, as `typica.scale.fit` takes it."""
    from typica.scale.dask import DaskCluster
    from typica.scale.ray import RayCluster
    from typica.scale.spark import SparkCluster

    running = request.getfixturevalue(engine)
    made = {"dask": DaskCluster, "ray": lambda _: RayCluster(), "spark": SparkCluster}
    return made[engine](running)
