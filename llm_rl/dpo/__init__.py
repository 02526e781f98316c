"""DPO: its trainer, its arguments and its pairs."""
