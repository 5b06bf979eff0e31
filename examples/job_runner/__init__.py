"""A Celery task that charges; `run.py` shows it."""
