"""What strategies share: statements written over a tile, loops joined, cut in strips, or without their edges."""
