"""`report.html` of a run: what was run, tables, curves and replays of decodes in one file that fetches nothing."""
