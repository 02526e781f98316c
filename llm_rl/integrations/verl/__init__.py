"""RARO (arXiv:2511.21667) on verl 0.9: rows, agent loop, reward manager and advantages; see docs/raro.md.

`rows` and `scoring` work without verl. `reward`, `advantages` and `agent_loop` import it, and verl loads them by name.
"""
