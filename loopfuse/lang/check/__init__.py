"""From a surface Module to the typed Program: after it no error of the user is possible."""
