"""Tests for trainers, yours too: `llm_rl.testing.resume` kills one at random moments and compares what comes out."""
