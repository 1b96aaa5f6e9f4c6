"""The smallest cases of faults that were found."""
