"""What makes files of the repository from the code: schemas, pages of the docs, the reference of the config, examples.
Nothing that a user installs.
"""
