"""The ground floor: what every other room may import, and nothing of ours below it."""
