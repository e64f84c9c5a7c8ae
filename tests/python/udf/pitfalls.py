"""Functions that Numba by itself computes otherwise than Python: refused, given up, or made the same."""

#: Bodies of `f(x, y)`, x DOUBLE and y BIGINT.
BODIES = (
    # Variables without a value.
    "if len(x) > 3:\n        v = [1.0, 2.0]\n    return sum([v for v in v])",
    "best: float\n    for v in y:\n        if v is not None:\n            best = v\n    return best",
    "a = 5.0\n    def g(v):\n        if v > 0:\n            a = v\n        return a\n    return g(len(x)) + a",
    "while True:\n        if len(x) > 2:\n            z = 1\n            break\n        break\n    return z",
    # Stores among other numbers.
    "s = [0, 0]\n    for v in x.dropna():\n        s[0] += v\n        s[1] += 1\n    return s[0] / s[1]",
    "l = [False] * 3\n    l[1] = y.count() + 1\n    return l[1]",
    "l = [1, 2]\n    l[0], l[1] = 2.5, 3.5\n    return sum(l)",
    "a = np.array([1, 2])\n    a[0] = 2.5\n    return a[0] * 1.0",
    # Numbers that may be None.
    "lo = hi = None\n    for v in y:\n        if v is None:\n            continue\n"
    "        if lo is None or v < lo:\n            lo = v\n        if hi is None or v > hi:\n            hi = v\n"
    "    return None if lo is None else hi - lo",
    "m = None\n    for v in y:\n        if v is not None:\n            m = v\n    return m * 8 if m is not None else 0",
    "m = None\n    for v in y:\n        if v is not None:\n            m = v\n    return abs(m) if len(y) > 1 else -1",
    # The variable of a loop that skips None.
    "v = 0.0\n    n = [0]\n    for v in x:\n        if v is None:\n            continue\n"
    "        n[0] += 1\n    return v",
    # Identity, and zeros with a sign.
    "d = {}\n    for v in x.dropna():\n        d[v] = 1\n    return len(d)",
    "l = x.dropna().to_list()\n    return sum([1 for v in l if v in l])",
    "l = list(x.dropna())\n    return 1 if l == l[:] else 0",
    "l = list(x.dropna())\n    return l.count(l[0]) + l.index(l[-1])",
    "t = (x[0], 1)\n    return 1 if t < (x[0], 2) else 0",
    # Dictionaries.
    "d = {0: -5, 1: 3}\n    return min(d) * 10 + max(d)",
    "d = {v: 1 for v in y if v is not None}\n    t = 0\n    for k, n in d.items():\n"
    "        d[k + 1000] = 2\n        t += 1\n    return t",
    "d = {1: 2}\n    for k in d:\n        d[7] = 1\n    return len(d)",
    # Names of functions.
    "g = lambda sum: sum + 1\n    l = [v for v in y if v is not None]\n    return sum(l) + g(1)",
    # Truth values, which may be numpy's.
    "return (x.mean() > 0) + (x.max() > 0)",
    "return ~(len(x) > 2)",
    # Bounds and types.
    "return len(range(len(x) / 2))",
    "n = 0\n    for i in range(-(2**63 - 1), 2**63 - 1, 2**62):\n        n += 1\n    return n",
    "return np.int32(2147483647) + np.int32(len(x))",
    "a = x.to_numpy()\n    a[0] = 100.0\n    return a[0]",
    "return [1, 2, 3][0.0:2.5][0]",
    "return x.var(0)",
    "return float('abc') if len(x) > 100 else 1.0",
    "return [2.0, 1.0][y[0] & 1] if y[0] is not None else 0",
    # Lengths, keys that become integers, generators, evaluation order.
    "l = [0, 0, 0] * 6148914691236517206\n    return len(l)",
    "d = {True: 1}\n    return d.get(2, 0) + (2 in d)",
    "d = {(1, 2): 5}\n    return d.get((1, 2.5), 0)",
    "d = {1: 2}\n    return d.get(1.5, 7) + (1 if 1.5 in d else 0)",
    "d = {1: 2}\n    return d[1.5]",
    "l = [(1, 2)]\n    l[0] = (2.5, 3)\n    return l[0][0]",
    "k, s = 1, 0.0\n    for a in (v * k for v in [1.0, 2.0, 3.0]):\n        s += a\n        k += 1\n    return s",
    "l = [1, 2, 3]\n    return 1 if l.pop() in [w for w in l] else 0",
    "p = x.mean() >= -1e308\n    p = p * p\n    return p + p + 1",
    "return y.median()",
    "d = {1: 5}\n    return sum([d.pop(k) for k in d])",
    "d = {1: 5}\n    for i, k in enumerate(d):\n        d.pop(k)\n    return 0",
    "d = {1: 5}\n    ks = d.keys()\n    for k in ks:\n        d[k + 1] = 1\n    return len(d)",
    "l = [9007199254740993]\n    return l.count(9007199254740992.0)",
    "l = [1, 2, 3]\n    l[1:2] = l\n    return len(l) * 10 + l[2]",
    "n, v = [0], 0.0\n    for v in x:\n        if v is None:\n            continue\n        n[0] += 1\n"
    "    v += 1\n    return n[0]",
)
