"""Timing, the performance model and the roofline.

Every number says whether it is predicted, simulated or measured.
"""
