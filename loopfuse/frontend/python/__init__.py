"""The door for Python functions: their syntax trees to a surface Module."""
