"""`python -m service.inference`: compile the kernels once, so that nobody waits for it at the first observation."""

from service.inference import kernels

if __name__ == "__main__":
    compiled = [kernel for kernel in vars(kernels).values() if getattr(kernel, "signatures", None)]
    print(f"{len(compiled)} kernels are compiled and cached")  # importing them did it
