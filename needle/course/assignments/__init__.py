"""The built-in assignments: NAME.py with the reference solution between its markers, NAME_checks.py with its checks."""
