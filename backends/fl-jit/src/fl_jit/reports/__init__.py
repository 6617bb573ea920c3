"""Reports on plans: their steps as text and as graphs, and profiles."""
