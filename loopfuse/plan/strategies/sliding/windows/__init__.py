"""What a window holds, and whether a group of loops has one."""
