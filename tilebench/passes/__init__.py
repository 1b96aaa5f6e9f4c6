"""The whole order of the compiler on one screen. A pass takes one stage and gives the next; it prints
nothing.

    Kernel --check--> Typed          shapes bound, dtypes and scopes legal, per-thread code found
           --select-> Selected       op -> instruction, once; lowering must not decline it
           --roles--> Partitioned    which warps do what; how a gemm's warps split its tile
           --place--> Placed         buffer -> layout: fixed points from the instructions, then along uses
           --pipeline-> Scheduled    (stage, order) of each statement; versions; prologue, steady state,
               epilogue
           --memory-> Allocated      byte map with lifetimes: after pipeline, since versions need bytes
           --sync---> Synchronised   barriers: after memory, since reuse makes new hazards
           --lower--> Lowered        one thread program per role

interp and cpu take Typed; emulator and cuda take Lowered.
"""
