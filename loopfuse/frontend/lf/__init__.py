"""The door for `.lf` files: text to a surface Module. The only room that imports lark."""
