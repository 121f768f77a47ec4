"""Sweeps: they delete objects in S3 that sagas have left behind."""
