"""The job's configuration, and a tokenizer that it suits."""

import pytest


@pytest.fixture(scope="module")
def config():
    from tests.llm_rl.helpers.verl_roll_outs import configuration

    return configuration()


@pytest.fixture(scope="module")
def tokenizer():
    from tests.llm_rl.helpers.verl_roll_outs import chat_tokenizer

    return chat_tokenizer()
