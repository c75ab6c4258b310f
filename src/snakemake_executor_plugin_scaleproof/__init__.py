"""`snakemake --executor scaleproof`: Snakemake finds executors by the names of top-level packages."""

from scaleproof.driver.cluster.executor import Executor, ExecutorSettings, common_settings

__all__ = ["Executor", "ExecutorSettings", "common_settings"]
