"""Differential fuzzing: whole random programs, run in every way there is, bit for bit.

    choices     where decisions come from: random, replayed, or Hypothesis
    program     a program with one call of it, and its file
    generate    decisions -> Program
    machines    block sizes to plan with
    arguments   the arrays of the call
    engines     the ways to run a program
    compare     all of them against the interpreter -> Outcome
    shrink      a smaller program with the same failure
    worker      one process of a campaign;  campaign: all of them
    batch       programs compiled here, to be run on a GPU machine

docs/fuzzing.md says how to use it.
"""
