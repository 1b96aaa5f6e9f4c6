"""Emitters: the statements of a warp's product."""
