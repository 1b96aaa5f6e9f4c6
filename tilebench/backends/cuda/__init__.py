"""The CUDA back end: thread IR -> CUDA C++ text (emit.py) -> NVRTC (build.py) -> the driver (driver.py)."""
