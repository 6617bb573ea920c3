"""What several benchmarks compute, in each library; libraries are imported when asked for."""
