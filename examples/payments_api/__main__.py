"""``python -m examples.payments_api``."""

from .run import main

main()
