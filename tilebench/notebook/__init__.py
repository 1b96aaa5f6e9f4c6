"""The notebook: magics, completion, display. Nothing here that a plain call cannot do (kernel/session.py)."""
