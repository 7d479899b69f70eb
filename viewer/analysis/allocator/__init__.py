"""What torch's CUDA caching allocator does with a sequence of allocations: replay, what-if, fragmentation, OOM.

The rules are those of the native backend (`c10/cuda/CUDACachingAllocator.cpp`), re-implemented from their
description; what cudaMalloc answers is an input. Figures nobody could check against a real trace are marked
`unverified` wherever they are shown.
"""
