"""Numba kernels behind the public modules; nothing is compiled before the first call, and then it is cached on disk.

Numba's cache notices a change in the file of the function that it compiled, not in a file which that function calls
into: after changing a kernel that another file uses, run `make clean-cache` (the tests do it by themselves).
"""
