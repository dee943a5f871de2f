"""A live run: files that grow are read as they come, judged as ``doctor diagnose`` judges, and told event by event.

``follow`` knows files, ``feed`` what one file holds so far, ``pace`` how fast the ranks write steps, ``alarms`` what
was told already; ``watcher`` puts them together. Nothing here prints, nothing is run, nothing is sent.
"""

from doctor.watch.alarms import Alarm
from doctor.watch.watcher import Event, Options, State, Watcher

__all__ = ["Alarm", "Event", "Options", "State", "Watcher"]
