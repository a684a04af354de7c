# Plays a trace in the format "oracleGeneral" to caches of libcachesim: TRACE COUNTED_FROM CACHE_BYTES.
# Prints a policy and its hit rate, from request COUNTED_FROM on, a line.
import sys

import libcachesim as lcs

trace, counted_from, cache_bytes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
policies = [("S3-FIFO", lcs.S3FIFO), ("SIEVE", lcs.Sieve), ("LRU", lcs.LRU), ("FIFO", lcs.FIFO), ("GDSF", lcs.GDSF)]
for name, policy in policies:
    cache = policy(cache_size=cache_bytes)
    reader = lcs.TraceReader(trace, lcs.TraceType.ORACLE_GENERAL_TRACE)
    cache.process_trace(reader, 0, counted_from)
    miss_rate, _ = cache.process_trace(reader, counted_from, -1)
    print(name, 1 - miss_rate)
