"""Planning: deferral policy, plan cache, background compilation and plans."""
