"""Generators of files in the repository: schemas, pages of the docs, the config's reference, examples. Not installed
for users.

No text of the product is written here, only arranged: what a page says comes from the code that it is about. Start at
`generate`, which lists all of them.
"""
