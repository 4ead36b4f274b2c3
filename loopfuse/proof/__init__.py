"""The checker: does a LoopTree compute what the program does? Imports lang, poly and tree, never the planner."""
