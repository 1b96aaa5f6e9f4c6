"""`tilebench.carver`: facts about the machine that host programs ask for."""
