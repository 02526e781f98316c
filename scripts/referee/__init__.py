"""A referee of the objectives for masked-diffusion language models: each a short file, held to its authors' code.

| module of `objectives` | arXiv | log π of a completion | copies |
|---|---|---|---|
| `diffu_grpo` | 2504.12216 | its tokens, each from the prompt alone | 1 |
| `coupled_grpo` | 2506.20639 | its tokens, from two complementary copies and the whole one | 3 |
| `wd1` | 2507.08838 | as `diffu_grpo`, weighted without a ratio | 1 |
| `spg` | 2510.09541 | a lower bound where it was good, an upper one where it was bad | 2 |
| `espo` | 2512.03759 | the lower bound as one number, from complementary copies | 4 |
| `trace_rl` | 2509.06949 | the states that the sampler passed through | passes |
| `cj_grpo` | 2509.23924 | the same | passes |
| `just_grpo` | 2601.15165 | from left to right | tokens |
| `upo` | 2510.05725 | of the positions that the sampler chose, not of tokens | passes |

`lightning_reward` is a reward, that of 2603.13319: being right and being fast.
`toy` has the exact gradient, and what each of them expects. `python -m scripts.referee METHOD …` trains them side by
side (`compare`).
"""
