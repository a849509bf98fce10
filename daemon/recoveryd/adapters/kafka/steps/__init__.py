"""What steps of workflows do with Kafka. `gathering` asks what a plan has to know; `taker` hands each action to the
module of what it is about: groups, their offsets, topics, configs, quotas, applications, units.

Each step is harmless to do twice: it looks first whether it is done, and leaves what others changed. Which steps there
are, and in which order, is decided in `workflows`. Start at `taker`.
"""
