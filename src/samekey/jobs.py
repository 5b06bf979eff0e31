"""The identity of the running job, to name an operation after: the same when the job is delivered again.

Job runners deliver a job again when its worker was killed. What stays the same then is the *job's* id; an id of the
run, or anything made inside the task, does not. A job that is enqueued anew with equal arguments has another id, and
so is another operation::

    with samekey.operation(samekey.jobs.celery_job()).step("charge"):
        client.post("/v1/charges", json=charge)

Nothing is imported but the runner whose function is called.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["celery_job", "procrastinate_job", "rq_job"]


def celery_job() -> str:
    """The id of the running Celery task, such as ``"celery:d1f2..."``: the same for each delivery and each retry.

    Raises:
        RuntimeError: No task is running here (a task called as a plain function is none), or there is no Celery.
    """
    task = _runner("celery", "Celery").current_task
    return _named("celery", "Celery task", task.request.id if task else None)


def rq_job() -> str:
    """The id of the running RQ job, such as ``"rq:d1f2..."``: the same for each retry.

    It is also the same for each turn of an RQ ``Repeat``: give every turn a name of its own there.

    Raises:
        RuntimeError: No job is running here, or there is no RQ.
    """
    job = _runner("rq", "RQ").get_current_job()
    return _named("rq", "RQ job", job.id if job is not None else None)


def procrastinate_job(context: Any) -> str:
    """The id of the running procrastinate job, such as ``"procrastinate:4821"``: the same for each retry.

    The number is unique in one database. Give the operation a scope where several share a journal.

    Args:
        context: What a task made with ``pass_context=True`` gets first: procrastinate's `JobContext`.

    Raises:
        TypeError: *context* is no context of a job.
        RuntimeError: The job was never stored, so it has no id.
    """
    job = getattr(context, "job", None)
    if job is None:
        raise TypeError(
            "procrastinate_job() takes the JobContext of the running job, which a task gets as its first argument if "
            f"it is made with @app.task(pass_context=True); not {type(context).__name__}"
        )
    return _named("procrastinate", "procrastinate job", job.id)


def _runner(module: str, title: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise RuntimeError(f"{title} is not installed, so no job of it is running here") from error


def _named(runner: str, what: str, identity: object) -> str:
    if identity is None:
        raise RuntimeError(
            f"no {what} is running here, so there is no identity that a second delivery would have too; name the "
            "operation after what it does, such as samekey.operation('order-4821:charge')"
        )
    return f"{runner}:{identity}"
