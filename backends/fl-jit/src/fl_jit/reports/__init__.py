"""What people are told of plans: their steps in words and in pictures, and where the time goes."""
