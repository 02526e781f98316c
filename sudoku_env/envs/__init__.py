"""The environments, single and vectorized: states, dynamics, wrappers, rendering."""
