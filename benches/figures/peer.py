"""Runs a function of NumPy for each line that it reads, and prints the seconds that it took."""

import sys
import time

import numpy

numbers = numpy.random.default_rng(1)


def matrix(n):
    return numbers.random((n, n), dtype=numpy.float32)


a, b, c = matrix(512), matrix(512), matrix(512)
x, y, row = matrix(1024), matrix(1024), numpy.empty(1024, dtype=numpy.float32)
function = {
    "products": lambda: numpy.matmul(a, b, out=c),
    "sums": lambda: numpy.sum(x, axis=1, out=row),
    "exps": lambda: numpy.exp(x, out=y),
}[sys.argv[1]]
for _ in sys.stdin:
    begun = time.perf_counter()
    function()
    print(time.perf_counter() - begun, flush=True)
