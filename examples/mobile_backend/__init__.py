"""A backend between phones and a payments API; `run.py` shows it."""
