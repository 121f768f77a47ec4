"""Tables, streams and buckets."""
