"""The doors: each turns one kind of input into a surface Module."""
