"""verl 0.9 on a processor alone, for tests and for looking at a run before it costs a GPU; see docs/raro.md.

`platform` tells verl what a processor is, `engine` trains there, `rollout` and `server` sample there. Start verl with
`VERL_USE_EXTERNAL_MODULES=llm_rl.integrations.verl.cpu.platform` and the settings of configs/verl/cpu.yaml.
"""
