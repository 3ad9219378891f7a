"""The pages of docs/data for Ray Data and Spark, on a cluster of two workers, of which one is killed in the middle.

In: `ray` or `spark`. Out: the rows a second; a failure if a row was lost, doubled or wrong.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import psutil

import recipes

COUNT = 20_000
PARTS = 40


def checked(rows: Iterable[Any], seconds: float, name: str) -> None:
    """Every output has one row, and that is its own."""
    rows = sorted(rows)
    wanted = [(number, f"Looking at {number}.", f'{{"path":"/tmp/{number}"}}') for number in range(COUNT)]
    if rows != wanted:
        sys.exit(f"{name}: {len(rows)} rows, of which {len(set(rows) - set(wanted))} are wrong; {COUNT} are wanted")
    print(f"{name}: {COUNT} rows in {seconds:.1f} s, {COUNT / seconds:.0f} rows/s, one of two workers killed")
    print("1 passed, 0 failed")


def killed_later(victim: Callable[[], int], begun: Path, kills: list[int]) -> threading.Thread:
    """Kills a process once a few parts are read."""

    def wait() -> None:
        while len(list(begun.iterdir())) < PARTS // 4:
            time.sleep(0.02)
        kills.append(victim())
        os.kill(kills[0], signal.SIGKILL)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def begun_folder() -> Path:
    """Where each part leaves a mark when it is begun."""
    import tempfile

    return Path(tempfile.mkdtemp(prefix="kimi-xtml-"))


def on_ray() -> None:
    """Head and two workers; one worker's node is killed with all that it has."""
    os.environ.setdefault("RAY_raylet_start_wait_time_s", "300")  # a busy machine is slow to begin
    import pyarrow as pa
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": 300 << 20})
    nodes = [cluster.add_node(num_cpus=1, object_store_memory=300 << 20) for _ in range(2)]
    ray.init(address=cluster.address, log_to_driver=False)
    table = pa.table({"id": range(COUNT), "output": recipes.outputs(COUNT)})
    size = COUNT // PARTS
    dataset = ray.data.from_arrow([table.slice(start, size) for start in range(0, COUNT, size)])
    names: dict[str, Any] = {"dataset": dataset}
    exec(compile(recipes.code("ray"), "ray", "exec"), names)
    begun, kills = begun_folder(), list[int]()

    def slow(part: Any) -> Any:
        (begun / f"{part['id'][0]}-{time.time_ns()}").touch()
        time.sleep(0.1)
        return part

    def node() -> int:
        pid = nodes[0].all_processes["raylet"][0].process.pid
        return int(pid)

    thread = killed_later(node, begun, kills)
    start = time.perf_counter()
    rows = names["dataset"].map_batches(slow, batch_format="pyarrow", batch_size=None).take_all()
    seconds = time.perf_counter() - start
    thread.join(1)
    if not kills:
        sys.exit("ray: no worker was killed in time")
    checked(((row["id"], row["content"], row["tool_calls"][0]["arguments"]) for row in rows), seconds, "ray")


def on_spark() -> None:
    """A master and two executors; one executor is killed."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.executorEnv.PYTHONPATH", os.environ["PYTHONPATH"])
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "500")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    begun, kills = begun_folder(), list[int]()
    marks = str(begun)
    frame = spark.createDataFrame(list(enumerate(recipes.outputs(COUNT))), "id long, output string").repartition(PARTS)
    names: dict[str, Any] = {"frame": frame}
    exec(compile(recipes.code("spark"), "spark", "exec"), names)
    parse = names["parse"]

    def slow(batches: Iterator[Any]) -> Iterator[Any]:
        (Path(marks) / str(time.time_ns())).touch()
        time.sleep(0.1)
        yield from parse(batches)

    def executor() -> int:
        for child in psutil.Process().children(recursive=True):
            if "CoarseGrainedExecutorBackend" in " ".join(child.cmdline()):
                return int(child.pid)
        raise LookupError("there is no executor")

    thread = killed_later(executor, begun, kills)
    start = time.perf_counter()
    rows = frame.mapInArrow(slow, names["SCHEMA"]).collect()
    seconds = time.perf_counter() - start
    thread.join(1)
    if not kills:
        sys.exit("spark: no worker was killed in time")
    checked(((row["id"], row["content"], row["tool_calls"][0]["arguments"]) for row in rows), seconds, "spark")


if __name__ == "__main__":
    {"ray": on_ray, "spark": on_spark}[sys.argv[1]]()
