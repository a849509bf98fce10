"""The daemon as a process: the Faust worker, and how everything starts, is watched and ends. The only place where Faust is known."""
