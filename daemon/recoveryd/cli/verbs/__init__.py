"""One module per verb or group of verbs, each with an `add_to(app)` that `cli.app` calls.

A verb reads its options, sends or asks through `send`, shows through `render`, and returns an exit code. No
rule about recoveries lives here, so that whoever sends records without the command line gets the same answers. Start at
`inspect` for one that asks, at `steer` for one that sends, at `flags` for one with the fields of a command.
"""
