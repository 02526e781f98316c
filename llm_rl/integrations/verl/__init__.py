"""RARO (arXiv:2511.21667) on verl 0.9: rows, agent loop, reward manager, advantages, checkpoints; see docs/raro.md.

`rows`, `scoring` and `memory` work without verl. `reward`, `advantages`, `agent_loop` and `checkpoint` import it, and
verl loads them by name. `cpu` lets verl train where there is no GPU.
"""
