"""`tilebench.tileop`: TileLang's home of the tile ops' options."""
