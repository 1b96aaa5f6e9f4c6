"""What a user holds: the jit decorator, the compiled kernel, its arguments, its report."""
