"""`report.html` of a run: what was run, tables, curves and replays of decodes in one file that fetches nothing.

Replays (`sudoku_dllm.run_page.replays`) decode with a model; the rest needs no torch.
"""
