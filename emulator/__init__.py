"""Runs what `sam build` made, on this machine and without Docker: the functions as processes, a REST API before them.

    python -m emulator template.yaml .aws-sam/build

It knows nothing of what it runs, and nothing that it runs knows of it.
"""
