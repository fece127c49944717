"""One map over independent work items, on any `concurrent.futures.Executor`.

Items run in this process, in a pool of processes, on a Dask cluster or on an executor of the
caller. The answer is the same everywhere: an item runs on one thread and sees nothing but itself
and what all items share. Outcomes come as they are finished. An item that fails, or that ends its
worker twice, becomes an outcome with a reason and never the end of the run.
"""

from opsplit.parallel.run import HERE, Outcome, Where, run_items

__all__ = ["HERE", "Outcome", "Where", "run_items"]
