"""Tests to run on trainers, yours too: `llm_rl.testing.resume` kills one at random moments and compares what comes out."""
