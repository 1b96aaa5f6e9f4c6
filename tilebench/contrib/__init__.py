"""`tilebench.contrib`: what TileLang's programs ask of the compiler's surroundings."""
