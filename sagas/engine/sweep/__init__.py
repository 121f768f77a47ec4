"""Objects in S3 that sagas have left behind."""
