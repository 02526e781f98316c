"""What runs this package's algorithms inside other frameworks; each needs its framework installed."""
