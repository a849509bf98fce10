"""Generators of files in the repository: schemas, pages of the docs, the config's reference, examples. Not installed
for users.
"""
