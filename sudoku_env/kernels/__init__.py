"""Numba kernels behind the public modules; nothing is compiled before the first call, and then it is kept on disk.

`compiling.kernel` compiles them. What is kept is found by the content of all files here, so a change in any of them
compiles anew what it may concern, which is everything.
"""
