"""The JSON of workflows: the data of their commands and the status record. Rules are one package up.

Start at `command.py`.
"""
