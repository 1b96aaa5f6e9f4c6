"""Back ends: interp (NumPy), emulator (thread IR in NumPy), cuda (NVRTC), cpu (llvmlite)."""
