"""A recorded run, given away: a page that replays it, moving and still pictures, JSON. Knows no window and no network.

Each format is a generator that yields the share that is done, so that a window can do it slice by slice and stop
between two of them; the file appears whole at the end or not at all.
"""
