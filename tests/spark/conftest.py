"""One Spark session for all tests."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from mtlmon import MtlmonError

# An install of the extra `test-local` has no Spark.
collect_ignore_glob = [] if find_spec("pyspark") else ["test_*.py"]

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session of two threads. All tests that ask for it are of the group `spark`, which runs in
    one process, so that there is only one.
    """
    from mtlmon.spark import session, use_java

    try:
        use_java()
    except MtlmonError as error:
        pytest.skip(str(error))
    directory = tmp_path_factory.mktemp("spark")
    started = session(
        {
            "spark.master": "local[2]",
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": "3",
            "spark.sql.warehouse.dir": str(directory / "warehouse"),
            "spark.local.dir": str(directory / "local"),
            "spark.ui.showConsoleProgress": "false",
        }
    )
    started.sparkContext.setLogLevel("OFF")
    yield started
    started.stop()
