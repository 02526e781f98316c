"""PPO: its trainer, its arguments and its value function."""
