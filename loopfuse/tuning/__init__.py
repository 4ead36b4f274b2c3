"""Tuning: measuring how a kernel runs fastest on this device, and remembering it.

space      which choices there are, and in which order they are tried
search     coordinate descent over them, given a way to measure one
copies     copies of a call's arrays, so that every trial sees the same data
compare    whether two trials computed the same
timing     seconds of a run
measure    one choice: compiled, run, compared, timed
remember   what was found, in the disk cache
session    all of it for one call
"""
