"""The tuner: candidates (space), compiled in processes (build, remote), checked and measured (bench, worker),
in rounds that cancel drift (search), remembered (log). `tilebench.autotune` is its door (decorator).
"""
