"""The demonstration: real files, real queues, functions and tables, on this machine."""
