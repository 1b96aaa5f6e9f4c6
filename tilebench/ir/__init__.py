"""The two IR levels: tile (what the user wrote) and thread (what one thread runs).

Layers: imports errors only.
"""
