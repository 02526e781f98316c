"""Records on disk without pickle, and folders that are there whole or not at all; see `llm_rl.storage`."""

from llm_rl.storage import (
    PARTIAL,
    load_record,
    put_in_place,
    save_record,
    whole_folder,
    write_text_whole,
)

__all__ = ["PARTIAL", "load_record", "put_in_place", "save_record", "whole_folder", "write_text_whole"]
