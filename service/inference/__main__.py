"""`python -m service.inference`: compile the kernels once, so that nobody waits for it at the first observation."""

from service.inference import kernels

if __name__ == "__main__":
    count = len(kernels.condition_diagonal.signatures)
    print(f"numba kernels ready ({count and 'cached'})")  # importing them compiled them
