"""Where the sources of the sample application are."""

from recoveryd_sandbox.streams_app import SAMPLE

SOURCES = SAMPLE
